//! What must hold of an event, where it takes more than a line to say.

use std::collections::BTreeMap;

use super::agent::may_end_by_budget;
use super::{Next, OpenAct, RunState};
use crate::act::{ActEnd, Change, CommandFact, ExitFact, FileFact, Intent, Touch};
use crate::budget::Bound;
use crate::containment::{Guarantee, Receipt, Rung};
use crate::event::{ActFinished, GateJudged, GateVerdict, RunFinished, Verdict};
use crate::id::AgentId;
use crate::outcome::Outcome;
use crate::path::RelPath;
use crate::policy::Effect;

pub(super) type Checked = Result<(), String>;

pub(super) fn must(holds: bool, why: &str) -> Checked {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

/// File modes of git that a workspace's files can have.
const MODES: [&str; 3] = ["100644", "100755", "120000"];

impl RunState {
    /// A command runs within the contract's time, and the gate where the contract means it to.
    pub(super) fn check_limits(&self, act: &OpenAct, intent: &Intent) -> Checked {
        let (Some(created), Intent::Command { cwd, limit_ms, .. }) = (&self.created, intent) else {
            return Ok(());
        };
        match &created.gate {
            Some(gate) if act.call.is_none() => {
                must(*limit_ms <= gate.limit_ms, "it gives the gate more time than the contract")?;
                must(cwd.is_root(), "the gate runs at the workspace's root")
            }
            _ => {
                must(*limit_ms <= created.limits.command_ms, "it gives a command more time than the contract")
            }
        }
    }

    /// What contains commands is what the contract takes.
    pub(super) fn check_containment(&self, receipt: &Receipt) -> Checked {
        self.created.as_ref().map_or(Ok(()), |created| created.policy.takes(receipt).map_err(str::to_owned))
    }

    /// What the policy requires is enforced.
    pub(super) fn check_required(&self, receipt: &Receipt, exempt: &[Guarantee]) -> Checked {
        let lacks = self.created.as_ref().is_some_and(|created| created.policy.lacks(receipt, exempt));
        must(!lacks, "its containment does not enforce what the policy requires")
    }

    /// Nothing recorded as changed lies where the policy denies writing: what a command changed there was undone.
    pub(super) fn check_no_denied_change(&self, agent: AgentId, changes: &[Change]) -> Checked {
        let Some(policy) = self.policy_of(agent) else {
            return Ok(());
        };
        for change in changes {
            let touch = [Touch::Write { path: change.path.clone() }];
            must(
                policy.decide(&touch, self.rung).effect != Effect::Deny,
                "it changed a file that the policy protects",
            )?;
        }
        Ok(())
    }

    /// A cap that was reached is one that the contract sets, and was reached.
    pub(super) fn check_caps(&self, command: Option<&CommandFact>) -> Checked {
        let (Some(created), Some(command)) = (&self.created, command) else {
            return Ok(());
        };
        let killed = match command.exit {
            ExitFact::Capped { hit } => Some(hit),
            _ => None,
        };
        for hit in command.caps.iter().chain(&killed) {
            must(
                created.policy.caps.limit(hit.cap) == Some(hit.limit),
                "it says that a command reached a cap which the contract does not set",
            )?;
            must(hit.reached >= hit.limit, "it says that a command reached a cap, and how it did not")?;
        }
        Ok(())
    }

    /// Each change is one, of a file that git can hold, and begins where the one before it ended.
    pub(super) fn check_changes(&self, changes: &[Change]) -> Checked {
        let mut now: BTreeMap<&RelPath, Option<&FileFact>> = BTreeMap::new();
        for change in changes {
            must(change.before != change.after, "it records a change that changes nothing")?;
            must(!change.path.is_root(), "it records a change of the workspace itself")?;
            let facts = [&change.before, &change.after];
            must(
                facts.into_iter().flatten().all(|fact| MODES.contains(&fact.mode.as_str())),
                "it records a file with a mode that git does not have",
            )?;
            let known =
                now.get(&change.path).copied().or_else(|| self.files.get(&change.path).map(Option::as_ref));
            must(
                known.is_none_or(|known| known == change.before.as_ref()),
                "it begins with content that the file did not have",
            )?;
            now.insert(&change.path, change.after.as_ref());
        }
        Ok(())
    }

    /// A verdict is the one that the gate's run gives. Were it the driver's to choose, a gate that fails now and then
    /// could be run until it passes.
    pub(super) fn check_verdict(&self, body: &GateJudged) -> Checked {
        let Some(run) = &self.gate.run else {
            return Err("the gate did not run".to_owned());
        };
        must(run.act == body.act, "it judges another act")?;
        let said = GateVerdict::of(run.command.as_ref().map(|command| command.exit));
        let given = if run.changed { said.on_another_tree() } else { said };
        match (body.verdict == given, given) {
            (true, _) => Ok(()),
            (false, GateVerdict::Passed) => Err("the gate passed".to_owned()),
            (false, GateVerdict::Failed) => Err("the gate's command ran and did not exit with 0".to_owned()),
            (false, GateVerdict::Errored) => {
                Err("the gate says nothing: it could not be run, or the tree changed under it".to_owned())
            }
        }
    }

    /// A run ends as its events have it end, and not before. Only a person ends it at any time, by cancelling it.
    pub(super) fn check_outcome(&self, body: &RunFinished) -> Checked {
        match (body.outcome, self.next()) {
            (Outcome::BudgetSpent { bound }, due) if may_end_by_budget(&due) => self.check_bound(bound),
            (outcome, Next::Finish(due)) if outcome == due => {
                let gated = self.created.as_ref().is_some_and(|created| created.gate.is_some());
                must(outcome != Outcome::Done || !gated || body.verified, "the gate did not pass")
            }
            (outcome, _) => Err(format!("the run does not stand so that it ends: {outcome}")),
        }
    }

    /// A bound of the budget can be reached: there is one, and of steps it is known.
    pub(super) fn check_bound(&self, bound: Bound) -> Checked {
        let budget = &self.ledger.budget;
        let reached = match bound {
            Bound::Steps => budget.steps.is_some_and(|limit| self.ledger.steps >= limit),
            Bound::Tokens => budget.tokens.is_some(),
            Bound::Cost => budget.cost_micros.is_some(),
            Bound::Time => budget.time_ms.is_some(),
        };
        must(reached, "that bound is not reached")
    }
}

impl OpenAct {
    /// Whether policy, or a person where policy asks, lets it start.
    pub fn may_start(&self) -> bool {
        match self.decision.effect {
            Effect::Allow => true,
            Effect::Ask => self.verdict == Some(Verdict::Approved),
            Effect::Deny => false,
        }
    }

    /// Whether it started and may be changing something by itself. One that started an agent does not: what that does are
    /// acts of its own.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.started, None | Some(Intent::Spawn(_)))
    }

    /// Whether policy or a person refused it.
    pub fn is_refused(&self) -> bool {
        self.decision.effect == Effect::Deny
            || (self.decision.effect == Effect::Ask && self.verdict == Some(Verdict::Denied))
    }

    /// Whether policy asks about it and nobody has answered.
    pub(super) fn waits(&self) -> bool {
        self.decision.effect == Effect::Ask && self.verdict.is_none()
    }

    /// Whether it can have ended so: only what was allowed was tried, only what started had effects, and the effects
    /// are those that it set out to have. `attached` is the rung of the driver that is attached.
    pub(super) fn check_end(&self, body: &ActFinished, attached: Rung) -> Checked {
        must(
            (body.end == ActEnd::Refused) == self.is_refused(),
            "an act ends refused exactly when it was refused",
        )?;
        if !self.may_start() {
            must(
                matches!(body.end, ActEnd::Refused | ActEnd::Interrupted),
                "it was tried, and neither the policy nor a person allows it",
            )?;
            must(body.seen.is_empty(), "it showed a file, and neither the policy nor a person allows it")?;
        }
        must(
            self.settled.is_none() || (body.end == ActEnd::Interrupted && body.command.is_none()),
            "a person said what became of it, and it ends otherwise",
        )?;
        let Some(intent) = &self.started else {
            must(body.changes.is_empty(), "it changed files without having started")?;
            must(body.reverted.is_empty(), "it undid changes without having started")?;
            must(body.command.is_none(), "it ran a command without having started")?;
            let has_effects = self.touches.iter().any(|touch| !matches!(touch, Touch::Read { .. }));
            return must(!has_effects || body.end != ActEnd::Done, "it has effects and never started");
        };
        match (intent, &body.command) {
            (Intent::Write { .. }, None) => {
                must(
                    body.end != ActEnd::Done || body.changes.is_empty(),
                    "it says again what it set out to change",
                )?;
                // One that failed may have left any of its files half written, and no other.
                must(
                    body.changes.iter().all(|change| self.writes(&change.path)),
                    "it changed what was not put before the policy",
                )
            }
            (Intent::Write { .. }, Some(_)) => Err("it ran a command and set out to write".to_owned()),
            (Intent::Background { .. }, Some(_)) => {
                Err("it was to go on in the background, and it ends with its act".to_owned())
            }
            (Intent::Background { .. }, None) => must(
                body.end == ActEnd::Done || (body.changes.is_empty() && body.reverted.is_empty()),
                "it changed files and its command never ran",
            ),
            (Intent::Call { .. }, command) => must(
                command.is_none() && body.changes.is_empty() && body.reverted.is_empty(),
                "it called a tool, and says of itself what only a command does",
            ),
            (Intent::Spawn(_), Some(_)) => Err("it ran a command and set out to start an agent".to_owned()),
            (Intent::Spawn(_), None) => must(
                body.changes.is_empty() && body.reverted.is_empty() && body.seen.is_empty(),
                "it changed or showed files: that is its agent's doing",
            ),
            (Intent::Command { .. }, None) => {
                must(body.end != ActEnd::Done, "it ran a command and does not say how that ended")
            }
            (Intent::Command { .. }, Some(command)) => {
                must(body.end == command.exit.end(), "it did not end as its command did")?;
                must(
                    command.exit != ExitFact::NotStarted,
                    "it gives the numbers of a command that never ran",
                )?;
                must(
                    command.containment.as_ref().map_or(attached, |receipt| receipt.rung) >= self.rung,
                    "its command was contained less than the driver said when it started",
                )
            }
        }
    }

    /// Whether writing `path` was put before the policy.
    fn writes(&self, path: &RelPath) -> bool {
        self.touches.iter().any(|touch| matches!(touch, Touch::Write { path: put } if put == path))
    }

    /// Whether all that `intent` does was among the touches that policy decided on.
    pub(super) fn covers(&self, intent: &Intent) -> bool {
        // A command's first touch is the command itself; what it starts and opens stands behind it.
        let command = match self.touches.first() {
            Some(Touch::Exec { argv, .. } | Touch::Shell { argv, .. }) => Some(argv),
            _ => None,
        };
        match intent {
            Intent::Write { changes } => {
                // Nothing to change is no way for another kind of act to start.
                command.is_none()
                    && self.touches.iter().any(|touch| matches!(touch, Touch::Write { .. }))
                    && changes.iter().all(|change| self.writes(&change.path))
            }
            Intent::Command { argv, .. } | Intent::Background { argv, .. } => command == Some(argv),
            Intent::Call { server, tool } => self.calls(server, tool),
            Intent::Spawn(spawn) => {
                matches!(&self.touches[..], [Touch::Spawn { agent }] if *agent == spawn.name)
            }
        }
    }
}
