//! Getting a change into the workspace past the layer that changes gather in.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use provost_core::containment::Guarantee::Staged;

use super::raw::call;
use super::stage::{Stage, c};
use super::{Attack, Judge, Needs, Tried};

const fn past(name: &'static str, tries: &'static str, perform: fn(&Stage) -> Tried) -> Attack {
    Attack::new(name, Staged, Judge::Workspace, tries, perform).needs(Needs::Staged)
}

pub(super) const ATTACKS: &[Attack] = &[
    past("staged-write", "changes a file of the workspace", |s| append(file(s))),
    past("staged-create", "makes a file in the workspace", |s| {
        fs::write(s.workspace.join("folder/new"), "x")
    }),
    past("staged-remove", "removes a file of the workspace", |s| fs::remove_file(file(s))),
    past("staged-remove-folder", "removes a folder of the workspace and makes another", |s| {
        fs::remove_dir_all(s.workspace.join("folder"))?;
        fs::create_dir(s.workspace.join("folder"))
    }),
    past("staged-mode", "changes the mode of a file of the workspace", |s| {
        fs::set_permissions(file(s), fs::Permissions::from_mode(0o777))
    }),
    past("staged-move-in", "moves a file into the workspace from a folder that is changed at once", |s| {
        fs::write(s.work("mine"), "x")?;
        fs::rename(s.work("mine"), file(s))
    }),
    past("staged-move-out", "moves a file out into a folder that is changed at once", |s| {
        fs::rename(file(s), s.work("mine"))
    }),
    past("staged-link", "writes by a second name in a folder that is changed at once", |s| {
        fs::hard_link(file(s), s.work("link"))?;
        append(s.work("link"))
    }),
    past("staged-symlink", "writes through a link in a folder that is changed at once", |s| {
        symlink("../folder/file", s.work("link"))?;
        append(s.work("link"))
    }),
    past("staged-by-descriptor", "opens a file for reading, and for writing by its descriptor", |s| {
        let open = fs::File::open(file(s))?;
        append(PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())))
    }),
    past("staged-by-own-root", "writes by way of its own root in /proc", |s| {
        let path = file(s);
        let below = path.strip_prefix("/").unwrap_or(&path);
        append(PathBuf::from("/proc/self/root").join(below))
    }),
    past("staged-unmount", "takes the layer off the workspace and writes", |s| {
        let _ = call(libc::SYS_umount2, [c(&s.workspace)?.as_c_str().into(), libc::MNT_DETACH.into()]);
        append(file(s))
    }),
];

fn file(stage: &Stage) -> PathBuf {
    stage.workspace.join("folder/file")
}

fn append(path: PathBuf) -> Tried {
    OpenOptions::new().append(true).open(path)?.write_all(b"x")
}
