//! A program outside of every sandbox whose process tree is killed with certainty: a planner, a language server, a hook.
//!
//! It has all the rights of the caller; nothing here contains it. What it gets from this crate is the supervisor: a
//! subreaper that finds its orphans, `setsid` or not, and that outlives a driver which was killed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Child;

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};

use crate::bytes::Bytes;
use crate::entry;
use crate::launcher::{failure, spawn};
use crate::plan::Order;
use crate::record::{Ended, Failure};
use crate::sandbox::memory;
use crate::sys::Step;
use crate::wire::{self, Report};

/// A program for [`Tended::start`].
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable file, an absolute path: nothing is looked up.
    pub path: PathBuf,
    /// All arguments behind the program's own name.
    pub args: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The environment, exactly: nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
}

/// What becomes of standard input, output and error: the program's ends.
#[derive(Debug)]
pub struct Ends {
    /// What it reads.
    pub stdin: OwnedFd,
    /// What it writes.
    pub stdout: OwnedFd,
    /// What it writes beside that.
    pub stderr: OwnedFd,
}

/// How a tended program ended, and whether its tree is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// [`Ended::Exited`] or [`Ended::Signalled`].
    pub ended: Ended,
    /// Processes of its tree that were still alive when the supervisor gave up killing.
    pub survivors: u32,
}

/// A running program. Dropping it kills the program and everything that it started, and waits until that is done: some
/// milliseconds, and at most some seconds for a process that the kernel does not let go.
///
/// Its descriptor ([`AsFd`]) becomes readable when [`Tended::ended`] has something to say, so that it can be waited for
/// without a thread.
#[derive(Debug)]
pub struct Tended {
    control: OwnedFd,
    supervisor: Child,
}

impl Tended {
    /// Starts a program. Returns before the program runs; that it could not be executed is said by [`Tended::ended`].
    ///
    /// # Errors
    ///
    /// The set-up step that failed; the program has not run.
    pub fn start(program: &Program, ends: Ends) -> Result<Self, Failure> {
        // A binary without the entry would run its own `main` instead of the supervisor.
        if !entry::linked() {
            return Err(Failure::new("supervisor", libc::ENOSYS, "its entry is not in this binary"));
        }
        let order = memory(&order(program)?).map_err(|error| failure("plan", &error))?;
        let (control, theirs) = wire::pair().step("socketpair")?;
        let supervisor = spawn(theirs).map_err(|error| failure("supervisor", &error))?;
        let tended = Self { control, supervisor };
        let descriptors = [order.as_fd(), ends.stdin.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd()];
        wire::send(&tended.control, &[wire::TEND], &descriptors).step("supervisor")?;
        Ok(tended)
    }

    /// How it ended; `None` while it runs. Does not block. When this says that it ended, its tree is gone.
    pub fn ended(&self) -> Option<Result<Gone, Failure>> {
        match wire::receive(&self.control, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => None,
            Ok((packet, _)) => Some(match serde_json::from_slice(&packet) {
                Ok(Report::Gone { status, survivors }) => Ok(Gone { ended: ended(status), survivors }),
                Ok(Report::Failed(failure)) => Err(failure),
                _ => Err(Failure::new("supervisor", libc::ESRCH, "ended without a word")),
            }),
            Err(errno) => Some(Err(errno).step("supervisor")),
        }
    }
}

impl AsFd for Tended {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

impl Drop for Tended {
    fn drop(&mut self) {
        // The supervisor takes the end of this side for the order to kill.
        let _ = rustix::net::shutdown(&self.control, Shutdown::Both);
        let _ = self.supervisor.wait();
    }
}

/// A raw wait status as an end.
fn ended(status: i32) -> Ended {
    if libc::WIFEXITED(status) {
        Ended::Exited(libc::WEXITSTATUS(status))
    } else {
        Ended::Signalled(libc::WTERMSIG(status))
    }
}

fn order(program: &Program) -> Result<Order, Failure> {
    let bytes = |text: &OsStr| Bytes(text.as_bytes().to_vec());
    if !program.path.is_absolute() {
        return Err(Failure::new("exec", libc::EINVAL, program.path.to_string_lossy()));
    }
    let env = program.env.iter().map(|(name, value)| {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(Failure::new("env", libc::EINVAL, name.to_string_lossy()));
        }
        Ok(Bytes([name.as_bytes(), b"=", value.as_bytes()].concat()))
    });
    let own_name = program.path.as_path().into();
    Ok(Order {
        argv: [own_name].into_iter().chain(program.args.iter().map(|argument| bytes(argument))).collect(),
        env: env.collect::<Result<_, _>>()?,
        cwd: program.cwd.as_path().into(),
        candidates: vec![program.path.as_path().into()],
        // The caller keeps the clock and reads the output.
        wall_ms: 0,
        keep_head: 0,
        keep_tail: 0,
        listen: None,
        dialling: 0,
        reaching: Vec::new(),
        container: None,
    })
}
