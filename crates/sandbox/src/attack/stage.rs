//! The attacker's side: what it is told, and its way in.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::{Attack, Judge, all, victim};
use crate::sys::{self, Side};

/// The first argument that makes this process an attacker or its victim.
pub(crate) const MARK: &str = "__provost-sandbox-attack";
/// The file in the stage's work folder that says: it has got where it wanted, and waits there to be looked at.
pub(crate) const HELD: &str = "held";
/// What it is called before.
const NEARLY: &str = "nearly-held";
/// As long as an attacker lives at most, should nobody end it.
const LIFE: Duration = Duration::from_secs(20);

/// What an attacker is told. No secret is in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stage {
    /// Part of the command line of every process of the attack.
    pub(crate) token: String,
    pub(crate) workspace: PathBuf,
    /// A folder in the workspace where everything is allowed.
    pub(crate) work: PathBuf,
    /// A folder of the host that no profile names.
    pub(crate) outside: PathBuf,
    /// The process that started all this.
    pub(crate) driver: i32,
    pub(crate) tcp: Option<u16>,
    pub(crate) tcp6: Option<u16>,
    pub(crate) udp: Option<u16>,
    /// Descriptor of a file outside that the driver holds open, not closed on exec.
    pub(crate) descriptor: Option<i32>,
    pub(crate) segment: Option<i32>,
    pub(crate) semaphore: Option<i32>,
    pub(crate) queue: Option<i32>,
    pub(crate) victim: Option<victim::Told>,
    pub(crate) terminal: Option<PathBuf>,
}

impl Stage {
    pub(super) fn out(&self, name: &str) -> PathBuf {
        self.outside.join(name)
    }

    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    pub(super) fn victim(&self) -> std::io::Result<&victim::Told> {
        self.victim.as_ref().ok_or_else(|| missing("no victim"))
    }
}

pub(super) fn missing(what: &str) -> std::io::Error {
    std::io::Error::other(what.to_owned())
}

/// A path for the kernel.
pub(super) fn c(path: impl AsRef<Path>) -> std::io::Result<CString> {
    CString::new(path.as_ref().as_os_str().as_bytes()).map_err(|_| missing("a NUL in a path"))
}

/// Says something where the judge reads it.
pub(super) fn say(bytes: impl AsRef<[u8]>) {
    let mut rest = bytes.as_ref();
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), rest) {
            Ok(count) => rest = &rest[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Never returns: the program that we are a copy of must not run its `main`.
pub(crate) fn main(arguments: [Vec<u8>; 3]) -> ! {
    let status = std::panic::catch_unwind(|| run(&arguments)).unwrap_or(70);
    sys::exit(status)
}

fn run([what, name, place]: &[Vec<u8>; 3]) -> i32 {
    let place = Path::new(std::ffi::OsStr::from_bytes(place));
    if what == b"victim" {
        return victim::main(name, place);
    }
    let stage = std::fs::read(place).ok().and_then(|text| serde_json::from_slice::<Stage>(&text).ok());
    let (Some(stage), Some(attack)) = (stage, all().find(|attack| attack.name.as_bytes() == name)) else {
        say("no stage, or no such attack\n");
        return 70;
    };
    perform(attack, &stage)
}

fn perform(attack: &Attack, stage: &Stage) -> i32 {
    if attack.judge == Judge::Namespaces {
        // Stays where the attack began.
        let _ = child(idle);
    }
    // Made now: afterwards the folder may be out of sight, or there may be no descriptor left.
    let work = rustix::fs::openat(CWD, &stage.work, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let _ = std::fs::write(stage.work(NEARLY), "");
    let tried = (attack.perform)(stage);
    let status = match &tried {
        Ok(()) => {
            say("\ntried: done\n");
            0
        }
        Err(error) => {
            say(format!("\ntried: {error}\n"));
            1
        }
    };
    if tried.is_ok() && attack.judge.is_live() {
        let _ = work.and_then(|work| rustix::fs::renameat(&work, NEARLY, &work, HELD));
        idle();
    }
    status
}

/// Does nothing for as long as an attacker lives.
pub(super) fn idle() -> ! {
    std::thread::sleep(LIFE);
    sys::exit(0)
}

/// Does something in a child process.
pub(super) fn child(what: fn() -> !) -> std::io::Result<i32> {
    match sys::fork(0)? {
        Side::Child => what(),
        Side::Parent(pid) => Ok(pid),
    }
}
