//! Changes of commands that were gathered in a layer: what may be put into the workspace, and what came of it.

use std::collections::BTreeSet;

use super::check::{Checked, must};
use super::{OpenAct, RunState};
use crate::act::{Change, ExitFact, Intent};
use crate::containment::{Guarantee, Receipt, Strength};
use crate::event::{ActFinished, ActStaged, Unapplied, WhyUnapplied};
use crate::path::RelPath;
use crate::policy::Keep;
use crate::staged::Unclean;

impl RunState {
    /// Whether an act's changes are staged: those of commands that the model asked for, where the contract says so. The
    /// gate has a checkout of its own.
    fn stages(&self, act: &OpenAct) -> bool {
        let staged = self.created.as_ref().is_some_and(|created| created.policy.workspace.is_staged());
        staged && act.call.is_some() && matches!(act.started, Some(Intent::Command { .. }))
    }

    /// Whether of a command either all is put into the workspace or nothing: so the policy says, or the run is under an
    /// authorization.
    pub fn rolls_back(&self) -> bool {
        self.created.as_ref().is_some_and(|created| {
            let workspace = &created.policy.workspace;
            workspace.keep() == Keep::AllOrNothing || (workspace.is_staged() && created.authorized.is_some())
        })
    }

    /// Why nothing was to be kept of a command whose act ends so, where that is a matter of all or nothing.
    pub(super) fn unclean(&self, act: &OpenAct, body: &ActFinished) -> Option<Unclean> {
        let staged = act.staged.as_ref().filter(|_| self.rolls_back())?;
        Unclean::of_command(body.command.as_ref(), &staged.unapplied)
    }

    /// Whether more commands were rolled back than the run's authorization puts up with.
    pub(super) fn rolled_back_too_often(&self) -> bool {
        self.authorized().is_some_and(|authorized| self.counts.rolled_back > authorized.rollbacks)
    }

    /// A driver that cannot stage does not drive a run whose changes are to be staged.
    pub(super) fn check_staging(&self, containment: &Receipt) -> Checked {
        let wanted = self.created.as_ref().is_some_and(|created| created.policy.workspace.is_staged());
        let held = containment.guarantees.get(&Guarantee::Staged) == Some(&Strength::Enforced);
        must(held || !wanted, "the contract has changes staged, and its containment does not do that")
    }

    /// What is about to come into the workspace is what policy lets stand there.
    pub(super) fn act_staged(&mut self, body: &ActStaged) -> Checked {
        let act = self.open.get(&body.act).ok_or("no such act is open")?;
        must(self.stages(act), "it is no command whose changes are staged")?;
        must(act.staged.is_none(), "its changes were staged already")?;
        must(act.settled.is_none(), "a person said what became of it")?;
        let mut paths = BTreeSet::new();
        let named = body.changes.iter().map(|change| &change.path);
        let mut named = named.chain(body.unapplied.iter().map(|left| &left.path));
        must(named.all(|path| paths.insert(path)), "it names a path twice")?;
        let conflict = body.unapplied.iter().any(|left| left.why == WhyUnapplied::Conflict);
        must(!conflict || body.changes.is_empty(), "it is in conflict, and a part of it is to be applied")?;
        let nothing = body.changes.is_empty() && body.beside == 0;
        let rolls_back = self.rolls_back();
        must(
            nothing || !rolls_back || Unclean::made(&body.unapplied).is_none(),
            "it made what cannot stand, and a part of it is to be applied",
        )?;
        let back = body.unapplied.iter().any(|left| left.why == WhyUnapplied::RolledBack);
        must(
            !back || (rolls_back && nothing),
            "it is rolled back, and nobody orders that, or not all of it is",
        )?;
        if let Some(policy) = self.policy_of(act.agent) {
            must(
                !body.changes.iter().any(|change| policy.guards_writing(&change.path)),
                "it is to change a file that the policy guards",
            )?;
        }
        self.check_changes(&body.changes)?;
        if let Some(act) = self.open.get_mut(&body.act) {
            act.staged = Some(Box::new(body.clone()));
        }
        Ok(())
    }

    /// What came of a command's changes is told whole: each of them is in the workspace, or it is said why not.
    pub(super) fn check_staged_end(&self, act: &OpenAct, body: &ActFinished) -> Checked {
        let Some(staged) = &act.staged else {
            must(body.unapplied.is_empty(), "it left changes out, and none were staged")?;
            if !self.stages(act) {
                return Ok(());
            }
            must(body.changes.is_empty(), "it changed files, and they were not staged")?;
            must(body.reverted.is_empty(), "it undid changes, and none were staged")?;
            let ended = body.command.as_ref().map(|command| command.exit);
            return must(
                matches!(ended, None | Some(ExitFact::DriverLost)),
                "its command ended, and what that changed was not staged",
            );
        };
        let unclean = self.unclean(act, body);
        must(
            unclean.is_none() || (staged.changes.is_empty() && staged.beside == 0),
            "it was to be rolled back, and a part of it is applied",
        )?;
        let back = staged.unapplied.iter().any(|left| left.why == WhyUnapplied::RolledBack);
        must(
            unclean.is_some() || body.command.is_none() || !back,
            "it was rolled back, and did nothing wrong",
        )?;
        let applied: BTreeSet<&RelPath> = body.changes.iter().map(|change| &change.path).collect();
        must(applied.len() == body.changes.len(), "it changed a file twice")?;
        must(
            body.changes.iter().all(|change| staged.changes.contains(change)),
            "it changed what was not staged",
        )?;
        let left: BTreeSet<&RelPath> = body.unapplied.iter().map(|left| &left.path).collect();
        must(left.len() == body.unapplied.len(), "it leaves a path out twice")?;
        must(left.is_disjoint(&applied), "it left out what it changed")?;
        let is_said =
            |path: &RelPath| applied.contains(path) || left.contains(path) || is_undone(&body.reverted, path);
        must(
            staged.changes.iter().all(|change| is_said(&change.path)),
            "it does not say what became of a change that was staged",
        )?;
        must(
            staged.unapplied.iter().all(|before| body.unapplied.contains(before)),
            "it does not say what was left out",
        )?;
        let known = |left: &Unapplied| {
            staged.unapplied.contains(left) || staged.changes.iter().any(|change| change.path == left.path)
        };
        must(body.unapplied.iter().all(known), "it leaves out what was not staged")
    }
}

/// Whether a path, or a folder that it is in, is among those that were taken away again.
fn is_undone(reverted: &[RelPath], path: &RelPath) -> bool {
    path.ancestors().any(|above| reverted.iter().any(|reverted| reverted.as_str() == above))
}

impl ActStaged {
    /// Its changes without those that were left out or taken away again.
    pub fn applied(&self, unapplied: &[Unapplied], reverted: &[RelPath]) -> Vec<Change> {
        let left = |path: &RelPath| unapplied.iter().any(|left| left.path == *path);
        let stands = |change: &&Change| !left(&change.path) && !is_undone(reverted, &change.path);
        self.changes.iter().filter(stands).cloned().collect()
    }
}
