//! Builds the root that an R3 command sees, out of copies of the host's mounts, and moves into it.
//!
//! All copies are taken before anything is covered, so that a workspace below `/tmp` or `/root` needs no special
//! case. Every place in the new root is resolved as if that root were `/` already, so that a link in it never leads
//! to the host. Nothing is ever created on the host's file system.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};

use super::image;
use super::overlay::{Layered, Store};
use crate::record::Failure;
use crate::sys::{self, NODEV, NOEXEC, NOSUID, RDONLY, Step};
use crate::view::{View, ViewStep, inodes};

/// Device nodes that programs expect.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Links in `/dev` and their targets.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];
/// What uid 0 could change through `/proc` by owning it, with no capability at all.
const PROC_READ_ONLY: [&str; 6] = ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi"];
/// Symbolic links followed on the way to one protected path.
const LINK_LIMIT: usize = 16;

/// A copied mount that waits for its place.
struct Copy<'view> {
    path: &'view Path,
    tree: OwnedFd,
    is_dir: bool,
}

/// What came of building a view.
pub(super) struct Built {
    /// Protected paths that could not be pinned whole.
    pub(super) unprotected: Vec<String>,
    /// The layer that changes to the workspace gather in, where they are staged.
    pub(super) layer: Option<OwnedFd>,
}

/// Builds the view and moves this process into it. What was there before is still below ([`leave`]).
pub(super) fn build(view: &View, is_root: bool) -> Result<Built, Failure> {
    // Otherwise everything below would be mounted on the host too.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).step("mount-private")?;
    let (copies, layer) = take(view)?;
    let mut devices = Vec::new();
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        let tree = clone(CWD, &path, true).at("mount", &path)?;
        devices.push((name, tree));
    }

    let root = tmpfs("256k", "0755").step("mount-root")?;
    // Attached over the root, which hides nothing: this process still stands in the old one.
    attach(root.as_fd(), CWD, "/").step("mount-root")?;
    let root = match &view.image {
        Some(image) => image::root(image.path(), root.as_fd())?,
        None => root,
    };
    let root = root.as_fd();
    furnish(root, view, copies, devices, is_root)?;
    let unprotected = protect(root, view)?;
    // Behind it: of a cover, which has no name any more, the kernel makes no further mount, and a hidden path may be
    // protected too.
    mask(root, view)?;
    sys::mount_setattr(root, RDONLY, false).step("mount-root")?;

    rustix::process::fchdir(root).step("pivot-root")?;
    sys::pivot_root_here().step("pivot-root")?;
    Ok(Built { unprotected, layer })
}

/// Takes the old root away from all who are in here. The kernel waits for every processor then, a busy one too.
pub(super) fn leave() -> Result<(), Failure> {
    unmount(".", UnmountFlags::DETACH).step("pivot-root")?;
    rustix::process::chdir("/").step("pivot-root")
}

/// Takes a copy of each thing of the host that is shown, and makes the layers over those that get one.
fn take(view: &View) -> Result<(Vec<Copy<'_>>, Option<OwnedFd>), Failure> {
    let mut copies = Vec::new();
    let mut layer = None;
    let mut private = None;
    for step in &view.steps {
        match step {
            ViewStep::Bind { path, writable, required } => match copy(path.path(), *writable) {
                Ok((tree, is_dir)) => copies.push(Copy { path: path.path(), tree, is_dir }),
                Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) if !required => {}
                Err(errno) => return Err(errno).at("mount", path.path()),
            },
            ViewStep::Copied { path, from, writable } => {
                let (tree, is_dir) = copy(from.path(), *writable).at("mount", from.path())?;
                copies.push(Copy { path: path.path(), tree, is_dir });
            }
            ViewStep::Staged { path, writable } => {
                let path = path.path();
                let made = Store::new(view.disk_bytes).and_then(|mut store| store.over(path));
                let Layered { tree, upper } = made.at("overlay", path)?;
                if !writable {
                    sys::mount_setattr(tree.as_fd(), RDONLY, false).at("overlay", path)?;
                }
                copies.push(Copy { path, tree, is_dir: true });
                layer = Some(upper);
            }
            ViewStep::Private { path } => {
                let path = path.path();
                if private.is_none() {
                    private = Some(Store::new(view.tmp_bytes).at("overlay", path)?);
                }
                let made = private.as_mut().map(|store| store.over(path));
                match made {
                    Some(Ok(Layered { tree, .. })) => copies.push(Copy { path, tree, is_dir: true }),
                    // Nothing is to be written through to the host, so that less than was asked for is shown.
                    Some(Err(_)) | None => match copy(path, false) {
                        Ok((tree, is_dir)) => copies.push(Copy { path, tree, is_dir }),
                        Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {}
                        Err(errno) => return Err(errno).at("mount", path),
                    },
                }
            }
            ViewStep::Link { .. } | ViewStep::Tmp => {}
        }
    }
    Ok((copies, layer))
}

/// A detached copy of a host path and of the mounts in it, without setuid and device files.
fn copy(path: &Path, writable: bool) -> Result<(OwnedFd, bool), Errno> {
    let tree = clone(CWD, path, true)?;
    let is_dir = FileType::from_raw_mode(rustix::fs::fstat(&tree)?.st_mode) == FileType::Directory;
    sys::mount_setattr(tree.as_fd(), NOSUID | NODEV | if writable { 0 } else { RDONLY }, true)?;
    Ok((tree, is_dir))
}

/// `follow` is for host paths, which have been resolved by the driver, and for nothing else.
pub(super) fn clone(folder: BorrowedFd<'_>, path: &Path, follow: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        // Always with what is mounted inside: a user namespace may not uncover what a mount hides.
        | OpenTreeFlags::AT_RECURSIVE;
    if !follow {
        flags |= OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    }
    if path.as_os_str().is_empty() {
        flags |= OpenTreeFlags::AT_EMPTY_PATH;
    }
    open_tree(folder, path, flags)
}

/// An empty file system in memory of so many bytes. Those that commands write to hold no more than [`inodes`] files.
pub(super) fn tmpfs(size: &str, mode: &str) -> Result<OwnedFd, Errno> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "size", size)?;
    if let Ok(bytes) = size.parse() {
        fsconfig_set_string(&context, "nr_inodes", inodes(bytes).to_string())?;
    }
    fsconfig_set_string(&context, "mode", mode)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn proc() -> Result<OwnedFd, Errno> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Attaches a detached mount; an empty path means the place that `folder` itself is.
pub(super) fn attach(tree: BorrowedFd<'_>, folder: BorrowedFd<'_>, path: &str) -> Result<(), Errno> {
    let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.is_empty() {
        flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    move_mount(tree, "", folder, path, flags)
}

fn furnish(
    root: BorrowedFd<'_>,
    view: &View,
    copies: Vec<Copy<'_>>,
    devices: Vec<(&str, OwnedFd)>,
    is_root: bool,
) -> Result<(), Failure> {
    if view.image.is_some() {
        image::check(root)?;
    }
    for path in ["proc", "dev", "dev/shm", "tmp", "run", "var"] {
        match rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) if view.image.is_some() => {}
            other => other.at("mount-root", Path::new(path))?,
        }
    }
    for (link, target) in DEVICE_LINKS {
        rustix::fs::symlinkat(target, root, link).at("mount-root", Path::new(link))?;
    }
    for (name, tree) in devices {
        let path = Path::new("/dev").join(name);
        put(root, &path, false, tree.as_fd())?;
    }
    let half = (view.tmp_bytes / 2).to_string();
    let shm = tmpfs(&half, "1777").step("mount-shm")?;
    put(root, Path::new("/dev/shm"), true, shm.as_fd())?;

    let mut copies = copies.into_iter().peekable();
    for step in &view.steps {
        match step {
            ViewStep::Link { path, target } => {
                let (folder, name) = parent(root, path.path())?;
                match rustix::fs::symlinkat(target.0.as_slice(), &folder, name) {
                    // It lies in something that is shown whole and so has the link already.
                    Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::ACCESS) => {}
                    Err(errno) => return Err(errno).at("mount-root", path.path()),
                }
            }
            ViewStep::Tmp => {
                let tmp = tmpfs(&view.tmp_bytes.to_string(), "1777").step("mount-tmp")?;
                rustix::fs::mkdirat(&tmp, "home", Mode::from_raw_mode(0o700)).step("mount-tmp")?;
                if view.image.is_some() {
                    sys::mount_setattr(tmp.as_fd(), NOEXEC, false).step("mount-tmp")?;
                }
                put(root, Path::new("/tmp"), true, tmp.as_fd())?;
            }
            ViewStep::Bind { path, .. }
            | ViewStep::Copied { path, .. }
            | ViewStep::Staged { path, .. }
            | ViewStep::Private { path } => {
                if let Some(copy) = copies.next_if(|copy| copy.path == path.path()) {
                    put(root, copy.path, copy.is_dir, copy.tree.as_fd())?;
                }
            }
        }
    }
    // Last, because a workspace below `/var/tmp` has made that a folder of its own by now. Never when all of `/var`
    // is shown: a link would be made on the host.
    let shows_var =
        |step: &ViewStep| matches!(step, ViewStep::Bind { path, .. } if path.path() == Path::new("/var"));
    if !view.steps.iter().any(shows_var) {
        let (var, _) = parent(root, Path::new("/var/tmp"))?;
        for (link, target) in [("tmp", "/tmp"), ("run", "/run")] {
            match rustix::fs::symlinkat(target, &var, link) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno).at("mount-root", Path::new(link)),
            }
        }
    }
    // Before the old root goes: the kernel wants a full `/proc` to be visible for it to give a new one.
    let proc = proc().step("mount-proc")?;
    put(root, Path::new("/proc"), true, proc.as_fd())?;
    if is_root {
        for name in PROC_READ_ONLY {
            let path = Path::new("/proc").join(name);
            if let Ok(place) = sys::open_in_root(root, &path, false) {
                cover_with_itself(place.as_fd(), RDONLY).at("mount-proc", &path)?;
            }
        }
    }
    Ok(())
}

/// Attaches a mount at a path of the new root, making the path where the new root's own file system ends.
fn put(root: BorrowedFd<'_>, path: &Path, is_dir: bool, tree: BorrowedFd<'_>) -> Result<(), Failure> {
    let place = match sys::open_in_root(root, path, false) {
        Ok(place) => place,
        Err(Errno::NOENT) => {
            let (folder, name) = parent(root, path)?;
            if is_dir {
                rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)).at("mount-root", path)?;
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(0o444))
                    .at("mount-root", path)?;
            }
            sys::open_in_root(root, path, false).at("mount-root", path)?
        }
        Err(errno) => return Err(errno).at("mount-root", path),
    };
    attach(tree, place.as_fd(), "").at("mount", path)
}

/// The folder of a path in the new root, made where it is missing, and the path's last name.
fn parent<'path>(root: BorrowedFd<'_>, path: &'path Path) -> Result<(OwnedFd, &'path OsStr), Failure> {
    let name =
        path.file_name().ok_or_else(|| Failure::new("mount-root", libc::EINVAL, path.to_string_lossy()))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let opened = match sys::open_in_root(root, folder, true) {
        Err(Errno::NOENT) => {
            let (above, name) = parent(root, folder)?;
            rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)).at("mount-root", folder)?;
            sys::open_in_root(root, folder, true)
        }
        other => other,
    };
    Ok((opened.at("mount-root", folder)?, name))
}

/// Mounts what is at a place onto that same place, with these attributes: a mount point cannot be renamed or removed.
pub(super) fn cover_with_itself(place: BorrowedFd<'_>, attributes: u64) -> Result<(), Errno> {
    let tree = clone(place, Path::new(""), false)?;
    if attributes != 0 {
        sys::mount_setattr(tree.as_fd(), attributes, true)?;
    }
    attach(tree.as_fd(), place, "")
}

/// Covers masked system paths and hidden workspace paths with something empty that nobody may open.
fn mask(root: BorrowedFd<'_>, view: &View) -> Result<(), Failure> {
    let mode = Mode::empty();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(root, ".masked-file", flags, mode).step("mask")?;
    rustix::fs::mkdirat(root, ".masked-folder", mode).step("mask")?;

    let workspace = view.workspace.path();
    let hidden = view.hidden.iter().map(|path| (workspace.join(path.path()), true));
    let masks = view.masks.iter().map(|path| (path.path().to_owned(), false));
    for (path, follow) in masks.chain(hidden) {
        if !follow && path.starts_with(workspace) {
            continue;
        }
        // Hidden through a link means hiding what the link leads to.
        match sys::open_in_root(root, &path, follow) {
            Ok(place) => cover(root, place.as_fd(), &path)?,
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(errno).at("mask", &path),
        }
    }
    rustix::fs::unlinkat(root, ".masked-file", AtFlags::empty()).step("mask")?;
    rustix::fs::unlinkat(root, ".masked-folder", AtFlags::REMOVEDIR).step("mask")
}

fn cover(root: BorrowedFd<'_>, place: BorrowedFd<'_>, path: &Path) -> Result<(), Failure> {
    let stat = rustix::fs::fstat(place).at("mask", path)?;
    let cover = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => ".masked-folder",
        // A link that leads nowhere hides nothing.
        FileType::Symlink => return Ok(()),
        _ => ".masked-file",
    };
    let tree = clone(root, Path::new(cover), false).at("mask", path)?;
    sys::mount_setattr(tree.as_fd(), RDONLY, false).at("mask", path)?;
    attach(tree.as_fd(), place, "").at("mask", path)
}

/// Pins protected paths, and each folder between the workspace and them, and makes the paths read-only.
fn protect(root: BorrowedFd<'_>, view: &View) -> Result<Vec<String>, Failure> {
    let mut unprotected = Vec::new();
    if !view.workspace_writable {
        return Ok(unprotected);
    }
    let mut pinned = Vec::new();
    for path in &view.protected {
        if !pin(root, view.workspace.path(), path.path(), Last::ReadOnly, &mut pinned)? {
            unprotected.push(path.path().to_string_lossy().into_owned());
        }
    }
    if let Some(git) = &view.git {
        let folder = git.folder.path();
        if let Ok(within) = folder.strip_prefix(view.workspace.path()) {
            pin(root, view.workspace.path(), within, Last::Open, &mut pinned)?;
        }
        super::git::close(root, folder, &git.part, &mut unprotected)?;
    }
    // A hidden path is hidden by its name: no folder above it may be moved away, or the name would be another.
    for path in &view.hidden {
        if let Some(folder) = path.path().parent().filter(|folder| !folder.as_os_str().is_empty()) {
            pin(root, view.workspace.path(), folder, Last::Open, &mut pinned)?;
        }
    }
    Ok(unprotected)
}

/// What becomes of the last part of a pinned path.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    ReadOnly,
    /// Pinned like the folders above it.
    Open,
}

/// Whether everything on the way to the path could be pinned, links included.
fn pin(
    root: BorrowedFd<'_>,
    workspace: &Path,
    path: &Path,
    last: Last,
    pinned: &mut Vec<PathBuf>,
) -> Result<bool, Failure> {
    let mut whole = true;
    let mut links = 0;
    let mut at = workspace.to_owned();
    let mut rest: Vec<_> = path.components().rev().map(|part| part.as_os_str().to_owned()).collect();
    while let Some(name) = rest.pop() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(name)) => {
                at.push(name);
                let place = match sys::open_in_root(root, &at, false) {
                    Ok(place) => place,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(whole),
                    Err(errno) => return Err(errno).at("protect", &at),
                };
                let stat = rustix::fs::fstat(&place).at("protect", &at)?;
                let inside = at.starts_with(workspace);
                if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                    links += 1;
                    if links > LINK_LIMIT {
                        // It leads round and round, so nobody gets anywhere by it.
                        return Ok(false);
                    }
                    if inside && !pinned.contains(&at) {
                        match cover_with_itself(place.as_fd(), RDONLY) {
                            Ok(()) => pinned.push(at.clone()),
                            Err(_) => whole = false,
                        }
                    }
                    let target = rustix::fs::readlinkat(&place, "", Vec::new()).at("protect", &at)?;
                    at.pop();
                    let target = Path::new(OsStr::from_bytes(target.to_bytes()));
                    rest.extend(target.components().rev().map(|part| part.as_os_str().to_owned()));
                } else if inside && at != workspace && !pinned.contains(&at) {
                    let attributes = if rest.is_empty() && last == Last::ReadOnly { RDONLY } else { 0 };
                    cover_with_itself(place.as_fd(), attributes).at("protect", &at)?;
                    pinned.push(at.clone());
                } else if inside && at != workspace && rest.is_empty() && last == Last::ReadOnly {
                    // Pinned on the way to another one, now protected itself.
                    sys::mount_setattr(place.as_fd(), RDONLY, true).at("protect", &at)?;
                }
            }
            _ => {}
        }
    }
    Ok(whole)
}
