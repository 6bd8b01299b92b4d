//! One start of a planner's program: fed, drained, timed, and killed with all that it started.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram as StdDatagram;
use std::pin::pin;
use std::time::Duration;

use provost_sandbox::{Ended, Ends, Gone, Program, Tended};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixDatagram;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

use crate::{Failure, FailureClass};

const CHUNK: usize = 64 * 1024;
/// What is kept of the end of standard error, in bytes: the reason of a failure stands there.
const LAST_WORDS: usize = 1024;
/// Reads that empty a full pipe (1 MiB at most, for ordinary users) after the tree is gone. Bounded for a stranger to the
/// tree that holds the pipe and keeps writing.
const LAST_READS: usize = 64;

/// `ENOEXEC`: neither a binary nor a script that names its interpreter. Some C libraries run such a file by a shell; nothing
/// here guesses.
const NO_FORMAT: i32 = 8;

/// Limits of one start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// When it is stopped.
    pub(super) deadline: Instant,
    /// Its whole time, for the message.
    pub(super) timeout: Duration,
    /// Longest silence on standard output; `None` where silence says nothing.
    pub(super) idle: Option<Duration>,
}

/// How a program ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) ended: Ended,
    /// The end of standard error.
    pub(super) last_words: String,
}

/// Runs a program to its end and gives all of its standard output, however much it is, to `output`, which stops it by an
/// error. When this returns, or its future is dropped, nothing that the program started is alive.
pub(super) async fn run(
    program: &Program,
    input: &[u8],
    limits: Limits,
    output: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
) -> Result<Ran, Failure> {
    let start = start(program)?;
    let (mut stdin, mut stdout, mut stderr) = (Some(start.stdin), start.stdout, start.stderr);
    let (mut fed, mut open, mut talking) = (0, true, true);
    let (mut buffer, mut words_buffer) = (vec![0; CHUNK], vec![0; 4096]);
    let mut words = Vec::new();
    let mut heard = Instant::now();
    let gone = {
        let mut gone = pin!(gone(&start.tended));
        loop {
            let silence = limits.idle.map_or(limits.deadline, |idle| heard + idle);
            tokio::select! {
                ended = &mut gone => break ended?,
                read = stdout.read(&mut buffer), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(count) => {
                        heard = Instant::now();
                        output(&buffer[..count])?;
                    }
                },
                read = stderr.read(&mut words_buffer), if talking => match read {
                    Ok(0) | Err(_) => talking = false,
                    Ok(count) => keep_end(&mut words, &words_buffer[..count]),
                },
                written = feed(stdin.as_mut(), &input[fed..]), if stdin.is_some() => {
                    // A program need not read what it is given: a closed pipe is no failure.
                    fed += written;
                    if written == 0 {
                        stdin = None;
                    }
                }
                () = sleep_until(limits.deadline) => return Err(too_slow(program, limits.timeout)),
                () = sleep_until(silence), if limits.idle.is_some() => {
                    let what = format!("{} was silent for {:?}", named(program), silence - heard);
                    return Err(Failure::new(FailureClass::Timeout, what));
                }
            }
        }
    };
    drop(stdin);
    // Its tree is gone, so that what is in the pipes is all there is. Their end would come only when the last stranger
    // closes them.
    if open {
        rest(stdout.into_nonblocking_fd().ok(), &mut buffer, output)?;
    }
    if talking {
        rest(stderr.into_nonblocking_fd().ok(), &mut buffer, &mut |bytes| {
            keep_end(&mut words, bytes);
            Ok(())
        })?;
    }
    Ok(Ran { ended: gone.ended, last_words: String::from_utf8_lossy(&words).trim().to_owned() })
}

struct Started {
    tended: Tended,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

fn start(program: &Program) -> Result<Started, Failure> {
    let io = |error: std::io::Error| not_started(program, error.kind(), &error.to_string());
    let (stdin, stdin_end) = pipe::pipe().map_err(io)?;
    let (stdout_end, stdout) = pipe::pipe().map_err(io)?;
    let (stderr_end, stderr) = pipe::pipe().map_err(io)?;
    let ends = Ends {
        stdin: stdin_end.into_blocking_fd().map_err(io)?,
        stdout: stdout_end.into_blocking_fd().map_err(io)?,
        stderr: stderr_end.into_blocking_fd().map_err(io)?,
    };
    let tended = Tended::start(program, ends).map_err(|failure| failed(program, &failure))?;
    Ok(Started { tended, stdin, stdout, stderr })
}

/// Waits until the program's tree is gone.
async fn gone(tended: &Tended) -> Result<Gone, Failure> {
    let lost = |error: std::io::Error| {
        Failure::new(FailureClass::Transport, format!("the planner's supervisor: {error}"))
    };
    // Its descriptor is a socket that keeps packets apart. Registered as what it is nearest to, only to be waited for: the
    // general type for that, `AsyncFd`, cannot be made without `unsafe`.
    let socket = StdDatagram::from(tended.as_fd().try_clone_to_owned().map_err(lost)?);
    socket.set_nonblocking(true).map_err(lost)?;
    let socket = UnixDatagram::from_std(socket).map_err(lost)?;
    let look = || tended.ended().ok_or_else(|| ErrorKind::WouldBlock.into());
    match socket.async_io(Interest::READABLE, look).await.map_err(lost)? {
        Ok(gone) => Ok(gone),
        Err(failure) if failure.step == "supervisor" => Err(lost(std::io::Error::other(failure))),
        Err(failure) => {
            let kind = std::io::Error::from_raw_os_error(failure.errno).kind();
            let hint = if failure.errno == NO_FORMAT {
                ": a script begins with `#!/bin/sh` or its like"
            } else {
                ""
            };
            Err(setup(kind, &format!("{failure}{hint}")))
        }
    }
}

/// Writes some of what is left; 0 when nothing is left or nobody reads.
async fn feed(stdin: Option<&mut pipe::Sender>, left: &[u8]) -> usize {
    match stdin {
        Some(stdin) if !left.is_empty() => stdin.write(left).await.unwrap_or(0),
        _ => 0,
    }
}

fn rest(
    end: Option<OwnedFd>,
    buffer: &mut [u8],
    output: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
) -> Result<(), Failure> {
    let Some(mut end) = end.map(File::from) else { return Ok(()) };
    for _ in 0..LAST_READS {
        match end.read(buffer) {
            Ok(0) => break,
            Ok(count) => output(&buffer[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    Ok(())
}

fn keep_end(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    kept.drain(..kept.len().saturating_sub(LAST_WORDS));
}

/// A program's name as a message shows it.
pub(super) fn named(program: &Program) -> String {
    format!("`{}`", program.path.display())
}

fn too_slow(program: &Program, timeout: Duration) -> Failure {
    Failure::new(FailureClass::Timeout, format!("{} did not end within {timeout:?}", named(program)))
}

fn failed(program: &Program, failure: &provost_sandbox::Failure) -> Failure {
    let kind = std::io::Error::from_raw_os_error(failure.errno).kind();
    not_started(program, kind, &failure.to_string())
}

fn not_started(program: &Program, kind: ErrorKind, why: &str) -> Failure {
    setup(kind, &format!("{} could not be started: {why}", named(program)))
}

/// A shortage may pass; anything else has to be put right by a person.
fn setup(kind: ErrorKind, what: &str) -> Failure {
    let class = match kind {
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory | ErrorKind::ExecutableFileBusy => {
            FailureClass::Transport
        }
        _ => FailureClass::Setup,
    };
    Failure::new(class, what)
}
