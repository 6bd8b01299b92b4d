//! The process that supervisors are forked from, one per sandbox.
//!
//! Starting this binary anew for each command would cost an `execve` and the dynamic linker each time, with its traps on
//! a virtual machine about as much as all of containment. A fork of a small process with one thread costs little, and one
//! supervisor stands ready before it is asked for (`init/ready.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::record::Failure;
use crate::sys::Step;
use crate::{entry, wire};

/// Starts supervisors. Its process is started with the first one, and again should somebody have killed it.
#[derive(Debug, Default)]
pub(crate) struct Launcher {
    process: Mutex<Option<Process>>,
}

impl Launcher {
    /// Starts a supervisor and gives this side's end of its control socket. `channel` is for the command's standard input
    /// and output.
    ///
    /// # Errors
    ///
    /// The step that failed; nothing has run.
    pub(crate) fn launch(
        &self,
        plan: BorrowedFd<'_>,
        order: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        channel: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Failure> {
        let (control, theirs) = wire::pair().step("socketpair")?;
        let descriptors: Vec<_> = [order, folder, theirs.as_fd()].into_iter().chain(channel).collect();
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*process {
            match running.ask(&descriptors) {
                // It is gone, and with it nothing that it was asked for.
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => *process = None,
                asked => return asked.step("supervisor").map(|()| control),
            }
        }
        let started = Process::start(plan)?;
        started.ask(&descriptors).step("supervisor")?;
        *process = Some(started);
        Ok(control)
    }
}

#[derive(Debug)]
struct Process {
    socket: OwnedFd,
    child: Child,
}

impl Process {
    fn start(plan: BorrowedFd<'_>) -> Result<Self, Failure> {
        let (socket, theirs) = wire::pair().step("socketpair")?;
        let child = spawn(theirs).map_err(|error| failure("supervisor", &error))?;
        let process = Self { socket, child };
        wire::send(&process.socket, &[wire::LAUNCH], &[plan]).step("supervisor")?;
        Ok(process)
    }

    fn ask(&self, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        wire::send(&self.socket, &[wire::SUPERVISE], descriptors)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process takes the end of this side for the order to end. Supervisors at work stay until they are done.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        let _ = self.child.wait();
    }
}

pub(crate) fn failure(step: &str, error: &io::Error) -> Failure {
    Failure::new(step, error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
}

/// Starts this binary again as a helper, with the socket as its only descriptor and no environment.
///
/// Without `pre_exec`, uid or folder, so that std uses `posix_spawn`, which does not copy the agent's page tables.
pub(crate) fn spawn(socket: OwnedFd) -> io::Result<Child> {
    // The kernel's own link to the running program: right even after the file was replaced by an update.
    std::process::Command::new("/proc/self/exe")
        .arg(entry::MARK)
        .env_clear()
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
