//! Reading what is nobody's business.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;

use provost_core::containment::Guarantee::{Environment, FsRead, Processes};

use super::raw::call;
use super::stage::{Stage, missing, say};
use super::{Attack, Control, Judge, Needs, Promise, Tried};

const COVERED: Promise = Promise::Nothing("which files of /proc are covered is the engine's own choice");
pub(super) const PROC: Promise = Promise::Nothing("under R2 /proc is the host's and may be read");

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("read-ssh-key", FsRead, Judge::Secret, "reads an ssh key of another home", |s| {
        show(s.out("home/.ssh/id_ed25519"))
    }),
    Attack::new("read-cargo-credentials", FsRead, Judge::Secret, "reads cargo's credentials", |s| {
        show(s.out("home/.cargo/credentials.toml"))
    }),
    Attack::new("read-other-home", FsRead, Judge::Secret, "reads a shell's history in another home", |s| {
        show(s.out("home/.bash_history"))
    }),
    Attack::new("list-outside", FsRead, Judge::Secret, "lists a folder outside", |s| {
        for entry in fs::read_dir(s.out("list"))? {
            say(entry?.file_name().as_encoded_bytes());
        }
        Ok(())
    }),
    Attack::new(
        "read-through-symlink",
        FsRead,
        Judge::Secret,
        "reads through a link in the workspace",
        |s| {
            symlink(s.out("home/.ssh/id_ed25519"), s.work("link"))?;
            show(s.work("link"))
        },
    ),
    Attack::new(
        "read-through-hard-link",
        FsRead,
        Judge::Secret,
        "links a file from outside in and reads it",
        |s| {
            fs::hard_link(s.out("home/.ssh/id_ed25519"), s.work("link"))?;
            show(s.work("link"))
        },
    ),
    Attack::new(
        "read-by-dots",
        FsRead,
        Judge::Secret,
        "reads a path that goes up out of the workspace",
        |s| show(s.work.join("../../outside/home/.ssh/id_ed25519")),
    ),
    Attack::new("read-by-own-root", FsRead, Judge::Secret, "reads by way of /proc/self/root", |s| {
        under("/proc/self/root", s)
    }),
    Attack::new("read-by-init-root", FsRead, Judge::Secret, "reads by way of process 1's root", |s| {
        under("/proc/1/root", s)
    }),
    Attack::new("read-by-drivers-root", FsRead, Judge::Secret, "reads by way of the caller's root", |s| {
        under(&format!("/proc/{}/root", s.driver), s)
    }),
    Attack::new("run-outside", FsRead, Judge::Secret, "runs a program that lies outside", |s| {
        say(std::process::Command::new(s.out("program")).output()?.stdout);
        Ok(())
    }),
    Attack::new(
        "read-inherited-descriptor",
        FsRead,
        Judge::Secret,
        "reads a descriptor that the caller has open",
        |s| {
            let number = s.descriptor.ok_or_else(|| missing("no descriptor"))?;
            let mut buffer = [0u8; 256];
            let length =
                call(libc::SYS_pread64, [number.into(), buffer.as_mut_slice().into(), 256.into(), 0.into()])?;
            say(&buffer[..length as usize]);
            Ok(())
        },
    )
    .needs(Needs::Descriptor)
    .control(Control::Plain),
    Attack::new("read-hidden", FsRead, Judge::Secret, "reads a hidden file of the workspace", |s| {
        show(s.workspace.join("secrets/.env"))
    }),
    Attack::new(
        "read-hidden-by-hard-link",
        FsRead,
        Judge::Secret,
        "reads a hidden file by another name",
        |s| {
            fs::hard_link(s.workspace.join("secrets/.env"), s.work("link"))?;
            show(s.work("link"))
        },
    ),
    Attack::new(
        "read-hidden-by-rename",
        FsRead,
        Judge::Secret,
        "renames the folder of a hidden file and reads it",
        |s| {
            fs::rename(s.workspace.join("secrets"), s.work("moved"))?;
            show(s.work("moved/.env"))
        },
    ),
    Attack::new(
        "read-victims-file",
        FsRead,
        Judge::Secret,
        "opens a nameless file of another process by /proc",
        |s| {
            let victim = s.victim()?;
            show(format!("/proc/{}/fd/{}", victim.pid, victim.unnamed))
        },
    )
    .needs(Needs::Victim),
    Attack::new(
        "read-victims-environ",
        Processes,
        Judge::Secret,
        "reads another process's environment",
        |s| show(format!("/proc/{}/environ", s.victim()?.pid)),
    )
    .needs(Needs::Victim)
    .on_r2(Promise::Layer("Landlock: outsiders cannot be looked into")),
    Attack::new("read-drivers-environ", Environment, Judge::Secret, "reads the caller's environment", |s| {
        show(format!("/proc/{}/environ", s.driver))
    })
    .needs(Needs::Environment)
    .on_r1(Promise::Nothing("nothing shuts a command out from other processes of its user")),
    Attack::new("read-parents-environ", Environment, Judge::Secret, "reads its parent's environment", |_| {
        show(format!("/proc/{}/environ", std::os::unix::process::parent_id()))
    })
    .needs(Needs::Environment)
    .control(Control::Plain),
    Attack::new(
        "own-environ",
        Environment,
        Judge::Secret,
        "reads what its own environment inherited",
        |_| show("/proc/self/environ"),
    )
    .needs(Needs::Environment)
    .control(Control::Plain),
    Attack::new("see-processes", Processes, Judge::Secret, "reads command lines of all processes", |_| {
        for entry in fs::read_dir("/proc")?.filter_map(Result::ok) {
            if let Ok(line) = fs::read(entry.path().join("cmdline")) {
                say(line);
            }
        }
        Ok(())
    })
    .needs(Needs::Victim)
    .on_r2(PROC),
    Attack::new("read-shadow", FsRead, Judge::Secret, "reads the host's password hashes", |_| {
        show("/etc/shadow")
    })
    .needs(Needs::HostFile("/etc/shadow")),
    Attack::new(
        "read-shadow-backup",
        FsRead,
        Judge::Secret,
        "reads the host's older password hashes",
        |_| show("/etc/shadow-"),
    )
    .needs(Needs::HostFile("/etc/shadow-")),
    Attack::new("read-kernel-keys", FsRead, Judge::Secret, "reads the kernel's list of keys", |_| {
        show("/proc/keys")
    })
    .needs(Needs::Keys)
    .on_r2(PROC),
    Attack::new(
        "open-kernel-memory",
        FsRead,
        Judge::Holds("/proc/kcore"),
        "opens the kernel's memory",
        |_| keep("/proc/kcore"),
    )
    .on_r2(Promise::By(provost_core::containment::Guarantee::Privileges)),
    Attack::new(
        "open-page-flags",
        FsRead,
        Judge::Holds("/proc/kpageflags"),
        "opens the flags of all pages",
        |_| keep("/proc/kpageflags"),
    )
    .on_r2(PROC)
    .by_engine(COVERED),
    Attack::new(
        "open-slabs",
        FsRead,
        Judge::Holds("/proc/slabinfo"),
        "opens the kernel's allocations",
        |_| keep("/proc/slabinfo"),
    )
    .on_r2(PROC)
    .by_engine(COVERED),
    Attack::new(
        "open-timers",
        FsRead,
        Judge::Holds("/proc/timer_list"),
        "opens the list of all timers",
        |_| keep("/proc/timer_list"),
    )
    .on_r2(PROC),
    Attack::new(
        "open-allocated-ranges",
        FsRead,
        Judge::Holds("/proc/vmallocinfo"),
        "opens the kernel's address ranges",
        |_| keep("/proc/vmallocinfo"),
    )
    .on_r2(PROC)
    .by_engine(COVERED),
    Attack::new("open-disk", FsRead, Judge::Holds("/dev/"), "opens a disk", |_| {
        let mut found = fs::read_dir("/sys/class/block")?.filter_map(Result::ok);
        let name = found.find(|entry| fs::File::open(Path::new("/dev").join(entry.file_name())).is_ok());
        keep(Path::new("/dev").join(name.ok_or_else(|| missing("no disk"))?.file_name()))
    }),
    Attack::new("open-kernel-log", FsRead, Judge::Holds("/dev/kmsg"), "opens the kernel's log", |_| {
        keep("/dev/kmsg")
    }),
];

/// Prints a file.
fn show(path: impl AsRef<Path>) -> Tried {
    let mut content = Vec::new();
    let read = fs::File::open(path)?.read_to_end(&mut content);
    say(content);
    read.map(drop)
}

/// Opens a file and keeps it open.
fn keep(path: impl AsRef<Path>) -> Tried {
    std::mem::forget(fs::File::open(path)?);
    Ok(())
}

fn under(root: &str, stage: &Stage) -> Tried {
    let path = stage.out("home/.ssh/id_ed25519");
    show(Path::new(root).join(path.strip_prefix("/").unwrap_or(&path)))
}
