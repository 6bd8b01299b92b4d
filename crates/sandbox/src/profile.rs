//! What a command may see and change.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::caps::Caps;
use provost_core::containment::Guarantee;
use provost_core::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::engine::ByEngine;
use crate::git::GitFolder;
use crate::system::{SYSTEM, system};

/// Whether commands may change the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceAccess {
    /// Commands see it and cannot change it.
    ReadOnly,
    /// Commands may change everything in it that is not protected or hidden.
    Writable,
}

/// What becomes of a command's changes to the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// They are there at once.
    Direct,
    /// They gather in a layer over the workspace, which stays as it is; see [`crate::Sandbox::run_staged`]. The layer
    /// lies in memory and is as large as [`Caps::limit`] says of [`Cap::Disk`](provost_core::caps::Cap::Disk). Which of
    /// the two it is says [`Receipt::staged`](provost_core::containment::Receipt::staged).
    Staged {
        /// Folders inside the workspace that are changed at once all the same, such as a `target`: what is built there
        /// serves the next command. Absent ones, and names that a link leads to or away from, are not.
        direct: Vec<PathBuf>,
        /// Where no layer is to be had: a folder outside of the workspace that the caller fills with a copy of it before
        /// each command, with something in the place of what is changed at once and of each `.git` folder that is
        /// protected. R3 shows it in the workspace's place; under R2 commands run in it. Without one, such a host refuses.
        copy: Option<PathBuf>,
    },
}

impl Changes {
    /// The folders that are changed at once; `None` where everything is.
    pub(crate) fn staged(&self) -> Option<&[PathBuf]> {
        match self {
            Self::Direct => None,
            Self::Staged { direct, .. } => Some(direct),
        }
    }
}

impl Changes {
    /// The folder that a copy of the workspace lies in, where one is to be used.
    pub(crate) fn copy(&self) -> Option<&Path> {
        match self {
            Self::Staged { copy, .. } => copy.as_deref(),
            Self::Direct => None,
        }
    }
}

/// What commands may see and change. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The folder that commands work in; seen at the same absolute path.
    pub workspace: PathBuf,
    /// Whether they may change it.
    pub workspace_access: WorkspaceAccess,
    /// Paths inside the workspace that can be neither changed nor moved. Absent ones are skipped.
    ///
    /// R3 pins each, and each folder above it, with a mount, so renames and hard links across such a folder's border
    /// fail with `EXDEV`. R2 can only grant rights on each sibling: then commands cannot create or remove entries in
    /// any folder that holds a protected path (with `.git`, the top of the workspace). Leave this empty to have that
    /// the other way round; the receipt then says `protected: absent`.
    pub protected: Vec<PathBuf>,
    /// Files or folders inside the workspace that must not be readable, such as `.env`. Absent ones are skipped.
    pub hidden: Vec<PathBuf>,
    /// Files and folders outside of the workspace that may be read and executed. Absent ones are skipped.
    pub readable: Vec<PathBuf>,
    /// Folders outside of the workspace that may be changed, such as declared caches. Absent ones are skipped.
    ///
    /// R3 has a private `/dev/shm` and ignores a wish for the host's. Under R2 there is none: POSIX semaphores (Python's
    /// `multiprocessing`) work only when `/dev/shm`, which is shared with the host, is declared here.
    pub writable: Vec<PathBuf>,
    /// Folders outside of the workspace that each command sees with a writable layer of its own over them, gone when it
    /// ends: caches that tools unpack into, such as cargo's registry. Only R3 can do that, and only where it can mount
    /// an overlay over the folder; elsewhere they are readable. Absent ones are skipped.
    pub private: Vec<PathBuf>,
    /// The git folder that commands may commit into ([`crate::git_folder`]): the one of the workspace, which is then to be
    /// one of [`protected`](Self::protected) too, or one that a linked work tree has elsewhere. Only R3 and R4 can keep
    /// the rest of it from being changed; under weaker rungs nothing in it is open.
    pub git: Option<GitFolder>,
    /// What becomes of changes to the workspace.
    pub changes: Changes,
    /// Guarantees that have to be enforced: a sandbox that only watches one, or does not have it, is not made, and a
    /// command that it would not hold for is not started.
    pub require: BTreeSet<Guarantee>,
    /// What the processes of each command may take. Without a control group the kernel exempts uid 0 from a bound on
    /// processes, and knows no sums over a tree: what it does not refuse is watched, and the tree is killed.
    pub limits: Caps,
    /// The image whose files are the root, instead of the host's: rung R4. Of [`Profile::readable`], what lies in the
    /// system's own folders is then not shown.
    pub image: Option<ImageRoot>,
}

/// An unpacked image as the root of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRoot {
    /// The folder that holds its files; nothing is written there.
    pub folder: PathBuf,
    /// Digest of its manifest, for the receipt.
    pub digest: Digest,
    /// The container engine that runs commands in it; without one this program contains them itself.
    pub by: Option<ByEngine>,
}

/// A profile that cannot be contained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The workspace does not exist or cannot be reached.
    #[error("the workspace `{}` cannot be used", path.display())]
    Workspace {
        /// The workspace as given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The workspace is `/` or holds the system's own folders.
    #[error("the workspace `{}` holds system folders; choose a project folder", .0.display())]
    TooWide(PathBuf),
    /// A path is not absolute.
    #[error("`{}` is not an absolute path", .0.display())]
    Relative(PathBuf),
    /// A protected or hidden path lies outside of the workspace, or is the workspace.
    #[error("`{}` is not inside the workspace", .0.display())]
    Outside(PathBuf),
}

/// Credentials and policy below [`SYSTEM`] that no command gets to read.
pub(crate) const MASKED: [&str; 18] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/letsencrypt",
    "/etc/NetworkManager/system-connections",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/netplan",
];

/// What a private `/proc` shows of the whole machine and not of the sandbox: keys, memory, allocations, timers.
pub(crate) const PROC_MASKED: [&str; 15] = [
    "/proc/keys",
    "/proc/key-users",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/kpageflags",
    "/proc/kpagecount",
    "/proc/kpagecgroup",
    "/proc/slabinfo",
    "/proc/pagetypeinfo",
    "/proc/vmallocinfo",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/latency_stats",
    "/proc/iomem",
    "/proc/scsi",
];

impl Profile {
    /// A writable workspace, the system's programs and libraries, and nothing else.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Workspace`] when the folder is missing, [`ProfileError::TooWide`] when it is `/` or holds
    /// the system.
    pub fn for_workspace(path: impl AsRef<Path>) -> Result<Self, ProfileError> {
        let path = path.as_ref();
        let profile = Self {
            workspace: canonical(path)?,
            workspace_access: WorkspaceAccess::Writable,
            protected: Vec::new(),
            hidden: Vec::new(),
            readable: system().to_vec(),
            writable: Vec::new(),
            private: Vec::new(),
            git: None,
            changes: Changes::Direct,
            require: BTreeSet::new(),
            limits: Caps::default(),
            image: None,
        };
        profile.check()?;
        Ok(profile)
    }

    /// Refuses what no rung could contain.
    pub(crate) fn check(&self) -> Result<(), ProfileError> {
        let workspace = canonical(&self.workspace)?;
        let system = SYSTEM.iter().chain(&["/proc", "/dev", "/sys", "/run"]);
        if system
            .into_iter()
            .any(|system| Path::new(system).starts_with(&workspace) || workspace == Path::new("/tmp"))
        {
            return Err(ProfileError::TooWide(workspace));
        }
        let direct = self.changes.staged().unwrap_or_default();
        let inside = self.protected.iter().chain(&self.hidden).chain(direct);
        let outside = self.readable.iter().chain(&self.writable).chain(&self.private);
        let outside = outside.chain(self.git.as_ref().map(|git| &git.folder));
        if let Some(path) = inside.clone().chain(outside).find(|path| !path.is_absolute()) {
            return Err(ProfileError::Relative(path.clone()));
        }
        for path in inside {
            let inside = relative_to(path, &self.workspace).or_else(|| relative_to(path, &workspace));
            if inside.is_none() {
                return Err(ProfileError::Outside(path.clone()));
            }
        }
        Ok(())
    }
}

/// The part of `path` below `root`, when it is below and made of plain names only.
pub(crate) fn relative_to(path: &Path, root: &Path) -> Option<PathBuf> {
    let relative = path.strip_prefix(root).ok()?;
    let plain = relative.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    (plain && relative.components().next().is_some()).then(|| relative.to_owned())
}

fn canonical(path: &Path) -> Result<PathBuf, ProfileError> {
    let found = path.canonicalize().and_then(|found| {
        if found.is_dir() { Ok(found) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
    });
    found.map_err(|source| ProfileError::Workspace { path: path.to_owned(), source })
}
