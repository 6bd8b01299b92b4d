//! The program of a container engine, and what it is asked: always a fixed list of arguments, answered within a time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::io::Seek;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use provost_core::containment::Engine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::image::{HostTools, MissingTool};

/// What an engine gets of the environment: where its store or its daemon is, and no key of anybody's.
const ENVIRONMENT: [&str; 15] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "STORAGE_DRIVER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
];
/// How much of what it complains of is repeated, in bytes.
const COMPLAINT: u64 = 2000;
/// Most that is read of one answer, in bytes.
const ANSWER: u64 = 1 << 20;

/// What a container engine gets of somebody's environment.
pub(crate) fn environment(all: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let passed = |name: &&OsString| ENVIRONMENT.iter().any(|passed| name.as_os_str() == *passed);
    all.iter().filter(|(name, _)| passed(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A container engine's program on this host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) engine: Engine,
    pub(crate) program: Bytes,
    env: Vec<(Bytes, Bytes)>,
}

impl Client {
    /// Finds the program along the `PATH` of an environment, of which it gets what concerns it.
    pub(crate) fn find(engine: Engine, all: &BTreeMap<OsString, OsString>) -> Result<Self, MissingTool> {
        let path = all.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let bytes = |text: &OsString| Bytes(text.as_bytes().to_vec());
        Ok(Self {
            engine,
            program: HostTools::of_path(&path).find(engine.name())?.into(),
            env: environment(all).iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        })
    }

    /// Its environment, each `NAME=value`.
    pub(crate) fn env(&self) -> Vec<Bytes> {
        let line = |(name, value): &(Bytes, Bytes)| Bytes([&name.0, b"=".as_slice(), &value.0].concat());
        self.env.iter().map(line).collect()
    }

    /// A command of it with these arguments, nothing to read, and what it says in two files.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(self.program.path());
        let text = |bytes: &Bytes| OsStr::from_bytes(&bytes.0).to_owned();
        command
            .args(arguments)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (text(name), text(value))))
            .stdin(Stdio::null())
            .current_dir("/");
        command
    }

    /// What it says on its standard output, without the line end.
    ///
    /// # Errors
    ///
    /// Why it says nothing: its complaint, that it cannot be started, or that it took longer than `limit`.
    pub(crate) fn ask<S: AsRef<OsStr>>(&self, arguments: &[S], limit: Duration) -> Result<String, String> {
        let (out, err) = (file()?, file()?);
        let mut child = self
            .command(arguments)
            .stdout(share(&out)?)
            .stderr(share(&err)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.path().display()))?;
        match wait(&mut child, Instant::now() + limit) {
            Some(status) if status.success() => Ok(said(out, ANSWER)),
            Some(status) => Err(match said(err, COMPLAINT) {
                empty if empty.is_empty() => status.to_string(),
                complaint => complaint,
            }),
            None => Err(format!("no answer within {} s", limit.as_secs())),
        }
    }
}

/// Waits for a program to end, and kills it at the deadline (`None`).
pub(crate) fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    let handle = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = handle.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(handle) = &handle
        && ready(handle, deadline)
    {
        return child.wait().ok();
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Whether a descriptor becomes readable before a deadline.
pub(crate) fn ready(descriptor: &OwnedFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(_) if Instant::now() >= deadline => return false,
            Err(_) => {}
        }
    }
}

/// A file that lies in memory: what is written there need not be read meanwhile.
pub(crate) fn file() -> Result<File, String> {
    let made = rustix::fs::memfd_create("provost-engine", MemfdFlags::CLOEXEC);
    made.map(File::from).map_err(|errno| errno.to_string())
}

pub(crate) fn share(file: &File) -> Result<Stdio, String> {
    file.try_clone().map(Stdio::from).map_err(|error| error.to_string())
}

/// The last `most` bytes of what was written, as text.
pub(crate) fn said(mut file: File, most: u64) -> String {
    let mut text = Vec::new();
    let length = file.metadata().map_or(0, |found| found.len());
    let read = file
        .seek(std::io::SeekFrom::Start(length.saturating_sub(most)))
        .and_then(|_| file.take(most).read_to_end(&mut text));
    match read {
        Ok(_) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The complaint of a program whose errors went to `file`.
pub(crate) fn complaint(file: File) -> String {
    said(file, COMPLAINT)
}
