//! A run as lines for a person, as it happens.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use provost::agent::{Observer, Words};
use provost::core::act::{ActEnd, Change, ExitFact, Touch, show_argv};
use provost::core::changes::Changes;
use provost::core::digest::Digest;
use provost::core::event::{ActDecided, ActFinished, Body, Event, GateVerdict, Settlement, Verdict};
use provost::core::id::ActId;
use provost::core::text::{Lines, visible};

use super::report::{duration, receipt_lines};

/// Prints lines to standard output; on a terminal also what is under way.
#[derive(Debug)]
pub(crate) struct Console {
    live: Live,
    acts: Mutex<BTreeMap<ActId, ActDecided>>,
    changes: Mutex<Changes>,
    /// The tree that a run on this workspace begins with if nothing in it is uncommitted.
    committed: Mutex<Option<String>>,
}

/// Whether a line may be drawn over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Live {
    /// A terminal: what is under way is shown and drawn over.
    Terminal,
    /// A file or a pipe: finished lines only.
    Plain,
}

impl Console {
    pub(crate) fn new() -> Self {
        let live = if crate::world::World::stdout_is_terminal() { Live::Terminal } else { Live::Plain };
        Self { live, acts: Mutex::default(), changes: Mutex::default(), committed: Mutex::default() }
    }

    /// Warns when the run begins with another tree than this.
    pub(crate) fn expect_tree(&self, tree: Option<String>) {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner) = tree;
    }

    /// Remembers acts that were decided before this process began, so that their ends can be told.
    pub(crate) fn recall(&self, events: &[Event]) {
        let mut acts = self.acts();
        for event in events {
            let _ = self.changes_by(event);
            match &event.body {
                Body::ActDecided(decided) => {
                    acts.insert(decided.act, decided.clone());
                }
                Body::ActFinished(finished) => {
                    acts.remove(&finished.act);
                }
                _ => {}
            }
        }
    }

    /// Prints a whole line.
    pub(crate) fn line(&self, text: &str) {
        let clear = if self.live == Live::Terminal { "\r\x1b[2K" } else { "" };
        super::put(&format!("{clear}{text}\n"));
    }

    fn under_way(&self, text: &str) {
        if self.live == Live::Terminal {
            super::put(&format!("\r\x1b[2K{text}"));
        }
    }

    /// Prints what an event says, with the words it names.
    pub(crate) fn show(&self, event: &Event, words: &dyn Words) {
        let changes = self.changes_by(event);
        match &event.body {
            Body::RunCreated(created) => {
                self.line(&format!("run {} on `{}`", event.stream, visible(&created.root, Lines::Escape)));
                self.line(&format!(
                    "  model {} ({}, {})",
                    created.model.name, created.model.wire, created.model.endpoint
                ));
                if let Some(policy) = created.policy.layers.first() {
                    self.line(&format!("  policy {}", policy.name));
                }
                if let Some(commit) = created.source.commit() {
                    self.line(&format!(
                        "  commit {commit}, scope `{}`, tree {}",
                        created.source.scope(),
                        created.tree
                    ));
                }
                let committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
                if committed.as_ref().is_some_and(|tree| *tree != created.tree.sha1) {
                    self.line("  note: not all of the workspace is committed: the evidence cannot be held against the commit");
                }
            }
            Body::DriverAttached(attached) => {
                if attached.generation > 1 {
                    self.line(&format!(
                        "  taken up again by process {} (driver {})",
                        attached.pid, attached.generation
                    ));
                }
                for (index, line) in receipt_lines(&attached.containment).iter().enumerate() {
                    self.line(&format!("  {}{line}", if index == 0 { "contained by " } else { "  " }));
                }
            }
            Body::DriverDetached(_) | Body::RunFinished(_) => {}
            Body::ModelAnswered(answered) => {
                let text = text_of(&answered.answer, words);
                if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
                    for line in visible(text.trim(), Lines::Keep).lines() {
                        self.line(&format!("     {line}"));
                    }
                }
            }
            Body::ModelFailed(failed) => {
                let status = failed.status.map_or(String::new(), |status| format!(" {status}"));
                let next = failed
                    .retry_in_ms
                    .map_or("gave up".to_owned(), |ms| format!("again in {}", duration(ms)));
                self.line(&format!(
                    "     model: {}{status}, attempt {}, {next}",
                    failed.class, failed.attempt
                ));
                if let Some(text) = words.get(&failed.message) {
                    self.line(&format!("       {}", visible(&String::from_utf8_lossy(&text), Lines::Escape)));
                }
            }
            Body::CallInvalid(invalid) => {
                let why = words.get(&invalid.result).unwrap_or_default();
                let why = visible(&String::from_utf8_lossy(&why), Lines::Escape);
                self.line(&format!("{:>3}  not an act: {why}", invalid.call.step.0 + 1));
            }
            Body::ActDecided(decided) => {
                self.acts().insert(decided.act, decided.clone());
            }
            Body::ActApproved(approved) => {
                let word = if approved.verdict == Verdict::Approved { "approved" } else { "denied" };
                self.line(&format!(
                    "     act {} {word} by {}",
                    approved.act,
                    visible(&approved.by, Lines::Escape)
                ));
            }
            Body::ActSettled(settled) => {
                let how = match settled.how {
                    Settlement::Happened => "happened",
                    Settlement::DidNot => "did not happen",
                    Settlement::Again => "is to be done again",
                };
                self.line(&format!("     act {} {how}, says a person", settled.act));
            }
            Body::ActStarted(started) => {
                let acts = self.acts();
                if let Some(decided) = acts.get(&started.act) {
                    self.under_way(&format!("{}  {} …", step_of(decided), title(decided)));
                }
            }
            Body::ActFinished(finished) => self.act_finished(finished, &changes, words),
            Body::WorkspaceDrifted(drifted) => {
                self.line(&format!("     {} files changed that no act changed", drifted.changes.len()));
            }
            Body::Note(note) => {
                if let Some(text) = words.get(&note.text) {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    let first = text.lines().next().unwrap_or_default();
                    self.line(&format!("     told the model: {}", visible(first, Lines::Escape)));
                }
            }
            Body::Submitted(submitted) => {
                let summary = words.get(&submitted.summary).unwrap_or_default();
                let summary = visible(&String::from_utf8_lossy(&summary), Lines::Keep);
                self.line(&format!("     submitted: {}", summary.trim()));
            }
            Body::GateJudged(judged) => {
                let verdict = match judged.verdict {
                    GateVerdict::Passed => "passed",
                    GateVerdict::Failed => "failed",
                    GateVerdict::Errored => "could not judge",
                };
                self.line(&format!("     gate {verdict} on tree {}", judged.tree));
            }
        }
    }

    fn act_finished(&self, finished: &ActFinished, changes: &[Change], words: &dyn Words) {
        let Some(decided) = self.acts().remove(&finished.act) else {
            return;
        };
        let mut line =
            format!("{}  {:<52} {:>8}", step_of(&decided), title(&decided), duration(finished.duration_ms));
        let end = match (&finished.command, finished.end) {
            (_, ActEnd::Refused) => "REFUSED".to_owned(),
            (Some(command), _) => match command.exit {
                ExitFact::Exited { code } => format!("exit {code}"),
                ExitFact::Signalled { signal } => format!("signal {signal}"),
                ExitFact::TimedOut { limit_ms } => format!("killed at its limit of {}", duration(limit_ms)),
                ExitFact::Cancelled => "cancelled".to_owned(),
                ExitFact::DriverLost => "killed: its driver died".to_owned(),
            },
            (None, ActEnd::Done) => "ok".to_owned(),
            (None, ActEnd::Failed) => "failed".to_owned(),
            (None, ActEnd::TimedOut) => "timed out".to_owned(),
            (None, ActEnd::Interrupted) => "interrupted".to_owned(),
        };
        line.push_str(&format!("  {end}"));
        if !changes.is_empty() {
            let paths: Vec<&str> = changes.iter().take(3).map(|change| change.path.as_str()).collect();
            let paths: Vec<String> = paths.into_iter().map(|path| visible(path, Lines::Escape)).collect();
            let more = changes.len().saturating_sub(3);
            line.push_str(&format!(", changed {}", paths.join(", ")));
            if more > 0 {
                line.push_str(&format!(" and {more} more"));
            }
        }
        self.line(&line);
        if finished.end == ActEnd::Refused {
            self.line(&format!("       {}", decided.decision));
        } else if finished.end == ActEnd::Failed && finished.command.is_none() {
            let why = words.get(&finished.result).unwrap_or_default();
            let why = String::from_utf8_lossy(&why).into_owned();
            self.line(&format!("       {}", visible(why.lines().next().unwrap_or_default(), Lines::Escape)));
        }
        for path in &finished.reverted {
            self.line(&format!("       undone: `{path}` may not be changed"));
        }
    }

    fn changes_by(&self, event: &Event) -> Vec<Change> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).by(event)
    }

    fn acts(&self) -> std::sync::MutexGuard<'_, BTreeMap<ActId, ActDecided>> {
        self.acts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn step_of(decided: &ActDecided) -> String {
    decided.call.map_or("  ·".to_owned(), |call| format!("{:>3}", call.step.0 + 1))
}

fn title(decided: &ActDecided) -> String {
    let what = decided.touches.first().map_or(String::new(), |touch| match touch {
        Touch::Exec { argv, .. } => show_argv(argv),
        Touch::Read { path } | Touch::Write { path } => visible(path.as_str(), Lines::Escape),
        other => other.to_string(),
    });
    let mut text = format!("{} {what}", decided.tool);
    if text.chars().count() > 52 {
        text = text.chars().take(51).collect::<String>() + "…";
    }
    text.trim_end().to_owned()
}

fn text_of(answer: &Digest, words: &dyn Words) -> Option<String> {
    let bytes = words.get(answer)?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    Some(value.get("text")?.as_str()?.to_owned())
}

impl Observer for Console {
    fn event(&self, event: &Event, words: &dyn Words) {
        self.show(event, words);
    }
}
