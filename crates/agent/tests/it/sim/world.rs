//! The world of a simulated run: its store, its workspace, what its commands left behind. It can be copied at any point
//! and put back, which is a crash at that point: only the driver's memory is lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use provost_core::digest::Digest;
use provost_core::event::{Body, Event};
use provost_core::id::{ActId, RunId};
use provost_journal::{Head, Letter, Salt};
use provost_sandbox::ExitRecord;

/// What a supervisor left of a command.
#[derive(Clone)]
pub(crate) enum Left {
    /// It was let go, and nothing says how it ended.
    Nothing,
    Record(Box<ExitRecord>),
}

/// A command that really ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) act: ActId,
    pub(crate) line: String,
}

/// Everything that outlives a driver.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) run: Option<RunId>,
    pub(crate) salt: Salt,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) blobs: BTreeMap<Digest, Arc<Vec<u8>>>,
    pub(crate) head: Head,
    pub(crate) generation: u64,
    pub(crate) left: BTreeMap<ActId, Left>,
    pub(crate) ran: Vec<Ran>,
    pub(crate) letters: Vec<Letter>,
    /// Tokens that the vendors charge, whether or not their answers came.
    pub(crate) billed: u64,
    pub(crate) clock_ms: u64,
}

/// When a world begins, in milliseconds since the Unix epoch.
pub(crate) const BEGINNING: u64 = 1_796_000_000_000;

impl State {
    pub(crate) fn new() -> Self {
        Self {
            run: None,
            salt: Salt::new([7; 32]),
            events: Vec::new(),
            blobs: BTreeMap::new(),
            head: Head::empty(),
            generation: 0,
            left: BTreeMap::new(),
            ran: Vec::new(),
            letters: Vec::new(),
            billed: 0,
            clock_ms: BEGINNING,
        }
    }
}

/// A file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    executable: bool,
    bytes: Vec<u8>,
}

pub(crate) type Files = BTreeMap<PathBuf, File>;

/// A point at which everything can stop.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) what: &'static str,
    state: State,
    files: Files,
    /// What lies beside the journal of the request that is under way.
    asking: Option<Vec<u8>>,
}

/// Whether points are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Points,
    Nothing,
}

struct Inner {
    state: State,
    keep: Keep,
    points: Vec<Point>,
}

pub(crate) struct World {
    inner: Mutex<Inner>,
    pub(crate) root: PathBuf,
}

impl World {
    pub(crate) fn new(root: PathBuf, files: &[(&str, &str)]) -> Self {
        let world = Self {
            inner: Mutex::new(Inner { state: State::new(), keep: Keep::Nothing, points: Vec::new() }),
            root,
        };
        let files = files.iter().map(|(name, text)| {
            (PathBuf::from(name), File { executable: false, bytes: text.as_bytes().to_vec() })
        });
        write(&world.root, &files.collect());
        world
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Looks at or changes the state.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.inner().state)
    }

    pub(crate) fn tick(&self) -> u64 {
        self.with(|state| {
            state.clock_ms += 10;
            state.clock_ms
        })
    }

    pub(crate) fn files(&self) -> Files {
        let mut files = Files::new();
        read(&self.root, Path::new(""), &mut files);
        files
    }

    pub(crate) fn keep(&self, keep: Keep) {
        self.inner().keep = keep;
    }

    /// Passes a point.
    pub(crate) fn pass(&self, what: &'static str) {
        if self.inner().keep == Keep::Nothing {
            return;
        }
        let (files, asking) = (self.files(), self.asking());
        let mut inner = self.inner();
        let point = Point { what, state: inner.state.clone(), files, asking };
        inner.points.push(point);
    }

    /// Passes a point at which an act of several files is done in part: each choice of some of them is a point.
    pub(crate) fn pass_within_write(&self) {
        let inner = self.inner();
        let changes = match inner.state.events.last().map(|event| &event.body) {
            Some(Body::ActStarted(started)) => match &started.intent {
                provost_core::act::Intent::Write { changes } => changes,
                provost_core::act::Intent::Command { .. }
                | provost_core::act::Intent::Background { .. }
                | provost_core::act::Intent::Call { .. }
                | provost_core::act::Intent::Spawn(_) => return,
            },
            Some(Body::ActStaged(staged)) => &staged.changes,
            _ => return,
        };
        if inner.keep == Keep::Nothing || changes.len() < 2 {
            return;
        }
        let (state, changes) = (inner.state.clone(), changes.clone());
        drop(inner);
        let (files, asking) = (self.files(), self.asking());
        for chosen in 1..(1_u32 << changes.len()) - 1 {
            let mut files = files.clone();
            for (index, change) in changes.iter().enumerate().filter(|(index, _)| chosen & (1 << index) != 0)
            {
                let _ = index;
                let path = PathBuf::from(change.path.to_os());
                match &change.after {
                    None => drop(files.remove(&path)),
                    Some(fact) => {
                        let bytes = state.blobs[&fact.content].as_ref().clone();
                        files.insert(path, File { executable: fact.mode == "100755", bytes });
                    }
                }
            }
            let (state, asking) = (state.clone(), asking.clone());
            self.inner().points.push(Point { what: "within a write", state, files, asking });
        }
    }

    pub(crate) fn take_points(&self) -> Vec<Point> {
        std::mem::take(&mut self.inner().points)
    }

    /// Puts everything back as it was at a point. Whatever drove it before is gone.
    pub(crate) fn restore(&self, point: &Point) {
        for entry in fs::read_dir(&self.root).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        write(&self.root, &point.files);
        self.inner().state = point.state.clone();
        let Some(record) = self.asking_path() else { return };
        match &point.asking {
            Some(asking) => {
                fs::create_dir_all(record.parent().unwrap()).unwrap();
                fs::write(record, asking).unwrap();
            }
            None => drop(fs::remove_file(record)),
        }
    }

    fn asking(&self) -> Option<Vec<u8>> {
        fs::read(self.asking_path()?).ok()
    }

    fn asking_path(&self) -> Option<PathBuf> {
        let run = self.with(|state| state.run.clone())?;
        Some(self.root.with_file_name("spool").join(run.as_str()).join("asking"))
    }
}

fn read(root: &Path, below: &Path, files: &mut Files) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            read(root, &path, files);
        } else {
            let executable = meta.permissions().mode() & 0o100 != 0;
            files.insert(path, File { executable, bytes: fs::read(entry.path()).unwrap() });
        }
    }
}

fn write(root: &Path, files: &Files) {
    for (path, file) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file.bytes).unwrap();
        if file.executable {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
