//! The record folder of one command. It holds one file, whose names say how far it came: `boot` at first, `started` too
//! from before the command's first instruction on, and at the end `exit.json` or `not-started.json` in place of `boot`.
//!
//! The supervisor writes it and holds it locked; the driver, or whoever resumes after the driver's death, reads it. One file,
//! because making one costs some file systems more than all of containment (ext4 looks for a number that was not used
//! lately, which on a host where much is deleted takes a quarter of a millisecond).
//!
//! Nothing in it is synced, which would cost more than all of containment. What a power cut may have taken is told by
//! `boot`: that `started` is missing proves something only in the boot that the folder was made in.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use provost_core::caps::CapHit;
use provost_core::containment::Receipt;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::bytes::as_base64;
use crate::engine::Container;
use crate::group;

pub(crate) const BOOT: &str = "boot";
pub(crate) const STARTED: &str = "started";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const NOT_STARTED: &str = "not-started.json";
/// What a folder in which something has happened holds.
pub(crate) const LEFT_BEHIND: [&str; 3] = [STARTED, EXIT, NOT_STARTED];

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how", content = "value")]
pub enum Ended {
    /// It exited with this status, 0 to 255.
    Exited(i32),
    /// It was killed by this signal, which the sandbox did not send on purpose.
    Signalled(i32),
    /// It ran into its wall-clock limit and was killed with its tree.
    TimedOut {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// Its processes took more than a cap allows, and it was killed with its tree.
    Capped(CapHit),
    /// [`crate::Cancel::cancel`] was called, and it was killed with its tree.
    Cancelled,
    /// The driver died while it ran, and it was killed with its tree.
    DriverLost,
}

/// Standard output and standard error together, in the order in which they arrived.
///
/// It begins at byte `from`: what was before that was taken while the command ran. When `total - from` is at most
/// `head.len() + tail.len()`, the two in sequence are all the rest; otherwise the bytes between them were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The first bytes, at most [`crate::Command::keep_head`] of them.
    #[serde(with = "as_base64")]
    pub head: Vec<u8>,
    /// The last bytes after `head`, at most [`crate::Command::keep_tail`] of them.
    #[serde(with = "as_base64")]
    pub tail: Vec<u8>,
    /// How many bytes were taken while it ran ([`crate::Running::ask_for_output`]).
    #[serde(default)]
    pub from: u64,
    /// How many bytes were written in all.
    pub total: u64,
    /// SHA-256 of all of them, in lower-case hexadecimal.
    pub sha256: String,
}

impl Captured {
    /// How many bytes between `head` and `tail` were dropped.
    pub fn dropped(&self) -> u64 {
        self.total.saturating_sub(self.from).saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

/// What a finished command left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// How it ended.
    pub ended: Ended,
    /// From the moment the command was let go to the moment its tree was gone, in milliseconds.
    pub duration_ms: u64,
    /// When its tree was gone, in nanoseconds since the Unix epoch. What changed later is not its doing.
    pub ended_at_ns: u64,
    /// What it wrote.
    pub output: Captured,
    /// What contained it.
    pub receipt: Receipt,
    /// Processes of its tree that were still alive when the supervisor gave up killing. Under R0 nothing is killed
    /// or counted after a normal end.
    pub survivors: u32,
    /// Caps that were reached without a kill: the kernel refused more, or the end shows it.
    #[serde(default)]
    pub caps: Vec<CapHit>,
    /// Protected paths, relative to the workspace, that could not be pinned; the receipt's `protected` is absent then.
    #[serde(default)]
    pub unprotected: Vec<String>,
}

/// A set-up step that failed; the command has provably not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the command did not start: {step}: {}{}", io::Error::from_raw_os_error(*errno), self.suffix())]
pub struct Failure {
    /// The step, such as `exec`, `chdir`, `user-namespace` or `mount`.
    pub step: String,
    /// The error number of the step.
    pub errno: i32,
    /// The path or value that the step worked on; may be empty.
    pub detail: String,
}

impl Failure {
    pub(crate) fn new(step: &str, errno: i32, detail: impl Into<String>) -> Self {
        Self { step: step.to_owned(), errno, detail: detail.into() }
    }

    fn suffix(&self) -> String {
        if self.detail.is_empty() { String::new() } else { format!(" (`{}`)", self.detail) }
    }
}

/// What a record folder says about its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// It ended, and this is how.
    Finished(Box<ExitRecord>),
    /// It provably never ran: its set-up failed, or the supervisor died before the `started` marker.
    NotStarted(Failure),
    /// Its supervisor is still at work; the wait was too short.
    Running,
    /// It may have been let go, and there is no record: whether it ran, and to what end, cannot be told. So it is when
    /// its supervisor was killed while it ran, and when the host was restarted meanwhile.
    Unknown,
}

/// Makes an existing folder ready for a command's record. [`crate::Sandbox::run`] does so too; call it before anybody is
/// told that the command is about to run, so that the folder can tell afterwards that it never ran.
///
/// # Errors
///
/// The folder cannot be written, or the kernel does not name its boot.
pub fn prepare_record(record_dir: &Path) -> io::Result<()> {
    let (path, boot) = (record_dir.join(BOOT), boot()?);
    // Not written again: whoever dies while it is empty would leave a folder of which nobody can tell.
    if std::fs::read_to_string(&path).ok().as_deref() == Some(boot) {
        return Ok(());
    }
    std::fs::write(path, boot)
}

/// This boot of this host.
fn boot() -> io::Result<&'static str> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot);
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(BOOT.get_or_init(|| boot))
}

/// Reads the record folder of a command whose driver is gone.
///
/// Waits at most `wait` for a supervisor that is still alive. Call it only when the driver is known to be dead or
/// done: before that, a folder in which nothing happened yet reads as [`Recovered::NotStarted`].
///
/// # Errors
///
/// An I/O error of the folder. A record that was torn, by a power cut, is none: then nobody can tell.
pub fn recover(record_dir: &Path, wait: Duration) -> io::Result<Recovered> {
    let deadline = Instant::now() + wait;
    // Held until the folder has been read, so that no supervisor starts in between.
    let _lock = match OpenOptions::new().read(true).open(record_dir.join(BOOT)) {
        Ok(file) => loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break Some(file),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() >= deadline => {
                    return Ok(Recovered::Running);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(2)),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound && record_dir.is_dir() => None,
        Err(error) => return Err(error),
    };
    let found = read(record_dir)?;
    if let Ok(home) = group::home() {
        // Its supervisor may have been killed before it took the command's group away, and the command with it.
        group::sweep(&home);
    }
    if found == Recovered::Unknown
        && let Some(container) = Container::recorded(record_dir)
    {
        // Its supervisor was killed before it came to it. What the command did meanwhile nobody knows, and it ends here.
        container.remove();
    }
    Ok(found)
}

/// What the folder says now; for a caller that knows the supervisor to be done.
pub(crate) fn read(record_dir: &Path) -> io::Result<Recovered> {
    if let Some(record) = parse(&record_dir.join(EXIT))? {
        return Ok(Recovered::Finished(Box::new(record)));
    }
    if let Some(failure) = parse(&record_dir.join(NOT_STARTED))? {
        return Ok(Recovered::NotStarted(failure));
    }
    if record_dir.join(STARTED).try_exists()? {
        return Ok(Recovered::Unknown);
    }
    // Without `started`, which a power cut may have taken: nothing here was synced.
    if std::fs::read_to_string(record_dir.join(BOOT)).ok().as_deref() != Some(boot()?) {
        return Ok(Recovered::Unknown);
    }
    Ok(Recovered::NotStarted(Failure::new("supervisor", libc::ESRCH, "ended before it let the command go")))
}

/// A record; `None` where it is missing or torn.
fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let mut text = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(serde_json::from_slice(&text).ok())
}
