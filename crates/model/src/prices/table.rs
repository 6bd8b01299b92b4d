//! The table that comes with the program. `prices/make.py` makes it anew.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use provost_core::price::{Price, PriceFrom, Rates, Tier};
use serde::Deserialize;

use super::name::Name;
use super::{Entry, among};

static TEXT: &str = include_str!("../../prices/table.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    as_of: String,
    providers: BTreeMap<String, RawProvider>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProvider {
    #[serde(default)]
    like: Vec<String>,
    models: Vec<RawModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModel {
    id: String,
    #[serde(default, rename = "match")]
    names: Vec<String>,
    window: Option<u64>,
    output: Option<u64>,
    /// Input, output, read from the cache, written to the cache, in millionths of a US dollar per million tokens.
    price: Option<[u64; 4]>,
    /// The same for prompts of more tokens than the first number.
    #[serde(default)]
    tiers: Vec<[u64; 5]>,
}

/// The table, read.
pub(super) struct Table {
    pub(super) as_of: String,
    providers: BTreeMap<String, Provider>,
}

struct Provider {
    entries: Vec<Entry>,
    /// Providers that sell the same: what this one does not list is looked for there.
    like: Vec<String>,
}

/// The table. Read when it is first asked for.
pub(super) fn shipped() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| match parse(TEXT) {
        Ok(table) => table,
        // A part of the program: a test reads it.
        Err(error) => unreachable!("the table of prices does not parse: {error}"),
    })
}

fn parse(text: &str) -> Result<Table, String> {
    let raw: RawTable = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let as_of = raw.as_of;
    let mut providers = BTreeMap::new();
    for (name, provider) in raw.providers {
        let entries = provider.models.into_iter().map(|model| entry(model, &as_of));
        let entries = entries.collect::<Result<_, _>>()?;
        providers.insert(name, Provider { entries, like: provider.like });
    }
    Ok(Table { as_of, providers })
}

fn entry(raw: RawModel, as_of: &str) -> Result<Entry, String> {
    let (mut names, mut except) = (Vec::new(), Vec::new());
    for text in &raw.names {
        // With `!` in front, what they do not take all the same.
        let (list, name) =
            text.strip_prefix('!').map_or((&mut names, text.as_str()), |name| (&mut except, name));
        list.push(Name::parse(name).ok_or_else(|| format!("`{text}` is no pattern of names"))?);
    }
    let rates =
        |[input, output, cache_read, cache_write]: [u64; 4]| Rates { input, output, cache_read, cache_write };
    let tiers = raw.tiers.into_iter();
    let tiers = tiers.map(|[above, a, b, c, d]| Tier { above, rates: rates([a, b, c, d]) }).collect();
    let price = raw.price.map(|price| Price { tiers, ..Price::of_rates(rates(price)) });
    let price = price.map(|price| price.known_from(PriceFrom::Table { as_of: as_of.to_owned() }));
    Ok(Entry { id: raw.id, names, except, window: raw.window, max_output: raw.output, price })
}

impl Table {
    pub(super) fn find(&self, provider: &str, model: &str) -> Option<&Entry> {
        among(self.sold_by(provider), model)
    }

    /// What the provider lists itself, then what it sells of others'.
    fn sold_by(&self, provider: &str) -> impl Iterator<Item = &Entry> + Clone {
        let own = self.providers.get(provider);
        let like = own.map_or([].as_slice(), |own| &own.like).iter();
        let others = like.filter_map(|other| self.providers.get(other));
        own.into_iter().chain(others).flat_map(|provider| &provider.entries)
    }

    pub(super) fn all(&self, provider: &str) -> Vec<&Entry> {
        let mut all: Vec<&Entry> = self.sold_by(provider).collect();
        // Stable: what the provider lists itself goes before what it sells of others'.
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.dedup_by(|later, first| later.id == first.id);
        all
    }
}
