//! What a look at an unchanged workspace costs beside a bare walk of it: `cargo bench -p provost-tools --bench scan`.
//!
//! 50,000 files in 2,600 folders, rules in the root and in some folders, everything in the kernel's caches. The floor is
//! the same tree listed and each file's `stat` taken by descriptor, and nothing else, on one thread and on two. All rows
//! are measured in turn, round by round, so that a busy machine slows all of them alike. It asserts nothing.

use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use provost_core::path::RelPath;
use provost_tools::Workspace;
use provost_tools::workspace::Manifest;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};

const ROUNDS: usize = 21;
const FILES_A_FOLDER: usize = 20;
/// 50 packages of 50 folders of [`FILES_A_FOLDER`] files.
const PACKAGES: usize = 50;
const FOLDERS: usize = 50;

/// As in many a repository.
const RULES: &str = "/target\n**/*.rs.bk\n*.o\n*.so\n.env\n!.env.example\nnode_modules/\ndist/\n*.log\n.DS_Store\n\
                     __pycache__/\n*.pyc\n/coverage\n.idea/\n*.swp\n";

fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let files = build(dir.path());
    let workspace = Workspace::open(dir.path()).expect("it opens");
    let tracked: BTreeSet<RelPath> = BTreeSet::new();
    let begun = Instant::now();
    let mut manifest = Manifest::scan(&workspace, &tracked, 1 << 20, &mut |_, _| {}).expect("it scans");
    let first = begun.elapsed();
    assert_eq!(manifest.entries().len(), files);
    let tracked: BTreeSet<RelPath> = manifest.entries().map(|entry| entry.path.clone()).collect();
    // As a run has it: it knows what git tracks.
    let mut with_tracked = Manifest::scan(&workspace, &tracked, 1 << 20, &mut |_, _| {}).expect("it scans");
    for manifest in [&mut manifest, &mut with_tracked] {
        assert!(manifest.rescan(&workspace).expect("it scans").is_empty());
    }

    let mut rows: [(&str, Vec<Duration>); 4] = [
        ("bare walk and stat, one thread", vec![]),
        ("bare walk and stat, two threads", vec![]),
        ("scan of the unchanged tree, nothing tracked", vec![]),
        ("scan of the unchanged tree, all tracked", vec![]),
    ];
    for _ in 0..ROUNDS {
        let mut time = |row: usize, work: &mut dyn FnMut() -> usize| {
            let begun = Instant::now();
            assert_eq!(work(), if row < 2 { files } else { 0 });
            rows[row].1.push(begun.elapsed());
        };
        time(0, &mut || bare(&open(dir.path())));
        time(1, &mut || bare_halves(dir.path()));
        time(2, &mut || manifest.rescan(&workspace).expect("it scans").len());
        time(3, &mut || with_tracked.rescan(&workspace).expect("it scans").len());
    }
    println!("## Scan of a tree of {files} files, warm, nothing changed (aim: 150 ms)\n");
    println!("first scan, which reads and hashes all: {:.0} ms", first.as_secs_f64() * 1e3);
    println!("| what | p50 ms | p90 ms | p50 / the bare walk's |");
    println!("| --- | --- | --- | --- |");
    let mut floor = None;
    for (what, mut times) in rows {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
        let floor = floor.get_or_insert(at(50));
        println!("| {what} | {:.1} | {:.1} | {:.2} |", at(50), at(90), at(50) / *floor);
    }
}

fn build(root: &Path) -> usize {
    let mut count = 1;
    fs::write(root.join(".gitignore"), RULES).expect("a file");
    for package in 0..PACKAGES {
        let package_path = root.join(format!("packages/package-{package:02}"));
        for folder in 0..FOLDERS {
            let folder_path = package_path.join(format!("src/part_{folder:02}"));
            fs::create_dir_all(&folder_path).expect("a folder");
            for file in 0..FILES_A_FOLDER {
                let text = format!("file {file} of folder {folder} of package {package}\n");
                fs::write(folder_path.join(format!("module_{file:02}.rs")), text).expect("a file");
                count += 1;
            }
        }
        fs::write(package_path.join(".gitignore"), "/build\n*.tmp\n").expect("a file");
        fs::create_dir(package_path.join("dist")).expect("a folder");
        fs::write(package_path.join("dist/bundle.js"), "ignored").expect("a file");
        fs::write(package_path.join("a.log"), "ignored").expect("a file");
        count += 1;
    }
    count
}

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, FLAGS, Mode::empty()).expect("it opens")
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Files beneath a folder that the rules leave in, each looked at.
fn bare(folder: &OwnedFd) -> usize {
    let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 16 * 1024];
    let mut entries = RawDir::new(folder, &mut buffer);
    let (mut count, mut below) = (0, Vec::new());
    while let Some(entry) = entries.next() {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        match (entry.file_type(), name.to_bytes()) {
            (_, b"." | b".." | b"dist" | b"a.log") => {}
            (FileType::Directory, _) => below.push(name.to_owned()),
            _ => {
                rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).expect("a stat");
                count += 1;
            }
        }
    }
    let open = |name| rustix::fs::openat(folder, name, FLAGS, Mode::empty()).expect("it opens");
    count + below.iter().map(|name| bare(&open(name.as_c_str()))).sum::<usize>()
}

/// The same, each thread half of the packages.
fn bare_halves(root: &Path) -> usize {
    let half = |odd: usize| {
        let mine = (0..PACKAGES).filter(|package| package % 2 == odd);
        mine.map(|package| bare(&open(&root.join(format!("packages/package-{package:02}"))))).sum::<usize>()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        1 + half(0) + other.join().expect("a thread")
    })
}
