//! The file system of an R3 command, decided by the driver as a list of mounts.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use provost_core::caps::Cap;
use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::git::GitPart;
use crate::profile::{Changes, MASKED, PROC_MASKED, Profile, WorkspaceAccess, relative_to};
use crate::system::{SYSTEM, system};

/// The command's home folder under R3: empty, private and gone afterwards. Pass it as `HOME`.
pub const HOME: &str = "/tmp/home";

/// The file system of an R3 command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct View {
    /// In this order: a mount comes after the one it lies in.
    pub(crate) steps: Vec<ViewStep>,
    /// Covered by something empty and unreadable, where they exist.
    pub(crate) masks: Vec<Bytes>,
    pub(crate) workspace: Bytes,
    pub(crate) workspace_writable: bool,
    /// Relative to the workspace.
    pub(crate) protected: Vec<Bytes>,
    /// Relative to the workspace.
    pub(crate) hidden: Vec<Bytes>,
    /// The git folder that is open in part.
    pub(crate) git: Option<GitView>,
    pub(crate) tmp_bytes: u64,
    /// Size of the layer over the workspace.
    pub(crate) disk_bytes: u64,
    /// The folder whose files are the root; without one the root is empty but for what is listed.
    pub(crate) image: Option<Bytes>,
}

/// A git folder that is open in part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GitView {
    pub(crate) folder: Bytes,
    pub(crate) part: GitPart,
}

/// One thing to put into the new root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ViewStep {
    /// A symbolic link that the host has too.
    Link { path: Bytes, target: Bytes },
    /// A file or folder of the host, at its own path.
    Bind { path: Bytes, writable: bool, required: bool },
    /// The workspace under a layer that the driver gets.
    Staged { path: Bytes, writable: bool },
    /// The workspace's place, with a copy of it.
    Copied { path: Bytes, from: Bytes, writable: bool },
    /// A folder of the host under a layer that nobody gets.
    Private { path: Bytes },
    /// The private `/tmp`.
    Tmp,
}

/// How many files fit into a private folder of so many bytes: the kernel's own default would let empty files take half
/// of the host's memory, whatever the size.
pub(crate) fn inodes(bytes: u64) -> u64 {
    (bytes / 4096).max(1024)
}

/// How strongly a path is asked for; the strongest wins when two ask for the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Read,
    Private,
    Write,
    Workspace,
}

/// Decides the mounts for a checked profile.
pub(crate) fn view(profile: &Profile, workspace: &Path) -> View {
    let mut links = BTreeMap::new();
    let mut binds: BTreeMap<PathBuf, Access> = BTreeMap::new();
    let mut ask = |path: &Path, access: Access, links: &mut BTreeMap<PathBuf, PathBuf>| {
        if let Some(real) = realise(path, links).filter(|real| !is_own(real)) {
            let present = binds.entry(real).or_insert(access);
            *present = (*present).max(access);
        }
    };
    let in_system = |path: &&Path| SYSTEM.iter().any(|system| path.starts_with(system));
    let readable = profile.readable.iter().map(PathBuf::as_path);
    // An image has a system of its own.
    let shown: Vec<&Path> = if profile.image.is_some() {
        readable.filter(|path| !in_system(path)).collect()
    } else {
        system().iter().map(PathBuf::as_path).chain(readable).collect()
    };
    for path in shown {
        ask(path, Access::Read, &mut links);
    }
    for path in &profile.private {
        ask(path, Access::Private, &mut links);
    }
    for path in &profile.writable {
        ask(path, Access::Write, &mut links);
    }
    if let Some(git) = profile.git.as_ref().filter(|git| !git.folder.starts_with(workspace)) {
        ask(&git.folder, Access::Write, &mut links);
    }
    ask(&profile.workspace, Access::Workspace, &mut links);
    ask(workspace, Access::Workspace, &mut links);

    // What lies in something that is shown already, with the same or more access, needs no mount of its own.
    let needed = binds.iter().filter(|(path, access)| {
        let nearest = path.ancestors().skip(1).find_map(|above| binds.get(above));
        nearest.is_none_or(|above| above < access)
    });
    let mut steps: Vec<(usize, ViewStep)> =
        needed.map(|(path, access)| (depth(path), step(path, *access, profile))).collect();
    let real = |path: &&PathBuf| path.canonicalize().is_ok_and(|real| real == **path);
    let writable = profile.workspace_access == WorkspaceAccess::Writable;
    let direct = profile.changes.staged().filter(|_| writable).unwrap_or_default().iter();
    let direct: Vec<PathBuf> = direct
        .filter_map(|path| relative_to(path, &profile.workspace).or_else(|| relative_to(path, workspace)))
        .map(|path| workspace.join(path))
        .collect();
    steps.extend(direct.iter().filter(real).map(|path| {
        let path_bytes = path.as_path().into();
        (depth(path), ViewStep::Bind { path: path_bytes, writable: true, required: false })
    }));
    // The history is not copied: it is shown as it is, and is protected.
    let is_history = |path: &&PathBuf| path.file_name().is_some_and(|name| name == ".git") && path.is_dir();
    let histories = profile.protected.iter().filter(is_history).filter(|_| profile.changes.copy().is_some());
    steps.extend(histories.filter(real).map(|path| {
        let path_bytes = path.as_path().into();
        (depth(path), ViewStep::Bind { path: path_bytes, writable: false, required: false })
    }));
    steps.push((1, ViewStep::Tmp));
    steps.extend(
        links.into_iter().map(|(path, target)| {
            (depth(&path), ViewStep::Link { path: path.into(), target: target.into() })
        }),
    );
    // Stable: by depth, so that each mount finds the one it lies in.
    steps.sort_by_key(|(depth, _)| *depth);

    let inside = |paths: &[PathBuf]| -> Vec<Bytes> {
        let relative =
            |path: &PathBuf| relative_to(path, &profile.workspace).or_else(|| relative_to(path, workspace));
        paths.iter().filter_map(relative).map(Bytes::from).collect()
    };
    let is_open = |path: &PathBuf| profile.git.as_ref().is_some_and(|git| git.folder == *path);
    let closed: Vec<PathBuf> = profile.protected.iter().filter(|path| !is_open(path)).cloned().collect();
    View {
        steps: steps.into_iter().map(|(_, step)| step).collect(),
        masks: masks(profile).map(|path| Bytes::from(Path::new(path))).collect(),
        workspace: workspace.into(),
        workspace_writable: profile.workspace_access == WorkspaceAccess::Writable,
        protected: inside(&closed),
        git: profile
            .git
            .as_ref()
            .map(|git| GitView { folder: git.folder.as_path().into(), part: git.part.clone() }),
        hidden: inside(&profile.hidden),
        tmp_bytes: profile.limits.limit(Cap::Tmp).unwrap_or_default(),
        image: profile.image.as_ref().map(|image| image.folder.as_path().into()),
        disk_bytes: profile.limits.limit(Cap::Disk).unwrap_or_default(),
    }
}

/// How one path is shown.
fn step(path: &Path, access: Access, profile: &Profile) -> ViewStep {
    let path = path.into();
    let writable = profile.workspace_access == WorkspaceAccess::Writable;
    match (access, &profile.changes) {
        (Access::Read, _) => ViewStep::Bind { path, writable: false, required: false },
        (Access::Private, _) => ViewStep::Private { path },
        (Access::Write, _) => ViewStep::Bind { path, writable: true, required: false },
        (Access::Workspace, Changes::Staged { copy: Some(from), .. }) => {
            ViewStep::Copied { path, from: from.as_path().into(), writable }
        }
        (Access::Workspace, Changes::Staged { copy: None, .. }) => ViewStep::Staged { path, writable },
        (Access::Workspace, Changes::Direct) => ViewStep::Bind { path, writable, required: true },
    }
}

/// What is covered. An image's files are not the host's: of its credentials there is nothing to hide.
fn masks(profile: &Profile) -> impl Iterator<Item = &'static str> + use<'_> {
    let of_host = MASKED.into_iter().filter(|_| profile.image.is_none());
    of_host.chain(PROC_MASKED)
}

/// What the view makes for itself, whoever asks for the host's. Folders inside of `/tmp` and `/dev/shm` are the host's.
fn is_own(path: &Path) -> bool {
    let whole = ["/", "/tmp", "/dev/shm"].iter().any(|own| path == Path::new(own));
    let below = ["/proc", "/dev", "/sys"].iter().any(|own| path.starts_with(own));
    whole || below && !path.starts_with("/dev/shm")
}

fn depth(path: &Path) -> usize {
    path.components().count() - 1
}

/// The path without symbolic links, noting each link on the way; `None` when it does not exist.
pub(crate) fn realise(path: &Path, links: &mut BTreeMap<PathBuf, PathBuf>) -> Option<PathBuf> {
    let mut real = PathBuf::from("/");
    let mut rest: Vec<_> = path.components().map(|part| part.as_os_str().to_owned()).rev().collect();
    let mut followed = 0;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next()? {
            Component::RootDir => real = PathBuf::from("/"),
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(name) => {
                let next = real.join(name);
                if next.symlink_metadata().ok()?.is_symlink() {
                    followed += 1;
                    if followed > 40 {
                        return None;
                    }
                    let target = std::fs::read_link(&next).ok()?;
                    rest.extend(target.components().map(|part| part.as_os_str().to_owned()).rev());
                    links.insert(next, target);
                } else {
                    real = next;
                }
            }
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(real)
}
