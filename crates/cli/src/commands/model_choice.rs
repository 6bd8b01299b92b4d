//! Which model is asked, where, and with which key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost::core::event::ModelFact;
use provost::core::text::{Lines, visible};
use provost::model::cassette::{Recorder, Replay};
use provost::model::catalogue::Catalogue;
use provost::model::presets::{AuthStyle, Place, Preset};
use provost::model::{Auth, AwsKeys, BaseUrl, BaseUrlError, PlainHttp, Provider, Remote, Secret, WireKind};

use super::keyring;
use crate::args::{CassetteArgs, ModelArgs, Wire};
use crate::failure::Failure;
use crate::world::World;

/// The model as the command line names it.
pub(crate) struct ModelChoice {
    pub(crate) wire: Wire,
    pub(crate) name: String,
    pub(crate) base_url: String,
    pub(crate) key_env: Option<String>,
    /// The row that was named; where none was, the base URL may still tell.
    pub(crate) provider: Option<&'static Preset>,
    /// Tokens that prompt and answer may have together, where that is known.
    pub(crate) window: Option<u64>,
    /// The file that answers are kept on, or come from.
    pub(crate) cassette: Option<Cassette>,
}

/// A cassette in use.
pub(crate) enum Cassette {
    Record(PathBuf),
    Replay(PathBuf),
}

impl Cassette {
    pub(crate) fn of(args: CassetteArgs) -> Option<Self> {
        args.record.map(Self::Record).or_else(|| args.replay.map(Self::Replay))
    }
}

/// Where the keys of an AWS account are.
pub(super) const AWS_KEYS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// Whether the provider needs its key: one that is never asked does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys<'a> {
    /// It does. Nothing in the workspace says where it is.
    Sent {
        workspace: &'a Path,
    },
    None,
}

/// Where a model stands among those of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// It is asked first: options of the endpoint are its own.
    First,
    /// It is named beside it.
    Beside,
}

impl Wire {
    const ALL: [Self; 5] = [Self::Openai, Self::OpenaiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    pub(crate) fn kind(self) -> WireKind {
        match self {
            Self::Openai => WireKind::OpenAiChat,
            Self::OpenaiResponses => WireKind::OpenAiResponses,
            Self::Anthropic => WireKind::AnthropicMessages,
            Self::Gemini => WireKind::Gemini,
            Self::Ollama => WireKind::Ollama,
        }
    }

    pub(crate) fn of(kind: WireKind) -> Self {
        match kind {
            WireKind::OpenAiChat => Self::Openai,
            WireKind::OpenAiResponses => Self::OpenaiResponses,
            WireKind::AnthropicMessages => Self::Anthropic,
            WireKind::Gemini => Self::Gemini,
            WireKind::Ollama => Self::Ollama,
        }
    }

    /// The word that the command line has for it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The word that the journal has for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Openai => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic-messages",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.word() == word)
    }

    pub(crate) fn usual_url(self) -> &'static str {
        Preset::usual(self.kind()).and_then(|row| row.base_url).unwrap_or_default()
    }
}

impl ModelChoice {
    pub(crate) fn fact(&self) -> ModelFact {
        let mut fact = ModelFact::new(self.wire.word(), self.name.as_str(), self.base_url.as_str());
        fact.provider = self.row().map(|row| row.name.to_owned());
        fact.window = self.window;
        fact.replayed = matches!(self.cassette, Some(Cassette::Replay(_)));
        fact
    }

    /// The row that was named, or the one to whose host the base URL leads.
    pub(crate) fn row(&self) -> Option<&'static Preset> {
        let at = || Preset::at(&BaseUrl::parse(&self.base_url, PlainHttp::Anywhere).ok()?, self.wire.kind());
        self.provider.or_else(at)
    }

    /// The variable to note for a worker, which knows the base URL and not what was named here.
    pub(crate) fn noted_key_env(&self) -> Option<String> {
        let row = self.provider?;
        let base = BaseUrl::parse(&self.base_url, PlainHttp::Anywhere).ok();
        let told = base.is_some_and(|base| {
            is_local(&base)
                || Preset::at(&base, self.wire.kind()).is_some_and(|at| at.key_vars == row.key_vars)
        });
        (!told && row.place == Place::Hosted).then(|| row.key_vars.first().map(|var| (*var).to_owned()))?
    }

    /// The endpoint as one that is asked what it offers; where it wants a key and none is set, says so.
    pub(crate) fn catalogue(
        &self,
        world: &World,
        workspace: &Path,
    ) -> Result<Result<Catalogue, String>, Failure> {
        let (base, row) = self.endpoint(world)?;
        Ok(self
            .auth(world, workspace, &base, row)
            .map(|auth| Catalogue::new(self.wire.kind(), base, auth, row)))
    }

    /// The provider, with its key from the environment where it is to have one.
    fn remote(&self, world: &World, keys: Keys<'_>, stands: Stands) -> Result<Arc<dyn Provider>, Failure> {
        let (base, row) = self.endpoint(world)?;
        let auth = match keys {
            Keys::Sent { workspace } => self.auth(world, workspace, &base, row).map_err(|no_key| match stands {
                Stands::First => Failure::usage(no_key)
                    .hint(
                        "set it, say in keys.toml where it is, or name another with --key-env VAR (one that ends in KEY or TOKEN)",
                    ),
                Stands::Beside => Failure::usage(format!(
                    "`{}`, which is named beside the first model: {no_key}",
                    visible(&self.name, Lines::Escape)
                ))
                .hint("set it, or leave that model out (--key-env is of the first model alone)"),
            })?,
            Keys::None => Auth::None,
        };
        let remote = Remote::builder(self.wire.kind(), base, self.name.clone())
            .auth(auth)
            .quirks(row.map_or(&[], |row| row.quirks))
            .build()
            .map_err(Failure::usage)?;
        Ok(Arc::new(remote))
    }

    /// The base URL, checked, and whose it is.
    pub(super) fn endpoint(&self, world: &World) -> Result<(BaseUrl, Option<&'static Preset>), Failure> {
        let kind = self.wire.kind();
        let plain = match world.var("PROVOST_PLAIN_HTTP").as_deref() {
            Some("1") => PlainHttp::Anywhere,
            _ => PlainHttp::LoopbackOnly,
        };
        let base = BaseUrl::parse(&self.base_url, plain).map_err(|error| {
            let failure = Failure::usage(format!("--base-url: {error}"));
            match error {
                BaseUrlError::PlainHttp(_) => failure
                    .hint("PROVOST_PLAIN_HTTP=1 allows it: prompts and the key then travel in the clear"),
                _ => failure,
            }
        })?;
        let at = Preset::at(&base, kind);
        if let (Some(named), Some(at)) = (self.provider, at)
            && named.key_vars != at.key_vars
        {
            // The one would get the other's key.
            let message = format!("--base-url leads to `{}`, and --provider names `{}`", at.name, named.name);
            return Err(
                Failure::usage(message).hint("leave one of them out; PROVOST_BASE_URL counts as given")
            );
        }
        Ok((base, self.provider.or(at)))
    }

    /// The key from the environment or from where the user's own file says that it is, or which variables hold none.
    fn auth(
        &self,
        world: &World,
        workspace: &Path,
        base: &BaseUrl,
        row: Option<&Preset>,
    ) -> Result<Auth, String> {
        let kind = self.wire.kind();
        if let Some(named) = self.key_env.as_deref().filter(|named| !is_key_variable(named)) {
            return Err(format!(
                "the environment variable `{named}` is not called like one that holds a key"
            ));
        }
        let variables: Vec<&str> = match (&self.key_env, row.or_else(|| Preset::usual(kind))) {
            (Some(named), _) => vec![named],
            (None, Some(row)) => row.key_vars.to_vec(),
            (None, None) => Vec::new(),
        };
        if let Some(key) = variables.iter().find_map(|variable| world.var(variable)) {
            let style = row.map_or_else(|| AuthStyle::usual(kind), |row| row.auth_on(kind));
            return Ok(style.with(Secret::new(key)));
        }
        for variable in &variables {
            if let Some(key) = keyring::stored(world, variable, workspace)? {
                let style = row.map_or_else(|| AuthStyle::usual(kind), |row| row.auth_on(kind));
                return Ok(style.with(key));
            }
        }
        let signed = row.and_then(|row| row.signed(base)).filter(|_| self.key_env.is_none());
        if let Some((service, region)) = signed
            && let Some(keys) = aws_keys(world, service, region)?
        {
            return Ok(Auth::Aws(keys));
        }
        // A server on this machine, or one's own runtime, needs no key, unless one was named.
        let own = self.provider.is_some_and(|row| row.place == Place::Local);
        if self.key_env.is_none() && (own || is_local(base)) {
            return Ok(Auth::None);
        }
        let variables: Vec<String> = variables.iter().map(|variable| format!("`{variable}`")).collect();
        let none = "and `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` do not hold keys to sign with";
        Err(match variables.as_slice() {
            [one] if signed.is_some() => format!("the environment variable {one} holds no key, {none}"),
            [one] => format!("the environment variable {one} holds no key"),
            several => format!("none of the environment variables {} holds a key", several.join(", ")),
        })
    }
}

/// Whoever is asked for the first model, and for each of the others.
pub(crate) type Connected = (Arc<dyn Provider>, Vec<Arc<dyn Provider>>);

/// Whoever is asked for each of the models, or the cassette of the first in their place.
pub(super) fn connect_all(
    first: &ModelChoice,
    others: &[ModelChoice],
    world: &World,
    workspace: &Path,
) -> Result<Connected, Failure> {
    let all = |keys| -> Result<Connected, Failure> {
        let others: Result<Vec<_>, _> =
            others.iter().map(|other| other.remote(world, keys, Stands::Beside)).collect();
        Ok((first.remote(world, keys, Stands::First)?, others?))
    };
    let shared = |one: Recorder| Arc::new(one) as Arc<dyn Provider>;
    match &first.cassette {
        None => all(Keys::Sent { workspace }),
        Some(Cassette::Record(file)) => {
            let (first, others) = all(Keys::Sent { workspace })?;
            let recorder =
                Recorder::new(first, file).map_err(|error| Failure::usage(format!("--record {error}")))?;
            let others = others.into_iter().map(|other| shared(recorder.beside(other))).collect();
            Ok((shared(recorder), others))
        }
        Some(Cassette::Replay(file)) => {
            let (first, others) = all(Keys::None)?;
            let replay =
                Replay::load(file, first).map_err(|error| Failure::usage(format!("--replay {error}")))?;
            let others =
                others.into_iter().map(|other| Arc::new(replay.beside(other)) as Arc<dyn Provider>).collect();
            Ok((Arc::new(replay), others))
        }
    }
}

/// Whether a variable may hold a key, by its name: what is sent to a server must not be any variable that a queue or a store
/// names.
fn is_key_variable(name: &str) -> bool {
    let known = || Preset::all().iter().any(|row| row.key_vars.contains(&name));
    ["KEY", "TOKEN"].iter().any(|end| name.to_ascii_uppercase().ends_with(end)) || known()
}

/// The keys of an AWS account from the environment, where they are there. The host's region goes before the environment's.
fn aws_keys(world: &World, service: &str, region: Option<&str>) -> Result<Option<AwsKeys>, String> {
    let [id, key] = AWS_KEYS.map(|variable| world.var(variable));
    let (Some(id), Some(key)) = (id, key) else { return Ok(None) };
    let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|variable| world.var(variable));
    let region = region.map(str::to_owned).or(named).ok_or(
        "requests are signed for a region, and neither the base URL nor the environment variable `AWS_REGION` names one",
    )?;
    let session = world.var("AWS_SESSION_TOKEN").map(Secret::new);
    let service = service.to_owned();
    Ok(Some(AwsKeys { id: Secret::new(id), key: Secret::new(key), session, region, service }))
}

fn is_local(base: &BaseUrl) -> bool {
    let host = base.host().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) fn choose_model(args: &ModelArgs) -> Result<ModelChoice, Failure> {
    let provider = args.endpoint.provider.as_deref().map(provider).transpose()?;
    let wire = args.endpoint.wire.or(provider.map(|row| Wire::of(row.wire))).unwrap_or(Wire::Openai);
    let Some(name) = args.model.clone() else {
        return Err(Failure::usage("no model is named").hint("give --model NAME, or set PROVOST_MODEL"));
    };
    let base_url = match (&args.endpoint.base_url, provider) {
        (Some(given), _) => given.clone(),
        (None, Some(row)) => row
            .base_url
            .ok_or_else(|| {
                Failure::usage(format!("`{}` gives each customer a base URL of its own", row.name))
                    .hint(format!("give --base-url, as in {}", row.example_url()))
            })?
            .to_owned(),
        (None, None) => wire.usual_url().to_owned(),
    };
    Ok(ModelChoice {
        wire,
        name,
        base_url,
        key_env: args.endpoint.key_env.clone(),
        provider,
        window: None,
        cassette: None,
    })
}

/// The row that a person named.
pub(super) fn provider(name: &str) -> Result<&'static Preset, Failure> {
    Preset::named(name)
        .map_err(|error| Failure::usage(error).hint("`provost providers` lists those that are known"))
}
