//! Reaching other processes, and outliving the end.

use std::fs;
use std::os::fd::AsRawFd;

use provost_core::containment::Guarantee::{KillTree, Privileges, Processes};

use super::raw::{call, structure};
use super::reads::PROC;
use super::stage::{Stage, child, idle, say};
use super::{Attack, Control, Judge, Needs, Promise, Tried};
use crate::sys;

const LANDLOCK: Promise = Promise::Layer("Landlock: outsiders cannot be looked into");
const READ_ONLY_PROC: Promise = Promise::Layer("Landlock: nothing below /proc may be written");
const SIGNALS: Promise = Promise::Landlock(6);

/// An attack on the process outside.
const fn on_victim(
    name: &'static str,
    judge: Judge,
    tries: &'static str,
    perform: fn(&Stage) -> Tried,
    on_r2: Promise,
) -> Attack {
    Attack::new(name, Processes, judge, tries, perform).needs(Needs::Victim).on_r2(on_r2)
}

const FILTER: Promise = Promise::By(Privileges);

pub(super) const ATTACKS: &[Attack] = &[
    on_victim(
        "memory-read",
        Judge::Secret,
        "reads another process's memory by /proc",
        |s| {
            let victim = s.victim()?;
            let memory = fs::File::open(format!("/proc/{}/mem", victim.pid))?;
            let mut buffer = vec![0; victim.length as usize];
            std::os::unix::fs::FileExt::read_exact_at(&memory, &mut buffer, victim.address)?;
            say(buffer);
            Ok(())
        },
        LANDLOCK,
    ),
    on_victim(
        "memory-write",
        Judge::Victim,
        "writes another process's memory by /proc",
        |s| {
            let victim = s.victim()?;
            let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", victim.pid))?;
            std::os::unix::fs::FileExt::write_all_at(&memory, b"X", victim.address)
        },
        LANDLOCK,
    ),
    on_victim(
        "vm-read",
        Judge::Secret,
        "reads another process's memory by process_vm_readv",
        |s| {
            let victim = s.victim()?;
            let mut buffer = vec![0u8; victim.length as usize];
            vectors(libc::SYS_process_vm_readv, victim.pid, victim.address, &mut buffer)?;
            say(buffer);
            Ok(())
        },
        FILTER,
    ),
    on_victim(
        "vm-write",
        Judge::Victim,
        "writes another process's memory by process_vm_writev",
        |s| {
            let victim = s.victim()?;
            vectors(libc::SYS_process_vm_writev, victim.pid, victim.address, &mut [b'X'])
        },
        FILTER,
    ),
    on_victim(
        "ptrace-attach",
        Judge::Victim,
        "traces another process",
        |s| {
            call(libc::SYS_ptrace, [16.into(), s.victim()?.pid.into(), 0.into(), 0.into()])?;
            sys::kill(s.victim()?.pid, libc::SIGKILL).map_err(Into::into)
        },
        FILTER,
    ),
    on_victim(
        "take-descriptor",
        Judge::Secret,
        "takes another process's descriptor by pidfd_getfd",
        |s| {
            let victim = s.victim()?;
            let process = call(libc::SYS_pidfd_open, [victim.pid.into(), 0.into()])?;
            let fd = call(libc::SYS_pidfd_getfd, [process.into(), victim.unnamed.into(), 0.into()])?;
            let mut buffer = [0u8; 256];
            let length =
                call(libc::SYS_pread64, [fd.into(), buffer.as_mut_slice().into(), 256.into(), 0.into()])?;
            say(&buffer[..length as usize]);
            Ok(())
        },
        FILTER,
    ),
    on_victim(
        "memory-map",
        Judge::Holds("/proc/"),
        "opens another process's list of mappings",
        |s| {
            std::mem::forget(fs::File::open(format!("/proc/{}/maps", s.victim()?.pid))?);
            Ok(())
        },
        LANDLOCK,
    ),
    on_victim(
        "signal",
        Judge::Victim,
        "signals another process",
        |s| sys::kill(s.victim()?.pid, libc::SIGTERM).map_err(Into::into),
        SIGNALS,
    ),
    on_victim(
        "stop",
        Judge::Victim,
        "stops another process",
        |s| sys::kill(s.victim()?.pid, libc::SIGSTOP).map_err(Into::into),
        SIGNALS,
    ),
    on_victim(
        "signal-group",
        Judge::Victim,
        "signals a group of other processes",
        |s| sys::kill(-s.victim()?.pid, libc::SIGTERM).map_err(Into::into),
        SIGNALS,
    ),
    on_victim(
        "signal-thread",
        Judge::Victim,
        "signals another process by tgkill",
        |s| {
            let pid = s.victim()?.pid;
            call(libc::SYS_tgkill, [pid.into(), pid.into(), libc::SIGTERM.into()]).map(drop)
        },
        SIGNALS,
    ),
    on_victim(
        "signal-tkill",
        Judge::Victim,
        "signals another process by tkill",
        |s| call(libc::SYS_tkill, [s.victim()?.pid.into(), libc::SIGTERM.into()]).map(drop),
        SIGNALS,
    ),
    on_victim(
        "signal-queue",
        Judge::Victim,
        "queues a signal for another process",
        |s| {
            // si_signo, si_code: SI_QUEUE.
            let info: [u8; 128] = structure(&[(0, libc::SIGTERM as u64, 4), (8, u64::from(u32::MAX), 4)]);
            let arguments = [s.victim()?.pid.into(), libc::SIGTERM.into(), info.as_slice().into()];
            call(libc::SYS_rt_sigqueueinfo, arguments).map(drop)
        },
        SIGNALS,
    ),
    on_victim(
        "signal-handle",
        Judge::Victim,
        "signals another process by its pidfd",
        |s| {
            let process = call(libc::SYS_pidfd_open, [s.victim()?.pid.into(), 0.into()])?;
            call(libc::SYS_pidfd_send_signal, [process.into(), libc::SIGTERM.into(), 0.into(), 0.into()])
                .map(drop)
        },
        SIGNALS,
    ),
    on_victim(
        "signal-by-io",
        Judge::Victim,
        "has the kernel signal another process when input arrives",
        |s| {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            call(
                libc::SYS_fcntl,
                [theirs.as_raw_fd().into(), libc::F_SETOWN.into(), s.victim()?.pid.into()],
            )?;
            call(libc::SYS_fcntl, [theirs.as_raw_fd().into(), libc::F_SETFL.into(), libc::O_ASYNC.into()])?;
            call(libc::SYS_write, [ours.as_raw_fd().into(), b"x".as_slice().into(), 1.into()]).map(drop)
        },
        SIGNALS,
    ),
    on_victim(
        "renice",
        Judge::Victim,
        "lowers another process's priority",
        |s| call(libc::SYS_setpriority, [0.into(), s.victim()?.pid.into(), 19.into()]).map(drop),
        FILTER,
    ),
    on_victim(
        "io-priority",
        Judge::Victim,
        "lowers another process's priority at disks",
        |s| {
            // IOPRIO_CLASS_IDLE
            call(libc::SYS_ioprio_set, [1.into(), s.victim()?.pid.into(), (3 << 13).into()]).map(drop)
        },
        FILTER,
    ),
    on_victim(
        "affinity",
        Judge::Victim,
        "pins another process to one processor",
        |s| {
            call(
                libc::SYS_sched_setaffinity,
                [s.victim()?.pid.into(), 8.into(), 1u64.to_le_bytes().as_slice().into()],
            )
            .map(drop)
        },
        FILTER,
    ),
    on_victim(
        "scheduler",
        Judge::Victim,
        "makes another process idle",
        |s| {
            // SCHED_IDLE
            call(libc::SYS_sched_setscheduler, [s.victim()?.pid.into(), 5.into(), [0u8; 4].as_slice().into()])
                .map(drop)
        },
        FILTER,
    ),
    on_victim(
        "scheduler-attributes",
        Judge::Victim,
        "makes another process idle by sched_setattr",
        |s| {
            let attributes: [u8; 48] = structure(&[(0, 48, 4), (4, 5, 4)]);
            call(libc::SYS_sched_setattr, [s.victim()?.pid.into(), attributes.as_slice().into(), 0.into()])
                .map(drop)
        },
        FILTER,
    ),
    on_victim(
        "limits-of-others",
        Judge::Victim,
        "lowers another process's limits",
        |s| {
            let limits: [u8; 16] = structure(&[(0, 16, 8), (8, 16, 8)]);
            let arguments = [
                s.victim()?.pid.into(),
                i64::from(libc::RLIMIT_NOFILE).into(),
                limits.as_slice().into(),
                0.into(),
            ];
            call(libc::SYS_prlimit64, arguments).map(drop)
        },
        FILTER,
    ),
    on_victim(
        "out-of-memory-score",
        Judge::Victim,
        "makes another process the first to be killed",
        |s| fs::write(format!("/proc/{}/oom_score_adj", s.victim()?.pid), "900"),
        READ_ONLY_PROC,
    ),
    on_victim(
        "core-filter",
        Judge::Victim,
        "changes what another process dumps",
        |s| fs::write(format!("/proc/{}/coredump_filter", s.victim()?.pid), "0x7f"),
        READ_ONLY_PROC,
    ),
    on_victim(
        "see-pids",
        Judge::Secret,
        "finds the command line of another process",
        |s| {
            say(fs::read(format!("/proc/{}/cmdline", s.victim()?.pid))?);
            Ok(())
        },
        PROC,
    ),
    Attack::new(
        "daemon-by-setsid",
        KillTree,
        Judge::Lives,
        "leaves a daemon in a session of its own",
        |_| daemon(1),
    )
    .control(Control::Plain),
    Attack::new("daemon-three-deep", KillTree, Judge::Lives, "leaves a daemon three forks away", |_| {
        daemon(3)
    })
    .control(Control::Plain),
    Attack::new("daemon-many", KillTree, Judge::Lives, "leaves twenty daemons", |_| {
        (0..20).try_for_each(|_| daemon(1))
    })
    .control(Control::Plain),
    Attack::new("daemon-deaf", KillTree, Judge::Lives, "leaves a daemon that ignores every signal", |_| {
        for signal in 1..32 {
            // SAFETY: ignoring a signal is sound; those that cannot be ignored are refused.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        daemon(2)
    })
    .control(Control::Plain),
    Attack::new("daemon-stopped", KillTree, Judge::Lives, "leaves a stopped process", |_| {
        let pid = child(|| {
            let _ = rustix::process::setsid();
            idle()
        })?;
        sys::kill(pid, libc::SIGSTOP).map_err(Into::into)
    })
    .control(Control::Plain),
    Attack::new(
        "adopting-daemon",
        KillTree,
        Judge::Lives,
        "adopts its own orphans, away from the supervisor",
        |_| {
            // Orphans of its children become its own, not the supervisor's, for as long as it lives.
            sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1)?;
            daemon(2)
        },
    )
    .control(Control::Plain),
];

/// Leaves a process with a session of its own, `depth` forks away; returns when it is there.
fn daemon(depth: u32) -> Tried {
    let (there, say_so) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    if let sys::Side::Parent(_) = sys::fork(0)? {
        drop(say_so);
        let mut byte = [0u8; 1];
        rustix::io::read(there, &mut byte)?;
        return Ok(());
    }
    let _ = rustix::process::setsid();
    for _ in 1..depth {
        if let Ok(sys::Side::Parent(_)) = sys::fork(0) {
            sys::exit(0);
        }
    }
    let _ = rustix::io::write(&say_so, b"d");
    idle()
}

fn vectors(number: i64, pid: i32, address: u64, buffer: &mut [u8]) -> Tried {
    let length = buffer.len() as u64;
    let local: [u8; 16] = structure(&[(0, buffer.as_mut_ptr() as u64, 8), (8, length, 8)]);
    let remote: [u8; 16] = structure(&[(0, address, 8), (8, length, 8)]);
    call(
        number,
        [pid.into(), local.as_slice().into(), 1.into(), remote.as_slice().into(), 1.into(), 0.into()],
    )
    .map(drop)
}
