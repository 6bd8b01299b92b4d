//! One command to run, and the handle that cancels it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::egress::{Egress, Publish};

/// A command for [`crate::Sandbox::run`].
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments, byte for byte. Unless `program` says which it is, a program without a slash is looked up
    /// along `PATH` of `env`, inside the sandbox.
    pub argv: Vec<OsString>,
    /// The file that is executed, whatever `argv` calls it: an absolute path, so that what was decided on is what runs,
    /// even where a folder of `PATH` has got another program of that name since.
    pub program: Option<PathBuf>,
    /// Working directory; the workspace or below it.
    pub cwd: PathBuf,
    /// The environment, exactly: nothing is inherited. Below R3 there is no private `/tmp`, so R2 sets `TMPDIR` to a
    /// fresh folder, and `HOME` to a folder in it when it is [`crate::HOME`].
    pub env: BTreeMap<OsString, OsString>,
    /// Wall-clock limit from the moment the command is let go.
    pub wall: Duration,
    /// How many bytes of the start of the output are kept.
    pub keep_head: usize,
    /// How many bytes of the end of the output are kept.
    pub keep_tail: usize,
    /// Its network, where it has one and its containment can give one
    /// ([`can_dial`](provost_core::containment::Receipt::can_dial)). It is served as long as the command runs.
    pub egress: Option<Egress>,
    /// Published ports of commands that run on: each is found at the same port of this command's own 127.0.0.1. Only from R3
    /// on; elsewhere they are not there. The port is taken then, as it is on the host.
    pub reaches: Vec<Publish>,
    /// An existing, empty folder for this command's record, outside of everything that the command can see.
    pub record_dir: PathBuf,
}

/// Cancels a running command, from any thread. Clones are the same handle.
#[derive(Debug, Clone)]
pub struct Cancel {
    event: Arc<OwnedFd>,
}

impl Cancel {
    /// A handle that has not been used.
    ///
    /// # Errors
    ///
    /// When the kernel gives no event descriptor (`EMFILE`, `ENFILE`, `ENOMEM`).
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Kills the command's tree. It stays cancelled: a later run with the same handle ends at once.
    pub fn cancel(&self) {
        // The only failure is a full counter, and then it is signalled already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
