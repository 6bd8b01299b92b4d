//! One line: a record, or a torn record with a whole one behind it.

use super::{State, Trace};

/// Fields of a record of state, and of a trace.
const STATE_FIELDS: usize = 4;
const TRACE_FIELDS: usize = 12;

const REASONS: [&str; 7] =
    ["enqueue", "start", "complete", "cancel", "retry", "restart_recovery", "restart_trace_recovery"];

#[derive(Debug)]
pub(super) enum Line<'a> {
    State(StateLine<'a>),
    Trace(TraceLine<'a>),
    Glued(Glued<'a>),
}

/// A whole record behind a torn one.
#[derive(Debug)]
pub(super) enum Glued<'a> {
    /// The last piece of the torn record and the id are one field: where one ends is not written.
    State { torn: Torn, whole: StateLine<'a> },
    /// Its first word is known, so that what is torn is before it.
    Trace(TraceLine<'a>),
}

/// What the last piece of a torn record is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Torn {
    State,
    Attempts,
    Reason,
    /// A field of a trace.
    Other,
}

#[derive(Debug)]
pub(super) struct StateLine<'a> {
    pub(super) id: &'a str,
    pub(super) state: State,
    pub(super) attempts: u32,
    pub(super) reason: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Task,
    Tool,
}

#[derive(Debug)]
pub(super) struct TraceLine<'a> {
    pub(super) kind: Kind,
    pub(super) id: &'a str,
    pub(super) trace: Trace,
}

impl<'a> Line<'a> {
    /// Reads a line without its end.
    pub(super) fn read(text: &'a str) -> Result<Self, &'static str> {
        let fields: Vec<&str> = text.split('\t').collect();
        match fields.len() {
            // A number may follow without bound: nothing is read of such a line.
            count if count > 4 * TRACE_FIELDS => return Err("it has too many fields"),
            STATE_FIELDS => return StateLine::read(&fields).map(Self::State),
            TRACE_FIELDS => {
                if let Some(trace) = kind(fields[0]).and_then(|kind| TraceLine::read(kind, &fields)) {
                    return Ok(Self::Trace(trace));
                }
            }
            count if count < STATE_FIELDS => return Err("it has too few fields"),
            _ => {}
        }
        Glued::read(&fields).map(Self::Glued).ok_or("its fields are not those of a record")
    }
}

impl<'a> StateLine<'a> {
    fn read(fields: &[&'a str]) -> Result<Self, &'static str> {
        let [id, state, attempts, reason] = fields else { return Err("it has another number of fields") };
        let state = State::ALL.into_iter().find(|known| known.word() == *state);
        let state = state.ok_or("its state is not a known one")?;
        let attempts = number(attempts).ok_or("its attempts are not a number")?;
        Ok(Self { id, state, attempts, reason })
    }

    pub(super) fn known_reason(&self) -> bool {
        REASONS.contains(&self.reason)
    }
}

impl<'a> TraceLine<'a> {
    fn read(kind: Kind, fields: &[&'a str]) -> Option<Self> {
        let [_, id, attempt, program, argc, status, timed_out, cancelled, truncated, out, err, ms] = fields
        else {
            return None;
        };
        let status = match *status {
            "none" => None,
            status => Some(status.parse().ok()?),
        };
        let trace = Trace {
            attempt: number(attempt)?,
            program: (*program).to_owned(),
            argc: number(argc)?,
            status,
            timed_out: timed_out.parse().ok()?,
            cancelled: cancelled.parse().ok()?,
            output_truncated: truncated.parse().ok()?,
            stdout_bytes: number(out)?,
            stderr_bytes: number(err)?,
            duration_ms: number(ms)?,
        };
        Some(Self { kind, id, trace })
    }
}

impl<'a> Glued<'a> {
    /// Reads the record at the end of the fields: a writer ends with a whole one.
    fn read(fields: &[&'a str]) -> Option<Self> {
        if let Some(from) = fields.len().checked_sub(TRACE_FIELDS) {
            let kind = if fields[from].ends_with("tool") {
                Some(Kind::Tool)
            } else {
                fields[from].ends_with("trace").then_some(Kind::Task)
            };
            if let Some(trace) = kind.and_then(|kind| TraceLine::read(kind, &fields[from..])) {
                return Some(Self::Trace(trace));
            }
        }
        let from = fields.len().checked_sub(STATE_FIELDS)?;
        let whole = StateLine::read(&fields[from..]).ok().filter(StateLine::known_reason)?;
        let torn = match (from, kind(fields[0])) {
            // A trace that is torn early has as few fields; its first word tells.
            (_, Some(_)) => Torn::Other,
            (1, _) => Torn::State,
            (2, _) => Torn::Attempts,
            (3, _) => Torn::Reason,
            _ => Torn::Other,
        };
        Some(Self::State { torn, whole })
    }

    /// Whether the end of the whole record shows that nothing is missing.
    pub(super) fn ends_whole(&self) -> bool {
        matches!(self, Self::State { .. })
    }
}

/// Whether `glued` can be a torn piece with `id` behind it.
pub(super) fn may_be_cut(torn: Torn, glued: &str, id: &str) -> bool {
    let Some(piece) = glued.strip_suffix(id) else { return false };
    match torn {
        Torn::State => State::ALL.iter().any(|state| state.word().starts_with(piece)),
        Torn::Attempts => piece.bytes().all(|byte| byte.is_ascii_digit()),
        Torn::Reason => REASONS.iter().any(|reason| reason.starts_with(piece)),
        Torn::Other => true,
    }
}

fn kind(word: &str) -> Option<Kind> {
    match word {
        "trace" => Some(Kind::Task),
        "tool" => Some(Kind::Tool),
        _ => None,
    }
}

/// Digits alone: `+1`, which the standard library takes, was never written.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}
