//! Calls of somebody else's tools: the intent, the server's word, the result.

use std::time::{Duration, Instant};

use provost_core::act::{ActEnd, Intent, Recovery};
use provost_core::event::Settlement;
use provost_core::id::ActId;
use provost_core::outcome::Pause;
use provost_core::state::OpenAct;
use provost_tools::mcp::{Cut, Reply, Unanswered};
use serde_json::{Map, Value};

use super::network::serve_dial;
use super::{ActResult, millis};
use crate::driver::Driver;
use crate::error::RunError;

/// How long a server may take to give up a call that nobody waits for any more.
const GIVES_UP: Duration = Duration::from_millis(500);

/// A call that may be made.
pub(super) struct Wanted {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) args: Map<String, Value>,
}

impl Driver<'_> {
    /// Calls a tool of a server that runs. Where the server is gone the state has it started again first.
    pub(super) async fn call_tool(
        &mut self,
        act: ActId,
        wanted: Wanted,
        begun: Instant,
    ) -> Result<(), RunError> {
        let Wanted { server, tool, args } = wanted;
        let state = self.recorder.state();
        let Some(process) = state.running_server(&server) else {
            let why = self.servers.failed.get(&server).map_or("it did not come up", String::as_str);
            let text = format!("The server `{server}` does not run: {why}. Nothing was called.");
            return self.fail(act, &text);
        };
        if state.changed_tools(&server).any(|changed| changed == tool) {
            let text = format!(
                "The tool `{tool}` of the server `{server}` is not what it was when this run began, and nobody has accepted \
                 that. Nothing was called; do without it."
            );
            return self.fail(act, &text);
        }
        let limit =
            state.server(&server).map_or(Duration::ZERO, |server| Duration::from_millis(server.timeout_ms));
        if self.background.get(&process).is_none_or(|live| live.command.has_ended()) {
            return self.end_process(process).await;
        }
        let Some(connection) = self.servers.connections.get(&server).cloned() else {
            return Err(RunError::Internal(format!("nobody speaks with the server `{server}`")));
        };
        // What changed until now is not this call's doing.
        self.note_drift().await?;
        self.start(act, Intent::Call { server: server.clone(), tool: tool.clone() }).await?;
        let limit = self.time_left().map_or(limit, |left| limit.min(left));
        let interrupt = self.interrupt.clone();
        let cut = Box::pin(async move {
            tokio::select! {
                () = tokio::time::sleep(limit) => Cut::TimedOut,
                () = interrupt.requested() => Cut::Interrupted,
            }
        });
        let answer = {
            let answers = connection.call(&tool, &args, cut);
            tokio::pin!(answers);
            loop {
                tokio::select! {
                    biased;
                    Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
                    answer = &mut answers => break answer,
                }
            }
        };
        let late = matches!(answer, Err(Unanswered::Cut(Cut::TimedOut)));
        let goes_on = late || matches!(answer, Err(Unanswered::Broken(_)));
        if late {
            // It was told that nobody waits any more.
            tokio::time::sleep(GIVES_UP).await;
        }
        // What the server changed meanwhile is on record before its word is.
        self.note_drift().await?;
        let mut result = self.answer_of(&server, answer);
        result.duration_ms = millis(begun);
        self.end(act, result)?;
        if goes_on {
            // It may hang, and what it still does would be taken for somebody else's. The next call starts it again.
            self.end_process(process).await?;
        }
        Ok(())
    }

    fn answer_of(&self, server: &str, answer: Result<Reply, Unanswered>) -> ActResult {
        let doubt = "Whether it did what it was asked for is not known.";
        match answer {
            Ok(Reply { text, is_error }) => {
                let end = if is_error { ActEnd::Failed } else { ActEnd::Done };
                ActResult::of(end, bounded(&text, self.limits.output_bytes as usize))
            }
            Err(unanswered) => {
                let (end, doubt) = match &unanswered {
                    Unanswered::Refused(_) => (ActEnd::Failed, ""),
                    Unanswered::Broken(_) => (ActEnd::Failed, doubt),
                    Unanswered::Cut(Cut::TimedOut) => (ActEnd::TimedOut, doubt),
                    Unanswered::Cut(Cut::Interrupted) => (ActEnd::Interrupted, doubt),
                };
                ActResult::of(
                    end,
                    format!("The server `{server}` was called; {unanswered}. {doubt}").trim_end(),
                )
            }
        }
    }

    /// Settles a call whose driver died. What happened at the server nobody here can see.
    pub(super) async fn recover_call(&mut self, act: ActId, open: &OpenAct) -> Result<(), RunError> {
        let lost = "The driver was lost while this call was under way";
        let text = match open.settled {
            Some(Settlement::Happened) => {
                format!("{lost}. A person looked, and says that it happened; what the server said is lost.")
            }
            Some(_) => format!("{lost}. A person looked, and says that it did not happen."),
            None if open.recovery == Recovery::Replayable => {
                format!("{lost}. The tool only reads: call it again where its answer is needed.")
            }
            None if self.recorder.state().cancelled().is_some() => {
                format!("{lost}, and the run was cancelled before anybody said what became of it.")
            }
            None => return self.detach(Pause::Indeterminate, Some(act)).await,
        };
        self.end(act, ActResult::of(ActEnd::Interrupted, text))
    }
}

/// Words with their middle left out where they are too many.
fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}
