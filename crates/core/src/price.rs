//! What a model costs, and where that is known from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::transcript::Usage;

/// Most tiers of one price. No vendor has more than a few; a journal from elsewhere may say anything.
pub const MOST_TIERS: usize = 16;

/// What a model costs, in millionths of a US dollar per million tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// What calls with a longer prompt cost instead, all of their tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
    /// Where it is known from; `None` where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PriceFrom>,
}

/// What a call costs whose prompt is longer than `above`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Tokens of the prompt, cached ones included, that it must have more of.
    pub above: u64,
    /// What its tokens cost.
    pub rates: Rates,
}

/// What the kinds of tokens cost, in millionths of a US dollar per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
}

impl Rates {
    /// The dearest that a token of the prompt can be: the vendor decides what is read from a cache or written to one.
    fn dearest_input(&self) -> u64 {
        self.input.max(self.cache_read).max(self.cache_write)
    }
}

/// Where a price is known from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceFrom {
    /// Whoever ordered the run gave it.
    Given,
    /// The table that comes with the program.
    Table {
        /// Its date, `2026-01-31`.
        as_of: String,
    },
    /// A file of the user's.
    File {
        /// The date that it gives itself, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_of: Option<String>,
    },
}

impl fmt::Display for PriceFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given"),
            Self::Table { as_of } => write!(f, "table {as_of}"),
            Self::File { as_of: Some(as_of) } => write!(f, "file {as_of}"),
            Self::File { as_of: None } => f.write_str("file"),
        }
    }
}

impl Price {
    /// A price by input and output alone: cached input costs what input costs.
    pub fn flat(input: u64, output: u64) -> Self {
        Self::of_rates(Rates { input, output, cache_read: input, cache_write: input })
    }

    /// A price that is the same for prompts of every length.
    pub fn of_rates(rates: Rates) -> Self {
        let Rates { input, output, cache_read, cache_write } = rates;
        Self { input, output, cache_read, cache_write, tiers: Vec::new(), from: None }
    }

    /// With where it is known from.
    #[must_use]
    pub fn known_from(mut self, from: PriceFrom) -> Self {
        self.from = Some(from);
        self
    }

    fn base(&self) -> Rates {
        let Self { input, output, cache_read, cache_write, .. } = *self;
        Rates { input, output, cache_read, cache_write }
    }

    /// What the tokens of a call cost whose prompt has `prompt` tokens, cached ones included.
    pub fn rates(&self, prompt: u64) -> Rates {
        let reached = self.tiers.iter().filter(|tier| prompt > tier.above);
        reached.max_by_key(|tier| tier.above).map_or(self.base(), |tier| tier.rates)
    }

    /// The dearest that a token of input and one of output can be, whatever the length of the prompt: how long that was,
    /// the vendor counts afterwards.
    pub fn dearest(&self) -> (u64, u64) {
        let all = self.tiers.iter().map(|tier| tier.rates);
        all.fold((self.base().dearest_input(), self.output), |(input, output), rates| {
            (input.max(rates.dearest_input()), output.max(rates.output))
        })
    }

    /// The cost of `usage` in millionths of a US dollar, rounded up.
    ///
    /// ```
    /// use provost_core::{price::Price, transcript::Usage};
    /// let price = Price::flat(3_000_000, 15_000_000); // $3 and $15 per million tokens
    /// let usage = Usage { input: 1_000, output: 200, ..Usage::default() };
    /// assert_eq!(price.of(&usage), 6_000); // $0.006
    /// ```
    pub fn of(&self, usage: &Usage) -> u64 {
        let rates = self.rates(usage.prompt());
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = part(usage.input, rates.input)
            .saturating_add(part(usage.output, rates.output))
            .saturating_add(part(usage.cache_read, rates.cache_read))
            .saturating_add(part(usage.cache_write, rates.cache_write));
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}
