//! A store that cannot be written, and a disk that is full: what is started ends in a clear error, the store stays as it
//! is, and once it can be written again the run goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::power::disk::names;
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, eventually, finish};

/// A store with a run whose driver was killed.
struct Left {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
    run: String,
    _vendor: TestEnvironment,
}

/// What stands between a command and its store.
#[derive(Debug, Clone, Copy)]
enum Barrier {
    None,
    /// The modes of the store's files.
    Files,
    /// The mode of their folder.
    Folder,
    /// A file system that is mounted read-only.
    Mount,
}

/// How the driver that was killed left the store.
#[derive(Debug, Clone, Copy)]
enum Log {
    /// With events in the write-ahead log.
    Pending,
    /// Another command has tidied it since.
    Tidied,
}

/// A command by an ordinary user: root ignores modes.
fn ordinary(env: &TestEnvironment, args: &[&str]) -> Command {
    let original = env.provost_command(args);
    if !rustix::process::geteuid().is_root() {
        return original;
    }
    let mut command = env.command("setpriv");
    command.args(["--reuid=1000", "--regid=1000", "--clear-groups", "--"]);
    command.arg(env.at("ordinary")).args(original.get_args());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env_remove("CARGO_HOME").env_remove("RUSTUP_HOME");
    command
}

/// Lets the ordinary user in, if the test is root's: to the binary, too.
fn let_in(env: &TestEnvironment) {
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(env.root(), fs::Permissions::from_mode(0o755)).unwrap();
        let binary = env.at("ordinary");
        fs::copy(env!("CARGO_BIN_EXE_provost"), &binary).unwrap();
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        let mut chown = Command::new("chown");
        chown.args(["-R", "1000:1000"]).arg(env.root());
        let _ = finish(chown).code(0);
    }
}

impl Left {
    fn new(log: Log) -> Self {
        let (env, vendor) = (TestEnvironment::new(), TestEnvironment::new());
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let read = json!({ "name": "read_file", "arguments": { "path": "a.txt" } });
        let model = vendor.rehearse(&json!({
            "steps": [{ "call": read }, { "call": read, "fault": { "stall_ms": 900_000, "times": 1 } }],
            "final": "done"
        }));
        let_in(&env);
        let args = env.run_args(&repo.path, &model, &[]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let driver = crate::support::Running::start(ordinary(&env, &args));
        eventually("the second request is made", || model.requests().len() == 2);
        let _ = driver.kill();
        let left = Self { env, repo, model, run: String::new(), _vendor: vendor };
        let run = left.left_run();
        if matches!(log, Log::Tidied) {
            let _ = left.provost(Barrier::None, &["runs"]).code(0);
        } else {
            // After a restart of the machine there is none.
            let _ = fs::remove_file(left.folder().join("provost.db-shm"));
        }
        Self { run, ..left }
    }

    /// The run's name, read in a copy of the store.
    fn left_run(&self) -> String {
        let copy = self.env.at("tmp/look");
        fs::create_dir(&copy).unwrap();
        for name in ["provost.db", "provost.db-wal"] {
            fs::copy(self.folder().join(name), copy.join(name)).unwrap();
        }
        let store = rusqlite::Connection::open(copy.join("provost.db")).unwrap();
        store.query_row("SELECT name FROM run", [], |row| row.get(0)).unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.env.store().parent().unwrap().to_owned()
    }

    fn provost(&self, barrier: Barrier, args: &[&str]) -> Ran {
        let command = ordinary(&self.env, args);
        finish(if matches!(barrier, Barrier::Mount) { self.read_only(&command) } else { command })
    }

    /// The command in a namespace where the store's folder is mounted read-only.
    fn read_only(&self, inner: &Command) -> Command {
        let folder = self.folder().display().to_string();
        let line = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" || exit 99; exec \"$@\"";
        let namespaces = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
        let mut unshare = self.env.command("unshare");
        unshare.args([namespaces, "sh", "-c", line, &folder]).arg(inner.get_program()).args(inner.get_args());
        unshare
    }

    /// Puts a barrier up, or takes it away.
    fn bar(&self, barrier: Barrier, up: bool) {
        let set = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        match barrier {
            Barrier::Folder => set(&self.folder(), if up { 0o555 } else { 0o755 }),
            Barrier::Files => {
                for name in names(&self.folder()) {
                    set(&self.folder().join(name), if up { 0o444 } else { 0o600 });
                }
            }
            Barrier::None | Barrier::Mount => {}
        }
    }

    /// The store's files, but for the memory that SQLite shares through one.
    fn content(&self) -> Vec<(String, Vec<u8>)> {
        let names = names(&self.folder()).into_iter().filter(|name| !name.ends_with("-shm"));
        // An empty log is as good as none.
        let files = names.map(|name| (name.clone(), fs::read(self.folder().join(name)).unwrap()));
        files.filter(|(_, bytes)| !bytes.is_empty()).collect()
    }

    /// Whatever wants to write is refused by name, and the store is as it was.
    fn assert_drivers_are_refused(&self, barrier: Barrier) {
        let before = self.content();
        let asked = self.model.requests().len();
        let run = self.env.run_args(&self.repo.path, &self.model, &[]);
        let run: Vec<&str> = run.iter().map(String::as_str).collect();
        for args in [run, vec!["resume", &self.run]] {
            let ran = self.provost(barrier, &args).code(2);
            assert!(ran.stderr.contains("provost.db` cannot be written"), "{barrier:?}: {ran}");
            assert_eq!(self.model.requests().len(), asked, "{ran}");
        }
        assert!(self.content() == before, "{barrier:?}: the store changed");
    }

    /// What only reads says the same as without the barrier.
    fn assert_readers_read(&self, barrier: Barrier) {
        for args in
            [vec!["runs", "--json"], vec!["log", &self.run, "--json"], vec!["show", &self.run, "--json"]]
        {
            let read = self.provost(barrier, &args).code(0);
            self.bar(barrier, false);
            let expected = self.provost(Barrier::None, &args).code(0);
            self.bar(barrier, true);
            assert_eq!(read.json(), expected.json());
        }
    }

    /// The control: without the barrier the run goes on to its end.
    fn assert_goes_on(&self) {
        let _ = self.provost(Barrier::None, &["resume", &self.run, "--json"]).code(0);
        self.env.assert_store_intact();
    }
}

#[test]
fn d6_a_store_whose_files_are_read_only_can_be_read() {
    for log in [Log::Pending, Log::Tidied] {
        let left = Left::new(log);
        left.bar(Barrier::Files, true);
        left.assert_drivers_are_refused(Barrier::Files);
        left.assert_readers_read(Barrier::Files);
        left.bar(Barrier::Files, false);
        left.assert_goes_on();
    }
}

#[test]
fn d6_a_store_in_a_read_only_folder_takes_no_run() {
    for log in [Log::Pending, Log::Tidied] {
        for barrier in [Barrier::Folder, Barrier::Mount] {
            let left = Left::new(log);
            left.bar(barrier, true);
            left.assert_drivers_are_refused(barrier);
            left.bar(barrier, false);
            left.assert_goes_on();
        }
    }
}

/// `cases.rs` has the run that meets a full disk and goes on when there is space. Here: what works while there is none.
#[test]
fn d6_on_a_full_disk_a_run_is_refused_and_can_be_read() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let content = "a line of some length\n".repeat(8_000);
    let write = json!({ "name": "write_file", "arguments": { "path": "big-{{i}}.txt", "content": content } });
    let model = env.rehearse(&json!({ "steps": [{ "call": write, "repeat": 12 }], "final": "done" }));
    fs::create_dir(env.at("small")).unwrap();
    let line = "\
mount -t tmpfs -o size=2m none small || exit 99
drive() { name=$1; shift; \"$provost\" \"$@\" --store small/store.db --json >\"$name.out\" 2>\"$name.err\"; echo $? >\"$name\"; }
drive run run 'Mend it.' -C repository --model m --base-url \"$0\"
dd if=/dev/zero of=small/ballast bs=1k 2>dd.err
drive runs runs
run=$(sed 's/.*\"run\":\"\\([^\"]*\\)\".*/\\1/' runs.out)
drive resume resume \"$run\"
drive log log \"$run\"
drive show show \"$run\"
drive again run 'Mend it.' -C repository --model m --base-url \"$0\"
rm small/ballast
mount -o remount,size=64m none small || exit 99
drive last resume \"$run\"
";
    let namespaces = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    let mut unshare = env.command("unshare");
    unshare
        .args([namespaces, "sh", "-c", line, &model.base_url])
        .env("provost", env!("CARGO_BIN_EXE_provost"));
    let _ = finish(unshare).code(0);
    let file = |name: &str| fs::read_to_string(env.at(name)).unwrap();
    let code = |name: &str| file(name).trim().to_owned();
    for name in ["run", "resume", "again"] {
        assert_eq!(code(name), "70", "{name}: {}", file(&format!("{name}.err")));
        let said = file(&format!("{name}.err"));
        assert!(said.contains("no space is left for the store"), "{name}: {said}");
    }
    for name in ["runs", "log", "show", "last"] {
        assert_eq!(code(name), "0", "{name}: {}", file(&format!("{name}.err")));
    }
    for n in 0..12 {
        assert_eq!(fs::read_to_string(repo.path.join(format!("big-{n}.txt"))).unwrap(), content);
    }
}
