//! Running git: fixed environment and configuration, drained pipes, bounded time.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{GitError, failed};

/// Configuration on top of the repository's own. What is not listed here has no effect on the commands we run.
const CONFIG: [&str; 6] = [
    // Root reads repositories of others; what ownership protects from is switched off below.
    "safe.directory=*",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.pager=cat",
    "protocol.allow=never",
];

const ENVIRONMENT: [(&str, &str); 11] = [
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // A partial clone fetches what it lacks, and the repository says by which command: never.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_PROTOCOL_FROM_USER", "0"),
];

/// The folders of `PATH` in which a program can be trusted: absolute ones outside of the folder and the repository that
/// are worked on, links resolved. What an agent can write is no program of ours.
fn trusted_path(folder: &Path, root: Option<&Path>) -> OsString {
    let worked_on: Vec<PathBuf> =
        [Some(folder), root].into_iter().flatten().filter_map(|path| path.canonicalize().ok()).collect();
    let outside = |entry: &PathBuf| {
        entry.is_absolute()
            && entry
                .join("git")
                .canonicalize()
                .or_else(|_| entry.canonicalize())
                .is_ok_and(|real| !worked_on.iter().any(|folder| real.starts_with(folder)))
            && entry.canonicalize().is_ok_and(|real| !worked_on.iter().any(|folder| real.starts_with(folder)))
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&path).filter(outside)).unwrap_or_default()
}

/// How git is called.
#[derive(Debug, Clone)]
pub(super) struct Git {
    folder: PathBuf,
    at: Option<(PathBuf, PathBuf)>,
    /// The person whose own configuration holds too.
    home: Option<PathBuf>,
}

impl Git {
    /// Git in `folder`, looking for the repository itself.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), at: None, home: None }
    }

    /// Git for this repository, wherever it is called.
    pub(super) fn at(self, git_dir: &Path, root: &Path) -> Self {
        Self { at: Some((git_dir.to_owned(), root.to_owned())), ..self }
    }

    /// With the configuration of the person whose home this is. For asking what it says, and nothing else.
    pub(super) fn of_person(&self, home: &Path) -> Self {
        Self { home: Some(home.to_owned()), ..self.clone() }
    }

    pub(super) fn in_folder(&self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self.clone() }
    }

    fn command(&self) -> Command {
        let path = trusted_path(&self.folder, self.at.as_ref().map(|(_, root)| root.as_path()));
        let program = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file());
        // Without one, an absolute path that is not there: never whatever else goes by that name.
        let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from("/usr/bin/git")));
        command.env_clear().current_dir(&self.folder).env("PATH", path);
        command.envs(ENVIRONMENT).args(["--no-pager", "--literal-pathspecs"]);
        if let Some(home) = &self.home {
            command.env_remove("GIT_CONFIG_GLOBAL").env("HOME", home);
        }
        for setting in CONFIG {
            command.args(["-c", setting]);
        }
        if let Some((git_dir, root)) = &self.at {
            command.arg("--git-dir").arg(git_dir).arg("--work-tree").arg(root);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs to the end and answers standard output.
    pub(super) fn output(&self, args: &[impl AsRef<OsStr>], limit: Duration) -> Result<Vec<u8>, GitError> {
        let mut command = self.command();
        command.args(args).stdin(Stdio::null());
        let name = args.first().map_or_else(String::new, |arg| arg.as_ref().to_string_lossy().into_owned());
        let mut running = Running::start(command, name, limit)?;
        let mut out = Vec::new();
        let read = running.stdout.read_to_end(&mut out);
        running.finish()?;
        match read {
            Ok(_) => Ok(out),
            Err(error) => Err(failed(&running.name, error.to_string())),
        }
    }

    /// Runs to the end with `input` on standard input and `variables` beside the usual ones, and answers standard output.
    pub(super) fn fed(
        &self,
        args: &[impl AsRef<OsStr>],
        input: Vec<u8>,
        variables: &[(&str, &OsStr)],
        limit: Duration,
    ) -> Result<Vec<u8>, GitError> {
        let mut command = self.command();
        command.args(args).envs(variables.iter().copied()).stdin(Stdio::piped());
        let name = args.first().map_or_else(String::new, |arg| arg.as_ref().to_string_lossy().into_owned());
        let mut running = Running::start(command, name, limit)?;
        let stdin = running.child.lock().unwrap_or_else(PoisonError::into_inner).stdin.take();
        thread::spawn(move || {
            // A git that ended early closes its input, and its exit status tells why.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(&input);
            }
        });
        let mut out = Vec::new();
        let read = running.stdout.read_to_end(&mut out);
        running.finish()?;
        match read {
            Ok(_) => Ok(out),
            Err(error) => Err(failed(&running.name, error.to_string())),
        }
    }

    /// Starts a `cat-file --batch` and feeds it `lines` from a thread, so that neither side waits for the other.
    pub(super) fn batch(&self, args: &[&str], lines: &[String], limit: Duration) -> Result<Batch, GitError> {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped());
        let running = Running::start(command, args.join(" "), limit)?;
        let stdin = running.child.lock().unwrap_or_else(PoisonError::into_inner).stdin.take();
        let input = lines.iter().fold(String::new(), |all, line| all + line + "\n");
        thread::spawn(move || {
            // A git that ended early closes its input, and its exit status tells why.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(input.as_bytes());
            }
        });
        Ok(Batch { running })
    }
}

/// What `cat-file` says of one object.
pub(super) struct Header {
    /// `blob`, `tree`, `commit`, `tag` or `missing`.
    pub(super) kind: String,
    /// Bytes; 0 for `missing`.
    pub(super) size: u64,
}

/// A running `cat-file --batch` or `--batch-check`.
pub(super) struct Batch {
    running: Running,
}

impl Batch {
    /// The next object's header.
    pub(super) fn header(&mut self) -> Result<Header, GitError> {
        let mut line = Vec::new();
        self.running
            .stdout
            .by_ref()
            .take(4096)
            .read_until(b'\n', &mut line)
            .map_err(|error| failed(&self.running.name, error.to_string()))?;
        let text = String::from_utf8_lossy(&line).into_owned();
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        match fields.as_slice() {
            [_, kind, size] => {
                if let Ok(size) = size.parse() {
                    return Ok(Header { kind: (*kind).to_owned(), size });
                }
            }
            [_, "missing"] => return Ok(Header { kind: "missing".to_owned(), size: 0 }),
            _ => {}
        }
        self.running.finish()?;
        Err(failed(&self.running.name, format!("unclear answer {text:?}")))
    }

    /// The content that follows a header of `--batch`.
    pub(super) fn content(&mut self, size: u64) -> Result<Vec<u8>, GitError> {
        // Not allocated in advance: the size is the repository's word.
        let mut content = Vec::new();
        let read = self.running.stdout.by_ref().take(size + 1).read_to_end(&mut content);
        if read.is_ok() && content.len() as u64 == size + 1 && content.pop() == Some(b'\n') {
            return Ok(content);
        }
        self.running.finish()?;
        Err(failed(&self.running.name, "it ended within an object".to_owned()))
    }

    /// Waits for its end.
    pub(super) fn finish(mut self) -> Result<(), GitError> {
        self.running.finish()
    }
}

/// A git that is killed at its time limit or when this is dropped.
struct Running {
    name: String,
    limit: Duration,
    child: Arc<Mutex<Child>>,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    expired: Arc<AtomicBool>,
    /// Dropped to call the watchdog off.
    watchdog: Option<Sender<()>>,
}

impl Running {
    fn start(mut command: Command, name: String, limit: Duration) -> Result<Self, GitError> {
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => GitError::NoGit,
            _ => failed(&name, error.to_string()),
        })?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(&name, "it has no output".to_owned()));
        };
        let child = Arc::new(Mutex::new(child));
        let expired = Arc::new(AtomicBool::new(false));
        let (watchdog, called_off) = mpsc::channel::<()>();
        let theirs = (Arc::clone(&child), Arc::clone(&expired));
        thread::spawn(move || {
            if called_off.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                theirs.1.store(true, Ordering::SeqCst);
                let _ = theirs.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
            }
        });
        let stderr = thread::spawn(move || {
            let mut words = Vec::new();
            let mut stderr = stderr;
            let _ = stderr.by_ref().take(64 * 1024).read_to_end(&mut words);
            // What is too much is still drained, or git would wait for us.
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            words
        });
        Ok(Self {
            name,
            limit,
            child,
            stdout: BufReader::with_capacity(64 * 1024, stdout),
            stderr: Some(stderr),
            expired,
            watchdog: Some(watchdog),
        })
    }

    fn finish(&mut self) -> Result<(), GitError> {
        let status = loop {
            // The lock is not held while waiting: the watchdog needs it.
            let ended = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            match ended {
                Ok(Some(status)) => break status,
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(failed(&self.name, error.to_string())),
            }
        };
        self.watchdog = None;
        if self.expired.load(Ordering::SeqCst) {
            return Err(GitError::TimedOut { command: self.name.clone(), seconds: self.limit.as_secs() });
        }
        let words = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        Err(failed(&self.name, if words.is_empty() { status.to_string() } else { words }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watchdog = None;
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
