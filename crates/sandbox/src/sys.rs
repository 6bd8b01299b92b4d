//! System calls that rustix does not offer, each in a safe wrapper.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::record::Failure;

/// Turns the errno of a step into a [`Failure`] that names the step.
pub(crate) trait Step<T> {
    /// Names the step.
    fn step(self, step: &str) -> Result<T, Failure>;
    /// Names the step and the path it worked on.
    fn at(self, step: &str, path: &Path) -> Result<T, Failure>;
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, step: &str) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(step, errno.raw_os_error(), ""))
    }

    fn at(self, step: &str, path: &Path) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(step, errno.raw_os_error(), path.to_string_lossy()))
    }
}

/// The errno of the last failed libc call.
pub(crate) fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A raw system call's result: negative means that `errno` holds why.
pub(crate) fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

/// A raw system call's result as a descriptor that is now ours.
pub(crate) fn owned(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let fd = i32::try_from(check(result)?).map_err(|_| Errno::RANGE)?;
    // SAFETY: the kernel has just returned this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Which side of a fork this is.
pub(crate) enum Side {
    Parent(libc::pid_t),
    Child,
}

/// Forks with `clone(2)` flags for new namespaces. Only the single-threaded supervisor calls this.
pub(crate) fn fork(namespaces: libc::c_int) -> Result<Side, Errno> {
    // SAFETY: no new stack is asked for, so this is fork(2) with namespaces; the process has one thread, so that the
    // child's copy of every lock and of the heap is in a consistent state.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(namespaces | libc::SIGCHLD),
            0usize,
            0usize,
            0usize,
            0usize,
        )
    };
    match check(pid)? {
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid as libc::pid_t)),
    }
}

/// From `linux/sched.h`; the one in `libc` does not fit its type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The same, into a control group whose folder this is.
pub(crate) fn fork_into(namespaces: libc::c_int, group: BorrowedFd<'_>) -> Result<Side, Errno> {
    // SAFETY: all zeroes is a valid value of this struct of numbers.
    let mut wanted: libc::clone_args = unsafe { std::mem::zeroed() };
    wanted.flags = namespaces as u64 | CLONE_INTO_CGROUP;
    wanted.exit_signal = libc::SIGCHLD as u64;
    wanted.cgroup = group.as_raw_fd() as u64;
    // SAFETY: as in `fork`; the kernel reads as much of `wanted` as is said.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const wanted, size_of::<libc::clone_args>()) };
    match check(pid)? {
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid as libc::pid_t)),
    }
}

/// Ends the process at once, without running exit handlers of the program we are a copy of.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: always sound.
    unsafe { libc::_exit(status) }
}

/// Writes so many bytes of nothing.
pub(crate) fn fill(fd: BorrowedFd<'_>, bytes: usize) -> Result<(), Errno> {
    let nothing = [0u8; 64 * 1024];
    let mut left = bytes;
    while left > 0 {
        match rustix::io::write(fd, &nothing[..left.min(nothing.len())]) {
            Ok(written) => left -= written,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Closes, or marks close-on-exec, all descriptors from `first` on.
pub(crate) fn close_from(first: u32, on_exec_only: bool) -> Result<(), Errno> {
    let flags = if on_exec_only { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: closing is sound as the callers hold no descriptor from `first` on that they use afterwards.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Closes all descriptors from 3 on but these.
pub(crate) fn close_others<const N: usize>(kept: [&OwnedFd; N]) -> Result<(), Errno> {
    let mut kept = kept.map(|fd| fd.as_raw_fd().cast_unsigned());
    kept.sort_unstable();
    let mut from = 3;
    for kept in kept {
        if from < kept {
            close_range(from, kept - 1)?;
        }
        from = kept + 1;
    }
    close_from(from, false)
}

/// Closes the descriptors from `first` to `last`.
pub(crate) fn close_range(first: u32, last: u32) -> Result<(), Errno> {
    // SAFETY: the callers hold no descriptor in the range that they use afterwards.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0usize) }).map(drop)
}

/// Duplicates onto a fixed number (0, 1, 2), which then survives exec.
pub(crate) fn dup_onto(fd: BorrowedFd<'_>, number: i32) -> Result<(), Errno> {
    // SAFETY: replacing a standard descriptor of this process; nothing in it owns that number.
    check(libc::c_long::from(unsafe { libc::dup2(fd.as_raw_fd(), number) })).map(drop)
}

/// Blocks SIGCHLD and gives a descriptor that becomes readable when a child changes state.
pub(crate) fn child_signals() -> Result<OwnedFd, Errno> {
    // SAFETY: the set is initialised by sigemptyset before any use, and lives on this stack.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(errno());
        }
        owned(libc::c_long::from(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)))
    }
}

/// Takes what has gathered in a descriptor of [`child_signals`].
pub(crate) fn drain(signals: &OwnedFd) {
    let mut buffer = [0u8; 128];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|count| count > 0) {}
}

/// All signals back to their default action, none blocked: what a program expects at its start.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: installing the default action is sound; numbers that cannot be changed are refused by the kernel.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: the set is initialised by sigemptyset and lives on this stack.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Ignores signals that a terminal or a closed pipe would send to the supervisor.
pub(crate) fn ignore_signals() {
    for signal in [libc::SIGPIPE, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: ignoring a signal is sound.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Dead children are collected by the kernel.
pub(crate) fn ignore_children() {
    // SAFETY: ignoring a signal is sound.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Dead children wait to be collected, as usual.
pub(crate) fn watch_children() {
    // SAFETY: the default action of this signal is to do nothing.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Sends a signal; negative `pid` means a process group.
pub(crate) fn kill(pid: libc::pid_t, signal: libc::c_int) -> Result<(), Errno> {
    // SAFETY: always sound.
    check(libc::c_long::from(unsafe { libc::kill(pid, signal) })).map(drop)
}

/// Collects one dead child without waiting: its pid and raw status. `Err(CHILD)` when there is no child at all.
pub(crate) fn reap(pid: libc::pid_t, wait: bool) -> Result<Option<(libc::pid_t, i32)>, Errno> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live integer.
        let found = unsafe { libc::waitpid(pid, &raw mut status, if wait { 0 } else { libc::WNOHANG }) };
        match check(libc::c_long::from(found)) {
            Ok(0) => return Ok(None),
            Ok(found) => return Ok(Some((found as libc::pid_t, status))),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// `prctl` with plain numbers.
pub(crate) fn prctl(option: libc::c_int, argument: libc::c_ulong) -> Result<libc::c_long, Errno> {
    // SAFETY: only options whose argument is a number are passed by this crate.
    check(libc::c_long::from(unsafe { libc::prctl(option, argument, 0, 0, 0) }))
}

/// Seconds of processor time of this process: it is told to end when they are over, and killed a second later.
pub(crate) fn limit_cpu(seconds: u64) -> Result<(), Errno> {
    let limits = libc::rlimit { rlim_cur: seconds, rlim_max: seconds.saturating_add(1) };
    // SAFETY: `limits` is a live, initialised structure.
    check(libc::c_long::from(unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limits) })).map(drop)
}

/// A file that grows too large is an error to its writer and no signal.
pub(crate) fn ignore_file_size() {
    // SAFETY: ignoring a signal is sound.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// What collected children took.
pub(crate) struct Usage {
    pub(crate) cpu_ms: u64,
    /// Of the largest one of them, in bytes.
    pub(crate) largest_resident: u64,
}

/// What the collected children of this process took, with theirs.
pub(crate) fn usage_of_children() -> Usage {
    // SAFETY: all-zero is a valid rusage.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: `usage` is a live structure. The call only fails for a wrong `who`.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let ms = |time: libc::timeval| time.tv_sec as u64 * 1000 + time.tv_usec as u64 / 1000;
    Usage { cpu_ms: ms(usage.ru_utime) + ms(usage.ru_stime), largest_resident: usage.ru_maxrss as u64 * 1024 }
}

/// Loads a seccomp program (an array of `sock_filter`) for good. Needs no-new-privileges.
pub(crate) fn load_filter(program: &[u8]) -> Result<(), Errno> {
    set_filter(program, 0).map(drop)
}

/// Loads a seccomp program that hands calls over, and gives the descriptor where they wait. It is closed on exec.
pub(crate) fn load_filter_with_listener(program: &[u8]) -> Result<OwnedFd, Errno> {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // With it a call that was taken is interrupted by nothing but death (Linux 5.19). Without it a signal makes the
    // call again, which whoever answers has to bear.
    match set_filter(program, listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(Errno::INVAL) => owned(set_filter(program, listener)?),
        other => owned(other?),
    }
}

fn set_filter(program: &[u8], flags: libc::c_ulong) -> Result<libc::c_long, Errno> {
    let count = u16::try_from(program.len() / size_of::<libc::sock_filter>()).map_err(|_| Errno::TOOBIG)?;
    let mut filter = Vec::with_capacity(count.into());
    for instruction in program.as_chunks::<8>().0 {
        let [a, b, jt, jf, k @ ..] = *instruction;
        filter.push(libc::sock_filter { code: u16::from_ne_bytes([a, b]), jt, jf, k: u32::from_ne_bytes(k) });
    }
    let program = libc::sock_fprog { len: count, filter: filter.as_mut_ptr() };
    // SAFETY: the program points at `count` live instructions; the kernel copies and verifies them.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    })
}

/// Takes away the means to get a capability that one does not have.
pub(crate) fn bound_capabilities() {
    // Without CAP_SETPCAP (an ordinary user without a namespace) these are refused, and there is nothing to drop:
    // no-new-privileges keeps file capabilities and setuid from giving any.
    for capability in 0..64 {
        // To ask is cheap, and to drop makes new credentials each time.
        let dropped = match prctl(libc::PR_CAPBSET_READ, capability) {
            Ok(0) => Ok(0),
            Ok(_) => prctl(libc::PR_CAPBSET_DROP, capability),
            Err(errno) => Err(errno),
        };
        if dropped.is_err() {
            break;
        }
    }
    let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    // NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off, NO_CAP_AMBIENT_RAISE, each locked: uid 0 is then an ordinary uid.
    let _ = prctl(libc::PR_SET_SECUREBITS, 0b1110_1111);
}

/// Drops every capability, and the means to get one back.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    bound_capabilities();
    clear_capabilities()
}

/// Drops every capability.
pub(crate) fn clear_capabilities() -> Result<(), Errno> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [0u32; 6];
    // SAFETY: version 3 takes two triples of 32-bit sets, which `none` holds.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }).map(drop)
}

/// What C libraries call the type of a resource's number.
#[cfg(target_env = "gnu")]
pub(crate) type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
pub(crate) type Resource = libc::c_int;

/// Sets soft and hard limit of a resource, never above the present hard limit.
pub(crate) fn limit(resource: Resource, value: u64) -> Result<(), Errno> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limits` is a live structure.
    check(libc::c_long::from(unsafe { libc::getrlimit(resource, &raw mut limits) }))?;
    limits.rlim_cur = value.min(limits.rlim_max);
    limits.rlim_max = limits.rlim_cur;
    // SAFETY: `limits` is a live, initialised structure.
    check(libc::c_long::from(unsafe { libc::setrlimit(resource, &raw const limits) })).map(drop)
}

/// `execve`; returns only when it failed.
pub(crate) fn exec(program: &CStr, argv: &[CString], env: &[CString]) -> Errno {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end in null and point at C strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    errno()
}

/// Mount attributes for [`mount_setattr`].
pub(crate) const RDONLY: u64 = 1;
pub(crate) const NOSUID: u64 = 2;
pub(crate) const NODEV: u64 = 4;
pub(crate) const NOEXEC: u64 = 8;

/// Sets mount attributes on the mount that a descriptor is the root of.
pub(crate) fn mount_setattr(tree: BorrowedFd<'_>, set: u64, recursive: bool) -> Result<(), Errno> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let attr = MountAttr { set, clear: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string and the attribute a live structure of the size passed.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// Swaps the root mount for the current directory, stacking the old root on it.
pub(crate) fn pivot_root_here() -> Result<(), Errno> {
    // SAFETY: both arguments are C strings.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) }).map(drop)
}

/// Brings the loopback interface of the current network namespace up.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which `request` is.
    check(libc::c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request)
    }))
    .map(drop)
}

/// Names the host in the current uts namespace.
pub(crate) fn set_host_name(name: &[u8]) -> Result<(), Errno> {
    // SAFETY: pointer and length describe `name`.
    check(libc::c_long::from(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })).map(drop)
}

/// Opens a path as a location only, following symbolic links as usual.
pub(crate) fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a location below `root` as if `root` were `/`.
pub(crate) fn open_in_root(root: BorrowedFd<'_>, path: &Path, follow: bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let relative = path.strip_prefix("/").unwrap_or(path);
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    retry(|| {
        rustix::fs::openat2(
            root,
            relative,
            flags,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )
    })
}

/// `openat2` may ask to be tried again when a rename ran at the same time.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..64 {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Real user and group id of this process.
pub(crate) fn ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Moves this process into new namespaces.
pub(crate) fn unshare(namespaces: libc::c_int) -> Result<(), Errno> {
    // SAFETY: takes a number; the process has one thread.
    check(libc::c_long::from(unsafe { libc::unshare(namespaces) })).map(drop)
}

/// Makes a System V shared memory segment.
pub(crate) fn shared_segment() -> Result<i32, Errno> {
    // SAFETY: takes numbers.
    let segment = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) };
    check(libc::c_long::from(segment)).map(|_| segment)
}

/// Tries to attach a segment, and leaves it attached.
pub(crate) fn attach_segment(segment: i32) -> Result<(), Errno> {
    // SAFETY: the kernel chooses a free address; nothing is read there.
    let address = unsafe { libc::shmat(segment, std::ptr::null(), libc::SHM_RDONLY) };
    if address as isize == -1 { Err(errno()) } else { Ok(()) }
}

/// Removes a segment that this process made.
pub(crate) fn remove_segment(segment: i32) {
    // SAFETY: the command needs no structure.
    unsafe { libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()) };
}
