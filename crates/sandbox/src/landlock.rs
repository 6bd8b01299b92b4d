//! Landlock by its three system calls.
//!
//! Not through the `landlock` crate: the supervisor applies a plan that was decided beforehand and must fail, not
//! degrade, when a right it relies on is missing.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::sys;

pub(crate) const EXECUTE: u64 = 1;
pub(crate) const WRITE_FILE: u64 = 1 << 1;
pub(crate) const READ_FILE: u64 = 1 << 2;
pub(crate) const READ_DIR: u64 = 1 << 3;
pub(crate) const REMOVE_FILE: u64 = 1 << 5;
pub(crate) const MAKE_FILE: u64 = 1 << 8;
pub(crate) const REFER: u64 = 1 << 13;
pub(crate) const TRUNCATE: u64 = 1 << 14;
pub(crate) const IOCTL_DEV: u64 = 1 << 15;

/// Rights that read.
pub(crate) const READS: u64 = EXECUTE | READ_FILE | READ_DIR;
/// Rights that mean something on a file that is not a folder.
pub(crate) const ON_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
const SCOPE_ABSTRACT_UNIX: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;

const RULE_PATH_BENEATH: libc::c_long = 1;
const CREATE_RULESET_VERSION: libc::c_long = 1;

/// The kernel's Landlock ABI; `None` when it has none or it is off.
pub(crate) fn abi() -> Option<u32> {
    // SAFETY: with a null attribute and the version flag the call only returns a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, CREATE_RULESET_VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// All file-system rights that this ABI can govern, of those we know.
pub(crate) fn known_fs(abi: u32) -> u64 {
    let bits = match abi {
        0 => 0,
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// A ruleset under construction.
pub(crate) struct Ruleset {
    fd: OwnedFd,
    fs: u64,
}

impl Ruleset {
    /// Governs `fs`; with `net`, TCP too (ABI 4); signals and abstract sockets are scoped from ABI 6 on.
    pub(crate) fn new(abi: u32, fs: u64, net: bool) -> Result<Self, Errno> {
        let fs = fs & known_fs(abi);
        let attr = RulesetAttr {
            handled_access_fs: fs,
            handled_access_net: if net && abi >= 4 { BIND_TCP | CONNECT_TCP } else { 0 },
            scoped: if abi >= 6 { SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL } else { 0 },
        };
        // Older kernels refuse a longer structure only when the part they do not know is not zero; it is zero then.
        // SAFETY: the attribute is a live structure of the size passed.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attr,
                size_of::<RulesetAttr>(),
                0usize,
            )
        };
        Ok(Self { fd: sys::owned(fd)?, fs })
    }

    /// Allows `rights` (those governed) on `path` and below it.
    pub(crate) fn allow(&self, path: BorrowedFd<'_>, is_dir: bool, rights: u64) -> Result<(), Errno> {
        let rights = rights & self.fs & if is_dir { u64::MAX } else { ON_FILES };
        if rights == 0 {
            return Ok(());
        }
        let attr = PathBeneathAttr { allowed_access: rights, parent_fd: path.as_raw_fd() };
        // SAFETY: both descriptors are open and the attribute is a live structure of the kind named.
        let result = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd.as_fd().as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const attr,
                0usize,
            )
        };
        sys::check(result).map(drop)
    }

    /// Applies the rules to this thread for good. Needs no-new-privileges.
    pub(crate) fn restrict(self) -> Result<(), Errno> {
        // SAFETY: the descriptor is an open ruleset.
        let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.fd.as_raw_fd(), 0usize) };
        sys::check(result).map(drop)
    }
}
