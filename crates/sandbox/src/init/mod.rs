//! The helper process: what runs instead of `main` when this binary was started as a supervisor.
//!
//! It has one thread, so that it may fork freely. It inherits nothing but the control socket on descriptor 0; the
//! plan, the order and the record folder arrive over it.

mod capture;
mod contain;
mod git;
mod image;
mod kill;
mod launch;
mod listen;
mod mounts;
mod overlay;
mod pid1;
mod probe;
mod ready;
mod resolver;
mod rules;
mod sample;
mod supervise;
mod tend;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::{sys, wire};

/// Status of a helper that could not even report.
const LOST: i32 = 70;

/// Never returns: the program that we are a copy of must not run its `main`.
pub(crate) fn main() -> ! {
    // A panic must neither unwind into the C start-up code nor run foreign code; whoever waits sees us gone.
    let status = std::panic::catch_unwind(run).unwrap_or(LOST);
    sys::exit(status)
}

fn run() -> i32 {
    let Ok(control) = take_control() else { return LOST };
    sys::ignore_signals();
    // A session of our own: a terminal's Ctrl-C is for the agent to act on, not for us to die of.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    let Ok((first, descriptors)) = wire::receive(&control, RecvFlags::empty()) else { return LOST };
    match first.first() {
        Some(&wire::LAUNCH) => launch::launch(control, descriptors),
        Some(&wire::TEND) => tend::tend(&control, descriptors),
        Some(&wire::PROBE) if first.len() > 1 => {
            probe::perform_overlay(control.as_fd(), Path::new(OsStr::from_bytes(&first[1..])))
        }
        Some(&wire::PROBE) => probe::perform(control.as_fd()),
        _ => LOST,
    }
}

/// Moves the control socket from descriptor 0 to one that no exec keeps, and closes all others.
fn take_control() -> Result<OwnedFd, Errno> {
    sys::close_from(3, false)?;
    // SAFETY: descriptor 0 is the control socket by the contract of this entry, and nothing else in this process
    // uses it yet; it is only borrowed for the duplication.
    let zero = unsafe { BorrowedFd::borrow_raw(0) };
    let control = rustix::io::fcntl_dupfd_cloexec(zero, 3)?;
    let null = open_null()?;
    for number in 0..3 {
        sys::dup_onto(null.as_fd(), number)?;
    }
    Ok(control)
}

fn open_null() -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// All of a memfd, from its start, whoever read it before.
pub(crate) fn read_all(fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let length = rustix::fs::fstat(fd)?.st_size as usize;
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match rustix::io::pread(fd, &mut bytes[done..], done as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(bytes)
}

/// A file of `/proc`, as text; `None` when its process is gone.
fn read_proc(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}
