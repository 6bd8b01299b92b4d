//! A hermetic world for one test: own home, store and temp folder, a cleared environment, a deadline for everything.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longest that one command of a test may take. Far above what any takes: it only ends what hangs.
const DEADLINE: Duration = Duration::from_mins(2);

/// Calculates wrongly, and its two tests say so.
pub(crate) const LIB_RS: &str = "\
//! Sums.

/// The sum of two numbers.
pub fn add(left: i64, right: i64) -> i64 {
    left - right
}

#[cfg(test)]
mod tests {
    use super::add;

    #[test]
    fn adds_positive_numbers() {
        assert_eq!(add(2, 3), 5);
    }

    #[test]
    fn adds_negative_numbers() {
        assert_eq!(add(-2, -3), -5);
    }
}
";

/// The world of one test. Everything in it is gone when it is dropped.
pub(crate) struct TestEnvironment {
    root: TempDir,
}

impl TestEnvironment {
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("provost-it-").tempdir().unwrap();
        for name in ["home", "state", "config", "tmp"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// A path in this world.
    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    /// Where runs are kept: what the command line chooses by itself here.
    pub(crate) fn store(&self) -> PathBuf {
        self.at("state/provost/provost.db")
    }

    /// The runner's public key; made on first use, as the command line does.
    pub(crate) fn public_key(&self) -> PathBuf {
        let _ = self.provost(["key"]).code(0);
        self.at("config/provost/runner.pub.pem")
    }

    /// A program with this world as its environment and nothing else.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.at("home"))
            .env("XDG_STATE_HOME", self.at("state"))
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("TMPDIR", self.at("tmp"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.root())
            .stdin(Stdio::null());
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(folder));
            if let Some(path) = std::env::var_os(name).map(PathBuf::from).or(home) {
                command.env(name, path);
            }
        }
        command
    }

    /// The binary under test, not started yet.
    pub(crate) fn provost_command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_provost"));
        command.args(args);
        command
    }

    /// Runs `provost` to its end.
    pub(crate) fn provost<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        finish(self.provost_command(args))
    }

    /// Starts `provost` in the background.
    pub(crate) fn start<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        Running::start(self.provost_command(args))
    }

    /// Arguments of `provost run` on `dir` with the rehearsed model, with lines for programs.
    pub(crate) fn run_args(&self, dir: &Path, model: &Rehearsal, more: &[&str]) -> Vec<String> {
        let mut args = vec!["run", "Mend it.", "-C"].into_iter().map(str::to_owned).collect::<Vec<_>>();
        args.push(dir.display().to_string());
        args.extend(["--model", "rehearsal", "--base-url", &model.base_url, "--json"].map(str::to_owned));
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        args
    }

    /// `provost run` on `dir` with the rehearsed model, to its end. Standard output holds JSON lines.
    pub(crate) fn run(&self, dir: &Path, model: &Rehearsal, more: &[&str]) -> Ran {
        self.provost(self.run_args(dir, model, more))
    }

    /// Starts a rehearsed model that plays `script`.
    pub(crate) fn rehearse(&self, script: &Value) -> Rehearsal {
        Rehearsal::start(self, script)
    }

    /// The runs in the store, oldest first.
    pub(crate) fn runs(&self) -> Vec<String> {
        let mut rows = self.provost(["runs", "--json"]).code(0).json();
        rows.sort_by_key(|row| row["created_ms"].as_u64());
        rows.iter().map(|row| text(&row["run"])).collect()
    }

    /// The only run in the store.
    pub(crate) fn only_run(&self) -> String {
        let mut runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// A run's events, as they stand in the journal.
    pub(crate) fn journal(&self, run: &str) -> Vec<Value> {
        self.provost(["log", run, "--json"]).code(0).json()
    }

    /// What `provost show --json` says of a run.
    pub(crate) fn show(&self, run: &str) -> Value {
        let mut lines = self.provost(["show", run, "--json"]).code(0).json();
        assert_eq!(lines.len(), 1, "one object");
        lines.remove(0)
    }

    /// A git repository in `name` that holds `files`, committed.
    pub(crate) fn repository(&self, name: &str, files: &[(&str, &str)]) -> Repo {
        let repo = Repo { path: self.at(name), root: self.root().to_owned() };
        fs::create_dir_all(&repo.path).unwrap();
        repo.git(&["init", "-q", "-b", "main"]);
        for (path, content) in files {
            repo.write(path, content);
        }
        repo.commit();
        repo
    }

    /// A git repository whose folder `package` is a small Cargo library with two failing tests, committed.
    pub(crate) fn package(&self) -> Package {
        let repo = self.repository(
            "repository",
            &[
                (
                    "package/Cargo.toml",
                    "[package]\nname = \"sums\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n",
                ),
                ("package/Cargo.lock", "version = 4\n\n[[package]]\nname = \"sums\"\nversion = \"0.1.0\"\n"),
                ("package/.gitignore", "/target\n"),
                ("package/src/lib.rs", LIB_RS),
                ("README.md", "One small library, in `package/`.\n"),
            ],
        );
        Package { dir: repo.path.join("package"), repo }
    }

    /// Fails the test if the store's file is not sound, by SQLite's own judgement.
    pub(crate) fn assert_store_intact(&self) {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let store = rusqlite::Connection::open_with_flags(self.store(), flags).unwrap();
        let verdict: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
    }

    /// Command lines of processes of this world that still live.
    pub(crate) fn processes(&self) -> Vec<String> {
        processes_at(self.root())
    }

    /// Fails the test if a process of this world still lives a while later.
    pub(crate) fn assert_no_processes(&self) {
        eventually("no process of the test is left", || self.processes().is_empty());
    }

    /// The same while a rehearsed model runs on.
    pub(crate) fn assert_no_processes_but(&self, model: &Rehearsal) {
        let log = model.log().display().to_string();
        let others = || self.processes().into_iter().filter(|line| !line.contains(&log)).count();
        eventually("no process of the test but the model is left", || others() == 0);
    }
}

/// Command lines of the processes that name `path` in their environment or arguments, or work beneath it.
pub(crate) fn processes_at(path: &Path) -> Vec<String> {
    let needle = path.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let folder = entry.path();
        if !entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        // A process may end while it is looked at, and a zombie has none of these.
        let cmdline = fs::read(folder.join("cmdline")).unwrap_or_default();
        let environ = fs::read(folder.join("environ")).unwrap_or_default();
        let cwd = fs::read_link(folder.join("cwd")).unwrap_or_default();
        if contains(&cmdline, needle) || contains(&environ, needle) || cwd.starts_with(path) {
            found.push(String::from_utf8_lossy(&cmdline).replace('\0', " ").trim().to_owned());
        }
    }
    found
}

/// A git repository of a test.
pub(crate) struct Repo {
    pub(crate) path: PathBuf,
    root: PathBuf,
}

impl Repo {
    /// A repository that is there already.
    pub(crate) fn at(path: &Path, root: &Path) -> Self {
        Self { path: path.to_owned(), root: root.to_owned() }
    }

    /// git in this repository, with nobody's configuration.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(args)
            .current_dir(&self.path)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::null());
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "A U Thor")
                .env(format!("GIT_{who}_EMAIL"), "author@example.com")
                .env(format!("GIT_{who}_DATE"), "1700000000 +0000");
        }
        command
    }

    /// Runs git, which must succeed, and gives its output.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let ran = finish(self.command(args));
        assert_eq!(ran.code, 0, "git {args:?}: {}", ran.stderr);
        ran.stdout
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Commits all that lies in the work tree, and gives the commit's id.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "A commit"]);
        self.head()
    }

    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// A clone beside it, at the same commit.
    pub(crate) fn clone_to(&self, name: &str) -> Repo {
        let path = self.root.join(name);
        let (from, to) = (self.path.display().to_string(), path.display().to_string());
        self.git(&["clone", "-q", "--no-hardlinks", &from, &to]);
        Repo { path, root: self.root.clone() }
    }
}

/// A repository with a small Cargo library in a folder.
pub(crate) struct Package {
    pub(crate) repo: Repo,
    pub(crate) dir: PathBuf,
}

/// A process that ended.
#[derive(Debug)]
#[must_use = "say what it should have ended with"]
pub(crate) struct Ran {
    /// Exit code; 128 and the signal for one that a signal ended, as a shell has it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    title: String,
}

impl Ran {
    /// Fails the test unless it exited with `code`.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        // A panic says that a bug was met whatever the exit code is.
        assert!(!self.stderr.contains("panicked at"), "{self}");
        self
    }

    /// Standard output as JSON lines; every line must be an object.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| match serde_json::from_str(line) {
                Ok(value @ Value::Object(_)) => value,
                other => panic!("not an object: `{line}` ({other:?})\n{self}"),
            })
            .collect()
    }

    /// The last JSON line.
    #[track_caller]
    pub(crate) fn last(&self) -> Value {
        self.json().pop().unwrap_or_else(|| panic!("no output\n{self}"))
    }

    /// The run that the last JSON line of `run` or `resume` names.
    #[track_caller]
    pub(crate) fn run(&self) -> String {
        text(&self.last()["run"])
    }

    /// Fails the test unless standard error has `words`.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "standard error lacks `{words}`\n{self}");
        self
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "$ {}\nexit {}\n--- stdout\n{}\n--- stderr\n{}",
            self.title, self.code, self.stdout, self.stderr
        )
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: Command) -> Ran {
    Running::start(command).wait()
}

/// A process in the background; killed when dropped.
pub(crate) struct Running {
    child: Child,
    title: String,
    out: Option<[JoinHandle<Vec<u8>>; 2]>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let title = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(OsStr::to_string_lossy)
            .collect::<Vec<_>>()
            .join(" ");
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{title}: {error}"));
        let out = [drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap())];
        Self { child, title, out: Some(out) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Ends it at once, as a power cut would end the process, and waits for that.
    pub(crate) fn kill(mut self) -> Ran {
        self.child.kill().unwrap();
        self.wait_for()
    }

    /// Waits for its end, at most until the deadline.
    pub(crate) fn wait(mut self) -> Ran {
        self.wait_for()
    }

    fn wait_for(&mut self) -> Ran {
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let [stdout, stderr] = self.out.take().expect("waited for once");
        let read =
            |thread: JoinHandle<Vec<u8>>| String::from_utf8_lossy(&thread.join().unwrap()).into_owned();
        let ran = Ran {
            code: status.map_or(-1, exit_code),
            stdout: read(stdout),
            stderr: read(stderr),
            title: self.title.clone(),
        };
        assert!(status.is_some(), "not over within {DEADLINE:?}\n{ran}");
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A running `provost rehearse`; killed when dropped.
pub(crate) struct Rehearsal {
    child: Child,
    /// Base URL for OpenAI's wires; without `/v1` it is the one for the others.
    pub(crate) base_url: String,
    log: PathBuf,
}

impl Rehearsal {
    fn start(env: &TestEnvironment, script: &Value) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = env.at(format!("script-{number}.json"));
        let log = env.at(format!("requests-{number}.ndjson"));
        fs::write(&file, script.to_string()).unwrap();
        let mut command = env.provost_command(["rehearse"]);
        command.arg(&file).arg("--log").arg(&log).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut base_url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut base_url).unwrap();
        assert!(base_url.starts_with("http://127.0.0.1:"), "`{base_url}` (script {script})");
        Self { child, base_url: base_url.trim().to_owned(), log }
    }

    /// Base URL for the wires that are not OpenAI's.
    pub(crate) fn bare_url(&self) -> &str {
        self.base_url.trim_end_matches("/v1")
    }

    /// The file that holds the requests it got.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The requests it got so far. A line that is still being written is left out.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is true, at most until the deadline.
#[track_caller]
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !check() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Events of one kind, their bodies.
pub(crate) fn bodies<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).map(|event| &event["body"]).collect()
}

/// The changes that acts made, in the journal's order: a write that is done made those that its start says.
pub(crate) fn changes(events: &[Value]) -> Vec<Value> {
    let starts = bodies(events, "act.started");
    let of = |finished: &&Value| {
        let started = starts.iter().find(|started| started["act"] == finished["act"]);
        let sets_out = started.and_then(|started| started["intent"]["changes"].as_array());
        let sets_out = sets_out.filter(|_| finished["end"] == "done").cloned();
        sets_out.or_else(|| finished["changes"].as_array().cloned()).unwrap_or_default()
    };
    bodies(events, "act.finished").iter().flat_map(of).collect()
}

/// A JSON string's text.
#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Files beneath `path` (or `path` itself) that hold `needle`.
pub(crate) fn files_with(path: &Path, needle: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for file in files_beneath(path) {
        if contains(&fs::read(&file).unwrap(), needle.as_bytes()) {
            found.push(file);
        }
    }
    found
}

/// The regular files beneath `path`, in order.
pub(crate) fn files_beneath(path: &Path) -> Vec<PathBuf> {
    let meta = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if meta.is_file() {
        return vec![path.to_owned()];
    }
    let mut files = Vec::new();
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            files.extend(files_beneath(&entry.unwrap().path()));
        }
    }
    files.sort();
    files
}
