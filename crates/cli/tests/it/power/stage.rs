//! The work whose driver is killed: a small repository, a script, a store, a model that lives elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::power::disk::Disk;
use crate::support::{
    Ran, Rehearsal, Repo, Running, TestEnvironment, bodies, eventually, files_beneath, finish, text,
};

/// What the gate runs.
pub(crate) const GATE: &str = "grep -q 'left + right' src/lib.rs";

/// The command that writes a file of the tree; the others only say that they ran.
pub(crate) const MAKER: u32 = 4;

/// How many commands the script runs.
pub(crate) const COMMANDS: u32 = 5;

const LIB: &str = "pub fn add(left: i64, right: i64) -> i64 {\n    left - right\n}\n";

const PATCH: &str = "\
--- a/README.md
+++ b/README.md
@@ -1 +1,2 @@
 Sums.
+Mended.
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-old
--- /dev/null
+++ b/new/one.txt
@@ -0,0 +1 @@
+one
--- /dev/null
+++ b/new/deeper/two.txt
@@ -0,0 +1,2 @@
+two
+lines
";

/// A command that leaves its account where git does not look.
fn command(n: u32) -> Value {
    // Some take long enough to be met while they run.
    let (work, exit) = match n {
        2 => (":", 3),
        3 => ("sleep 0.02", 0),
        MAKER => ("sleep 0.01; echo made > made.txt; sleep 0.01", 0),
        _ => (":", 0),
    };
    let line = format!("echo begin {n} >> count.txt; {work}; echo end {n} >> count.txt; exit {exit}");
    json!({ "name": "exec", "arguments": { "argv": ["sh", "-c", line] } })
}

fn script() -> Value {
    let read = |path: &str| json!({ "name": "read_file", "arguments": { "path": path } });
    let edit = json!({ "name": "edit_file", "arguments": {
        "path": "src/lib.rs", "old": "left - right", "new": "left + right" } });
    let patch = json!({ "name": "apply_patch", "arguments": { "patch": PATCH } });
    let write = json!({ "name": "write_file", "arguments": { "path": "NOTES.md", "content": "mended\n" } });
    let submit = json!({ "name": "submit", "arguments": { "summary": "mended" } });
    let answers = [
        json!([read("src/lib.rs"), command(1)]),
        json!([edit]),
        json!([read("README.md"), read("old.txt"), command(2), command(3)]),
        json!([patch]),
        json!([command(MAKER)]),
        json!([write, command(5)]),
        json!([submit]),
    ];
    let steps = answers
        .iter()
        .enumerate()
        .map(|(n, calls)| json!({ "calls": calls, "usage": { "input": 100 + n, "output": 10 + n } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

/// When the driver is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    /// So long after its start.
    After(Duration),
    /// Before its so-manieth change to the store's folder, or sync of it.
    Before(u64),
    /// Not at all.
    Never,
}

/// A world for one run.
pub(crate) struct Stage {
    pub(crate) env: TestEnvironment,
    pub(crate) repo: Repo,
    pub(crate) model: Rehearsal,
    /// The disk under the store, where power may be cut.
    pub(crate) disk: Option<Disk>,
    /// What is in the workspace at the start.
    pub(crate) base: BTreeMap<PathBuf, String>,
    policy: &'static str,
    _vendor: TestEnvironment,
}

/// The store that a run begins with, and whether its disk loses what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// None yet, on a disk that keeps everything.
    Kept,
    /// None yet, on a disk that loses what was not synced.
    Fresh,
    /// One whose write-ahead log is nearly full, so that it is folded into the file during the run and begun anew.
    Grown,
}

/// What the rounds of one test have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) store: StoreKind,
    /// `workspace` contains commands as strongly as the host can, `full-access` only kills their trees.
    pub(crate) policy: &'static str,
}

impl Stage {
    pub(crate) fn new(setting: Setting) -> Self {
        let Setting { store: kind, policy } = setting;
        let (env, vendor) = (TestEnvironment::new(), TestEnvironment::new());
        let files = [
            ("src/lib.rs", LIB),
            ("README.md", "Sums.\n"),
            ("old.txt", "old\n"),
            (".gitignore", "/count.txt\n"),
        ];
        let repo = env.repository("repository", &files);
        let model = vendor.rehearse(&script());
        let folder = env.store().parent().unwrap().to_owned();
        fs::create_dir(&folder).unwrap();
        if kind == StoreKind::Grown {
            grow(&env);
        }
        let disk = (kind != StoreKind::Kept).then(|| Disk::new(&folder, &env.at("tmp")));
        let base = tree(&repo.path);
        Self { env, repo, model, disk, base, policy, _vendor: vendor }
    }

    /// Begins the run.
    pub(crate) fn run(&self, kill: Kill) -> Option<Ran> {
        let more = ["--policy", self.policy, "--verify", GATE];
        let args = self.env.run_args(&self.repo.path, &self.model, &more);
        self.drive(self.env.provost_command(args), kill)
    }

    pub(crate) fn resume(&self, run: &str, kill: Kill) -> Option<Ran> {
        self.drive(self.env.provost_command(["resume", run, "--json"]), kill)
    }

    /// Runs a driver; `None` if it was killed.
    fn drive(&self, mut command: Command, kill: Kill) -> Option<Ran> {
        if let Some(disk) = &self.disk {
            let at = if let Kill::Before(step) = kill { Some(step) } else { None };
            disk.under(&mut command, at);
        }
        let mut driver = Running::start(command);
        if let Kill::After(delay) = kill {
            std::thread::sleep(delay);
            if !driver.is_over() {
                driver.signal(Signal::KILL);
            }
        }
        let ran = driver.wait();
        (ran.code != 137).then_some(ran)
    }

    /// What commands wrote of themselves.
    pub(crate) fn count(&self, line: &str) -> usize {
        let text = fs::read_to_string(self.repo.path.join("count.txt")).unwrap_or_default();
        text.lines().filter(|found| *found == line).count()
    }

    /// The files of the workspace that git would look at.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, String> {
        tree(&self.repo.path)
    }

    /// The id of the tree that the workspace holds, by git itself.
    pub(crate) fn tree_id(&self) -> String {
        let index = self.env.at("tmp/index");
        let git = |args: &[&str]| {
            let mut command = self.repo.command(args);
            command.env("GIT_INDEX_FILE", &index);
            finish(command).code(0).stdout
        };
        git(&["add", "-A"]);
        let id = git(&["write-tree"]).trim().to_owned();
        fs::remove_file(index).unwrap();
        id
    }

    /// The record folders of the run's acts, with the acts' numbers.
    pub(crate) fn records(&self, run: &str) -> Vec<(u64, PathBuf)> {
        let spool = self.env.store().with_extension("spool").join(run);
        let entries = fs::read_dir(spool).into_iter().flatten().map(|entry| entry.unwrap().path());
        let act = |path: PathBuf| {
            let number = path.file_name()?.to_str()?.strip_prefix("act-")?.parse().ok()?;
            Some((number, path))
        };
        entries.filter_map(act).collect()
    }

    /// What the model was asked, each time: the step, and the body.
    pub(crate) fn asked(&self) -> Vec<(String, u64, String)> {
        let requests = self.model.requests();
        let asked = requests.iter().map(|request| {
            let headers = request["headers"].as_array().unwrap();
            let key = text(&headers.iter().find(|header| header[0] == "idempotency-key").unwrap()[1]);
            let (run, step) = key.rsplit_once('.').unwrap();
            (run.to_owned(), step.parse().unwrap(), text(&request["body"]))
        });
        asked.collect()
    }

    /// The journal as it lies on the disk. Looked at in a copy: whoever opens a store also mends it.
    pub(crate) fn on_disk(&self) -> Option<Recorded> {
        if !self.env.store().exists() {
            return None;
        }
        let copy = self.env.at("tmp/look.db");
        for end in ["", "-wal"] {
            let (from, to) = (with_end(&self.env.store(), end), with_end(&copy, end));
            let _ = fs::remove_file(&to);
            if from.exists() {
                fs::copy(from, to).unwrap();
            }
        }
        let _ = fs::remove_file(with_end(&copy, "-shm"));
        let store = rusqlite::Connection::open(&copy).unwrap();
        let mut query = store.prepare("SELECT json FROM event ORDER BY key").unwrap();
        let lines = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let events = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        let mut events: Vec<Value> = events.collect();
        // A run that was there before works elsewhere.
        let root = self.repo.path.canonicalize().unwrap().display().to_string();
        let here = |event: &Value| event["kind"] == "run.created" && event["body"]["root"] == root;
        let mut begun = events.iter().filter(|event| here(event));
        let run = text(&begun.next()?["stream"]);
        assert!(begun.next().is_none(), "one run is begun here, not two");
        events.retain(|event| event["stream"] == run);
        Some(Recorded { run, events })
    }

    /// Waits until the supervisors of a dead driver are done.
    pub(crate) fn settle(&self) {
        eventually("the supervisors end", || self.env.processes().is_empty());
    }
}

/// A run, as far as it is recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) run: String,
    pub(crate) events: Vec<Value>,
}

impl Recorded {
    /// Paths that recorded intents are about to write.
    pub(crate) fn written(&self) -> Vec<PathBuf> {
        let starts = bodies(&self.events, "act.started");
        let changes = starts.iter().filter_map(|start| start["intent"]["changes"].as_array()).flatten();
        changes.map(|change| PathBuf::from(text(&change["path"]))).collect()
    }

    /// Whether a command is recorded as started.
    pub(crate) fn started(&self, n: u32) -> bool {
        let starts = bodies(&self.events, "act.started");
        starts.iter().any(|start| is_command(&start["intent"], n))
    }
}

/// Whether an intent is of the script's command `n`.
pub(crate) fn is_command(intent: &Value, n: u32) -> bool {
    intent["argv"].to_string().contains(&format!("echo begin {n} "))
}

/// Makes the store of `env`, as a process that was killed would leave it: with a run that is over, and some 950 pages in
/// its write-ahead log. SQLite folds a log of 1000 into the file.
fn grow(env: &TestEnvironment) {
    static GROWN: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let grown = GROWN.get_or_init(|| {
        let maker = TestEnvironment::new();
        let repo = maker.repository("repository", &[("a.txt", "one\n")]);
        let model = maker.rehearse(&json!({ "final": "done" }));
        let _ = maker.run(&repo.path, &model, &[]).code(0);
        let store = rusqlite::Connection::open(maker.store()).unwrap();
        // A table that is made and dropped leaves free pages and nothing else.
        store
            .execute_batch(
                "PRAGMA wal_autocheckpoint = 0;
                 CREATE TABLE ballast (bytes BLOB);
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 940)
                 INSERT INTO ballast SELECT randomblob(4000) FROM n;
                 DROP TABLE ballast;",
            )
            .unwrap();
        ["", "-wal"].map(|end| fs::read(with_end(&maker.store(), end)).unwrap())
    });
    for (end, bytes) in ["", "-wal"].into_iter().zip(grown) {
        let path = with_end(&env.store(), end);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let files = files_beneath(root).into_iter().filter_map(|file| {
        let path = file.strip_prefix(root).unwrap().to_owned();
        let hidden = path.starts_with(".git") || path == Path::new("count.txt");
        (!hidden).then(|| (path, fs::read_to_string(&file).unwrap()))
    });
    files.collect()
}
