//! A command that runs on while its driver does other things.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::bytes::as_base64;
use crate::command::Cancel;
use crate::record::{ExitRecord, Failure};
use crate::sandbox::RunError;
use crate::sys::Step;
use crate::wire;

/// A part of a command's output: what it wrote since the part before it was taken.
///
/// When `to - from` is at most `head.len() + tail.len()`, the two in sequence are the whole part; otherwise the bytes
/// between them were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// How many bytes were written before it.
    pub from: u64,
    /// How many bytes were written with it.
    pub to: u64,
    /// Its first bytes, at most [`crate::Command::keep_head`] of them.
    #[serde(with = "as_base64")]
    pub head: Vec<u8>,
    /// Its last bytes after `head`, at most [`crate::Command::keep_tail`] of them.
    #[serde(with = "as_base64")]
    pub tail: Vec<u8>,
}

/// Called whenever something happened to a command: it wrote where that was asked for, a part of its output came, it
/// ended. From another thread, and briefly.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// A command that runs. Dropped, it is killed with its tree.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    cancel: Cancel,
}

impl Running {
    pub(crate) fn new(shared: Arc<Shared>, cancel: Cancel) -> Self {
        Self { shared, cancel }
    }

    /// Waits until the command was let go, or could not be.
    pub(crate) fn has_started(&self) -> Result<(), RunError> {
        let mut state = self.shared.state();
        loop {
            match (&state.ended, state.started) {
                (Some(Err(RunError::NotStarted(failure))), false) => return Err(failure.clone().into()),
                (Some(_), _) | (None, true) => return Ok(()),
                (None, false) => {
                    state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Asks to be woken as soon as there is output that was not taken. Answered at once where there is.
    pub fn ask_for_notice(&self) {
        self.shared.ask(|state| {
            state.noticed = false;
            state.wants.push(wire::NOTICE);
        });
    }

    /// Whether there was output since [`ask_for_notice`](Self::ask_for_notice).
    pub fn has_written(&self) -> bool {
        self.shared.state().noticed
    }

    /// Asks for what was written since the last part was taken.
    pub fn ask_for_output(&self) {
        self.shared.ask(|state| {
            state.answer = None;
            state.wants.push(wire::TAKE);
        });
    }

    /// What was asked for, once it is here; within, `None` where it could not be handed over and is kept for the next time.
    /// After the end nothing comes any more: what is left is in the record.
    pub fn output(&self) -> Option<Option<Chunk>> {
        self.shared.state().answer.take()
    }

    /// How it ended, once its tree is gone.
    pub fn ended(&self) -> Option<Result<ExitRecord, RunError>> {
        self.shared.state().ended.clone()
    }

    /// Kills it with its tree. It has ended a little later.
    pub fn kill(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a running command's driver and the thread that listens to its supervisor have in common.
pub(crate) struct Shared {
    /// Readable where something is wanted of the supervisor.
    asked: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
    wake: Wake,
}

#[derive(Debug, Default)]
struct State {
    started: bool,
    noticed: bool,
    wants: Vec<u8>,
    /// What came of asking for output: nothing yet, a part, or none that could be handed over.
    answer: Option<Option<Chunk>>,
    ended: Option<Result<ExitRecord, RunError>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(wake: Wake) -> Result<Self, Failure> {
        let asked = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).step("eventfd")?;
        Ok(Self { asked, state: Mutex::default(), changed: Condvar::new(), wake })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, what: impl FnOnce(&mut State)) {
        what(&mut self.state());
        // The only failure is a full counter, and then it is readable already.
        let _ = rustix::io::write(&self.asked, &1u64.to_ne_bytes());
    }

    fn change(&self, what: impl FnOnce(&mut State)) {
        what(&mut self.state());
        self.changed.notify_all();
        (self.wake)();
    }

    /// What the supervisor is to be asked, one packet each.
    pub(crate) fn wants(&self) -> Vec<u8> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.asked, &mut count);
        std::mem::take(&mut self.state().wants)
    }

    pub(crate) fn started(&self) {
        self.change(|state| state.started = true);
    }

    pub(crate) fn wrote(&self) {
        self.change(|state| state.noticed = true);
    }

    pub(crate) fn output(&self, chunk: Option<Chunk>) {
        self.change(|state| state.answer = Some(chunk));
    }

    pub(crate) fn end(&self, ended: Result<ExitRecord, RunError>) {
        self.change(|state| state.ended = Some(ended));
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }
}
