//! The first process of the emulated machine: it mounts what a system has, and starts drivers as root and as somebody else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use rustix::system::{RebootCommand, reboot};

use super::driver::{self, CGROUPS};

/// Set where this is the first process of a machine.
pub(super) const GUEST: &str = "PROVOST_IT_GUEST";
pub(super) const TEST: &str = "groups::guest::first_process";
/// What the console shows where all held.
pub(super) const ROOT: &str = "control groups hold for root";
pub(super) const ORDINARY: &str = "control groups hold for an ordinary user";

const USER: u32 = 1000;

#[test]
fn first_process() {
    if std::env::var_os(GUEST).is_none() {
        return;
    }
    assert_eq!(std::process::id(), 1);
    let held = std::panic::catch_unwind(run);
    println!("{}", if held.is_ok() { "all was tried" } else { "it broke off" });
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).unwrap();
}

fn run() {
    // A root that can be left for another one, which the first one of a kernel cannot.
    mount_bind("/", "/new").unwrap();
    std::env::set_current_dir("/new").unwrap();
    mount_move("/new", "/").unwrap();
    rustix::process::chroot(".").unwrap();
    std::env::set_current_dir("/").unwrap();
    let systems =
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp"), ("cgroup2", CGROUPS)];
    for (kind, at) in systems {
        mount(kind, at, kind, MountFlags::empty(), None).unwrap_or_else(|errno| panic!("{kind}: {errno}"));
    }
    fs::set_permissions("/tmp", fs::Permissions::from_mode(0o1777)).unwrap();

    // As on a machine without systemd: all is in the root of all groups.
    driver::refuses_without_a_folder_of_its_own(USER);
    drive(Command::new("/it"), Path::new(CGROUPS));
    println!("{ROOT}");

    // As systemd delegates: a folder that is the user's, with the session's group in it.
    let own = Path::new(CGROUPS).join("user");
    let session = own.join("session");
    for folder in [&own, &session] {
        fs::create_dir(folder).unwrap();
        for name in ["", "cgroup.procs", "cgroup.subtree_control"] {
            chown(folder.join(name), Some(USER), Some(USER)).unwrap();
        }
    }
    fs::write(session.join("cgroup.procs"), "1").unwrap();
    let mut command = Command::new("/it");
    drive(command.uid(USER).gid(USER), &own);
    println!("{ORDINARY}");
}

/// Has a driver try everything, and one be killed; afterwards nothing is left in the folder of their groups.
fn drive(mut command: impl std::borrow::BorrowMut<Command>, home: &Path) {
    let command = command.borrow_mut();
    command.env_clear().env(driver::DRIVER, home).args(["--nocapture", "--test-threads", "1", "--exact"]);
    let status = command.arg(driver::TEST).status().unwrap();
    assert!(status.success(), "{status}");
}
