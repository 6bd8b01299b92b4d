//! The process outside that attacks are after: it holds a secret in its memory, its environment, its command line and an open file.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::stage::MARK;

/// The variable that holds the secret.
const VARIABLE: &str = "PROVOST_VICTIM";

/// What an attacker is told of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) pid: i32,
    /// Where its memory holds the secret.
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// Its descriptor of `fd.txt` outside, open for writing.
    pub(crate) file: i32,
    /// Its descriptor of a file that has no name any more and holds the secret.
    pub(crate) unnamed: i32,
}

/// What the process does: tell where its things are, wait until it is asked, show its memory.
pub(super) fn main(secret: &[u8], outside: &Path) -> i32 {
    let memory = secret.to_vec().into_boxed_slice();
    let unnamed = outside.join("unnamed.txt");
    let (Ok(file), Ok(())) =
        (OpenOptions::new().write(true).open(outside.join("fd.txt")), std::fs::write(&unnamed, secret))
    else {
        return 1;
    };
    let Ok(open) = File::open(&unnamed) else { return 1 };
    let _ = std::fs::remove_file(&unnamed);
    let told = Told {
        pid: std::process::id().cast_signed(),
        address: memory.as_ptr() as u64,
        length: memory.len() as u64,
        file: file.as_raw_fd(),
        unnamed: open.as_raw_fd(),
    };
    let Ok(mut line) = serde_json::to_vec(&told) else { return 1 };
    line.push(b'\n');
    let mut out = File::from(match rustix::io::dup(rustix::stdio::stdout()) {
        Ok(out) => out,
        Err(_) => return 1,
    });
    if out.write_all(&line).is_err() {
        return 1;
    }
    let mut nothing = Vec::new();
    let _ = std::io::stdin().lock().read_to_end(&mut nothing);
    // Read again from where an attacker would have changed it.
    let _ = out.write_all(std::hint::black_box(&memory));
    0
}

/// The driver's handle on it. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Victim {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(super) told: Told,
    secret: String,
    before: String,
}

impl Victim {
    pub(super) fn start(exe: &Path, outside: &Path, secret: &str) -> std::io::Result<Self> {
        let mut child = std::process::Command::new(exe)
            .args([MARK, "victim", secret])
            .arg(outside)
            .env_clear()
            .env(VARIABLE, secret)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of its own, for attacks on the group.
            .process_group(0)
            .spawn()?;
        let out = child.stdout.take().ok_or_else(|| super::stage::missing("no pipe"))?;
        let mut out = BufReader::new(out);
        let mut line = String::new();
        out.read_line(&mut line)?;
        let told: Told = serde_json::from_str(&line)?;
        let before = state(told.pid);
        Ok(Self { child, out, told, secret: secret.to_owned(), before })
    }

    /// What is not as it was. It is asked for its memory by this and ends.
    pub(super) fn harm(&mut self) -> Option<String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(format!("it ended: {status}"));
        }
        let after = state(self.told.pid);
        if after != self.before {
            let changed = self.before.lines().zip(after.lines()).find(|(before, after)| before != after);
            return Some(
                changed
                    .map_or_else(|| "its state".to_owned(), |(before, after)| format!("{before} -> {after}")),
            );
        }
        drop(self.child.stdin.take());
        let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
        let answers = poll(&mut [PollFd::new(self.out.get_ref(), PollFlags::IN)], Some(&limit))
            .is_ok_and(|ready| ready > 0);
        let mut memory = String::new();
        if !answers || self.out.read_to_string(&mut memory).is_err() {
            return Some("it does not answer".to_owned());
        }
        (memory != self.secret).then(|| "its memory".to_owned())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What somebody else could change of a process: one thing a line.
fn state(pid: i32) -> String {
    // Just woken, it may still be on its way into the read that it waits in.
    std::thread::sleep(Duration::from_millis(1));
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    // proc(5), counted from the state: tracer and stop show in it; priority 18, nice 19, real-time priority 40, policy 41.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("");
    let stopped = matches!(field(3), "T" | "t" | "Z" | "X");
    let status = read("status");
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or("").to_owned();
    [
        format!("stopped {stopped}"),
        format!("priority {} {} {} {}", field(18), field(19), field(40), field(41)),
        line("TracerPid"),
        line("Cpus_allowed"),
        format!("oom {}", read("oom_score_adj").trim()),
        format!("dump {}", read("coredump_filter").trim()),
        format!("slack {}", read("timerslack_ns").trim()),
        format!("io {}", io_priority(pid)),
        read("limits"),
    ]
    .join("\n")
}

fn io_priority(pid: i32) -> i64 {
    super::raw::call(libc::SYS_ioprio_get, [1.into(), pid.into()]).unwrap_or(-1)
}
