//! Vendors and runtimes as data: where they are, which wire they speak, how they take a key, what is odd about them.
//!
//! No key is in here and none is read: a row names the environment variables, and whoever reads the environment
//! ([`Preset::auth`]) gives the key.

mod table;

use crate::{Auth, BaseUrl, Secret, WireKind};

/// A vendor's service or a local runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What people type: lower case, digits and `-`.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The wire that it speaks.
    pub wire: WireKind,
    /// Its base URL; `None` where each customer has one of its own.
    pub base_url: Option<&'static str>,
    /// How it takes the key.
    pub auth: AuthStyle,
    /// The services that requests may be signed for with the keys of an AWS account, where it takes such instead of a key, each
    /// behind its hosts' pattern, whose `*` is the region. The first is for hosts that are none of the vendor's.
    pub signs: &'static [(&'static str, &'static str)],
    /// Environment variables that hold the key, the first that is set counting.
    pub key_vars: &'static [&'static str],
    /// Where it runs.
    pub place: Place,
    /// Host names that are its, besides the base URL's: `.end` stands for all that end so, `*` for one part without a dot.
    pub host_ends: &'static [&'static str],
    /// What is odd about it.
    pub quirks: &'static [Quirk],
}

/// How a key travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthStyle {
    /// `authorization: Bearer <key>`.
    Bearer,
    /// `x-api-key: <key>`.
    XApiKey,
    /// `x-goog-api-key: <key>`.
    XGoogApiKey,
    /// `api-key: <key>`.
    ApiKey,
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At a vendor's, who wants a key.
    Hosted,
    /// On one's own machine, as a rule without a key.
    Local,
}

/// Where an endpoint takes the word that tells which dialogue a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// In a top-level member of the request.
    Member(&'static str),
    /// In a header.
    Header(&'static str),
}

/// What is odd about an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// The output limit is named `max_completion_tokens`.
    MaxCompletionTokens,
    /// Reasoning must come back with the calls that it led to.
    EchoReasoning,
    /// `stream_options` is refused; usage comes by itself.
    NoStreamOptions,
    /// A request that names a schema for its answer calls no tools, or is refused.
    SchemaOrTools,
    /// Its models call no tools: no use for an agent, only for questions.
    NoTools,
    /// How requests of one dialogue are told to belong together, for the sake of its cache.
    Affinity(Affinity),
    /// It caches prompts of Anthropic's models where a request asks for that, and those of others by itself.
    CacheControl,
}

impl AuthStyle {
    /// How an endpoint of this wire takes a key where nothing else is known of it.
    pub fn usual(wire: WireKind) -> Self {
        match wire {
            WireKind::OpenAiChat | WireKind::OpenAiResponses | WireKind::Ollama => Self::Bearer,
            WireKind::AnthropicMessages => Self::XApiKey,
            WireKind::Gemini => Self::XGoogApiKey,
        }
    }

    /// This key, travelling so.
    pub fn with(self, key: Secret) -> Auth {
        match self {
            Self::Bearer => Auth::Bearer(key),
            Self::XApiKey => Auth::XApiKey(key),
            Self::XGoogApiKey => Auth::XGoogApiKey(key),
            Self::ApiKey => Auth::ApiKey(key),
        }
    }
}

impl Preset {
    /// All rows.
    pub fn all() -> &'static [Self] {
        table::TABLE
    }

    /// The row of that name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownProvider> {
        let found = Self::all().iter().find(|row| row.name == name);
        found.ok_or_else(|| UnknownProvider { name: name.to_owned(), nearest: nearest(name) })
    }

    /// The row that a wire's requests go to where nothing else is said.
    pub fn usual(wire: WireKind) -> Option<&'static Self> {
        Self::all().iter().find(|row| row.wire == wire)
    }

    /// The row of a vendor to whose host a base URL leads; of several at one host, the one whose path it has, then the
    /// one of that wire. Local runtimes are not told apart by where they are.
    pub fn at(base: &BaseUrl, wire: WireKind) -> Option<&'static Self> {
        let host = base.host();
        let its = |row: &&Self| {
            row.place == Place::Hosted
                && (row.host_ends.iter().any(|its| is_host(its, host))
                    || row.base_url.and_then(parts).is_some_and(|(own, _)| own == host))
        };
        let path = |row: &Self| row.base_url.and_then(parts).is_some_and(|(_, path)| path == base.path());
        // `max_by_key` takes the last of equals, and the first is meant.
        Self::all().iter().filter(its).rev().max_by_key(|row| (path(row), row.wire == wire))
    }

    /// A base URL as its customers have one, for one that has no single one.
    pub fn example_url(&self) -> &'static str {
        match self.name {
            "bedrock" => "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
            "vertex" => {
                "https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/endpoints/openapi"
            }
            _ => self.base_url.unwrap_or("https://RESOURCE.openai.azure.com/openai/v1"),
        }
    }

    /// What requests to `base` may be signed for: the service, and the region where the host names it. Only where the service
    /// is known by its host, or has none of the vendor's.
    pub fn signed<'a>(&self, base: &'a BaseUrl) -> Option<(&'static str, Option<&'a str>)> {
        let host = base.host();
        let by_host =
            self.signs.iter().find_map(|(pattern, service)| Some((*service, Some(part(pattern, host)?))));
        let is_vendors = self.host_ends.iter().any(|its| is_host(its, host));
        by_host.or_else(|| self.signs.first().filter(|_| !is_vendors).map(|(_, service)| (*service, None)))
    }

    /// How it takes a key on `wire`, which may be another than its own.
    pub fn auth_on(&self, wire: WireKind) -> AuthStyle {
        let openai = |wire| matches!(wire, WireKind::OpenAiChat | WireKind::OpenAiResponses);
        if wire == self.wire || openai(wire) && openai(self.wire) {
            self.auth
        } else {
            AuthStyle::usual(wire)
        }
    }
}

/// Whether a host is meant by a pattern of the table.
fn is_host(pattern: &str, host: &str) -> bool {
    if pattern.starts_with('.') {
        return host.ends_with(pattern);
    }
    host == pattern || part(pattern, host).is_some()
}

/// What stands in a host for the `*` of a pattern: one part of its name.
fn part<'a>(pattern: &str, host: &'a str) -> Option<&'a str> {
    let (before, behind) = pattern.split_once('*')?;
    let part = host.strip_prefix(before)?.strip_suffix(behind)?;
    (!part.is_empty() && !part.contains('.')).then_some(part)
}

/// Host and path of a base URL of the table.
fn parts(url: &str) -> Option<(&str, &str)> {
    let rest = url.split_once("://")?.1;
    let at = rest.find('/').unwrap_or(rest.len());
    let host = rest[..at].split(':').next()?;
    Some((host, &rest[at..]))
}

/// No row has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no provider is named `{name}`{}", nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?")))]
pub struct UnknownProvider {
    name: String,
    /// The name that is most like it, where one is.
    pub nearest: Option<&'static str>,
}

/// The name that is most like `wanted`: it begins with it, or half of it at most would have to change.
fn nearest(wanted: &str) -> Option<&'static str> {
    let wanted = wanted.to_ascii_lowercase();
    // A name of that length is none of ours, and comparing takes as long as both.
    if wanted.is_empty() || wanted.len() > 64 {
        return None;
    }
    let names = || Preset::all().iter().map(|row| row.name);
    if let Some(begins) = names().find(|name| name.starts_with(&wanted) || wanted.starts_with(name)) {
        return Some(begins);
    }
    let (changes, name) = names().map(|name| (distance(&wanted, name), name)).min()?;
    (changes * 2 <= wanted.chars().count().max(name.len())).then_some(name)
}

/// How many characters must be put in, taken out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let changed = corner + usize::from(left != *right);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlainHttp;

    #[test]
    fn the_rows_are_sound() {
        let mut names: Vec<_> = Preset::all().iter().map(|row| row.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        for row in Preset::all() {
            assert!(row.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(!row.key_vars.is_empty(), "{}", row.name);
            assert!(row.base_url.is_some() || !row.host_ends.is_empty());
            let Some(url) = row.base_url else { continue };
            let base = BaseUrl::parse(url, PlainHttp::LoopbackOnly).unwrap_or_else(|e| panic!("{url}: {e}"));
            assert_eq!(base.is_https(), row.place == Place::Hosted, "{url}");
            assert_eq!(base.to_string(), url, "no closing slash");
            let found = Preset::at(&base, row.wire).map(|row| row.name);
            assert_eq!(found, (row.place == Place::Hosted).then_some(row.name), "{url}");
        }
        for wire in WireKind::ALL {
            assert!(Preset::usual(wire).is_some());
        }
    }

    #[test]
    fn rows_are_found_by_address() {
        let at = |url: &str, wire| {
            let base = BaseUrl::parse(url, PlainHttp::LoopbackOnly).unwrap_or_else(|e| panic!("{url}: {e}"));
            Preset::at(&base, wire).map(|row| row.name)
        };
        let chat = WireKind::OpenAiChat;
        assert_eq!(at("https://mine.openai.azure.com/openai/v1", chat), Some("azure"));
        for url in [
            "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1",
            "https://bedrock-mantle.eu-central-1.api.aws/openai/v1",
        ] {
            assert_eq!(at(url, chat), Some("bedrock"), "{url}");
            assert_eq!(at(url, WireKind::OpenAiResponses), Some("bedrock"), "{url}");
        }
        for host in ["aiplatform.googleapis.com", "europe-west4-aiplatform.googleapis.com"] {
            let url = format!("https://{host}/v1/projects/p/locations/global/endpoints/openapi");
            assert_eq!(at(&url, chat), Some("vertex"), "{url}");
        }
        assert_eq!(at("https://api.openai.com", chat), Some("openai"));
        assert_eq!(at("https://api.openai.com", WireKind::OpenAiResponses), Some("openai-responses"));
        assert_eq!(at("https://generativelanguage.googleapis.com", WireKind::Gemini), Some("gemini"));
        assert_eq!(
            at("https://generativelanguage.googleapis.com/v1beta/openai", chat),
            Some("gemini-openai")
        );
        for stranger in [
            "https://api.openai.com.example.org/v1",
            "https://xapi.groq.com/openai/v1",
            "https://openai.azure.com.example.org",
            "http://localhost:11434",
            // A load balancer of anybody's, and hosts that only look like the vendor's.
            "https://x.us-east-1.elb.amazonaws.com",
            "https://bedrock-runtime.a.b.amazonaws.com/openai/v1",
            "https://bedrock-runtime..amazonaws.com/openai/v1",
            "https://bedrock-runtime.us-east-1.amazonaws.com.example.org/openai/v1",
            "https://a.b-aiplatform.googleapis.com",
        ] {
            assert_eq!(at(stranger, chat), None, "{stranger}");
        }
    }

    /// Each of Bedrock's two kinds of host is a service of its own.
    #[test]
    fn requests_are_signed_for_the_service_and_region_of_their_host() {
        let signed = |name: &str, url: &str| {
            let base = BaseUrl::parse(url, crate::PlainHttp::Anywhere).unwrap();
            let row = Preset::named(name).unwrap();
            row.signed(&base).map(|(service, region)| (service, region.map(str::to_owned)))
        };
        let of = |service, region: &str| Some((service, Some(region.to_owned())));
        let runtime = "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1";
        assert_eq!(signed("bedrock", runtime), of("bedrock", "us-west-2"));
        let mantle = "https://bedrock-mantle.eu-central-1.api.aws/openai/v1";
        assert_eq!(signed("bedrock", mantle), of("bedrock-mantle", "eu-central-1"));
        assert_eq!(signed("bedrock", "http://127.0.0.1:9/v1"), Some(("bedrock", None)));
        assert_eq!(signed("openai", runtime), None);
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest() {
        let told = |name: &str| Preset::named(name).map(|row| row.name).map_err(|error| error.to_string());
        assert_eq!(told("groq"), Ok("groq"));
        assert_eq!(told("gorq").unwrap_err(), "no provider is named `gorq`; did you mean `groq`?");
        assert_eq!(
            told("Anthropic").unwrap_err(),
            "no provider is named `Anthropic`; did you mean `anthropic`?"
        );
        assert_eq!(told("open").unwrap_err(), "no provider is named `open`; did you mean `openai`?");
        assert_eq!(told("zzzzzzzzzzz").unwrap_err(), "no provider is named `zzzzzzzzzzz`");
        assert_eq!(told("").unwrap_err(), "no provider is named ``");
    }
}
