//! One case: a workspace, a run of so many steps, its table.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use provost_agent::{Ending, Interrupt, Order, Runtime};
use provost_core::budget::Budget;
use provost_core::contract::{Contract, Source};
use provost_core::event::ModelFact;
use provost_core::outcome::Outcome;
use provost_core::path::RelPath;
use provost_core::policy::{Policy, Preset};
use provost_core::transcript::Call;
use provost_journal::SqliteStore;
use provost_model::{Answer, BaseUrl, PlainHttp, Provider, Remote, Scripted, WireKind};
use provost_sandbox::Probe;
use provost_tools::command::HostEnvironment;
use serde_json::{Value, json};

use crate::bare::Bare;
use crate::meter::Meter;
use crate::report;
use crate::wrap::{Metered, Weighed, Written};

/// Where programs are looked for.
const PATH: &str = "/usr/bin:/bin";

/// Files in the workspace besides those that the steps touch: a scan after a command looks at each.
pub(crate) const OTHER_FILES: usize = 100;

/// What the steps do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Edit,
    Command,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Command => "command",
        }
    }

    pub(crate) fn named(word: &str) -> Self {
        [Self::Read, Self::Edit, Self::Command].into_iter().find(|kind| kind.word() == word).expect("a kind")
    }

    /// Durable appends that the design allows a step.
    pub(crate) fn appends(self) -> u32 {
        match self {
            Self::Read => 1,
            Self::Edit | Self::Command => 2,
        }
    }

    /// Steps in front that are not measured: an edit needs its file to have been seen.
    pub(crate) fn warm_up(self) -> usize {
        usize::from(self == Self::Edit)
    }

    /// The call of step `i`.
    fn call(self, i: usize) -> (&'static str, Value) {
        let state = |i: usize| format!("state = {i}");
        match self {
            Self::Read if i % 2 == 1 => ("read_file", json!({"path": "ten.txt"})),
            Self::Edit if i > 0 => {
                ("edit_file", json!({"path": "one.txt", "old": state(i - 1), "new": state(i)}))
            }
            Self::Read | Self::Edit => ("read_file", json!({"path": "one.txt"})),
            Self::Command => ("exec", json!({"argv": ["true"]})),
        }
    }

    fn calls(self, steps: usize) -> impl Iterator<Item = (&'static str, Value)> {
        (0..steps + self.warm_up()).map(move |i| self.call(i))
    }
}

/// The script of the rehearsal server.
pub(crate) fn script(kind: Kind, steps: usize) -> String {
    let steps: Vec<Value> = kind
        .calls(steps)
        .map(|(name, arguments)| json!({"call": {"name": name, "arguments": arguments}}))
        .collect();
    json!({"steps": steps, "final": "done"}).to_string()
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Via {
    /// A provider in this process.
    Scripted,
    /// The rehearsal server at this address, over the chat-completions wire.
    Loopback(String),
}

impl Via {
    pub(crate) fn named(text: &str) -> Self {
        if text == "scripted" { Self::Scripted } else { Self::Loopback(text.to_owned()) }
    }

    fn provider(&self, kind: Kind, steps: usize) -> Arc<dyn Provider> {
        match self {
            Self::Scripted => {
                let turns = kind.calls(steps).enumerate().map(|(i, (name, arguments))| {
                    let call = Call {
                        id: format!("call_{i}_0"),
                        name: name.to_owned(),
                        arguments: arguments.to_string(),
                    };
                    Ok(Answer::calls(vec![call]))
                });
                Arc::new(Scripted::new(turns.chain([Ok(Answer::text("done"))])))
            }
            Self::Loopback(url) => {
                let base = BaseUrl::parse(url, PlainHttp::LoopbackOnly).expect("an address");
                Arc::new(
                    Remote::builder(WireKind::OpenAiChat, base, "rehearsal").build().expect("a provider"),
                )
            }
        }
    }
}

/// One run.
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) via: Via,
    pub(crate) steps: usize,
    pub(crate) dir: PathBuf,
}

impl Case {
    /// Runs it and prints its table.
    pub(crate) fn run(self) {
        let workspace = self.dir.join("workspace");
        make_workspace(&workspace);
        let path = self.dir.join("store.db");
        let store = Arc::new(SqliteStore::open(&path).expect("a store"));
        let empty = size(&path);

        let meter = Meter::default();
        let written = Arc::new(Mutex::new(Written::default()));
        let bare = Bare::appends(&self.dir, &workspace);
        let bare = if self.kind == Kind::Command { bare.and_spawns(&Probe::run(), PATH) } else { bare };
        let bare = Arc::new(Mutex::new(bare));
        let provider = Metered {
            inner: self.via.provider(self.kind, self.steps),
            store: store.clone(),
            meter: meter.clone(),
            bare: bare.clone(),
        };
        let weighed = Weighed { inner: store, meter: meter.clone(), written: written.clone() };
        let model = ModelFact::new("bench", "bench", "");
        let mut runtime = Runtime::new(Arc::new(weighed), self.dir.join("spool"), Arc::new(provider), model);
        runtime.host = HostEnvironment { path: PATH.to_owned(), ..HostEnvironment::default() };

        let budget = Budget { steps: None, ..Budget::default() };
        let order = Order {
            contract: Contract::new("be quick").policy(Policy::preset(Preset::Workspace)).budget(budget),
            source: Source::Directory { commit: None, scope: RelPath::root() },
            repository: Some(workspace.clone()),
            workspace,
        };
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (_, ending) =
            tokio.block_on(runtime.start(order, Interrupt::new().expect("a handle"))).expect("a run");
        assert!(
            matches!(&ending, Ending::Over(finished) if finished.outcome == Outcome::Done),
            "the run ended with {ending:?}"
        );
        let peak = peak_kb();
        // The last handle tidies the write-ahead log into the store.
        drop(runtime);
        let grown = size(&path) - empty;

        let bare = bare.lock().unwrap_or_else(PoisonError::into_inner);
        let written = written.lock().unwrap_or_else(PoisonError::into_inner);
        report::case(&self, &meter.steps(), &bare, &written, grown, peak);
    }
}

/// A committed repository with a file of 1 kB, one of 10 kB, and some others.
fn make_workspace(dir: &Path) {
    fs::create_dir(dir).expect("a folder");
    let line = |i: usize| format!("line {i:06} of a file that a step of the benchmark reads again....\n");
    let lines = |n: usize| (0..n).map(line).collect::<String>();
    fs::write(dir.join("one.txt"), lines(15) + "state = 0\n").expect("a file");
    fs::write(dir.join("ten.txt"), lines(155)).expect("a file");
    for folder in 0..10 {
        let folder_path = dir.join(format!("folder{folder}"));
        fs::create_dir(&folder_path).expect("a folder");
        for file in 0..OTHER_FILES / 10 {
            let mut text = String::new();
            let _ = writeln!(text, "file {file} of folder {folder}");
            fs::write(folder_path.join(format!("file{file}.txt")), text).expect("a file");
        }
    }
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=bench", "-c", "user.email=bench@invalid", "commit", "-q", "-m", "start"],
    ] {
        let status = Command::new("git").arg("-C").arg(dir).args(arguments).status().expect("git starts");
        assert!(status.success(), "git {arguments:?}");
    }
}

/// Bytes of a store: its file and what lies in its log.
fn size(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    [path, Path::new(&log)].iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum()
}

/// Peak resident memory of this process, in kB.
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
