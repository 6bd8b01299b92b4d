//! What models cost and how much they take: a dated table that comes with the program, and a file of the user's that
//! goes before it.
//!
//! What neither knows is unknown, never zero: a model in one's own runtime costs nothing only where the user says so. No
//! workspace has a say in it, since whoever sets prices sets budgets.

mod file;
mod name;
mod table;

pub use file::{BadPrices, Format};
use provost_core::price::Price;

use self::name::Name;

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is called.
    pub id: String,
    /// Further names that mean it.
    names: Vec<Name>,
    /// Names among those that do not.
    except: Vec<Name>,
    /// Tokens that prompt and answer may have together.
    pub window: Option<u64>,
    /// Most tokens of an answer.
    pub max_output: Option<u64>,
    /// What it costs.
    pub price: Option<Price>,
}

impl Entry {
    /// Whether it is called exactly so (in lower case).
    fn is(&self, model: &str) -> bool {
        self.id.eq_ignore_ascii_case(model) || self.names.iter().any(|name| name.is(model))
    }

    /// Whether one of its names takes this one (in lower case).
    fn takes(&self, model: &str) -> bool {
        let any = |names: &[Name]| names.iter().any(|name| name.takes(model));
        any(&self.names) && !any(&self.except)
    }
}

/// Of several that take a name, the one that is called so, then the first.
fn among<'a>(mut entries: impl Iterator<Item = &'a Entry> + Clone, model: &str) -> Option<&'a Entry> {
    entries.clone().find(|entry| entry.is(model)).or_else(|| entries.find(|entry| entry.takes(model)))
}

/// What was found of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// What it costs, and where that is known from.
    pub price: Option<Price>,
    /// Tokens that prompt and answer may have together.
    pub window: Option<u64>,
    /// Most tokens of an answer.
    pub max_output: Option<u64>,
}

/// The table that comes with the program, and the user's file before it.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    own: Vec<file::OwnEntry>,
}

impl Prices {
    /// The table alone.
    pub fn shipped() -> Self {
        Self::default()
    }

    /// The table, and before it what the user's file says. A table in TOML:
    ///
    /// ```
    /// use provost_model::prices::{Format, Prices};
    /// let file = r#"
    ///     as_of = "2026-11-30"              # shown with each price of the file
    ///     [[model]]
    ///     provider = "openai"               # as `provost providers` has it; left out, wherever the model is asked
    ///     name = "gpt-9-mini*"              # `*` at an end: whatever begins so
    ///     input = 0.25                      # US dollars per million tokens
    ///     output = 2
    ///     cache_read = 0.025                # what has no price of its own costs what input costs
    ///     window = 400000                   # tokens of prompt and answer together
    ///     max_output = 128000
    ///     [[model.tier]]                    # all tokens of a call with a longer prompt
    ///     above = 272000
    ///     input = 0.5
    ///     output = 3
    ///     [[model]]
    ///     provider = "ollama"
    ///     name = "*"
    ///     input = 0
    ///     output = 0
    /// "#;
    /// let prices = Prices::with_file(file, Format::Toml)?;
    /// let known = prices.find(Some("openai"), "gpt-9-mini-2027-01-31");
    /// assert_eq!(known.price.map(|price| price.input), Some(250_000)); // millionths of a dollar
    /// # Ok::<(), provost_model::prices::BadPrices>(())
    /// ```
    ///
    /// An unknown key, a price that is none and an entry that says nothing are errors that name it.
    pub fn with_file(text: &str, format: Format) -> Result<Self, BadPrices> {
        Ok(Self { own: file::parse(text, format)? })
    }

    /// The date of the table, `2026-01-31`.
    pub fn as_of() -> &'static str {
        &table::shipped().as_of
    }

    /// What is known of a model that is asked at this provider ([`Preset::name`](crate::presets::Preset)); of one that is
    /// asked elsewhere only the user's file can tell.
    pub fn find(&self, provider: Option<&str>, model: &str) -> Known {
        let model = model.to_ascii_lowercase();
        let own = among(self.own_of(provider), &model);
        let shipped = provider.and_then(|provider| table::shipped().find(provider, &model));
        let first = |of: fn(&Entry) -> Option<u64>| own.and_then(of).or_else(|| shipped.and_then(of));
        Known {
            price: own.and_then(|entry| entry.price.clone()).or_else(|| shipped?.price.clone()),
            window: first(|entry| entry.window),
            max_output: first(|entry| entry.max_output),
        }
    }

    /// The models of the table at this provider, by name. Not all that it sells.
    pub fn listed(provider: &str) -> Vec<&'static Entry> {
        table::shipped().all(provider)
    }

    /// What the user's file has, in its order: where it holds ([`Preset::name`](crate::presets::Preset); `None` wherever the
    /// model is asked), and what it says.
    pub fn own(&self) -> impl Iterator<Item = (Option<&str>, &Entry)> {
        self.own.iter().map(|own| (own.provider.as_deref(), &own.entry))
    }

    fn own_of<'a>(&'a self, provider: Option<&'a str>) -> impl Iterator<Item = &'a Entry> + Clone {
        let its = move |own: &&file::OwnEntry| own.provider.is_none() || own.provider.as_deref() == provider;
        self.own.iter().filter(its).map(|own| &own.entry)
    }
}

#[cfg(test)]
mod tests;
