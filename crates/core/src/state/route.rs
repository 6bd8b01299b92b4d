//! Whom to ask, and what became of those who were asked.

use super::RunState;
use crate::act::Change;
use crate::budget::Price;
use crate::changes::merge;
use crate::event::ModelFact;
use crate::route::{Begun, RouteId, Unresolved};

/// The failure class of a request of which nobody knows what became: it was sent, and no answer came whole.
pub const UNKNOWN_OUTCOME: &str = "unknown_outcome";

/// Failure classes that leave it open whether the vendor answered, and charged for it.
pub(super) const LEAVES_OPEN: [&str; 3] = [UNKNOWN_OUTCOME, "timeout", "cancelled"];

impl RunState {
    /// Whom to ask for the next answer to the agent whose turn it is; `None` where nobody is left who has not given up under this driver.
    pub fn route(&self) -> Option<RouteId> {
        let left = |id: &RouteId| !self.given_up.contains(id);
        let Some(routing) = self.created.as_ref().and_then(|created| created.routing.as_deref()) else {
            return Some(RouteId::FIRST).filter(left);
        };
        let unresolved = self.of(self.acting()).unresolved;
        if let Some(route) = unresolved.filter(|_| routing.unresolved == Unresolved::AskAgain) {
            return Some(route).filter(left);
        }
        let begun = if self.ledger.steps == 0 { Begun::No } else { Begun::Yes };
        let order = routing.order(self.gate.rejections, self.changed_bytes, begun);
        order.into_iter().find(left)
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
