//! Which model is asked: the one that was ordered, and those that stand in for it, by rules of the contract.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Price;
use crate::event::ModelFact;

/// A model of the contract, by its place: 0 is the one that was ordered, 1 the first of [`Routing::others`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RouteId(pub u16);

impl RouteId {
    /// The model that was ordered.
    pub const FIRST: Self = Self(0);

    /// Whether it is the model that was ordered.
    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }
}

impl fmt::Display for RouteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A model that may be asked beside the one that was ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The model.
    pub model: ModelFact,
    /// Its price, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// Once the gate has failed so often, a stronger model is asked. It stays: what was hard does not become easy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Escalate {
    /// How often the gate has to fail.
    pub after: u32,
    /// Who is asked then.
    pub to: RouteId,
}

/// While the run has changed little, a cheaper model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Downshift {
    /// Little: the files that differ from the start hold fewer bytes than this, all together.
    pub below_bytes: u64,
    /// Who is asked then.
    pub to: RouteId,
}

/// With whom a run may begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// Not with a fallback: where the first answer is not to be had from whoever the rules name, the run waits.
    #[default]
    Chosen,
    /// With whoever answers.
    Anyone,
}

/// What is done about a request of which nobody knows what became: it was sent, and no answer came whole. The vendor may
/// have answered it, and charged for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unresolved {
    /// Only who was asked is asked again, under the same invocation id, until an answer comes; the run waits meanwhile.
    #[default]
    AskAgain,
    /// It is charged by estimate, and whoever is next may be asked.
    GoOn,
}

/// Whom to ask beside the model that was ordered, and when.
///
/// The rules are tried in this order: escalation, downshift, the model that was ordered. Whoever gave up answering under
/// the present driver is passed over, for the model that was ordered first and then for each fallback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// The models, from [`RouteId`] 1 on.
    pub others: Vec<Route>,
    /// Who is asked where nobody before gives an answer, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<RouteId>,
    /// With whom the run may begin.
    #[serde(default, skip_serializing_if = "is_chosen")]
    pub begin: Begin,
    /// What is done about a request of which nobody knows what became.
    #[serde(default, skip_serializing_if = "is_ask_again")]
    pub unresolved: Unresolved,
    /// When a stronger model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate: Option<Escalate>,
    /// When a cheaper model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downshift: Option<Downshift>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_chosen(begin: &Begin) -> bool {
    *begin == Begin::Chosen
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_ask_again(unresolved: &Unresolved) -> bool {
    *unresolved == Unresolved::AskAgain
}

/// Most models of a contract beside the one that was ordered.
pub const MOST_ROUTES: usize = 16;

impl Routing {
    /// It, as a run keeps it: `None` where only the model that was ordered is ever asked.
    pub fn kept(self) -> Option<Box<Self>> {
        (!self.is_none()).then(|| Box::new(self))
    }

    /// Whether only the model that was ordered is ever asked.
    pub fn is_none(&self) -> bool {
        self.others.is_empty()
    }

    /// The model in this place, if it is not the one that was ordered.
    pub fn other(&self, id: RouteId) -> Option<&Route> {
        self.others.get(usize::from(id.0.checked_sub(1)?))
    }

    /// What is wrong with it, in words, if anything is.
    pub fn check(&self) -> Result<(), String> {
        if self.others.len() > MOST_ROUTES {
            return Err(format!("it names more than {MOST_ROUTES} models beside the one that was ordered"));
        }
        let named = self.fallback.iter().copied();
        let named = named.chain(self.escalate.map(|rule| rule.to)).chain(self.downshift.map(|rule| rule.to));
        for id in named {
            if self.other(id).is_none() {
                return Err(format!("a rule asks model {id}, which the contract does not name"));
            }
        }
        Ok(())
    }

    /// Who may be asked, the best first. `failed_gates` is how often the gate has failed, `changed_bytes` what the run
    /// has changed so far, `begun` whether a model has answered yet.
    pub(crate) fn order(&self, failed_gates: u32, changed_bytes: u64, begun: Begun) -> Vec<RouteId> {
        let escalated = self.escalate.filter(|rule| failed_gates >= rule.after).map(|rule| rule.to);
        let shifted = self.downshift.filter(|rule| changed_bytes < rule.below_bytes).map(|rule| rule.to);
        let mut order: Vec<RouteId> = escalated.or(shifted).into_iter().collect();
        let mut then = |id| {
            if !order.contains(&id) {
                order.push(id);
            }
        };
        then(RouteId::FIRST);
        if begun == Begun::Yes || self.begin == Begin::Anyone {
            self.fallback.iter().copied().for_each(then);
        }
        order
    }
}

/// Whether a model has answered in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    Yes,
    No,
}
