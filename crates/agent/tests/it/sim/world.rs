//! The world of a simulated run: its store, its workspace, what its commands left behind. It can be copied at any point
//! and put back, which is a crash at that point: only the driver's memory is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use provost_core::digest::Digest;
use provost_core::event::{Body, Event};
use provost_core::id::{ActId, RunId};
use provost_journal::{Head, Letter, Salt};
use provost_sandbox::ExitRecord;

/// What a supervisor left of a command.
#[derive(Clone, PartialEq)]
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
    /// The acts that somebody answered by letter.
    pub(crate) answered: BTreeSet<ActId>,
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
            answered: BTreeSet::new(),
            billed: 0,
            clock_ms: BEGINNING,
        }
    }

    /// Whether nothing but the time has changed. The journal's head stands for its events; blobs are only ever added.
    fn is_as(&self, other: &Self) -> bool {
        let Self {
            run,
            salt: _,
            events,
            blobs,
            head,
            generation,
            left,
            ran,
            letters,
            answered,
            billed,
            clock_ms: _,
        } = self;
        *run == other.run
            && *head == other.head
            && events.len() == other.events.len()
            && blobs.len() == other.blobs.len()
            && *generation == other.generation
            && *left == other.left
            && *ran == other.ran
            && *letters == other.letters
            && *answered == other.answered
            && *billed == other.billed
    }
}

/// A file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    executable: bool,
    bytes: Vec<u8>,
}

pub(crate) type Files = BTreeMap<PathBuf, File>;

/// What lies in the workspace.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Files,
    pub(crate) folders: BTreeSet<PathBuf>,
}

/// A point at which everything can stop.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) what: &'static str,
    /// How many points in a row are this one: what is after one write is mostly what is before the next.
    pub(crate) times: u64,
    state: State,
    files: Files,
    /// What lies beside the journal of the request that is under way.
    asking: Option<Vec<u8>>,
}

impl Point {
    /// Whether nothing but the time has changed.
    fn is_as(&self, state: &State, files: &Files, asking: Option<&[u8]>) -> bool {
        self.state.is_as(state) && self.files == *files && self.asking.as_deref() == asking
    }
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
        write(&world.root, &files.collect::<Files>());
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

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        read(&self.root, Path::new(""), &mut tree);
        tree
    }

    pub(crate) fn keep(&self, keep: Keep) {
        self.inner().keep = keep;
    }

    /// Passes a point.
    pub(crate) fn pass(&self, what: &'static str) {
        if self.inner().keep == Keep::Nothing {
            return;
        }
        let (files, asking) = (self.tree().files, self.asking());
        let mut inner = self.inner();
        let Inner { state, points, .. } = &mut *inner;
        match points.last_mut().filter(|last| last.is_as(state, &files, asking.as_deref())) {
            Some(last) => last.times += 1,
            None => points.push(Point { what, times: 1, state: state.clone(), files, asking }),
        }
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
        let (files, asking) = (self.tree().files, self.asking());
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
            self.inner().points.push(Point { what: "within a write", times: 1, state, files, asking });
        }
    }

    pub(crate) fn take_points(&self) -> Vec<Point> {
        std::mem::take(&mut self.inner().points)
    }

    /// Puts everything back as it was at a point, where the workspace holds what `lies` says. Whatever drove it before is
    /// gone.
    pub(crate) fn restore(&self, point: &Point, lies: &Tree) {
        for path in lies.files.keys().filter(|path| !point.files.contains_key(*path)) {
            fs::remove_file(self.root.join(path)).unwrap();
        }
        let needed: BTreeSet<_> = point.files.keys().flat_map(|path| path.ancestors().skip(1)).collect();
        // What is within a folder comes after it.
        for folder in lies.folders.iter().rev().filter(|folder| !needed.contains(folder.as_path())) {
            fs::remove_dir(self.root.join(folder)).unwrap();
        }
        write(&self.root, point.files.iter().filter(|(path, file)| lies.files.get(*path) != Some(*file)));
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

fn read(root: &Path, below: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            read(root, &path, tree);
            tree.folders.insert(path);
        } else {
            let executable = meta.permissions().mode() & 0o100 != 0;
            tree.files.insert(path, File { executable, bytes: fs::read(entry.path()).unwrap() });
        }
    }
}

fn write<'a>(root: &Path, files: impl IntoIterator<Item = (&'a PathBuf, &'a File)>) {
    for (path, file) in files {
        let path = root.join(path);
        let mode = if file.executable { 0o755 } else { 0o644 };
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
        let opened = options.open(&path).or_else(|_| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            options.open(&path)
        });
        let mut opened = opened.unwrap();
        opened.write_all(&file.bytes).unwrap();
        if opened.metadata().unwrap().permissions().mode() & 0o777 != mode {
            opened.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}
