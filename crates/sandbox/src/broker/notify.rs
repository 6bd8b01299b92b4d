//! The kernel's side of the broker: a filter's listener, and what is done with a call that waits there.

use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use crate::sys;

/// A system call that waits to be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    id: u64,
    /// The thread that made it, by its number where we are.
    pub(super) thread: u32,
    pub(super) number: libc::c_long,
    pub(super) arguments: [u64; 6],
}

impl Call {
    /// An argument that is an `int`: the kernel looks at its lower half only.
    pub(super) fn int(&self, index: usize) -> i32 {
        self.arguments[index] as i32
    }
}

/// What a descriptor is when the caller has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnExec {
    Close,
    Keep,
}

impl OnExec {
    fn flags(self) -> u32 {
        match self {
            Self::Close => libc::O_CLOEXEC as u32,
            Self::Keep => 0,
        }
    }
}

/// Where the calls of a filter with `SECCOMP_RET_USER_NOTIF` wait.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Listener {
    /// Takes a call that waits; `None` where its thread died or was interrupted meanwhile.
    pub(super) fn next(&self) -> Result<Option<Call>, Errno> {
        // SAFETY: all-zero is a valid notification, and what the kernel wants to be given.
        let mut told = unsafe { zeroed::<libc::seccomp_notif>() };
        match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, (&raw mut told).cast()) {
            Ok(_) => Ok(Some(Call {
                id: told.id,
                thread: told.pid,
                number: libc::c_long::from(told.data.nr),
                arguments: told.data.args,
            })),
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether the call still waits. Only then is what was read by its thread's number that thread's.
    pub(super) fn waits(&self, call: &Call) -> bool {
        let mut id = call.id;
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).is_ok()
    }

    /// Answers a call; never with its continuation, so that nothing that its caller changes meanwhile matters. Whether
    /// it was still there to be answered.
    pub(super) fn answer(&self, call: &Call, result: Result<(), Errno>) -> bool {
        let error = match result {
            Ok(()) => 0,
            Err(errno) => -errno.raw_os_error(),
        };
        let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags: 0 };
        self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut answer).cast()).is_ok()
    }

    /// Answers a call that makes a descriptor with a copy of ours, in one step: a caller that is gone has got nothing.
    pub(super) fn answer_with(&self, call: &Call, fd: BorrowedFd<'_>, on_exec: OnExec) -> Result<(), Errno> {
        let flags = libc::SECCOMP_ADDFD_FLAG_SEND as u32;
        self.add(call, fd, flags, 0, on_exec)
    }

    /// Puts a copy of our descriptor in place of one that the caller has.
    pub(super) fn replace(
        &self,
        call: &Call,
        fd: BorrowedFd<'_>,
        number: i32,
        on_exec: OnExec,
    ) -> Result<(), Errno> {
        let number = u32::try_from(number).map_err(|_| Errno::BADF)?;
        self.add(call, fd, libc::SECCOMP_ADDFD_FLAG_SETFD as u32, number, on_exec)
    }

    fn add(
        &self,
        call: &Call,
        fd: BorrowedFd<'_>,
        flags: u32,
        newfd: u32,
        on_exec: OnExec,
    ) -> Result<(), Errno> {
        let mut added = libc::seccomp_notif_addfd {
            id: call.id,
            flags,
            srcfd: fd.as_raw_fd().cast_unsigned(),
            newfd,
            newfd_flags: on_exec.flags(),
        };
        self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, (&raw mut added).cast()).map(drop)
    }

    fn control(&self, request: libc::Ioctl, argument: *mut libc::c_void) -> Result<libc::c_long, Errno> {
        // SAFETY: each caller passes the structure that its request reads and writes, live for the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        sys::check(libc::c_long::from(result))
    }

    /// Reads the caller's memory. What is read is a copy, and its caller may be somebody else by now: ask
    /// [`waits`](Self::waits) before it is believed.
    pub(super) fn read(&self, call: &Call, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let memory = std::fs::File::open(format!("/proc/{}/mem", call.thread)).map_err(errno)?;
        let mut bytes = vec![0; length];
        memory.read_exact_at(&mut bytes, at).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::IO) | None => Errno::FAULT,
            Some(errno) => errno,
        })?;
        if self.waits(call) { Ok(bytes) } else { Err(Errno::SRCH) }
    }

    /// Asks the kernel how large its structures are: others than ours cannot be spoken with.
    pub(super) fn check_sizes() -> Result<(), Errno> {
        // SAFETY: all-zero is a valid value of three numbers.
        let mut sizes = unsafe { zeroed::<libc::seccomp_notif_sizes>() };
        // SAFETY: the operation writes the structure that it is given.
        sys::check(unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0usize, &raw mut sizes)
        })?;
        let ours = (size_of::<libc::seccomp_notif>(), size_of::<libc::seccomp_notif_resp>());
        let theirs = (usize::from(sizes.seccomp_notif), usize::from(sizes.seccomp_notif_resp));
        if ours == theirs { Ok(()) } else { Err(Errno::PROTO) }
    }
}

/// The number of an I/O error; `EIO` where it has none.
pub(super) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
