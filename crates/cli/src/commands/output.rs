//! What a command that drives a run prints of it: lines for people, or objects for programs.

use std::sync::Arc;

use provost::agent::{Ending, Observer};
use provost::core::event::{Body, Event, GateVerdict};
use provost::core::id::RunId;
use provost::core::outcome::Pause;
use provost::core::state::RunState;
use provost::journal::Store;
use serde_json::{Value, json};

use super::export::{Made, Wanted};
use super::held;
use super::setup::Place;
use crate::failure::Failure;
use crate::render::{
    Changed, Console, JsonLines, Preview, cost, counted, duration, ending_line, tokens, words,
};

/// Changed files that are named.
const MOST_NAMES: usize = 10;
/// Lines of a failed gate's output that are shown.
const GATE_LINES: usize = 15;

/// Lines for people, or for programs.
pub(crate) enum Output {
    People(Arc<Console>),
    Programs,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        if json { Self::Programs } else { Self::People(Arc::new(Console::new())) }
    }

    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        match self {
            Self::People(console) => console.clone(),
            Self::Programs => Arc::new(JsonLines),
        }
    }

    /// Makes the bundle that is wanted, says how the run ended, and gives the exit code: the run's own, and where that
    /// is 0 the bundle's.
    pub(crate) async fn ended(
        &self,
        place: &Place,
        run: &RunId,
        ending: &Ending,
        wanted: Option<Wanted>,
    ) -> Result<u8, Failure> {
        let made = match wanted {
            Some(wanted) => wanted.make(place, run, ending).await,
            None => Made::Nothing,
        };
        let events = place.store.events(run, 0).await?;
        let state = RunState::fold(run.clone(), &events).map_err(Failure::internal)?;
        let code = match &made {
            Made::Failed(failure) if ending.exit_code() == 0 => failure.code(),
            _ => ending.exit_code(),
        };
        match self {
            Self::Programs => {
                let mut outcome = outcome(run, ending, &state);
                outcome["exit_code"] = json!(code);
                if let Some(answer) = answer(place, run, &state).await? {
                    outcome["answer"] = answer;
                }
                match &made {
                    Made::Nothing | Made::NotYet(_) => {}
                    Made::Bundle(exported) => outcome["bundle"] = json!(exported.dir),
                    Made::Failed(failure) => outcome["no_bundle"] = json!(failure.message()),
                }
                JsonLines::say(&outcome);
            }
            Self::People(console) => {
                for line in account(place, run, ending, &events, &state).await? {
                    console.line(&line);
                }
                match &made {
                    Made::Nothing | Made::Failed(_) => {}
                    Made::NotYet(dir) => console.line(&format!(
                        "no bundle yet: the run is not over. Give `--export {}` to `resume`",
                        dir.display()
                    )),
                    Made::Bundle(exported) => console.line(&format!(
                        "evidence in `{}`, signed by key {}",
                        exported.dir.display(),
                        exported.key_id
                    )),
                }
            }
        }
        if let Made::Failed(failure) = made {
            failure.print();
        }
        Ok(code)
    }
}

fn is_replayed(state: &RunState) -> bool {
    state.created().is_some_and(|created| created.model.replayed)
}

/// The last object for programs.
fn outcome(run: &RunId, ending: &Ending, state: &RunState) -> Value {
    let ledger = state.ledger();
    json!({
        "kind": "outcome",
        "run": run.as_str(),
        "outcome": ending.word(),
        "exit_code": ending.exit_code(),
        "verified": matches!(ending, Ending::Over(finished) if finished.verified),
        "waiting_act": match ending {
            Ending::Paused(detached) => detached.act.map(|act| act.0),
            Ending::Over(_) => None,
        },
        "steps": ledger.steps,
        "tokens": ledger.usage.total(),
        "cost_micros": if is_replayed(state) { Some(0) } else { ledger.cost() },
    })
}

/// The answer of a run that ended with one after its schema.
pub(super) async fn answer(place: &Place, run: &RunId, state: &RunState) -> Result<Option<Value>, Failure> {
    let asked = state.created().and_then(|created| created.brief.as_ref()?.schema);
    let submitted = state.submitted().filter(|submitted| submitted.wrong.is_none());
    let (Some(_), Some(submitted)) = (asked, submitted) else { return Ok(None) };
    let text = held::text(place, run, submitted.summary).await?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// What a person is told when a driver leaves a run: what changed, what it cost, what failed, what to do next.
async fn account(
    place: &Place,
    run: &RunId,
    ending: &Ending,
    events: &[Event],
    state: &RunState,
) -> Result<Vec<String>, Failure> {
    let named = place.named(run);
    let ledger = state.ledger();
    let mut out = Changed::lines(&held::changed(place, run, state).await?, MOST_NAMES);
    if matches!(ending, Ending::Over(_)) {
        out.extend(failed_gate(place, run, events, state).await?);
    }
    out.push(format!(
        "{}, {}, {}, {}",
        counted(ledger.steps, "step"),
        tokens(ledger),
        if is_replayed(state) {
            format!("{} (replayed: nobody was asked)", words::dollars(0))
        } else {
            cost(ledger)
        },
        duration(ledger.time_ms)
    ));
    out.push(format!("to look closer: `provost log {named}`"));
    if let Ending::Paused(detached) = ending
        && let Some((id, act)) = detached.act.and_then(|id| state.open_acts().get_key_value(&id))
    {
        out.push(match detached.why {
            Pause::Indeterminate => format!("act {id} was to:"),
            _ => format!("act {id} would:"),
        });
        out.extend(held::asker(place, run, state, act.agent).await?.as_ref().map(words::asker_line));
        let args = held::text(place, run, act.args).await?.unwrap_or_default();
        if let Some(created) = state.created() {
            let preview = Preview::new(&created.root, created.limits);
            out.extend(preview.lines(&act.tool, &args, &act.touches));
        }
        out.push(format!("  ({})", words::clipped(&act.decision.to_string(), usize::MAX, false)));
        out.push(format!("  `provost log {named} --act {id}` shows its arguments whole"));
    }
    out.push(ending_line(&named, ending, state));
    Ok(out)
}

/// The end of what the gate printed, where it did not pass.
pub(crate) async fn failed_gate(
    place: &Place,
    run: &RunId,
    events: &[Event],
    state: &RunState,
) -> Result<Vec<String>, Failure> {
    let Some(judged) = state.last_gate().filter(|judged| judged.verdict != GateVerdict::Passed) else {
        return Ok(Vec::new());
    };
    let finished = events.iter().find_map(|event| match &event.body {
        Body::ActFinished(finished) if finished.act == judged.act => Some(finished),
        _ => None,
    });
    // A gate that never ran was refused, and the refusal stands above.
    let Some((finished, command)) = finished.and_then(|act| Some((act, act.command.as_ref()?))) else {
        return Ok(Vec::new());
    };
    let output = held::text(place, run, finished.result).await?.unwrap_or_default();
    // Two lines come before the output: the command and its exit.
    let lines: Vec<&str> = output.lines().skip(2).collect();
    let last = &lines[lines.len().saturating_sub(GATE_LINES)..];
    let which =
        if last.len() < lines.len() { format!("the last {GATE_LINES} lines of ") } else { String::new() };
    let mut out = vec![format!("gate: {}; {which}what it printed:", words::exit(command.exit))];
    out.extend(words::behind("  |  ", &last.join("\n")));
    out.push(
        "it ran in a fresh checkout, which has no ignored files; `--verify-with PATH` copies one in"
            .to_owned(),
    );
    Ok(out)
}
