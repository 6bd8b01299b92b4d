//! Where a run was forked from.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::RunId;

/// Most forks of forks. Each is one more name to look up for an answer; nobody needs as many.
const DEEPEST: usize = 64;

/// The run that another was forked from, and how much of it that one begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forked {
    /// The run.
    pub run: RunId,
    /// How many of its events, from `run.created` on, the fork begins with. The first is the fork's own: it names another
    /// folder.
    pub events: u64,
    /// Hash, in the run's own chain, of the last of them.
    pub head: Digest,
    /// Where that run was itself forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Box<Forked>>,
}

impl Forked {
    /// This fork, then the one that its run is, and so on.
    fn line(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |forked| forked.of.as_deref())
    }

    /// The run in which the event at place `seq` of the fork's journal first happened; `None` where that is the fork
    /// itself.
    pub fn origin(&self, seq: u64) -> Option<&RunId> {
        // An event that each run of the line took from the one before it is the oldest's.
        self.line().take_while(|forked| seq < forked.events).last().map(|forked| &forked.run)
    }

    /// Whether `fork` can have come about so.
    pub(crate) fn check(&self, fork: &RunId) -> Result<(), String> {
        let refuse = |why: &str| Err(why.to_owned());
        if self.line().take(DEEPEST + 1).count() > DEEPEST {
            return refuse("it is a fork of too many forks");
        }
        let mut names = vec![fork];
        for forked in self.line() {
            if forked.events == 0 {
                return refuse("it was forked from a run without an event");
            }
            if names.contains(&&forked.run) {
                return refuse("it was forked from itself");
            }
            names.push(&forked.run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forked(run: &str, events: u64, of: Option<Forked>) -> Forked {
        let run = run.parse().unwrap_or_else(|error| panic!("{error}"));
        Forked { run, events, head: Digest::ZERO, of: of.map(Box::new) }
    }

    #[test]
    fn an_event_belongs_to_the_oldest_run_that_handed_it_down() {
        let line = forked("middle", 20, Some(forked("oldest", 10, None)));
        let origin = |seq| line.origin(seq).map(RunId::as_str);
        assert_eq!(
            (origin(9), origin(10), origin(19), origin(20)),
            (Some("oldest"), Some("middle"), Some("middle"), None)
        );
        // Forked where the one before it had not done anything of its own.
        let early = forked("middle", 5, Some(forked("oldest", 10, None)));
        let origin = |seq| early.origin(seq).map(RunId::as_str);
        assert_eq!((origin(4), origin(5)), (Some("oldest"), None));
    }

    #[test]
    fn no_run_is_forked_from_itself() {
        let name = |text: &str| text.parse::<RunId>().unwrap_or_else(|error| panic!("{error}"));
        let line = forked("middle", 20, Some(forked("oldest", 10, None)));
        assert!(line.check(&name("newest")).is_ok());
        assert!(line.check(&name("oldest")).is_err());
        assert!(forked("middle", 0, None).check(&name("newest")).is_err());
        let deep = (0..70).fold(forked("run-x", 1, None), |of, n| forked(&format!("run-{n}"), 1, Some(of)));
        assert!(deep.check(&name("newest")).is_err());
    }
}
