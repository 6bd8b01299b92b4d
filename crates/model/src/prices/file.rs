//! The user's own file of prices.

use provost_core::price::{MOST_TIERS, Price, PriceFrom, Rates, Tier};
use serde::Deserialize;

use super::Entry;
use super::name::Name;
use crate::presets::Preset;

/// Dearest that a million tokens may be, in US dollars. More is a slip of the pen.
const DEAREST: f64 = 1e6;
/// Most tokens that a window may have.
const WIDEST: u64 = 1 << 40;

/// How a file of prices is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON, with the same keys.
    Json,
}

/// Why a file of prices cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPrices {
    /// Not of that format, or with a key that it does not have.
    #[error("{0}")]
    Syntax(String),
    /// An entry that cannot be meant.
    #[error("model `{name}`: {why}")]
    Entry {
        /// Its name in the file.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    as_of: Option<String>,
    #[serde(default)]
    model: Vec<RawModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModel {
    provider: Option<String>,
    name: String,
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    window: Option<u64>,
    max_output: Option<u64>,
    #[serde(default)]
    tier: Vec<RawTier>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTier {
    above: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

/// An entry of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnEntry {
    /// Where it holds; `None` wherever the model is asked.
    pub(super) provider: Option<String>,
    pub(super) entry: Entry,
}

pub(super) fn parse(text: &str, format: Format) -> Result<Vec<OwnEntry>, BadPrices> {
    let raw: RawFile = match format {
        Format::Toml => toml::from_str(text).map_err(|error| BadPrices::Syntax(error.to_string()))?,
        Format::Json => serde_json::from_str(text).map_err(|error| BadPrices::Syntax(error.to_string()))?,
    };
    let from = PriceFrom::File { as_of: raw.as_of };
    raw.model
        .into_iter()
        .map(|model| {
            let name = model.name.clone();
            entry(model, &from).map_err(|why| BadPrices::Entry { name, why })
        })
        .collect()
}

fn entry(raw: RawModel, from: &PriceFrom) -> Result<OwnEntry, String> {
    if let Some(provider) = &raw.provider {
        Preset::named(provider).map_err(|error| error.to_string())?;
    }
    let name = Name::parse(&raw.name).ok_or("a name has a `*` at its ends or nowhere, and is not empty")?;
    let price = match (raw.input, raw.output) {
        (Some(input), Some(output)) => {
            let tiers = raw.tier.iter().map(|tier| {
                let rates = rates(tier.input, tier.output, tier.cache_read, tier.cache_write)?;
                Ok(Tier { above: tier.above, rates })
            });
            let tiers: Vec<Tier> = tiers.collect::<Result<_, String>>()?;
            if tiers.len() > MOST_TIERS {
                return Err(format!("it has more than {MOST_TIERS} tiers"));
            }
            let rates = rates(input, output, raw.cache_read, raw.cache_write)?;
            Some(Price { tiers, ..Price::of_rates(rates) }.known_from(from.clone()))
        }
        (None, None) if raw.cache_read.is_none() && raw.cache_write.is_none() && raw.tier.is_empty() => None,
        _ => return Err("a price has both `input` and `output`".to_owned()),
    };
    if [raw.window, raw.max_output].into_iter().flatten().any(|tokens| tokens == 0 || tokens > WIDEST) {
        return Err("`window` and `max_output` are tokens, and more than none".to_owned());
    }
    if price.is_none() && raw.window.is_none() && raw.max_output.is_none() {
        return Err("it says nothing: give `input` and `output`, `window` or `max_output`".to_owned());
    }
    let (window, max_output) = (raw.window, raw.max_output);
    let (names, except) = (vec![name], Vec::new());
    let entry = Entry { id: raw.name, names, except, window, max_output, price };
    Ok(OwnEntry { provider: raw.provider, entry })
}

fn rates(input: f64, output: f64, read: Option<f64>, write: Option<f64>) -> Result<Rates, String> {
    Ok(Rates {
        input: micros(input)?,
        output: micros(output)?,
        cache_read: micros(read.unwrap_or(input))?,
        cache_write: micros(write.unwrap_or(input))?,
    })
}

/// Dollars as millionths, rounded up where they have more than six decimals.
fn micros(dollars: f64) -> Result<u64, String> {
    let bad = || format!("`{dollars}` is no price in US dollars per million tokens");
    if !(0.0..=DEAREST).contains(&dollars) {
        return Err(bad());
    }
    // By its decimals, which are the ones that were typed: a binary fraction would be a little off.
    let text = dollars.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(6).collect();
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let kept: u64 = kept.parse().map_err(|_| bad())?;
    let more = fraction.bytes().skip(6).any(|digit| digit != b'0');
    Ok(whole * 1_000_000 + kept + u64::from(more))
}
