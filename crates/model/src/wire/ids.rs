//! Call ids that are unique within an answer, whatever the server sent.

use std::collections::HashSet;

/// Gives out ids for the calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Ids {
    turn: u64,
    used: HashSet<String>,
}

impl Ids {
    /// For the answer number `turn` of the dialogue.
    pub(super) fn new(turn: u64) -> Self {
        Self { turn, used: HashSet::new() }
    }

    /// `wanted` if it is free, else an id made from the turn and the call's place.
    pub(super) fn take(&mut self, wanted: &str) -> String {
        let place = self.used.len();
        let mut id = match wanted {
            "" => format!("call_{}_{place}", self.turn),
            wanted => wanted.to_owned(),
        };
        while !self.used.insert(id.clone()) {
            id.push('_');
            id.push_str(&place.to_string());
        }
        id
    }
}
