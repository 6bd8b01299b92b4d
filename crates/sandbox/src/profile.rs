//! What a command may see and change.

use std::io;
use std::path::{Path, PathBuf};

use provost_core::caps::Caps;
use provost_core::digest::Digest;
use serde::{Deserialize, Serialize};

/// Whether commands may change the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceAccess {
    /// Commands see it and cannot change it.
    ReadOnly,
    /// Commands may change everything in it that is not protected or hidden.
    Writable,
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
    /// What the processes of each command may take. The kernel exempts uid 0 from a bound on processes, and knows no sums
    /// over a tree: what it does not refuse is watched, and the tree is killed.
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

/// Folders that programs need to run at all.
pub(crate) const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"];

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
            readable: SYSTEM.iter().map(PathBuf::from).filter(|path| path.exists()).collect(),
            writable: Vec::new(),
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
        let all = self.protected.iter().chain(&self.hidden).chain(&self.readable).chain(&self.writable);
        if let Some(path) = all.into_iter().find(|path| !path.is_absolute()) {
            return Err(ProfileError::Relative(path.clone()));
        }
        for path in self.protected.iter().chain(&self.hidden) {
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
