//! Overlays: a folder of the host, shown with a writable layer of the command's own over it.
//!
//! The layer lies in a tmpfs that is as large as the layer may become. Nothing has a name for it but a descriptor, so
//! that it is gone when the last one who holds that is gone: nothing has to be cleaned up, whoever dies.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};

use crate::sys;

/// Files and folders that a layer may hold beyond one for each 4 KiB of its size: each takes memory of the kernel.
const ENTRIES: u64 = 16 * 1024;

/// Where layers lie while overlays are made of them.
pub(super) struct Store {
    root: OwnedFd,
    /// How many layers there are.
    layers: u32,
}

/// A folder with a layer over it.
pub(super) struct Layered {
    /// The detached mount.
    pub(super) tree: OwnedFd,
    /// The layer: what is in it is what was changed.
    pub(super) upper: OwnedFd,
}

impl Store {
    /// A store for layers of so many bytes together.
    pub(super) fn new(bytes: u64) -> Result<Self, Errno> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "size", bytes.to_string())?;
        fsconfig_set_string(&context, "nr_inodes", (bytes / 4096 + ENTRIES).to_string())?;
        fsconfig_set_string(&context, "mode", "0700")?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        // An overlay takes a layer only from a mount that has a place. Over the root it hides nothing: this process
        // still stands in the old one.
        move_mount(&root, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(Self { root, layers: 0 })
    }

    /// A new layer over a folder of the host. The folder has to be reached by this process's own mounts.
    pub(super) fn over(&mut self, lower: &Path) -> Result<Layered, Errno> {
        let lower = sys::open_path(lower)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&lower)?.st_mode & 0o777);
        let (upper, work) = (format!("upper-{}", self.layers), format!("work-{}", self.layers));
        self.layers += 1;
        rustix::fs::mkdirat(&self.root, &upper, mode)?;
        // The overlay's top folder has the mode of the layer's, whatever the umask is.
        rustix::fs::chmodat(&self.root, &upper, mode, AtFlags::empty())?;
        rustix::fs::mkdirat(&self.root, &work, Mode::RWXU)?;
        let open = |name: &str| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&self.root, name, flags, Mode::empty())
        };
        let (upper, work) = (open(&upper)?, open(&work)?);
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        // By descriptor: a colon or a comma in a path would mean something here.
        for (key, folder) in [("lowerdir", &lower), ("upperdir", &upper), ("workdir", &work)] {
            fsconfig_set_string(&context, key, format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
        }
        // Without rights outside of this user namespace an overlay keeps its marks in `user.` attributes.
        fsconfig_set_flag(&context, "userxattr")?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let tree = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Layered { tree, upper })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Overlays and descriptors go on without its place. Should this fail, it goes with the old root.
        let place = format!("/proc/self/fd/{}", self.root.as_raw_fd());
        let _ = unmount(place, UnmountFlags::DETACH);
    }
}

/// Whether nothing more fits into the layer that this is a folder of.
pub(super) fn is_full(layer: impl AsFd) -> bool {
    rustix::fs::fstatvfs(layer).is_ok_and(|store| store.f_bavail == 0 || store.f_ffree == 0)
}
