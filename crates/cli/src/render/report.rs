//! Pieces of text that several commands print.

use provost::agent::Ending;
use provost::core::act::Intent;
use provost::core::budget::{Bound, Ledger};
use provost::core::containment::{Guarantee, Receipt, Strength};
use provost::core::id::ActId;
use provost::core::outcome::{Outcome, Pause};
use provost::core::policy::Effect;
use provost::core::route::{Begin, RouteId, Routing};
use provost::core::state::{OpenAct, RunState, UNKNOWN_OUTCOME};
use provost::core::text::{Lines, visible};

use super::words::{counted, dollars, grouped};

/// Whom a contract lets ask beside its first model, for people.
pub(crate) fn routing_lines(routing: &Routing) -> Vec<String> {
    let name =
        |id: RouteId| routing.other(id).map_or("?".into(), |it| visible(&it.model.name, Lines::Escape));
    let mut lines = Vec::new();
    if let Some(rule) = routing.escalate {
        lines.push(format!(
            "once the gate has failed {}: {}",
            counted(u64::from(rule.after), "time"),
            name(rule.to)
        ));
    }
    if let Some(rule) = routing.downshift {
        let below = grouped(rule.below_bytes);
        lines.push(format!("while changed files hold fewer than {below} bytes: {}", name(rule.to)));
    }
    if !routing.fallback.is_empty() {
        let names: Vec<_> = routing.fallback.iter().map(|id| name(*id)).collect();
        let begin = match routing.begin {
            Begin::Chosen => ", but not for the first answer",
            Begin::Anyone => "",
        };
        lines.push(format!("where no answer comes: {}{begin}", names.join(", then ")));
    }
    lines
}

/// Tokens of a ledger for people.
pub(crate) fn tokens(ledger: &Ledger) -> String {
    let usage = &ledger.usage;
    let mut out = format!(
        "{} tokens in, {} out",
        grouped(usage.input + usage.cache_read + usage.cache_write),
        grouped(usage.output)
    );
    if ledger.estimated_calls > 0 {
        out.push_str(&format!(" ({} of the calls by estimate)", ledger.estimated_calls));
    }
    out
}

/// Cost of a ledger for people: unknown is not zero.
pub(crate) fn cost(ledger: &Ledger) -> String {
    match (ledger.cost(), ledger.cost_micros) {
        (Some(cost), _) => dollars(cost),
        (None, 0) => "cost unknown (no price given)".to_owned(),
        (None, known) => {
            let calls = counted(u64::from(ledger.unpriced_calls), "call");
            format!("{} and what {calls} of a model without a known price cost", dollars(known))
        }
    }
}

/// A receipt, guarantee by guarantee.
pub(crate) fn receipt_lines(receipt: &Receipt) -> Vec<String> {
    let landlock = receipt.landlock_abi.map_or("no Landlock".to_owned(), |abi| format!("Landlock ABI {abi}"));
    let mut lines = vec![format!("{} on kernel {}, {landlock}", receipt.contained_by(), receipt.kernel)];
    lines.extend(receipt.image.map(|image| format!("image sha256:{image}")));
    lines.extend(strength_lines(receipt));
    lines
}

/// What is enforced, what is sampled and what is absent, a line each.
pub(crate) fn strength_lines(receipt: &Receipt) -> Vec<String> {
    let mut lines = Vec::new();
    for strength in [Strength::Enforced, Strength::Sampled, Strength::Absent] {
        let names: Vec<&str> = Guarantee::ALL
            .into_iter()
            .filter(|guarantee| receipt.guarantees.get(guarantee) == Some(&strength))
            .map(Guarantee::name)
            .collect();
        if !names.is_empty() {
            let word = match strength {
                Strength::Enforced => "enforced",
                Strength::Sampled => "sampled",
                Strength::Absent => "absent",
            };
            lines.push(format!("{word}: {}", names.join(", ")));
        }
    }
    lines
}

/// What an act without an end waits for.
pub(crate) fn standing(id: ActId, act: &OpenAct, state: &RunState) -> &'static str {
    if state.indeterminate_act() == Some(id) {
        "nobody can tell whether it happened"
    } else if matches!(act.started, Some(Intent::Spawn(_))) {
        "its agent is at work"
    } else if act.started.is_some() {
        "started, not ended"
    } else if act.decision.effect == Effect::Ask && act.verdict.is_none() {
        "waits for your word"
    } else {
        "decided, not started"
    }
}

/// The last line of a run, with what to do next. `run` is the run as a command line names it: its name and, where that
/// is not the usual one, the store.
pub(crate) fn ending_line(run: &str, ending: &Ending, state: &RunState) -> String {
    let resume = going_on(run, state);
    match ending {
        Ending::Over(finished) => {
            let gated = state.created().is_some_and(|created| created.gate.is_some());
            let verified = match (finished.verified, gated) {
                (true, _) => ", verified on the tree it ends with",
                (false, true) => "",
                (false, false) => "; nothing verified it (no --verify was given)",
            };
            let short = match (finished.outcome, finished.needed) {
                (Outcome::BudgetSpent { bound }, Some(needed)) => {
                    let shown =
                        |amount: u64| if bound == Bound::Cost { dollars(amount) } else { grouped(amount) };
                    let left = shown(state.ledger().left(bound).unwrap_or_default());
                    format!(" (the next call needs {}, and {left} is left)", shown(needed))
                }
                _ => String::new(),
            };
            format!("{}{short}{verified}", finished.outcome)
        }
        Ending::Paused(detached) => match detached.why {
            Pause::Approval => {
                let act = detached.act.map_or(String::new(), |act| act.to_string());
                format!(
                    "waiting: act {act} needs your word. `provost resume {resume} --approve {act}` or `--deny {act}`"
                )
            }
            Pause::Indeterminate => {
                let act = detached.act.map_or(String::new(), |act| act.to_string());
                format!(
                    "waiting: nobody can tell whether act {act} happened. Look at the workspace (`provost show {run}`), then \
                     say so: `provost settle {resume} --act {act} --happened`, `--did-not`, or `--again`"
                )
            }
            Pause::Provider => {
                let (why, first) = match state.unanswered() {
                    Some("auth") => ("the server refused the key", "with a key that it takes, "),
                    Some("quota") => ("the account has nothing left to spend", "once it has, "),
                    Some("bad_request" | "context_overflow") => ("the server refused the request", ""),
                    Some("refused") => ("the server refused the content", ""),
                    Some("transport") => ("the model could not be reached", ""),
                    Some(UNKNOWN_OUTCOME) => {
                        ("the connection to the model broke, and nobody knows whether it answered", "")
                    }
                    _ => ("no answer came from the model", ""),
                };
                format!("{why}; {first}`provost resume {resume}` goes on from here")
            }
            Pause::Interrupted => format!("interrupted. `provost resume {resume}` goes on from here"),
        },
    }
}

/// A run as `resume` and `settle` want it named: one that is replayed with its cassette.
pub(crate) fn going_on(run: &str, state: &RunState) -> String {
    let replayed = state.created().is_some_and(|created| created.model.replayed);
    if replayed { format!("{run} --replay FILE") } else { run.to_owned() }
}
