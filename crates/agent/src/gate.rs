//! The verification gate, and what the runtime says to the model.

use std::time::Duration;

use provost_core::act::{Recovery, show_argv};
use provost_core::contract::{BASE_GATE, Gate};
use provost_core::event::{Body, GateJudged, Note, NoteWhy};
use provost_core::id::ActId;
use provost_core::state::SameTree;
use provost_tools::{CommandRequest, Effect, Exec, Tool};
use serde_json::json;

use crate::door::Drift;
use crate::driver::Driver;
use crate::error::RunError;
use crate::fold;
use crate::rewind;

impl Driver<'_> {
    /// Has the gate run on the files at the start, where its tests are counted.
    pub(crate) async fn count_base(&mut self) -> Result<(), RunError> {
        self.note_drift().await?;
        self.check_base()?;
        self.run_gate(BASE_GATE)
    }

    /// The tests of the base are counted on the files at the start and on no others.
    pub(crate) fn check_base(&self) -> Result<(), RunError> {
        let Some(path) = self.recorder.state().net_changes().keys().next() else { return Ok(()) };
        Err(RunError::Workspace {
            path: self.files.root().to_owned(),
            reason: format!(
                "`{path}` changed before the verification was run on the files at the start, whose tests it counts: put it \
                 back and resume"
            ),
        })
    }

    /// Puts the gate's command before the policy, like any act.
    pub(crate) fn run_gate(&mut self, tool: &str) -> Result<(), RunError> {
        let args = json!({ "argv": self.gate()?.argv });
        // The command of the gate is a command like any other: the tool that makes those makes this one.
        let touches = self
            .in_context(&[], |ctx| Exec::default().touches(&args, ctx))
            .map_err(|bad| RunError::Contract(format!("the verification command cannot be run: {bad}")))?;
        let act = self.put_before_policy(None, tool, &args, touches, Recovery::Supervised)?;
        self.refuse_if_denied(act)
    }

    fn gate(&self) -> Result<Gate, RunError> {
        let gate = self.recorder.state().created().and_then(|created| created.gate.clone());
        gate.ok_or_else(|| RunError::Internal("the contract has no gate".to_owned()))
    }

    pub(crate) async fn perform_gate(&mut self, act: ActId) -> Result<(), RunError> {
        let gate = self.gate()?;
        if self.recorder.state().open_acts().get(&act).is_some_and(|open| open.tool == BASE_GATE) {
            self.note_drift().await?;
            self.check_base()?;
        }
        let args = json!({ "argv": gate.argv });
        match self.in_context(&[], |ctx| Exec::default().prepare(&args, ctx)) {
            Ok(Effect::Command(request)) => {
                let limit = Duration::from_millis(gate.limit_ms);
                self.run_gate_command(act, CommandRequest { limit, ..request }, &gate.with).await
            }
            Ok(_) => Err(RunError::Internal("the gate is not a command".to_owned())),
            Err(failure) => self.fail(act, &failure.to_string()),
        }
    }

    /// Judges the gate's command. It passes when it exits with 0 and leaves the tree as it was.
    pub(crate) async fn judge_gate(&mut self, act: ActId) -> Result<(), RunError> {
        let (said, tree_then) = self
            .recorder
            .state()
            .gate_run()
            .ok_or_else(|| RunError::Internal("the gate did not run".to_owned()))?;
        // The gate's command ran in a checkout of exactly what the journal expects of the workspace. If nothing changed
        // and nothing drifted since, the tree now is the tree that it judged.
        let drifted = self.note_drift().await?;
        let tree = self.files.tree()?;
        let same = tree_then == SameTree::Yes && drifted == Drift::None && self.files.is_whole();
        let verdict = if same { said } else { said.on_another_tree() };
        self.recorder.record(Body::GateJudged(GateJudged { act, tree, verdict }))
    }

    /// Says something to the model.
    pub(crate) async fn note(&mut self, why: NoteWhy) -> Result<(), RunError> {
        let text = match why {
            NoteWhy::CutOff => {
                "Your answer was cut off by its length limit. Go on, in smaller pieces.".to_owned()
            }
            NoteWhy::Empty => {
                "Your answer held nothing. Call a tool, or call `submit` if the work is done.".to_owned()
            }
            NoteWhy::Repeating => {
                "You made the same failing call several times. It will fail again: read what it \
                                   says and do something else."
                    .to_owned()
            }
            NoteWhy::GateFailed => self.gate_report().await?,
            NoteWhy::WrongAnswer => self.told_wrong().await?,
            NoteWhy::ProcessEnded => self.told_of_ends(),
            NoteWhy::ContextFull => fold::REQUEST.to_owned(),
            NoteWhy::Rewound => rewind::told(self.recorder.state()),
        };
        let text = self.recorder.content(text);
        self.recorder.record(Body::Note(Note { why, text }))
    }

    async fn told_wrong(&self) -> Result<String, RunError> {
        let wrong = self.recorder.state().submitted().and_then(|submitted| submitted.wrong);
        let wrong = wrong.ok_or_else(|| RunError::Internal("nothing is wrong with the answer".to_owned()))?;
        let words = String::from_utf8_lossy(&self.recorder.bytes(&wrong).await?).into_owned();
        Ok(format!(
            "The answer is not accepted: it does not satisfy the schema.\n{words}\n\nCall `submit` again. Its `summary` has to \
             be JSON text that satisfies the schema, with nothing around it."
        ))
    }

    async fn gate_report(&mut self) -> Result<String, RunError> {
        let argv = show_argv(&self.gate()?.argv);
        let output = match self.recorder.gate_output() {
            Some(digest) => String::from_utf8_lossy(&self.recorder.bytes(&digest).await?).into_owned(),
            None => String::new(),
        };
        let missing = self.recorder.state().gate_tests().filter(|compared| compared.fewer());
        let missing = missing.map_or_else(String::new, |compared| {
            format!(" Tests are missing: {compared}. Nobody may delete tests or switch them off.")
        });
        Ok(format!(
            "The work is not accepted: the verification `{argv}` did not pass.{missing} It ran in a fresh checkout of the \
             workspace, which has only the files that git would track: none that are ignored.\n\n{output}\n\n\
             Mend it and call `submit` again."
        ))
    }
}
