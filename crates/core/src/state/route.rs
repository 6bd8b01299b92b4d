//! Whom to ask, and what became of those who were asked.

use std::fmt;

use super::RunState;
use crate::act::Change;
use crate::budget::Price;
use crate::changes::merge;
use crate::event::ModelFact;
use crate::route::{Begun, RouteId, Unresolved};

/// The failure class of a request of which nobody knows what became: it was sent, and no answer came whole.
pub const UNKNOWN_OUTCOME: &str = "unknown_outcome";

/// Failure classes that leave it open whether the vendor answered, and charged for it.
const LEAVES_OPEN: [&str; 3] = [UNKNOWN_OUTCOME, "timeout", "cancelled"];

/// Whether a failure of this class leaves it open whether the vendor answered, and charged for it. A run under an
/// authorization makes such a request again only when somebody resumes it.
pub fn leaves_open(class: &str) -> bool {
    LEAVES_OPEN.contains(&class)
}

/// Why a model is the one to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedFor {
    /// It was ordered.
    Ordered,
    /// An answer of it was lost on its way.
    Lost,
    /// The gate has failed often enough.
    Escalated,
    /// The run has changed little.
    LittleChanged,
    /// Whoever comes before it gives no answer.
    StandsIn,
}

impl fmt::Display for AskedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordered => "it was ordered",
            Self::Lost => "an answer of it was lost on its way",
            Self::Escalated => "the verification has failed often enough",
            Self::LittleChanged => "little is changed yet",
            Self::StandsIn => "it stands in for one that gives no answer",
        })
    }
}

impl RunState {
    /// Whom to ask for the next answer to the agent whose turn it is; `None` where nobody is left who has not given up under this driver.
    pub fn route(&self) -> Option<RouteId> {
        let left = |id: &RouteId| !self.given_up.contains(id);
        let Some(routing) = self.created.as_ref().and_then(|created| created.routing.as_deref()) else {
            return Some(RouteId::FIRST).filter(left);
        };
        if let Some(route) = self.unresolved().filter(|_| routing.unresolved == Unresolved::AskAgain) {
            return Some(route).filter(left);
        }
        let begun = if self.ledger.steps == 0 { Begun::No } else { Begun::Yes };
        let order = routing.order(self.gate.rejections, self.changed_bytes, begun);
        order.into_iter().find(left)
    }

    /// Who was sent a request, of the agent whose turn it is, of which nobody knows what became, if no answer has come since.
    pub fn unresolved(&self) -> Option<RouteId> {
        self.of(self.acting()).unresolved
    }

    /// Whom to ask for the next answer, and why; `None` where nobody is left, or the run is over.
    pub fn asked_now(&self) -> Option<(RouteId, AskedFor)> {
        if self.stage.is_over() {
            return None;
        }
        let route = self.route()?;
        let routing = self.created.as_ref()?.routing.as_deref();
        let escalated = routing.and_then(|routing| routing.escalate);
        let shifted = routing.and_then(|routing| routing.downshift);
        let why = if self.unresolved() == Some(route) {
            AskedFor::Lost
        } else if escalated.is_some_and(|rule| self.gate.rejections >= rule.after && rule.to == route) {
            AskedFor::Escalated
        } else if shifted.is_some_and(|rule| rule.to == route) && !self.given_up.contains(&RouteId::FIRST) {
            AskedFor::LittleChanged
        } else if route.is_first() {
            AskedFor::Ordered
        } else {
            AskedFor::StandsIn
        };
        Some((route, why))
    }

    /// The contract's model in this place, and its price.
    pub fn model_of(&self, id: RouteId) -> Option<(&ModelFact, Option<&Price>)> {
        let created = self.created.as_ref()?;
        if id.is_first() {
            return Some((&created.model, created.price.as_ref()));
        }
        let route = created.routing.as_ref()?.other(id)?;
        Some((&route.model, route.price.as_ref()))
    }

    /// The price of the contract's model in this place, where it is known.
    pub fn price_of(&self, id: RouteId) -> Option<&Price> {
        self.model_of(id).and_then(|(_, price)| price)
    }

    /// Merges a change into the net change, and counts its bytes.
    pub(super) fn merge_net(&mut self, change: &Change) {
        let before = self.net.get(&change.path).map_or(0, bytes);
        merge(&mut self.net, change);
        let after = self.net.get(&change.path).map_or(0, bytes);
        self.changed_bytes = self.changed_bytes.saturating_sub(before).saturating_add(after);
    }
}

/// Bytes of a file that differs from the start: as it is now, or as it was where it is gone.
fn bytes(change: &Change) -> u64 {
    change.after.as_ref().or(change.before.as_ref()).map_or(0, |fact| fact.size)
}
