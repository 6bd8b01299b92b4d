//! Killing a process tree without a pid namespace.
//!
//! The supervisor is a subreaper, so whatever is orphaned in the tree, `setsid` or not, becomes its child and can be
//! found below it. A tree that forks faster than it is walked needs many rounds, hence the deadline.

use std::collections::HashMap;
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::read_proc;
use crate::sys;

/// Kills everything below this process until nothing is left or the deadline passes; returns how many are left.
pub(super) fn tree(deadline: Instant) -> u32 {
    let own = std::process::id();
    loop {
        // No child means no tree: whatever lives in it has a living ancestor that is our child, or is ours itself.
        if collect() {
            return 0;
        }
        let alive = below(own);
        for (pid, parent) in &alive {
            kill(*pid, *parent);
        }
        if Instant::now() >= deadline {
            return if collect() { 0 } else { below(own).len() as u32 };
        }
        std::thread::yield_now();
    }
}

/// Collects the dead among our children; whether there is no child left at all.
fn collect() -> bool {
    loop {
        match sys::reap(-1, false) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Kills `pid` if it is still the child of `parent`: a number may have been given to a stranger since the walk.
fn kill(pid: u32, parent: u32) {
    let Some(handle) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(handle) = pidfd_open(handle, PidfdFlags::empty()) else { return };
    // Its parent may have died meanwhile, which makes it our own child.
    if stat(pid).is_some_and(|found| found.parent == parent || found.parent == std::process::id()) {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Living processes below `root`, each with its parent.
pub(super) fn below(root: u32) -> Vec<(u32, u32)> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut dead = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(found) = stat(pid) {
            children.entry(found.parent).or_default().push(pid);
            if found.dead {
                dead.push(pid);
            }
        }
    }
    let mut found = Vec::new();
    let mut queue = vec![root];
    while let Some(parent) = queue.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            queue.push(pid);
            if !dead.contains(&pid) {
                found.push((pid, parent));
            }
        }
    }
    found
}

struct Stat {
    parent: u32,
    /// A zombie: it waits to be collected and does nothing.
    dead: bool,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = read_proc(&format!("/proc/{pid}/stat"))?;
    // The name is in parentheses and may hold anything, parentheses too; the fields come after the last one.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    Some(Stat { parent: fields.next()?.parse().ok()?, dead: matches!(state, "Z" | "X") })
}
