//! Files that a person had put back, and all that files have been.

use super::check::{Checked, must};
use super::{OpenAct, RunState};
use crate::act::Change;
use crate::id::{AgentId, RunId};
use std::collections::{BTreeMap, BTreeSet};

/// By whose doing a file was once what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// By acts of the run, or as it was at the start.
    Acts,
    /// Somebody else had a part in it.
    Others,
}

impl RunState {
    /// Keeps what files were and have become. `drifted` already says of each whether somebody else had a part in it.
    pub(super) fn remember(&mut self, changes: &[Change]) {
        for change in changes {
            let doing = if self.drifted.contains(&change.path) { Doing::Others } else { Doing::Acts };
            let facts = self
                .history
                .entry(change.path.clone())
                .or_insert_with(|| BTreeMap::from([(change.before.clone(), Doing::Acts)]));
            // What the run made by itself once is no less its own because somebody else made the same later.
            let held = facts.entry(change.after.clone()).or_insert(doing);
            if doing == Doing::Acts {
                *held = doing;
            }
        }
    }

    /// Files go back only to what they once were, and not under an act that may be changing them.
    pub(super) fn workspace_rewound(&mut self, changes: &[Change]) -> Checked {
        must(!changes.is_empty(), "it puts nothing back")?;
        must(
            !self.open.values().any(OpenAct::is_under_way),
            "an act has started, and what became of it is not known",
        )?;
        must(self.processes.values().all(|process| !process.is_open()), "a background command has no end")?;
        self.check_changes(changes)?;
        let mut paths = BTreeSet::new();
        for change in changes {
            must(paths.insert(&change.path), "it puts a file back twice")?;
            let was = self.history.get(&change.path).is_some_and(|facts| facts.contains_key(&change.after));
            must(was, "it puts a file back to what it never was")?;
        }
        for change in changes {
            self.files.insert(change.path.clone(), change.after.clone());
        }
        self.rewinding = true;
        // After the end it is history only: what the run came to stays as it was.
        if self.finished.is_none() {
            self.went_back(changes);
        }
        Ok(())
    }

    fn went_back(&mut self, changes: &[Change]) {
        for change in changes {
            self.merge_net(change);
            for agent in self.agents.iter_mut().filter(|agent| agent.end().is_none()) {
                agent.seen.remove(&change.path);
                agent.put_back.insert(change.path.clone());
            }
            let doing = self.history.get(&change.path).and_then(|facts| facts.get(&change.after));
            match doing {
                Some(Doing::Others) => self.drifted.insert(change.path.clone()),
                Some(Doing::Acts) | None => self.drifted.remove(&change.path),
            };
        }
        self.gate.debt = true;
        self.disturb_gate();
    }

    /// The model knows that files were put back. That it was done with the work it said of files that are no longer so.
    pub(super) fn told_of_rewind(&mut self, id: AgentId) {
        let is_final = self.final_answer(id);
        self.submitted = None;
        self.gate.verdict = None;
        let agent = self.of_mut(id);
        agent.put_back.clear();
        agent.submit_call = false;
        if is_final && let Some(step) = &mut agent.step {
            step.followed_up = true;
        }
    }

    /// Whether nothing is under way: each call is answered, no act is open but those of agents that wait for another, and nothing that the agent said it was done
    /// with waits for judgement. A fork begins at such a point.
    pub fn rests(&self) -> bool {
        self.created.is_some()
            && self.open.values().all(|act| self.is_at_work(act))
            && self.step_is_closed(self.acting())
            && self.submitted.is_none()
            && self.gate.run.is_none()
            && self.finished.is_none()
    }

    /// The run under whose name the model was asked for the answer that comes next in the journal.
    pub(super) fn asked_as(&self) -> &RunId {
        let forked = self.created.as_ref().and_then(|created| created.forked.as_ref());
        forked.and_then(|forked| forked.origin(self.next_seq)).unwrap_or(&self.stream)
    }
}
