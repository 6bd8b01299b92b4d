//! Budgets and the ledger they are held against.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::price::Price;
use crate::transcript::Usage;

/// Upper bounds of a run. `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Answers of a model.
    pub steps: Option<u32>,
    /// Tokens, input and output together.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// Milliseconds during which a driver worked on the run.
    pub time_ms: Option<u64>,
}

impl Default for Budget {
    /// 50 steps and no other bound.
    fn default() -> Self {
        Self { steps: Some(50), tokens: None, cost_micros: None, time_ms: None }
    }
}

/// Which bound was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Steps.
    Steps,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// Time.
    Time,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => "steps",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
        })
    }
}

/// What a tree of agents has spent, against what it may spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// The bounds.
    pub budget: Budget,
    /// The price, where one is known.
    pub price: Option<Price>,
    /// Steps taken.
    pub steps: u32,
    /// Tokens used, summed over calls.
    pub usage: Usage,
    /// Calls whose usage the vendor did not report and which were charged by estimate, those that failed included.
    pub estimated_calls: u32,
    /// Money spent, in millionths of a US dollar, where a price is known.
    pub cost_micros: u64,
    /// Calls of models whose price is not known: what they cost is not in `cost_micros`.
    pub unpriced_calls: u32,
    /// Milliseconds driven.
    pub time_ms: u64,
}

/// Fewest output tokens worth asking for: with less left, the budget is spent.
pub const LEAST_OUTPUT: u64 = 64;

impl Ledger {
    /// An unspent ledger.
    pub fn new(budget: Budget, price: Option<Price>) -> Self {
        Self {
            budget,
            price,
            steps: 0,
            usage: Usage::default(),
            estimated_calls: 0,
            cost_micros: 0,
            unpriced_calls: 0,
            time_ms: 0,
        }
    }

    /// The bound that is already reached, if one is.
    pub fn spent(&self) -> Option<Bound> {
        let reached = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit);
        if reached(self.budget.steps.map(u64::from), u64::from(self.steps)) {
            Some(Bound::Steps)
        } else if reached(self.budget.tokens, self.usage.total()) {
            Some(Bound::Tokens)
        } else if reached(self.budget.cost_micros, self.cost_micros) {
            Some(Bound::Cost)
        } else if reached(self.budget.time_ms, self.time_ms) {
            Some(Bound::Time)
        } else {
            None
        }
    }

    /// The money spent, in millionths of a US dollar; `None` where no price is known. Unknown is not zero.
    pub fn cost(&self) -> Option<u64> {
        (self.price.is_some() && self.unpriced_calls == 0).then_some(self.cost_micros)
    }

    /// Reserves one call of a model at `price` before it is made: given an estimate of its input tokens, how many output tokens may be asked
    /// for, at most `wanted`, so that the call cannot pass the bounds on tokens and money. Input is reserved at its
    /// dearest price, since the vendor decides what is read from a cache and what is written to one, and counts how long
    /// the prompt was. A bound on money without a known price admits no call.
    pub fn reserve(&self, price: Option<&Price>, input_estimate: u64, wanted: u64) -> Result<u64, Bound> {
        if let Some(bound) = self.spent() {
            return Err(bound);
        }
        let mut output = wanted;
        if let Some(limit) = self.budget.tokens {
            let left = limit.saturating_sub(self.usage.total());
            let left = left.checked_sub(input_estimate).ok_or(Bound::Tokens)?;
            output = output.min(left);
            if output < LEAST_OUTPUT.min(wanted) {
                return Err(Bound::Tokens);
            }
        }
        if let Some(limit) = self.budget.cost_micros {
            let (dearest, output_price) = price.ok_or(Bound::Cost)?.dearest();
            let input = u128::from(input_estimate) * u128::from(dearest);
            // In millionths of a millionth, so that nothing is lost to rounding before the call is charged as one.
            let left = u128::from(limit.saturating_sub(self.cost_micros)) * 1_000_000;
            let left = left.checked_sub(input).ok_or(Bound::Cost)?;
            let affordable = left.checked_div(u128::from(output_price)).unwrap_or(u128::MAX);
            output = output.min(u64::try_from(affordable).unwrap_or(u64::MAX));
            if output < LEAST_OUTPUT.min(wanted) {
                return Err(Bound::Cost);
            }
        }
        Ok(output)
    }

    /// What the least call of so many input tokens would take of a bound, in its unit (tokens, or millionths of a US dollar);
    /// `None` where the bound is of another kind, or the price is not known.
    pub fn need(&self, bound: Bound, price: Option<&Price>, input_estimate: u64) -> Option<u64> {
        match bound {
            Bound::Tokens => Some(input_estimate.saturating_add(LEAST_OUTPUT)),
            Bound::Cost => {
                let (dearest, output_price) = price?.dearest();
                let input = u128::from(input_estimate) * u128::from(dearest);
                let all = input + u128::from(LEAST_OUTPUT) * u128::from(output_price);
                u64::try_from(all.div_ceil(1_000_000)).ok()
            }
            Bound::Steps | Bound::Time => None,
        }
    }

    /// What is left of a bound on tokens or money, in its unit.
    pub fn left(&self, bound: Bound) -> Option<u64> {
        match bound {
            Bound::Tokens => Some(self.budget.tokens?.saturating_sub(self.usage.total())),
            Bound::Cost => Some(self.budget.cost_micros?.saturating_sub(self.cost_micros)),
            Bound::Steps | Bound::Time => None,
        }
    }

    pub(crate) fn settle(&mut self, usage: &Usage, price: Option<&Price>) {
        self.usage.add(usage);
        match price {
            Some(price) => self.cost_micros = self.cost_micros.saturating_add(price.of(usage)),
            None => self.unpriced_calls = self.unpriced_calls.saturating_add(1),
        }
    }
}
