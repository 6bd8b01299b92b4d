//! More rights, and the kernel's wider surface.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use provost_core::containment::Guarantee::{FsWrite, Privileges};

use super::raw::{call, structure};
use super::stage::{Stage, c, child, idle, missing, say};
use super::{Attack, Control, Judge, Needs, Tried};
use crate::sys;

const fn on_kernel(
    name: &'static str,
    judge: Judge,
    tries: &'static str,
    perform: fn(&Stage) -> Tried,
) -> Attack {
    Attack::new(name, Privileges, judge, tries, perform)
}

/// An attack that opens one of the kernel's own switches for writing, and writes nothing.
const fn on_switch(name: &'static str, path: &'static str, perform: fn(&Stage) -> Tried) -> Attack {
    Attack::new(name, FsWrite, Judge::Opened(path), "opens one of the kernel's switches for writing", perform)
}

pub(super) const ATTACKS: &[Attack] = &[
    on_kernel("rights", Judge::Rights, "looks for capabilities, or programs that give some", |_| Ok(())),
    on_kernel("setuid-by-chmod", Judge::Special, "sets the setuid bit by chmod", |s| {
        fs::write(s.work("mine"), "x")?;
        fs::set_permissions(s.work("mine"), fs::Permissions::from_mode(0o4755))
    }),
    on_kernel("setuid-by-fchmod", Judge::Special, "sets the setuid bit by fchmod", |s| {
        File::create(s.work("mine"))?.set_permissions(fs::Permissions::from_mode(0o4755))
    }),
    on_kernel("setuid-by-fchmodat2", Judge::Special, "sets the setuid bit by fchmodat2", |s| {
        fs::write(s.work("mine"), "x")?;
        let path = c(s.work("mine"))?;
        call(452, [libc::AT_FDCWD.into(), path.as_c_str().into(), 0o4755.into(), 0.into()]).map(drop)
    }),
    on_kernel("setgid-by-chmod", Judge::Special, "sets the setgid bit", |s| {
        fs::write(s.work("mine"), "x")?;
        fs::set_permissions(s.work("mine"), fs::Permissions::from_mode(0o2755))
    }),
    on_kernel("setuid-by-open", Judge::Special, "makes a setuid file by open", |s| {
        OpenOptions::new().write(true).create_new(true).mode(0o4755).open(s.work("mine")).map(drop)
    }),
    on_kernel("setuid-by-openat2", Judge::Special, "makes a setuid file by openat2", |s| {
        let path = c(s.work("mine"))?;
        let how: [u8; 24] = structure(&[(0, (libc::O_WRONLY | libc::O_CREAT) as u64, 8), (8, 0o4755, 8)]);
        let arguments = [libc::AT_FDCWD.into(), path.as_c_str().into(), how.as_slice().into(), 24.into()];
        call(libc::SYS_openat2, arguments).map(drop)
    }),
    on_kernel("setuid-by-mknod", Judge::Special, "makes a setuid file by mknod", |s| {
        node(&s.work("mine"), libc::S_IFREG | 0o4755, 0)
    }),
    on_kernel(
        "setuid-by-unnamed-file",
        Judge::Special,
        "makes a setuid file without a name and names it",
        |s| {
            let flags = libc::O_TMPFILE;
            let file = OpenOptions::new().write(true).custom_flags(flags).mode(0o4755).open(&s.work)?;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(rustix::fs::CWD, path, rustix::fs::CWD, s.work("mine"), follow)
                .map_err(Into::into)
        },
    ),
    on_kernel("block-device", Judge::Special, "makes the node of a disk", |s| {
        node(&s.work("mine"), libc::S_IFBLK | 0o600, 0x801)
    }),
    on_kernel("character-device", Judge::Special, "makes the node of the machine's memory", |s| {
        node(&s.work("mine"), libc::S_IFCHR | 0o600, 0x101)
    }),
    on_kernel("file-capability", Judge::Special, "gives a program capabilities", |s| {
        fs::copy("/bin/true", s.work("mine"))?;
        // Revision 2, effective, CAP_SYS_ADMIN.
        let value: [u8; 20] = structure(&[(0, 0x0200_0001, 4), (4, 1 << 21, 4)]);
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(s.work("mine"), "security.capability", &value, flags).map_err(Into::into)
    }),
    on_kernel("user-namespace", Judge::Namespaces, "makes a user namespace", |_| {
        unshare(libc::CLONE_NEWUSER)
    }),
    on_kernel("mount-namespace", Judge::Namespaces, "makes a mount namespace", |_| {
        unshare(libc::CLONE_NEWNS)
    }),
    on_kernel("net-namespace", Judge::Namespaces, "makes a network namespace", |_| {
        unshare(libc::CLONE_NEWNET)
    }),
    on_kernel("pid-namespace", Judge::Namespaces, "makes a pid namespace", |_| unshare(libc::CLONE_NEWPID)),
    on_kernel("ipc-namespace", Judge::Namespaces, "makes an ipc namespace", |_| unshare(libc::CLONE_NEWIPC)),
    on_kernel("uts-namespace", Judge::Namespaces, "makes a uts namespace", |_| unshare(libc::CLONE_NEWUTS)),
    on_kernel("cgroup-namespace", Judge::Namespaces, "makes a cgroup namespace", |_| {
        unshare(libc::CLONE_NEWCGROUP)
    }),
    on_kernel("time-namespace", Judge::Namespaces, "makes a time namespace", |_| unshare(0x80)),
    on_kernel("clone-user-namespace", Judge::Namespaces, "forks into a user namespace", |_| match sys::fork(
        libc::CLONE_NEWUSER,
    )? {
        sys::Side::Child => idle(),
        sys::Side::Parent(_) => Ok(()),
    }),
    on_kernel("clone3-user-namespace", Judge::Namespaces, "forks into a user namespace by clone3", |_| {
        let arguments: [u8; 88] =
            structure(&[(0, libc::CLONE_NEWUSER as u64, 8), (32, libc::SIGCHLD as u64, 8)]);
        match call(libc::SYS_clone3, [arguments.as_slice().into(), 88.into()])? {
            0 => idle(),
            _ => Ok(()),
        }
    }),
    on_kernel("enter-namespace", Judge::Namespaces, "enters a namespace of a child's", |_| {
        let pid = child(|| {
            let _ = sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWUTS);
            idle()
        })?;
        for _ in 0..1000 {
            let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/uts")).ok();
            if of(&pid.to_string()) != of("self") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let namespace = File::open(format!("/proc/{pid}/ns/user"))?;
        call(libc::SYS_setns, [namespace.as_raw_fd().into(), 0.into()]).map(drop)
    }),
    on_kernel("mount", Judge::Mounts, "mounts an empty file system", |s| {
        let _ = unshare(libc::CLONE_NEWNS);
        mount(Some(c"none"), &s.work("mnt"), Some(c"tmpfs"), 0)
    }),
    on_kernel("bind-mount", Judge::Mounts, "mounts a folder in another place", |s| {
        let _ = unshare(libc::CLONE_NEWNS);
        mount(Some(c"/proc"), &s.work("mnt"), None, (libc::MS_BIND | libc::MS_REC) as i64)
    }),
    on_kernel("move-mount", Judge::Mounts, "mounts a copy of a tree by open_tree", |s| {
        let _ = unshare(libc::CLONE_NEWNS);
        let flags = 1 | i64::from(libc::O_CLOEXEC) | 0x8000;
        let tree = call(libc::SYS_open_tree, [libc::AT_FDCWD.into(), c"/proc".into(), flags.into()])?;
        let place = c(s.work("mnt"))?;
        let arguments = [tree.into(), c"".into(), libc::AT_FDCWD.into(), place.as_c_str().into(), 4.into()];
        call(libc::SYS_move_mount, arguments).map(drop)
    }),
    on_kernel(
        "file-system-context",
        Judge::Holds("anon_inode:[fscontext]"),
        "opens a file system to mount it",
        |_| {
            let _ = unshare(libc::CLONE_NEWNS);
            call(libc::SYS_fsopen, [c"tmpfs".into(), 0.into()]).map(drop)
        },
    ),
    on_kernel("unmount", Judge::Mounts, "removes a mount that covers something", |_| {
        // In a mount namespace of its own where it can have one, so that the control touches nothing of the host's.
        if sys::unshare(libc::CLONE_NEWNS).is_ok() {
            call(libc::SYS_mount, [0.into(), c"/".into(), 0.into(), private().into(), 0.into()])?;
        }
        call(libc::SYS_umount2, [c"/proc".into(), libc::MNT_DETACH.into()]).map(drop)
    }),
    on_kernel("change-root", Judge::Root, "makes another folder its root", |s| {
        let _ = unshare(0);
        let path = c(s.work("mnt"))?;
        call(libc::SYS_chroot, [path.as_c_str().into()]).map(drop)
    }),
    on_kernel("pivot-root", Judge::Mounts, "swaps its root for another folder", |s| {
        let _ = unshare(libc::CLONE_NEWNS);
        mount(Some(c"none"), &s.work("mnt"), Some(c"tmpfs"), 0)?;
        rustix::process::chdir(s.work("mnt"))?;
        call(libc::SYS_pivot_root, [c".".into(), c".".into()])?;
        call(libc::SYS_umount2, [c".".into(), libc::MNT_DETACH.into()]).map(drop)
    }),
    on_kernel(
        "io-uring",
        Judge::Holds("anon_inode:[io_uring]"),
        "makes an io_uring, which no filter sees into",
        |_| {
            let mut parameters = [0u8; 120];
            call(libc::SYS_io_uring_setup, [1.into(), parameters.as_mut_slice().into()]).map(drop)
        },
    ),
    on_kernel("bpf-map", Judge::Holds("anon_inode:bpf-map"), "makes a BPF map", |_| {
        let attributes: [u8; 72] = structure(&[(0, 2, 4), (4, 4, 4), (8, 8, 4), (12, 1, 4)]);
        call(libc::SYS_bpf, [0.into(), attributes.as_slice().into(), 72.into()]).map(drop)
    }),
    on_kernel(
        "perf-event",
        Judge::Holds("anon_inode:[perf_event]"),
        "counts processor events of its own",
        |_| {
            // A software clock (type 1, config 0), of user space only: disabled, exclude_kernel, exclude_hv.
            let attributes: [u8; 128] = structure(&[(0, 1, 4), (4, 128, 4), (40, 1 | 1 << 5 | 1 << 6, 8)]);
            let arguments = [attributes.as_slice().into(), 0.into(), (-1).into(), (-1).into(), 0.into()];
            call(libc::SYS_perf_event_open, arguments).map(drop)
        },
    ),
    on_kernel(
        "page-faults",
        Judge::Holds("anon_inode:[userfaultfd]"),
        "handles page faults by itself",
        |_| call(libc::SYS_userfaultfd, [1.into()]).map(drop),
    ),
    on_kernel(
        "watch-file-system",
        Judge::Holds("anon_inode:[fanotify]"),
        "watches a whole file system",
        |_| {
            let fd = call(libc::SYS_fanotify_init, [0.into(), libc::O_RDONLY.into()])?;
            // FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_OPEN
            let arguments = [fd.into(), 0x101.into(), 0x20.into(), libc::AT_FDCWD.into(), c"/".into()];
            call(libc::SYS_fanotify_mark, arguments).map(drop)
        },
    ),
    on_kernel("key-add", Judge::Key, "puts a key into the user's keyring", |s| {
        let name = c(&s.token)?;
        // KEY_SPEC_USER_KEYRING
        let arguments =
            [c"user".into(), name.as_c_str().into(), b"x".as_slice().into(), 1.into(), (-4).into()];
        call(libc::SYS_add_key, arguments).map(drop)
    })
    .needs(Needs::Keys),
    on_kernel("key-read", Judge::Secret, "reads a key of the user's keyring", |s| {
        let name = c(format!("{}-secret", s.token))?;
        // KEYCTL_SEARCH, KEYCTL_READ
        let key = call(
            libc::SYS_keyctl,
            [10.into(), (-4).into(), c"user".into(), name.as_c_str().into(), 0.into()],
        )?;
        let mut content = [0u8; 128];
        let length =
            call(libc::SYS_keyctl, [11.into(), key.into(), content.as_mut_slice().into(), 128.into()])?;
        say(&content[..length as usize]);
        Ok(())
    })
    .needs(Needs::Keys),
    on_kernel("terminal-input", Judge::Terminal, "types into the caller's terminal", |s| {
        let path = s.terminal.as_ref().ok_or_else(|| missing("no terminal"))?;
        let _ = rustix::process::setsid();
        let terminal = File::open(path)?;
        let _ =
            call(libc::SYS_ioctl, [terminal.as_raw_fd().into(), (libc::TIOCSCTTY as i64).into(), 0.into()]);
        call(libc::SYS_ioctl, [terminal.as_raw_fd().into(), 0x5412.into(), b"x".as_slice().into()]).map(drop)
    })
    .needs(Needs::Terminal),
    on_switch("core-pattern", "/proc/sys/kernel/core_pattern", |_| writable("/proc/sys/kernel/core_pattern")),
    on_switch("overcommit", "/proc/sys/vm/overcommit_memory", |_| writable("/proc/sys/vm/overcommit_memory")),
    on_switch("module-loader", "/proc/sys/kernel/modprobe", |_| writable("/proc/sys/kernel/modprobe")),
    on_switch("magic-key", "/proc/sysrq-trigger", |_| writable("/proc/sysrq-trigger")),
    on_switch("binary-formats", "/proc/sys/fs/binfmt_misc/register", |_| {
        writable("/proc/sys/fs/binfmt_misc/register")
    }),
    on_switch("huge-pages", "/sys/kernel/mm/transparent_hugepage/enabled", |_| {
        writable("/sys/kernel/mm/transparent_hugepage/enabled")
    }),
    on_switch("event-helper", "/sys/kernel/uevent_helper", |_| writable("/sys/kernel/uevent_helper")),
    on_switch("control-group", "/sys/fs/cgroup/cgroup.procs", |_| writable("/sys/fs/cgroup/cgroup.procs")),
    on_switch("interrupts", "/proc/irq/default_smp_affinity", |_| writable("/proc/irq/default_smp_affinity")),
    on_switch("kernel-log-write", "/dev/kmsg", |_| writable("/dev/kmsg")),
    Attack::new("machine-memory", FsWrite, Judge::Opened("/dev/mem"), "opens the machine's memory", |_| {
        writable("/dev/mem")
    }),
    Attack::new(
        "loop-device",
        FsWrite,
        Judge::Opened("/dev/loop-control"),
        "opens the control of loop devices",
        |_| writable("/dev/loop-control"),
    ),
    Attack::new(
        "fuse-device",
        FsWrite,
        Judge::Opened("/dev/fuse"),
        "opens the device of file systems in user space",
        |_| writable("/dev/fuse"),
    ),
    Attack::new(
        "kvm-device",
        FsWrite,
        Judge::Opened("/dev/kvm"),
        "opens the device of virtual machines",
        |_| writable("/dev/kvm"),
    ),
    Attack::new(
        "net-tunnel",
        FsWrite,
        Judge::Opened("/dev/net/tun"),
        "opens the device of network tunnels",
        |_| writable("/dev/net/tun"),
    ),
    // Each with arguments that the kernel turns down after it has looked at the caller's rights.
    on_kernel("reboot", Judge::Answer, "restarts the machine", |_| {
        answer(call(libc::SYS_reboot, [0.into(), 0.into(), 0.into(), 0.into()]))
    }),
    on_kernel("kexec", Judge::Answer, "loads another kernel", |_| {
        answer(call(libc::SYS_kexec_load, [0.into(), 0.into(), 0.into(), (-1).into()]))
    }),
    on_kernel("load-module", Judge::Answer, "loads a module into the kernel", |_| {
        answer(call(libc::SYS_init_module, [[0u8; 8].as_slice().into(), 8.into(), c"".into()]))
    }),
    on_kernel("load-module-file", Judge::Answer, "loads a module from a file", |_| {
        answer(call(libc::SYS_finit_module, [(-1).into(), c"".into(), 0.into()]))
    }),
    on_kernel("unload-module", Judge::Answer, "removes a module from the kernel", |_| {
        answer(call(libc::SYS_delete_module, [c"provost_no_such".into(), 0.into()]))
    }),
    on_kernel("set-clock", Judge::Answer, "sets the machine's clock", |_| {
        let never: [u8; 16] = structure(&[(8, u64::MAX, 8)]);
        match call(libc::SYS_clock_settime, [0.into(), never.as_slice().into()]) {
            // The time is looked at before the rights, so this one says nothing: a clock that adjusts itself does.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let adjust: [u8; 208] = structure(&[(0, 0x4000, 4), (16, 1, 8), (88, u64::MAX, 8)]);
                answer(call(libc::SYS_adjtimex, [adjust.as_slice().into()]))
            }
            other => answer(other),
        }
    }),
    on_kernel("swap-on", Judge::Answer, "adds swap space", |_| {
        answer(call(libc::SYS_swapon, [c"/nowhere".into(), 0.into()]))
    }),
    on_kernel("swap-off", Judge::Answer, "removes swap space", |_| {
        answer(call(libc::SYS_swapoff, [c"/nowhere".into()]))
    }),
    on_kernel("accounting", Judge::Answer, "turns process accounting on", |_| {
        answer(call(libc::SYS_acct, [c"/nowhere/provost".into()]))
    }),
    on_kernel("kernel-messages", Judge::Answer, "reads the kernel's messages", |_| {
        let mut buffer = [0u8; 16];
        answer(call(libc::SYS_syslog, [3.into(), buffer.as_mut_slice().into(), 16.into()]))
    }),
    on_kernel("quota", Judge::Answer, "sets quotas of a disk", |_| {
        // Q_SETQUOTA for users, of no device: the rights are looked at last, so the control tells whether that is seen.
        answer(call(libc::SYS_quotactl, [0x8000_0800_i64.into(), c"/nowhere".into(), 0.into(), 0.into()]))
    }),
    on_kernel("host-name", Judge::Answer, "names the host", |_| {
        answer(call(libc::SYS_sethostname, [c"".into(), (-1).into()]))
    }),
    on_kernel("hang-up", Judge::Answer, "hangs up the terminal", |_| answer(call(libc::SYS_vhangup, [])))
        .control(Control::Harmful("it would hang up the caller's terminal")),
    #[cfg(target_arch = "x86_64")]
    on_kernel("ports", Judge::Answer, "takes the machine's ports", |_| {
        answer(call(libc::SYS_iopl, [3.into()]))
    }),
    #[cfg(target_arch = "x86_64")]
    on_kernel("setuid-by-x32", Judge::Special, "makes a setuid file by a call with x32's number", |s| {
        let path = c(s.work("mine"))?;
        let arguments = [libc::AT_FDCWD.into(), path.as_c_str().into(), 0o101.into(), 0o4755.into()];
        call(libc::SYS_openat | 0x4000_0000, arguments).map(drop)
    }),
    #[cfg(target_arch = "x86_64")]
    on_kernel(
        "setuid-by-32-bit-call",
        Judge::Special,
        "makes a setuid file by a 32-bit program's call",
        |s| {
            let path = c(s.work("mine"))?;
            let path = path.as_bytes_with_nul();
            // MAP_32BIT, so that a 32-bit pointer reaches it.
            let low = low_page()?;
            // SAFETY: the page was just mapped, is writable, and the path is shorter than it.
            unsafe { std::ptr::copy_nonoverlapping(path.as_ptr(), low as *mut u8, path.len().min(4096)) };
            let result: i64;
            // SAFETY: the kernel's 32-bit entry takes its arguments in these registers and keeps the others; `rbx` is saved by
            // hand because the compiler keeps it for itself. `open` touches no memory but the path.
            unsafe {
                std::arch::asm!(
                    "xchg rbx, {path}",
                    "int 0x80",
                    "xchg rbx, {path}",
                    path = inout(reg) low => _,
                    inlateout("rax") 5_i64 => result,
                    in("rcx") 0o101_i64,
                    in("rdx") 0o4755_i64,
                    lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
                );
            }
            if result < 0 { Err(std::io::Error::from_raw_os_error(-(result as i32))) } else { Ok(()) }
        },
    ),
];

/// A page below 4 GiB.
#[cfg(target_arch = "x86_64")]
fn low_page() -> std::io::Result<i64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
    let arguments = [
        0.into(),
        4096.into(),
        (libc::PROT_READ | libc::PROT_WRITE).into(),
        flags.into(),
        (-1).into(),
        0.into(),
    ];
    call(libc::SYS_mmap, arguments)
}

/// Moves into a new namespace: in a new user namespace where rights are wanting.
fn unshare(namespace: i32) -> Tried {
    match sys::unshare(namespace | libc::CLONE_NEWUSER) {
        Ok(()) => Ok(()),
        Err(_) if namespace != 0 && namespace != libc::CLONE_NEWUSER => {
            sys::unshare(namespace).map_err(Into::into)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn private() -> i64 {
    (libc::MS_REC | libc::MS_PRIVATE) as i64
}

fn mount(source: Option<&CStr>, place: &Path, kind: Option<&CStr>, flags: i64) -> Tried {
    fs::create_dir_all(place)?;
    let place = c(place)?;
    let arguments = [
        source.map_or(0.into(), Into::into),
        place.as_c_str().into(),
        kind.map_or(0.into(), Into::into),
        flags.into(),
        0.into(),
    ];
    call(libc::SYS_mount, arguments).map(drop)
}

fn node(path: &Path, mode: libc::mode_t, device: i64) -> Tried {
    let path = c(path)?;
    let arguments = [libc::AT_FDCWD.into(), path.as_c_str().into(), i64::from(mode).into(), device.into()];
    call(libc::SYS_mknodat, arguments).map(drop)
}

/// Opens for writing, keeps it open, writes nothing.
fn writable(path: &str) -> Tried {
    std::mem::forget(OpenOptions::new().write(true).open(path)?);
    Ok(())
}

/// A call that the kernel turned down for another reason than wanting rights has passed the check of rights.
fn answer(result: std::io::Result<i64>) -> Tried {
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}
