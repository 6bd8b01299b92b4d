//! What the cell is that attacks run in.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::containment::Rung;

use crate::profile::ImageRoot;

/// A way to contain commands, for a self-test to attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The rung.
    pub rung: Rung,
    /// The image whose files are the root: with R4, and only there.
    pub image: Option<ImageRoot>,
    /// What becomes of changes to the workspace.
    pub workspace: Workspace,
    /// What attackers may dial.
    pub network: Network,
    /// What attackers may do in the workspace's git folder.
    pub git: Git,
}

/// What becomes of an attacker's changes to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    /// They are there at once.
    Direct,
    /// They gather in a layer. Where no overlay is to be had such a self-test is refused.
    Staged,
}

/// What an attacker may dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Nothing, but for the attacks that are about hosts.
    None,
    /// A host that there is not.
    Hosts,
}

/// What an attacker may do in the git folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Git {
    /// Read it.
    Closed,
    /// Commit.
    Commit,
}

impl From<Rung> for Setting {
    /// The rung as it is where nothing else is asked for.
    fn from(rung: Rung) -> Self {
        Self { rung, image: None, workspace: Workspace::Direct, network: Network::None, git: Git::Closed }
    }
}

impl Setting {
    /// What is asked for beside the rung, as people call it.
    pub fn extras(&self) -> Vec<&'static str> {
        let extras = [
            (self.workspace == Workspace::Staged, "staged"),
            (self.network == Network::Hosts, "hosts"),
            (self.git == Git::Commit, "git commit"),
        ];
        extras.into_iter().filter(|(asked, _)| *asked).map(|(_, name)| name).collect()
    }
}

/// How this program is started where it is to be an attacker.
#[derive(Debug)]
pub(crate) struct Attacker {
    pub(crate) exe: PathBuf,
    /// What its arguments come after.
    pub(crate) argv: Vec<OsString>,
    /// What it needs to be shown.
    pub(crate) reads: Vec<PathBuf>,
}

impl Attacker {
    /// With what the host has.
    pub(crate) fn plain(exe: &Path) -> Self {
        Self { exe: exe.to_owned(), argv: vec![exe.into()], reads: vec![exe.to_owned()] }
    }

    /// Where the host's libraries are not there: copies of those that this process has, in `folder`, and the loader among them.
    pub(crate) fn with_libraries(exe: &Path, folder: &Path) -> io::Result<Self> {
        let maps = fs::read_to_string("/proc/self/maps")?;
        let mapped = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(Path::new);
        let is_library = |path: &&Path| {
            path.is_absolute() && path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"))
        };
        let mut libraries: Vec<&Path> = mapped.filter(is_library).collect();
        libraries.sort_unstable();
        libraries.dedup();
        let plain = Self::plain(exe);
        if libraries.is_empty() {
            return Ok(plain);
        }
        fs::create_dir(folder)?;
        let mut loader = None;
        for library in libraries {
            for name in names(library)? {
                fs::copy(library, folder.join(&name))?;
                if name.to_string_lossy().starts_with("ld-") {
                    loader = Some(folder.join(name));
                }
            }
        }
        let loader = loader.ok_or_else(|| io::Error::other("this program's loader is not to be found"))?;
        let argv = vec![loader.into(), "--library-path".into(), folder.into(), exe.into()];
        Ok(Self { argv, reads: vec![plain.exe.clone(), folder.to_owned()], ..plain })
    }
}

/// The names that a library has in its folder: programs ask for one that may be a link.
fn names(library: &Path) -> io::Result<Vec<OsString>> {
    let folder = library.parent().unwrap_or(Path::new("/"));
    let is_it = |entry: &fs::DirEntry| entry.path().canonicalize().is_ok_and(|real| real == library);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains(".so") && is_it(&entry) {
            names.push(entry.file_name());
        }
    }
    Ok(names)
}
