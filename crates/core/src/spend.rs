//! What the calls of a model came to: a fold over a run's events, for whoever wants to know it by model, day or agent.

use crate::event::{Body, Event};
use crate::id::AgentId;
use crate::price::Price;
use crate::route::{Route, RouteId};
use crate::transcript::Usage;

/// Kinds of the events that [`Account`] is made of.
pub const KINDS: [&str; 3] = ["run.created", "model.answered", "model.failed"];

/// One call of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// When it ended, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Who asked.
    pub agent: AgentId,
    /// Which of the contract's models was asked.
    pub route: RouteId,
    /// Whether it gave an answer.
    pub end: CallEnd,
    /// What it is charged; `None` for a failed one that cannot have been.
    pub usage: Option<Usage>,
    /// Whether `usage` is an estimate, wholly or in part.
    pub estimated: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// With an answer.
    Answered {
        /// Milliseconds from request to end of answer.
        latency_ms: u64,
        /// Milliseconds from request to first token, where it is known.
        ttft_ms: Option<u64>,
    },
    /// Without one.
    Failed,
}

/// The calls of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The contract's models with the prices that they were given, by [`RouteId`]; none before the run begins.
    pub routes: Vec<Route>,
    /// Its own calls, in their order.
    pub calls: Vec<Call>,
    /// Calls of the run that it was forked from, and which were made there.
    pub inherited: u64,
    /// How many events it begins with that are another run's.
    taken: u64,
}

impl Account {
    /// The account of a run. Of its events those of [`KINDS`] are enough.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut account = Self::default();
        for event in events {
            account.apply(event);
        }
        account
    }

    /// Folds the next event.
    pub fn apply(&mut self, event: &Event) {
        let (route, end, usage, estimated) = match &event.body {
            Body::RunCreated(created) => {
                self.routes = vec![Route { model: created.model.clone(), price: created.price.clone() }];
                self.routes.extend(created.routing.iter().flat_map(|routing| routing.others.clone()));
                self.taken = created.forked.as_ref().map_or(0, |forked| forked.events);
                return;
            }
            Body::ModelAnswered(body) => {
                let end = CallEnd::Answered { latency_ms: body.latency_ms, ttft_ms: body.ttft_ms };
                (body.route, end, Some(body.usage), body.estimated)
            }
            Body::ModelFailed(body) => (body.route, CallEnd::Failed, body.usage, body.estimated),
            _ => return,
        };
        if event.seq < self.taken {
            self.inherited += 1;
        } else {
            self.calls.push(Call { at_ms: event.at_ms, agent: event.agent, route, end, usage, estimated });
        }
    }
}

impl Account {
    /// The model that a call asked, with its price.
    pub fn asked(&self, call: &Call) -> Option<&Route> {
        self.routes.get(usize::from(call.route.0))
    }
}

/// What a number of calls came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bill {
    /// Calls.
    pub calls: u64,
    /// Those that gave no answer.
    pub failed: u64,
    /// Those that gave no answer and were charged all the same.
    pub failed_charged: u64,
    /// Those that were charged by estimate.
    pub estimated: u64,
    /// Those that were charged and whose price is not known: they are in `usage` and not in `cost_micros`.
    pub unpriced: u64,
    /// Tokens.
    pub usage: Usage,
    /// Money, in millionths of a US dollar, as far as prices are known.
    pub cost_micros: u64,
    latencies: Vec<u64>,
    ttfts: Vec<u64>,
}

impl Bill {
    /// Takes a call in, at this price.
    pub fn add(&mut self, call: &Call, price: Option<&Price>) {
        self.calls += 1;
        match call.end {
            CallEnd::Answered { latency_ms, ttft_ms } => {
                self.latencies.push(latency_ms);
                self.ttfts.extend(ttft_ms);
            }
            CallEnd::Failed => {
                self.failed += 1;
                self.failed_charged += u64::from(call.usage.is_some());
            }
        }
        self.estimated += u64::from(call.estimated);
        let Some(usage) = &call.usage else { return };
        self.usage.add(usage);
        match price {
            // Rounded as the ledger rounds: each call by itself.
            Some(price) => self.cost_micros = self.cost_micros.saturating_add(price.of(usage)),
            None => self.unpriced += 1,
        }
    }

    /// The money, in millionths of a US dollar; `None` where calls were charged and none has a price.
    pub fn cost(&self) -> Option<u64> {
        let charged = self.calls - self.failed + self.failed_charged;
        (charged == 0 || self.unpriced < charged).then_some(self.cost_micros)
    }

    /// The median of the milliseconds from request to end of answer.
    pub fn latency_ms(&self) -> Option<u64> {
        median(&self.latencies)
    }

    /// The median of the milliseconds from request to first token, of the calls that tell.
    pub fn ttft_ms(&self) -> Option<u64> {
        median(&self.ttfts)
    }
}

/// The middle one; of two in the middle the smaller.
fn median(values: &[u64]) -> Option<u64> {
    let mut values = values.to_vec();
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(input: u64, latency_ms: u64) -> Call {
        let usage = Some(Usage { input, output: 10, ..Usage::default() });
        let end = CallEnd::Answered { latency_ms, ttft_ms: (latency_ms > 5).then_some(latency_ms / 2) };
        Call { at_ms: 0, agent: AgentId(0), route: RouteId::FIRST, end, usage, estimated: false }
    }

    /// Part of a sum is not the sum, and unknown is not zero.
    #[test]
    fn w10_what_has_no_price_is_counted_and_not_zero() {
        let price = Price::flat(1_000_000, 2_000_000);
        let mut bill = Bill::default();
        assert_eq!((bill.cost(), bill.latency_ms()), (Some(0), None));
        bill.add(&answered(100, 4), None);
        assert_eq!((bill.cost(), bill.unpriced), (None, 1));
        bill.add(&answered(100, 30), Some(&price));
        assert_eq!((bill.cost(), bill.unpriced, bill.usage.input), (Some(120), 1, 200));
        let failed = Call { end: CallEnd::Failed, usage: None, ..answered(0, 0) };
        bill.add(&failed, None);
        let charged = Call { end: CallEnd::Failed, estimated: true, ..answered(50, 0) };
        bill.add(&charged, Some(&price));
        assert_eq!((bill.calls, bill.failed, bill.failed_charged, bill.estimated), (4, 2, 1, 1));
        assert_eq!((bill.cost(), bill.unpriced), (Some(190), 1), "one that cost nothing needs no price");
        bill.add(&answered(0, 20), Some(&price));
        assert_eq!((bill.latency_ms(), bill.ttft_ms()), (Some(20), Some(10)));
    }
}
