//! Decisions that were made already. A run touches the same files again and again, and its policy never changes, so a
//! journal of thousands of acts is checked with some hundred decisions.

use std::collections::HashMap;

use crate::act::Touch;
use crate::containment::Rung;
use crate::policy::{Decision, Ordered, Policy};

/// Decisions that are remembered; all are dropped when there are more.
const MOST: usize = 1024;

/// Touches of an act, and bytes of each one's path, that are remembered: a journal from elsewhere may say anything.
const MOST_TOUCHES: usize = 8;
const LONGEST: usize = 512;

/// Who wants an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Order {
    /// A call of the model.
    Call,
    /// The contract itself.
    Contract(Ordered),
}

/// What one agent's policy decided, by what it was asked. It holds nothing that the events do not give again, so two states
/// that differ in it are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Decided {
    known: HashMap<(Vec<Touch>, Rung, Order), Decision>,
    last: Option<Decision>,
}

impl PartialEq for Decided {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Decided {}

impl Decided {
    /// What `policy` decides. It must be the same policy each time.
    pub(super) fn decide(
        &mut self,
        policy: &Policy,
        touches: &[Touch],
        rung: Rung,
        order: Order,
    ) -> &Decision {
        let decide = || match order {
            Order::Call => policy.decide(touches, rung),
            Order::Contract(what) => policy.decide_ordered(touches, rung, what),
        };
        let short = |touch: &Touch| match touch {
            Touch::Read { path } | Touch::Write { path } => path.as_str().len() <= LONGEST,
            _ => false,
        };
        if touches.len() > MOST_TOUCHES || !touches.iter().all(short) {
            return self.last.insert(decide());
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.entry((touches.to_vec(), rung, order)).or_insert_with(decide)
    }
}
