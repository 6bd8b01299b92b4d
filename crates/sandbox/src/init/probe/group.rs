//! The check of control groups: one bounds memory and processes, ends what is in it, and can be removed.

use std::time::Duration;

use provost_core::caps::Caps;
use rustix::io::Errno;

use super::{Seen, text};
use crate::group::{self, Group};
use crate::sys::{self, Side};

const CAPS: Caps = Caps { memory_bytes: Some(16 << 20), processes: Some(4), ..Caps::none() };

pub(super) fn control_group() -> Seen {
    let home = group::home()?;
    let group = Group::make(&home, &CAPS).map_err(text)?;
    let held = refuses_processes(&group).and_then(|()| ends(&group)).and_then(|()| bounds_memory(&group));
    // Whatever was seen: nothing stays.
    group.kill();
    let removed = group.remove();
    held?;
    if !removed {
        return Err(format!("a group in `{}` could not be removed", home.display()));
    }
    Ok(format!("bounds and ends a tree, in `{}`", home.display()))
}

/// Runs this in a process in the group; its raw wait status.
fn inside(group: &Group, what: impl FnOnce() -> i32) -> Result<i32, String> {
    match sys::fork_into(0, group.folder()).map_err(|errno| format!("clone3: {errno}"))? {
        Side::Child => sys::exit(what()),
        Side::Parent(pid) => match sys::reap(pid, true) {
            Ok(Some((_, status))) => Ok(status),
            other => Err(format!("its process: {other:?}")),
        },
    }
}

fn refuses_processes(group: &Group) -> Result<(), String> {
    let status = inside(group, || {
        let refused = (0..8).find_map(|_| match sys::fork(0) {
            Ok(Side::Child) => {
                std::thread::sleep(super::LIMIT);
                sys::exit(0)
            }
            Ok(Side::Parent(_)) => None,
            Err(errno) => Some(errno),
        });
        i32::from(refused != Some(Errno::AGAIN))
    })?;
    if status != 0 || group.out_of_processes(&CAPS).is_none() {
        return Err(format!("more processes than allowed were not refused: {status}"));
    }
    Ok(())
}

/// What was left in it by the check before dies, and what runs.
fn ends(group: &Group) -> Result<(), String> {
    group.kill();
    match sys::fork_into(0, group.folder()) {
        Ok(Side::Child) => {
            std::thread::sleep(Duration::from_secs(5));
            sys::exit(0)
        }
        Ok(Side::Parent(pid)) => {
            group.kill();
            match sys::reap(pid, true) {
                Ok(Some((_, raw))) if libc::WIFSIGNALED(raw) && libc::WTERMSIG(raw) == libc::SIGKILL => {
                    Ok(())
                }
                other => Err(format!("its end did not come: {other:?}")),
            }
        }
        Err(errno) => Err(format!("clone3: {errno}")),
    }
}

fn bounds_memory(group: &Group) -> Result<(), String> {
    let status = inside(group, || {
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        i32::from(held.len() == 64 << 20)
    })?;
    match group.out_of_memory(&CAPS) {
        Some(_) if libc::WIFSIGNALED(status) => Ok(()),
        _ => Err(format!("more memory than allowed was not refused: {status}")),
    }
}
