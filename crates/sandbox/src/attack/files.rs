//! Changing files outside.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use provost_core::containment::Guarantee::{FsWrite, PrivateTmp};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};

use super::raw::{call, structure};
use super::stage::{Stage, c, missing};
use super::{Attack, Judge, Needs, Place, Promise, Tried};

const METADATA: Promise = Promise::Nothing(
    "Landlock governs contents and names, not modes, times and attributes of the caller's files",
);

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("write-outside", FsWrite, Judge::Outside, "writes to a file outside", |s| {
        OpenOptions::new().write(true).open(s.out("victim.txt"))?.write_all(b"x")
    }),
    Attack::new("create-outside", FsWrite, Judge::Outside, "makes a file outside", |s| {
        fs::write(s.out("new"), "x")
    }),
    Attack::new("append-outside", FsWrite, Judge::Outside, "appends to a file outside", |s| {
        OpenOptions::new().append(true).open(s.out("victim.txt"))?.write_all(b"x")
    }),
    Attack::new("truncate-outside", FsWrite, Judge::Outside, "truncates a file outside by its path", |s| {
        let path = c(s.out("victim.txt"))?;
        call(libc::SYS_truncate, [path.as_c_str().into(), 0.into()]).map(drop)
    }),
    Attack::new(
        "open-truncate-outside",
        FsWrite,
        Judge::Outside,
        "opens a file outside for reading, truncating it",
        |s| {
            let path = s.out("victim.txt");
            rustix::fs::openat(CWD, &path, OFlags::RDONLY | OFlags::TRUNC, Mode::empty())
                .map(drop)
                .map_err(Into::into)
        },
    ),
    Attack::new("unlink-outside", FsWrite, Judge::Outside, "removes a file outside", |s| {
        fs::remove_file(s.out("remove.txt"))
    }),
    Attack::new("rmdir-outside", FsWrite, Judge::Outside, "removes a folder outside", |s| {
        fs::remove_dir(s.out("empty"))
    }),
    Attack::new("mkdir-outside", FsWrite, Judge::Outside, "makes a folder outside", |s| {
        fs::create_dir(s.out("new"))
    }),
    Attack::new("rename-outside", FsWrite, Judge::Outside, "renames a file outside", |s| {
        fs::rename(s.out("victim.txt"), s.out("moved.txt"))
    }),
    Attack::new(
        "rename-out-of-outside",
        FsWrite,
        Judge::Outside,
        "moves a file from outside into the workspace",
        |s| fs::rename(s.out("victim.txt"), s.work("taken.txt")),
    ),
    Attack::new(
        "rename-over-outside",
        FsWrite,
        Judge::Outside,
        "moves a file of the workspace over one outside",
        |s| {
            fs::write(s.work("mine"), "x")?;
            fs::rename(s.work("mine"), s.out("victim.txt"))
        },
    ),
    Attack::new(
        "exchange-outside",
        FsWrite,
        Judge::Outside,
        "exchanges a file of the workspace with one outside",
        |s| {
            fs::write(s.work("mine"), "x")?;
            rustix::fs::renameat_with(CWD, s.work("mine"), CWD, s.out("victim.txt"), RenameFlags::EXCHANGE)
                .map_err(Into::into)
        },
    ),
    Attack::new("symlink-planted-outside", FsWrite, Judge::Outside, "plants a symbolic link outside", |s| {
        symlink("/etc/passwd", s.out("planted"))
    }),
    Attack::new(
        "hard-link-planted-outside",
        FsWrite,
        Judge::Outside,
        "plants a hard link to its own file outside",
        |s| {
            fs::write(s.work("mine"), "x")?;
            fs::hard_link(s.work("mine"), s.out("planted"))
        },
    ),
    Attack::new("fifo-outside", FsWrite, Judge::Outside, "makes a fifo outside", |s| {
        let path = c(s.out("fifo"))?;
        let mode = libc::S_IFIFO | 0o600;
        call(
            libc::SYS_mknodat,
            [libc::AT_FDCWD.into(), path.as_c_str().into(), i64::from(mode).into(), 0.into()],
        )
        .map(drop)
    }),
    Attack::new("socket-file-outside", FsWrite, Judge::Outside, "binds a unix socket outside", |s| {
        UnixListener::bind(s.out("s.new")).map(drop)
    }),
    Attack::new(
        "write-through-symlink",
        FsWrite,
        Judge::Outside,
        "writes through a link in the workspace",
        |s| {
            symlink(s.out("victim.txt"), s.work("link"))?;
            OpenOptions::new().write(true).open(s.work("link"))?.write_all(b"x")
        },
    ),
    Attack::new(
        "create-through-linked-folder",
        FsWrite,
        Judge::Outside,
        "makes a file in a folder linked to outside",
        |s| {
            symlink(&s.outside, s.work("folder"))?;
            fs::write(s.work("folder/new"), "x")
        },
    ),
    Attack::new(
        "write-through-hard-link",
        FsWrite,
        Judge::Outside,
        "links a file from outside in and writes to it",
        |s| {
            fs::hard_link(s.out("victim.txt"), s.work("link"))?;
            OpenOptions::new().write(true).open(s.work("link"))?.write_all(b"x")
        },
    ),
    Attack::new(
        "write-by-dots",
        FsWrite,
        Judge::Outside,
        "writes to a path that goes up out of the workspace",
        |s| {
            let up = s.work.join("../../outside/victim.txt");
            OpenOptions::new().write(true).open(up)?.write_all(b"x")
        },
    ),
    Attack::new("write-by-own-root", FsWrite, Judge::Outside, "writes by way of /proc/self/root", |s| {
        under("/proc/self/root", s)
    }),
    Attack::new("write-by-own-cwd", FsWrite, Judge::Outside, "writes by way of /proc/self/cwd", |_| {
        OpenOptions::new().write(true).open("/proc/self/cwd/../outside/victim.txt")?.write_all(b"x")
    }),
    Attack::new(
        "write-by-victims-root",
        FsWrite,
        Judge::Outside,
        "writes by way of another process's root",
        |s| under(&format!("/proc/{}/root", s.victim()?.pid), s),
    )
    .needs(Needs::Victim),
    Attack::new("write-by-init-root", FsWrite, Judge::Outside, "writes by way of process 1's root", |s| {
        under("/proc/1/root", s)
    }),
    Attack::new("write-by-drivers-cwd", FsWrite, Judge::Outside, "writes by way of the caller's root", |s| {
        under(&format!("/proc/{}/root", s.driver), s)
    }),
    Attack::new(
        "write-victims-descriptor",
        FsWrite,
        Judge::Outside,
        "opens a descriptor of another process by /proc",
        |s| {
            let victim = s.victim()?;
            OpenOptions::new()
                .write(true)
                .open(format!("/proc/{}/fd/{}", victim.pid, victim.file))?
                .write_all(b"x")
        },
    )
    .needs(Needs::Victim),
    Attack::new(
        "write-inherited-descriptor",
        FsWrite,
        Judge::Outside,
        "writes to a descriptor that the caller has open",
        |s| {
            let number = s.descriptor.ok_or_else(|| missing("no descriptor"))?;
            call(libc::SYS_pwrite64, [number.into(), b"x".as_slice().into(), 1.into(), 0.into()]).map(drop)
        },
    )
    .needs(Needs::Descriptor)
    .control(super::Control::Plain),
    Attack::new(
        "openat2-outside",
        FsWrite,
        Judge::Outside,
        "writes by openat2, whose flags no filter can see",
        |s| {
            let path = c(s.out("victim.txt"))?;
            let how: [u8; 24] = structure(&[(0, libc::O_WRONLY as u64, 8)]);
            let fd = call(
                libc::SYS_openat2,
                [libc::AT_FDCWD.into(), path.as_c_str().into(), how.as_slice().into(), 24.into()],
            )?;
            call(libc::SYS_write, [fd.into(), b"x".as_slice().into(), 1.into()]).map(drop)
        },
    ),
    Attack::new(
        "unnamed-file-outside",
        FsWrite,
        Judge::Outside,
        "makes a file without name outside and names it",
        |s| {
            let fd = rustix::fs::openat(
                CWD,
                &s.outside,
                OFlags::TMPFILE | OFlags::WRONLY,
                Mode::from_raw_mode(0o600),
            )?;
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            rustix::fs::linkat(CWD, path, CWD, s.out("named"), AtFlags::SYMLINK_FOLLOW).map_err(Into::into)
        },
    ),
    Attack::new("open-by-handle", FsWrite, Judge::Outside, "opens a file outside by its handle", |s| {
        let path = c(s.out("victim.txt"))?;
        let mut handle = [0u8; 136];
        handle[0] = 128;
        let mut mount = [0u8; 4];
        call(
            libc::SYS_name_to_handle_at,
            [
                libc::AT_FDCWD.into(),
                path.as_c_str().into(),
                handle.as_mut_slice().into(),
                mount.as_mut_slice().into(),
                0.into(),
            ],
        )?;
        let here = fs::File::open(&s.work)?;
        let arguments = [here.as_raw_fd().into(), handle.as_slice().into(), libc::O_WRONLY.into()];
        let fd = call(libc::SYS_open_by_handle_at, arguments)?;
        call(libc::SYS_write, [fd.into(), b"x".as_slice().into(), 1.into()]).map(drop)
    }),
    Attack::new("chmod-outside", FsWrite, Judge::Outside, "changes the mode of a file outside", |s| {
        fs::set_permissions(s.out("victim.txt"), fs::Permissions::from_mode(0o666))
    })
    .on_r2(METADATA),
    Attack::new("times-outside", FsWrite, Judge::Outside, "changes the times of a file outside", |s| {
        let path = c(s.out("victim.txt"))?;
        let times = [0u8; 32];
        call(
            libc::SYS_utimensat,
            [libc::AT_FDCWD.into(), path.as_c_str().into(), times.as_slice().into(), 0.into()],
        )
        .map(drop)
    })
    .on_r2(METADATA),
    Attack::new(
        "attribute-outside",
        FsWrite,
        Judge::Outside,
        "sets an extended attribute of a file outside",
        |s| {
            rustix::fs::setxattr(s.out("victim.txt"), "user.provost", b"x", rustix::fs::XattrFlags::empty())
                .map_err(Into::into)
        },
    )
    .on_r2(METADATA),
    Attack::new(
        "cargo-registry-write",
        FsWrite,
        Judge::Outside,
        "plants a source in a cargo registry outside",
        |s| fs::write(s.out("home/.cargo/registry/planted.rs"), "x"),
    ),
    Attack::new(
        "shell-start-file",
        FsWrite,
        Judge::Outside,
        "appends to a shell's start-up file outside",
        |s| OpenOptions::new().append(true).open(s.out("home/.bashrc"))?.write_all(b"x"),
    ),
    Attack::new("authorized-keys", FsWrite, Judge::Outside, "adds a key to ~/.ssh outside", |s| {
        let path = s.out("home/.ssh/authorized_keys");
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)?.write_all(b"x")
    }),
    Attack::new(
        "host-tmp",
        PrivateTmp,
        Judge::Appears(Place::Tmp),
        "leaves a file in the host's /tmp",
        |s| fs::write(Path::new("/tmp").join(&s.token), "x"),
    ),
];

/// Writes to the file outside, by its path below another name of the root folder.
fn under(root: &str, stage: &Stage) -> Tried {
    let path = stage.out("victim.txt");
    let below = path.strip_prefix("/").unwrap_or(&path);
    OpenOptions::new().write(true).open(Path::new(root).join(below))?.write_all(b"x")
}
