//! The request that is under way, beside the journal: what a driver that is killed leaves of it.
//!
//! Nothing is appended before a request is sent, so the journal of a driver that was killed does not say that it asked,
//! nor whom. This record does, until what became of the request is in the journal. It is written by rename and never
//! synced: it has to survive the process, not the power. A machine that lost power may have asked and not know it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use provost_core::event::{Body, ModelFailed};
use provost_core::id::StepId;
use provost_core::route::RouteId;
use provost_core::state::{RunState, UNKNOWN_OUTCOME, invocation_id};
use provost_model::{Billed, Failure, FailureClass};
use serde::{Deserialize, Serialize};

use crate::driver::make_private;
use crate::error::RunError;
use crate::meter::{Reserved, charge};
use crate::recorder::Recorder;
use crate::removal::remove_at;

/// Bytes of an answer after which the record says anew how many came at most.
const PART: u32 = 1024;

/// Longest record that is read.
const LONGEST: u64 = 4096;

/// What is being asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asking {
    /// The id that it is asked under.
    pub(crate) invocation: String,
    /// Who is asked.
    pub(crate) route: RouteId,
    pub(crate) attempt: u32,
    /// Requests of the run that had failed before: where the journal has more, it says what became of this one.
    pub(crate) failed_before: u32,
    /// Tokens that were reserved for it.
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// No more bytes of the answer had come.
    pub(crate) answer_bytes: u32,
}

/// The record of the request that is under way.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    asking: Asking,
}

/// Where a run's record lies.
fn place(spool: &Path, run: &str) -> PathBuf {
    spool.join(run).join("asking")
}

impl Kept {
    /// Writes the record, before the first byte of the request is sent.
    pub(crate) fn begin(spool: &Path, run: &str, asking: Asking) -> Result<Self, RunError> {
        let path = place(spool, run);
        let kept = Self { asking: Asking { answer_bytes: PART, ..asking }, path };
        let folder = spool.join(run);
        make_private(&folder)
            .and_then(|()| kept.write())
            .map_err(|source| RunError::Spool { path: kept.path.clone(), source })?;
        Ok(kept)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sees to it that the record says no less than what came of the answer, in bytes.
    pub(crate) fn heard(&mut self, bytes: u32) {
        if bytes > self.asking.answer_bytes {
            self.asking.answer_bytes = bytes.saturating_add(PART);
            // The answer is worth more than its record: where this fails, the one before stays.
            let _ = self.write();
        }
    }

    fn write(&self) -> io::Result<()> {
        let json = serde_json::to_vec(&self.asking)?;
        let new = self.path.with_extension("new");
        // Made here and now: whatever else lies under the name is no file of ours, and a pipe would be waited on for ever.
        let mut file = match File::create_new(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_at(&new)?;
                File::create_new(&new)?
            }
            made => made?,
        };
        file.write_all(&json)?;
        fs::rename(&new, &self.path)
    }
}

/// Charges what a driver that was killed had asked, first thing after the next has attached: what its vendor made of it
/// nobody knows, and it is asked again.
///
/// It is charged whether or not the vendor is sent the same idempotency key again. None of those that there is a preset for
/// documents that an answer is given out of memory then, and a charge too many errs on the side of the budget.
pub(crate) fn account(recorder: &mut Recorder, spool: &Path) -> Result<(), RunError> {
    let path = place(spool, recorder.lease.run.as_str());
    let Some(asking) = read(&path).map_err(|source| RunError::Spool { path: path.clone(), source })? else {
        return Ok(());
    };
    if asking.is_open(recorder.state()) {
        let failure = Failure::new(
            FailureClass::UnknownOutcome,
            "the driver was killed while the answer was under way: its vendor may have charged for it",
        );
        let failure = failure.with_billed(Billed::Perhaps { answer_bytes: asking.answer_bytes });
        let (usage, estimated) = charge(&failure, Reserved { input: asking.input, output: asking.output });
        let message = recorder.content(failure.message.as_bytes());
        debug_assert_eq!(failure.class.word(), UNKNOWN_OUTCOME);
        recorder.record(Body::ModelFailed(ModelFailed {
            step: StepId(recorder.state().ledger().steps),
            route: asking.route,
            attempt: asking.attempt,
            class: failure.class.word().to_owned(),
            status: None,
            message,
            usage,
            estimated,
            rate_limits: None,
            // It is asked again, at once.
            retry_in_ms: Some(0),
        }))?;
    }
    Ok(())
}

/// Removes the record of a run, once the journal says what became of the request.
pub(crate) fn done(recorder: &Recorder, spool: &Path) {
    // One left behind is of no step that is due any more.
    let _ = remove_at(&place(spool, recorder.lease.run.as_str()));
}

/// Whom a run asked for an answer of which nobody knows what became: the vendor may have given it, and charged for it. Also
/// where its driver was killed and nobody has taken the run up since. `spool` is the folder beside its store.
///
/// # Errors
///
/// [`RunError::Spool`] where the record of the request cannot be read.
pub fn lost_request(spool: &Path, state: &RunState) -> Result<Option<RouteId>, RunError> {
    let path = place(spool, state.stream().as_str());
    let asking = read(&path).map_err(|source| RunError::Spool { path, source })?;
    let lost = asking.filter(|asking| asking.is_open(state)).map(|asking| asking.route);
    Ok(lost.or_else(|| state.unresolved()))
}

impl Asking {
    /// Whether the journal does not say what became of it.
    fn is_open(&self, state: &RunState) -> bool {
        self.invocation == invocation_id(state.stream(), StepId(state.ledger().steps))
            && self.failed_before == state.counts().failed_requests
            && state.model_of(self.route).is_some()
    }
}

/// The record; `None` where there is none, or the machine lost power before all of it was on the disk.
fn read(path: &Path) -> io::Result<Option<Asking>> {
    let is_one = match path.symlink_metadata() {
        Ok(meta) => meta.is_file() && meta.len() <= LONGEST,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(if is_one { serde_json::from_slice(&fs::read(path)?).ok() } else { None })
}
