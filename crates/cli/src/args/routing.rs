//! What was typed about models beside the first.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RoutingArgs {
    /// Model to ask where the first gives no answer, as in `anthropic/claude-sonnet-4-5`; whole it is `PROVIDER/MODEL@URL=IN/OUT`,
    /// the price in US dollars per million tokens. Repeatable: they are asked in this order.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) fallback: Vec<ModelSpec>,
    /// Let the run begin with a fallback. Otherwise it waits where the model that was chosen gives no first answer.
    #[arg(long, requires = "fallback")]
    pub(crate) begin_with_fallback: bool,
    /// Stronger model, asked for good once the verification has failed --escalate-after times; written as for --fallback.
    #[arg(long, value_name = "PROVIDER/MODEL", requires = "verify")]
    pub(crate) escalate_to: Option<ModelSpec>,
    /// How often the verification has to fail for that.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "escalate_to", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) escalate_after: u32,
    /// Cheaper model, asked while the files that the run has changed hold fewer than --downshift-below bytes.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) downshift_to: Option<ModelSpec>,
    /// Bytes for that, as they are now, all changed files together.
    #[arg(long, value_name = "BYTES", default_value_t = 4096, requires = "downshift_to", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) downshift_below: u64,
    /// What to do where a request was sent and no answer came whole: the vendor may have charged for it.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = UnknownOutcome::AskAgain)]
    pub(crate) unknown_outcome: UnknownOutcome,
}

/// What becomes of a request of which nobody knows what became.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnknownOutcome {
    /// Ask the same model again under the same id, now or when the run is resumed, before anything else.
    #[default]
    AskAgain,
    /// Go on with a fallback; the lost call is charged by estimate.
    GoOn,
}

/// A model as one word: `PROVIDER/MODEL[@URL][=IN/OUT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelSpec {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) base_url: Option<String>,
    pub(crate) price: Option<(u64, u64)>,
}

impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected PROVIDER/MODEL, as in anthropic/claude-sonnet-4-5, or whole PROVIDER/MODEL@URL=IN/OUT (`provost \
             providers` lists providers)"
                .to_owned()
        };
        let (text, price) = match text.rsplit_once('=') {
            Some((text, price)) => (text, Some(super::parse_price(price)?)),
            None => (text, None),
        };
        // Names of models hold `@`; a URL says what it is.
        let at = ["@http://", "@https://"].iter().find_map(|at| text.find(at));
        let (text, base_url) = match at {
            Some(at) => (&text[..at], Some(text[at + 1..].to_owned())),
            None => (text, None),
        };
        let (provider, model) = text.split_once('/').ok_or_else(expected)?;
        if provider.is_empty() || model.is_empty() {
            return Err(expected());
        }
        Ok(Self { provider: provider.to_owned(), model: model.to_owned(), base_url, price })
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}
