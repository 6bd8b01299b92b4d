//! The seccomp program: a deny-list in classic BPF, made once per sandbox; under R2 it also hands calls over to the broker.
//!
//! Socket *creation* is filtered, never `sendto`, `bind` or `setsockopt`: filtering those is what breaks asyncio,
//! Node's `spawnSync` and Chromium. `clone3` and `openat2` carry their flags behind a pointer that no filter can
//! read, so they answer `ENOSYS` and C libraries fall back to `clone` and `openat`. The kernel remembers which
//! numbers are allowed whatever their arguments, so the length of the list costs nothing afterwards.

use libc::c_long;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const JUMP_ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const MASK: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
/// The call waits until a broker has answered it.
const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

/// Set-user-id and set-group-id bits of a mode.
pub(crate) const SUID: u32 = 0o6000;
/// `CLONE_NEW*`, except `CLONE_NEWTIME`, which shares a bit with `clone`'s signal number.
pub(crate) const NAMESPACES: u32 = 0x7E02_0000;
pub(crate) const NEW_TIME: u32 = 0x80;
/// Flags with which `open` looks at its mode.
pub(crate) const CREATES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;

/// System calls with a number newer than our libc crate may know; the same on every architecture.
const OPENAT2: c_long = 437;
const FCHMODAT2: c_long = 452;
const OPEN_TREE_ATTR: c_long = 467;

/// Refused outright with `EPERM`, under R2 and R3.
const REFUSED: &[c_long] = &[
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_pidfd_getfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
];

/// Refused under R2 only: under R3 they reach no process outside of the pid namespace, and debuggers and leak
/// checkers need them.
const REFUSED_WITHOUT_PID_NAMESPACE: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
];

/// Under R2 only on the caller itself, by the number 0: no filter can tell its own threads' numbers from a stranger's. With
/// the index of the argument that names the process.
const ON_SELF_ONLY: &[(c_long, u32)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Answered with `ENOSYS`, as by a kernel without them, so that callers fall back.
const NOT_THERE: &[c_long] = &[
    libc::SYS_clone3,
    OPENAT2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Which sockets there are to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Internet and unix sockets: R3, whose network namespace has only its own loopback.
    Namespace,
    /// Unix sockets, which connect where they like: R2 where nobody can be asked.
    UnixOnly,
    /// Those that a broker makes and connects: R2.
    Brokered,
}

/// The program as an array of `sock_filter`, in this machine's byte order.
///
/// Without [`Sockets::Namespace`], and so without a pid namespace, this is R2's program.
pub(crate) fn program(sockets: Sockets) -> Vec<u8> {
    let mut bpf = Assembler::default();
    bpf.push(LOAD, 0, 0, 4);
    bpf.push(JUMP_EQUAL, 1, 0, ARCH);
    // A 32-bit program's calls have other numbers, which would slip past everything below.
    bpf.push(RETURN, 0, 0, KILL_PROCESS);
    bpf.push(LOAD, 0, 0, 0);
    // x32 calls share the architecture and add this bit to the number.
    bpf.push(JUMP_AT_LEAST, 0, 1, 0x4000_0000);
    bpf.push(RETURN, 0, 0, refuse(libc::ENOSYS));

    for number in REFUSED {
        bpf.when(*number, &[(RETURN, 0, 0, refuse(libc::EPERM))]);
    }
    if sockets != Sockets::Namespace {
        for number in REFUSED_WITHOUT_PID_NAMESPACE {
            bpf.when(*number, &[(RETURN, 0, 0, refuse(libc::EPERM))]);
        }
        for (number, which) in ON_SELF_ONLY {
            bpf.on_self_only(*number, *which);
        }
    }
    for number in NOT_THERE {
        bpf.when(*number, &[(RETURN, 0, 0, refuse(libc::ENOSYS))]);
    }
    bpf.refuse_bits(libc::SYS_unshare, 0, NAMESPACES | NEW_TIME);
    bpf.refuse_bits(libc::SYS_clone, 0, NAMESPACES);
    #[cfg(target_arch = "x86_64")]
    {
        bpf.refuse_bits(libc::SYS_chmod, 1, SUID);
        bpf.refuse_bits(libc::SYS_creat, 1, SUID);
        bpf.refuse_bits(libc::SYS_mkdir, 1, SUID);
        bpf.refuse_bits(libc::SYS_mknod, 1, SUID);
        bpf.refuse_created(libc::SYS_open, 1);
        bpf.when(libc::SYS_iopl, &[(RETURN, 0, 0, refuse(libc::EPERM))]);
        bpf.when(libc::SYS_ioperm, &[(RETURN, 0, 0, refuse(libc::EPERM))]);
    }
    bpf.refuse_bits(libc::SYS_fchmod, 1, SUID);
    bpf.refuse_bits(libc::SYS_fchmodat, 2, SUID);
    bpf.refuse_bits(FCHMODAT2, 2, SUID);
    bpf.refuse_bits(libc::SYS_mkdirat, 2, SUID);
    bpf.refuse_bits(libc::SYS_mknodat, 2, SUID);
    bpf.refuse_created(libc::SYS_openat, 2);
    bpf.when(
        libc::SYS_ioctl,
        &[
            (LOAD, 0, 0, argument(1)),
            (JUMP_EQUAL, 1, 0, 0x5412), // TIOCSTI: types into the caller's terminal
            (JUMP_EQUAL, 0, 1, 0x541C), // TIOCLINUX
            (RETURN, 0, 0, refuse(libc::EPERM)),
            (RETURN, 0, 0, ALLOW),
        ],
    );
    match sockets {
        Sockets::Namespace => bpf.when(libc::SYS_socket, &families(ALLOW)),
        Sockets::UnixOnly => bpf.when(libc::SYS_socket, &families(refuse(libc::EACCES))),
        Sockets::Brokered => bpf.broker(),
    }
    bpf.push(RETURN, 0, 0, ALLOW);
    bpf.bytes
}

type Instruction = (u16, u8, u8, u32);

/// Unix sockets, routing netlink, and internet sockets as said; nothing else (vsock, packet, Bluetooth, ...).
fn families(on_inet: u32) -> [Instruction; 11] {
    [
        (LOAD, 0, 0, argument(0)),
        (JUMP_EQUAL, 0, 1, libc::AF_UNIX as u32),
        (RETURN, 0, 0, ALLOW),
        (JUMP_EQUAL, 1, 0, libc::AF_INET as u32),
        (JUMP_EQUAL, 0, 1, libc::AF_INET6 as u32),
        (RETURN, 0, 0, on_inet),
        (JUMP_EQUAL, 0, 3, libc::AF_NETLINK as u32),
        (LOAD, 0, 0, argument(2)),
        (JUMP_EQUAL, 0, 1, libc::NETLINK_ROUTE as u32),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, refuse(libc::EAFNOSUPPORT)),
    ]
}

/// Returns this error number to the caller instead of running the call.
fn refuse(errno: i32) -> u32 {
    0x0005_0000 | errno as u32
}

/// Offset of the low 32 bits of an argument in `seccomp_data`.
fn argument(index: u32) -> u32 {
    16 + 8 * index + if cfg!(target_endian = "big") { 4 } else { 0 }
}

#[derive(Default)]
struct Assembler {
    bytes: Vec<u8>,
}

impl Assembler {
    fn push(&mut self, code: u16, on_true: u8, on_false: u8, k: u32) {
        self.bytes.extend(code.to_ne_bytes());
        self.bytes.extend([on_true, on_false]);
        self.bytes.extend(k.to_ne_bytes());
    }

    /// A block for one call; it must return on every path, because it may lose the call's number.
    fn when(&mut self, number: c_long, block: &[Instruction]) {
        self.push(JUMP_EQUAL, 0, block.len() as u8, number as u32);
        for (code, on_true, on_false, k) in block {
            self.push(*code, *on_true, *on_false, *k);
        }
    }

    /// Sockets that cannot get anywhere without the broker, so that `sendto` and its like need not be asked about:
    /// `connect` waits for it, TCP sockets are of its making (`broker/pairs.rs`), and unix datagram sockets, which send to
    /// an address without being connected, are not to be had, neither alone nor in pairs.
    fn broker(&mut self) {
        const KIND: u32 = 0xf;
        let (denied, no_such) = (refuse(libc::EACCES), refuse(libc::EAFNOSUPPORT));
        self.when(
            libc::SYS_socket,
            &[
                (LOAD, 0, 0, argument(0)),
                (JUMP_EQUAL, 12, 0, libc::AF_UNIX as u32),
                (JUMP_EQUAL, 1, 0, libc::AF_INET as u32),
                (JUMP_EQUAL, 0, 7, libc::AF_INET6 as u32),
                (LOAD, 0, 0, argument(1)),
                (MASK, 0, 0, KIND),
                (JUMP_EQUAL, 0, 13, libc::SOCK_STREAM as u32),
                (LOAD, 0, 0, argument(2)),
                (JUMP_EQUAL, 1, 0, 0),
                (JUMP_EQUAL, 0, 10, libc::IPPROTO_TCP as u32),
                (RETURN, 0, 0, ASK),
                (JUMP_EQUAL, 0, 7, libc::AF_NETLINK as u32),
                (LOAD, 0, 0, argument(2)),
                (JUMP_EQUAL, 4, 5, libc::NETLINK_ROUTE as u32),
                // A raw unix socket is one for datagrams.
                (LOAD, 0, 0, argument(1)),
                (MASK, 0, 0, KIND),
                (JUMP_EQUAL, 1, 0, libc::SOCK_STREAM as u32),
                (JUMP_EQUAL, 0, 2, libc::SOCK_SEQPACKET as u32),
                (RETURN, 0, 0, ALLOW),
                (RETURN, 0, 0, no_such),
                (RETURN, 0, 0, denied),
            ],
        );
        self.when(
            libc::SYS_socketpair,
            &[
                (LOAD, 0, 0, argument(1)),
                (MASK, 0, 0, KIND),
                (JUMP_EQUAL, 1, 0, libc::SOCK_STREAM as u32),
                (JUMP_EQUAL, 0, 1, libc::SOCK_SEQPACKET as u32),
                (RETURN, 0, 0, ALLOW),
                (RETURN, 0, 0, denied),
            ],
        );
        self.when(libc::SYS_connect, &[(RETURN, 0, 0, ASK)]);
        // Connects a TCP socket by sending. Those of the broker are connected already, and this is a second lock.
        for (number, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            self.when(
                number,
                &[
                    (LOAD, 0, 0, argument(flags)),
                    (JUMP_ANY_BIT, 0, 1, libc::MSG_FASTOPEN as u32),
                    (RETURN, 0, 0, refuse(libc::EOPNOTSUPP)),
                    (RETURN, 0, 0, ALLOW),
                ],
            );
        }
    }

    fn refuse_bits(&mut self, number: c_long, index: u32, bits: u32) {
        self.when(
            number,
            &[
                (LOAD, 0, 0, argument(index)),
                (JUMP_ANY_BIT, 0, 1, bits),
                (RETURN, 0, 0, refuse(libc::EPERM)),
                (RETURN, 0, 0, ALLOW),
            ],
        );
    }

    /// For calls that work on a process: on the one that calls. Where the process comes second, the first argument says
    /// what kind of number it is; the kinds that name all of a user's processes (IOPRIO_WHO_USER, PRIO_USER) are above those of a process and a group.
    fn on_self_only(&mut self, number: c_long, index: u32) {
        let refused = refuse(libc::EPERM);
        let all_of_a_user = if number == libc::SYS_ioprio_set { 3 } else { 2 };
        if index == 0 {
            let of_self = [
                (LOAD, 0, 0, argument(0)),
                (JUMP_EQUAL, 1, 0, 0),
                (RETURN, 0, 0, refused),
                (RETURN, 0, 0, ALLOW),
            ];
            return self.when(number, &of_self);
        }
        let block = [
            (LOAD, 0, 0, argument(0)),
            (JUMP_AT_LEAST, 2, 0, all_of_a_user),
            (LOAD, 0, 0, argument(index)),
            (JUMP_EQUAL, 1, 0, 0),
            (RETURN, 0, 0, refused),
            (RETURN, 0, 0, ALLOW),
        ];
        self.when(number, &block);
    }

    /// For `open` and `openat`, whose mode means something only when they create.
    fn refuse_created(&mut self, number: c_long, flags: u32) {
        self.when(
            number,
            &[
                (LOAD, 0, 0, argument(flags)),
                (JUMP_ANY_BIT, 0, 3, CREATES),
                (LOAD, 0, 0, argument(flags + 1)),
                (JUMP_ANY_BIT, 0, 1, SUID),
                (RETURN, 0, 0, refuse(libc::EPERM)),
                (RETURN, 0, 0, ALLOW),
            ],
        );
    }
}
