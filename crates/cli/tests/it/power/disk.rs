//! The disk of `tests/shim/powerloss.c`: what a process changed in one folder, and the way back to what was synced.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::power::rng::Rng;
use crate::support::finish;

/// A file's inode number. The shim keeps every file that loses its name, so none is given out twice.
type Inode = u64;

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// What a power cut leaves of changes that no sync made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsynced {
    /// Nothing.
    Lost,
    /// The first so many: the disk wrote them in order.
    Prefix,
    /// Some, in no order, the last of each file perhaps torn between sectors.
    Some,
}

/// When a name is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// When its folder was synced: all that POSIX promises.
    WithTheirFolder,
    /// With any later sync: what file systems with a journal do.
    WithAnySync,
}

/// A power cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) unsynced: Unsynced,
    pub(crate) names: Names,
    /// How many syncs the disk kept its word for, from the first. A good disk: all.
    pub(crate) honest: usize,
}

impl Cut {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        Self {
            unsynced: rng.pick(&[Unsynced::Lost, Unsynced::Prefix, Unsynced::Some]),
            names: rng.pick(&[Names::WithTheirFolder, Names::WithAnySync]),
            honest: usize::MAX,
        }
    }
}

/// One change.
#[derive(Debug, Clone)]
enum Change {
    Write {
        file: Inode,
        at: u64,
        old_size: u64,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    Resize {
        file: Inode,
        size: u64,
        old_size: u64,
        lost: Vec<u8>,
    },
    /// The name stood for `old` and stands for `new`; 0 is no file.
    Name {
        folder: Inode,
        name: String,
        old: Inode,
        new: Inode,
    },
    Rename {
        folder: Inode,
        file: Inode,
        replaced: Inode,
        from: String,
        to: String,
    },
}

impl Change {
    /// What has to be synced to make it durable, and whether it is one of names.
    fn subject(&self) -> (Inode, bool) {
        match self {
            Self::Write { file, .. } | Self::Resize { file, .. } => (*file, false),
            Self::Name { folder, .. } | Self::Rename { folder, .. } => (*folder, true),
        }
    }
}

enum Record {
    Change(Change),
    Syncing { number: u64 },
    Synced { subject: Inode, number: u64 },
}

/// A folder whose changes are kept track of.
pub(crate) struct Disk {
    folder: PathBuf,
    log: PathBuf,
    grave: PathBuf,
}

impl Disk {
    /// `folder` must be there. `beside` is where log and lost files are kept, on the same file system.
    pub(crate) fn new(folder: &Path, beside: &Path) -> Self {
        let disk =
            Self { folder: folder.to_owned(), log: beside.join("disk.log"), grave: beside.join("grave") };
        fs::create_dir_all(&disk.grave).unwrap();
        disk
    }

    /// Has a process that is started by `command` work on this disk; it kills itself before change or sync `kill_at`.
    pub(crate) fn under(&self, command: &mut Command, kill_at: Option<u64>) {
        command
            .env("LD_PRELOAD", shim())
            .env("POWERLOSS_FOLDER", &self.folder)
            .env("POWERLOSS_LOG", &self.log)
            .env("POWERLOSS_GRAVE", &self.grave);
        if let Some(step) = kill_at {
            command.env("POWERLOSS_KILL_AT", step.to_string());
        }
    }

    /// How many changes and syncs there were since the last cut: the moments at which a process can be killed.
    pub(crate) fn steps(&self) -> u64 {
        self.records().iter().filter(|record| !matches!(record, Record::Synced { .. })).count() as u64
    }

    /// How many syncs there were since the last cut.
    pub(crate) fn syncs(&self) -> usize {
        self.records().iter().filter(|record| matches!(record, Record::Synced { .. })).count()
    }

    /// Leaves the folder as a power cut would leave it. No process may use it.
    pub(crate) fn cut(&self, cut: Cut, rng: &mut Rng) {
        let unsynced = pending(self.records(), cut);
        self.take_back(&unsynced);
        let survivors = survivors(unsynced, cut.unsynced, rng);
        self.do_again(&survivors);
        self.forget();
    }

    /// Takes back all that no sync made durable, for a look at what is then there; the way back is
    /// [`do_again`](Self::do_again).
    pub(crate) fn look_back(&self, cut: Cut) -> Vec<Done> {
        let unsynced = pending(self.records(), cut);
        self.take_back(&unsynced);
        unsynced
    }

    /// Begins anew: what is in the folder now is durable.
    pub(crate) fn forget(&self) {
        for name in names(&self.folder).into_iter().filter(|name| name.ends_with("-shm")) {
            fs::remove_file(self.folder.join(name)).unwrap();
        }
        let _ = fs::remove_file(&self.log);
        fs::remove_dir_all(&self.grave).unwrap();
        fs::create_dir(&self.grave).unwrap();
    }

    fn take_back(&self, changes: &[Done]) {
        for Done(change) in changes.iter().rev() {
            match change {
                Change::Write { file, at, old_size, old, .. } => {
                    self.set_bytes(*file, *at, old, Some(*old_size));
                }
                Change::Resize { file, size, old_size, lost } => {
                    self.set_bytes(*file, *size, lost, Some(*old_size));
                }
                Change::Name { name, old, .. } => self.set_name(name, *old),
                Change::Rename { file, replaced, from, to, .. } => {
                    self.set_name(from, *file);
                    self.set_name(to, *replaced);
                }
            }
        }
    }

    pub(crate) fn do_again(&self, changes: &[Done]) {
        for Done(change) in changes {
            match change {
                Change::Write { file, at, new, .. } => self.set_bytes(*file, *at, new, None),
                Change::Resize { file, size, .. } => self.set_bytes(*file, *size, &[], Some(*size)),
                Change::Name { name, new, .. } => self.set_name(name, *new),
                Change::Rename { file, from, to, .. } => {
                    self.set_name(to, *file);
                    self.set_name(from, 0);
                }
            }
        }
    }

    fn set_bytes(&self, file: Inode, at: u64, bytes: &[u8], size: Option<u64>) {
        let path = self.find(file);
        let open = File::options().write(true).open(&path).unwrap();
        open.write_all_at(bytes, at).unwrap();
        if let Some(size) = size {
            open.set_len(size).unwrap();
        }
    }

    /// Has a name stand for a file, or for none. Does nothing where it does already: the process may have been killed
    /// between writing down and doing.
    fn set_name(&self, name: &str, file: Inode) {
        let path = self.folder.join(name);
        let now = inode(&path);
        if now == Some(file) || (now.is_none() && file == 0) {
            return;
        }
        if let Some(now) = now {
            match fs::hard_link(&path, self.grave.join(now.to_string())) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => panic!("{error}"),
                _ => fs::remove_file(&path).unwrap(),
            }
        }
        if file != 0 {
            fs::hard_link(self.find(file), &path).unwrap();
        }
    }

    fn find(&self, file: Inode) -> PathBuf {
        let places = [&self.folder, &self.grave];
        let found = places.into_iter().find_map(|place| {
            names(place).into_iter().map(|name| place.join(name)).find(|path| inode(path) == Some(file))
        });
        found.unwrap_or_else(|| panic!("file {file} of the log is nowhere"))
    }

    fn records(&self) -> Vec<Record> {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let mut rest = bytes.as_slice();
        let mut records = Vec::new();
        // What was killed while it wrote the last one down did not come to do it.
        while let Some(record) = read_record(&mut rest) {
            records.push(record);
        }
        records
    }
}

/// A change that was made and not made durable.
#[derive(Debug, Clone)]
pub(crate) struct Done(Change);

/// The changes that no sync made durable, in order. A sync covers what came before it began, once it ended.
fn pending(records: Vec<Record>, cut: Cut) -> Vec<Done> {
    let mut begun: HashMap<u64, usize> = HashMap::new();
    let mut pending: Vec<(usize, Change)> = Vec::new();
    let mut honest = cut.honest;
    for (place, record) in records.into_iter().enumerate() {
        match record {
            Record::Change(change) => pending.push((place, change)),
            Record::Syncing { number } => {
                begun.insert(number, place);
            }
            Record::Synced { subject, number } if honest > 0 => {
                honest -= 1;
                let before = begun[&number];
                pending.retain(|(place, change)| {
                    let (theirs, of_names) = change.subject();
                    let covered = theirs == subject || (of_names && cut.names == Names::WithAnySync);
                    !(covered && *place < before)
                });
            }
            Record::Synced { .. } => {}
        }
    }
    pending.into_iter().map(|(_, change)| Done(change)).collect()
}

fn survivors(mut unsynced: Vec<Done>, which: Unsynced, rng: &mut Rng) -> Vec<Done> {
    match which {
        Unsynced::Lost => Vec::new(),
        Unsynced::Prefix => {
            unsynced.truncate(rng.below(unsynced.len() as u64 + 1) as usize);
            unsynced
        }
        Unsynced::Some => {
            // Names are written in order by every file system that keeps a journal of them.
            let named = unsynced.iter().filter(|Done(change)| change.subject().1).count() as u64;
            let mut names_left = rng.below(named + 1);
            unsynced.retain_mut(|Done(change)| match change {
                Change::Name { .. } | Change::Rename { .. } => {
                    let survives = names_left > 0;
                    names_left = names_left.saturating_sub(1);
                    survives
                }
                Change::Resize { .. } => rng.below(2) == 0,
                Change::Write { at, new, .. } => {
                    tear(*at, new, rng);
                    !new.is_empty()
                }
            });
            unsynced
        }
    }
}

/// Shortens what was written to sectors that reached the disk: half of the time all, else from none to all but one.
fn tear(at: u64, new: &mut Vec<u8>, rng: &mut Rng) {
    if rng.below(2) == 0 {
        return;
    }
    let to_boundary = SECTOR - (at as usize % SECTOR);
    let sectors = new.len().saturating_sub(to_boundary).div_ceil(SECTOR) + 1;
    let kept = rng.below(sectors as u64) as usize;
    new.truncate(if kept == 0 { 0 } else { to_boundary + (kept - 1) * SECTOR });
}

/// Takes a record off the front; `None` where there is no whole one.
fn read_record(rest: &mut &[u8]) -> Option<Record> {
    let mut numbers = [0; 6];
    for number in &mut numbers {
        *number = u64::from_ne_bytes(rest.split_off(..8)?.try_into().unwrap());
    }
    let [kind, a, b, c, first, second] = numbers;
    let mut bytes = |count: u64| rest.split_off(..count as usize).map(<[u8]>::to_vec);
    let (first, second) = (bytes(first)?, bytes(second)?);
    let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Some(match kind as u8 {
        b'w' => Record::Change(Change::Write { file: a, at: b, old_size: c, old: first, new: second }),
        b't' => Record::Change(Change::Resize { file: a, size: b, old_size: c, lost: first }),
        b'n' => Record::Change(Change::Name { folder: c, name: name(&first), old: b, new: a }),
        b'r' => Record::Change(Change::Rename {
            folder: c,
            file: a,
            replaced: b,
            from: name(&first),
            to: name(&second),
        }),
        b'b' => Record::Syncing { number: b },
        b's' => Record::Synced { subject: a, number: b },
        other => panic!("a record of kind {other}"),
    })
}

fn inode(path: &Path) -> Option<Inode> {
    fs::symlink_metadata(path).ok().map(|meta| meta.ino())
}

/// Names of the files that lie directly in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut names: Vec<String> =
        files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The shim, compiled once for each test process.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (path, fresh) = (folder.join("powerloss.so"), folder.join(format!("{}.so", std::process::id())));
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&fresh);
        cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/powerloss.c"));
        let _ = finish(cc).code(0);
        // Tests run at once, each in a process: none may load half of it.
        fs::rename(fresh, &path).unwrap();
        path
    })
}
