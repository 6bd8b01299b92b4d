//! What the processes of a tree take together, looked up in `/proc` at intervals.
//!
//! What the kernel can refuse by itself it refuses (`contain.rs`). It knows no sum over a tree without a control group, so
//! sums are watched here: a breach is noticed late, and what it reached by then is said. Where there is a group
//! (`group.rs`), only processor time is left to be watched.

use std::time::{Duration, Instant};

use provost_core::caps::{Cap, CapHit, Caps};
use provost_core::containment::Rung;

use super::read_proc;
use crate::group::Group;
use crate::sys;

/// The sums of one tree.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    cpu_ms: u64,
    /// Resident pages, those that processes share counted for each: never less than what is used.
    resident: u64,
    tasks: u64,
}

/// Watches the sums of one tree.
pub(super) struct Sampler {
    caps: Caps,
    interval: Duration,
    due: Instant,
    /// Whether the kernel refuses more processes by itself.
    processes_refused: bool,
    hits: Vec<CapHit>,
}

impl Sampler {
    /// `None` when there is nothing to watch. `uid` is whose processes they are outside of every namespace: the kernel goes
    /// by that one, and bounds none of root's, whatever they are called inside.
    pub(super) fn new(caps: &Caps, rung: Rung, uid: u32) -> Option<Self> {
        if rung == Rung::R0 || (caps.cpu_ms, caps.memory_bytes, caps.processes) == (None, None, None) {
            return None;
        }
        // Under R3 `/proc` holds the tree and nothing else; otherwise all of the host's processes have to be read.
        let interval = Duration::from_millis(if rung >= Rung::R3 { 100 } else { 500 });
        Some(Self {
            caps: *caps,
            interval,
            due: Instant::now() + interval,
            processes_refused: rung >= Rung::R3 && uid != 0,
            hits: Vec::new(),
        })
    }

    /// Watches what a control group adds up and no kernel bounds: processor time.
    pub(super) fn of_group(caps: &Caps) -> Option<Self> {
        let interval = Duration::from_millis(100);
        caps.cpu_ms.map(|_| Self {
            caps: Caps { cpu_ms: caps.cpu_ms, ..Caps::none() },
            interval,
            due: Instant::now() + interval,
            processes_refused: true,
            hits: Vec::new(),
        })
    }

    /// As [`look`](Self::look), at a group.
    pub(super) fn look_at(&mut self, group: &Group) -> Option<CapHit> {
        if Instant::now() < self.due {
            return None;
        }
        self.due = Instant::now() + self.interval;
        let reached = group.cpu_ms();
        let limit = self.caps.limit(Cap::Cpu).filter(|limit| reached > *limit)?;
        Some(CapHit { cap: Cap::Cpu, limit, reached })
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Looks if it is time to; a cap that is exceeded and for which the tree has to be killed.
    pub(super) fn look(&mut self, tree: impl FnOnce() -> Vec<u32>) -> Option<CapHit> {
        if Instant::now() < self.due {
            return None;
        }
        let tree = tree();
        let sums = sums(&tree);
        self.due = Instant::now() + self.interval;
        let over = |cap: Cap, reached: u64| {
            let limit = self.caps.limit(cap).filter(|limit| reached > *limit)?;
            Some(CapHit { cap, limit, reached })
        };
        if let Some(limit) = self.caps.processes.filter(|_| self.processes_refused) {
            if sums.tasks >= limit {
                note(&mut self.hits, CapHit { cap: Cap::Processes, limit, reached: sums.tasks });
            }
        } else if let Some(hit) = over(Cap::Processes, sums.tasks) {
            return Some(hit);
        }
        over(Cap::Cpu, sums.cpu_ms).or_else(|| {
            // Exact, and dearer: asked for only where the estimate is over.
            over(Cap::Memory, sums.resident).and_then(|_| over(Cap::Memory, proportional(&tree)))
        })
    }
}

/// Caps that a command reached without being killed for it: those that were seen meanwhile, and those that its end shows.
pub(super) fn reached(caps: &Caps, sampler: Option<Sampler>, status: Option<i32>) -> Vec<CapHit> {
    let mut hits = sampler.map(|sampler| sampler.hits).unwrap_or_default();
    let usage = sys::usage_of_children();
    for (cap, reached) in [(Cap::Cpu, usage.cpu_ms), (Cap::Memory, usage.largest_resident)] {
        if let Some(limit) = caps.limit(cap).filter(|limit| reached >= *limit) {
            note(&mut hits, CapHit { cap, limit, reached });
        }
    }
    let spent = status.is_some_and(|raw| ended_by(raw, libc::SIGXCPU));
    if let Some(limit) = caps.cpu_ms.filter(|_| spent) {
        note(&mut hits, CapHit { cap: Cap::Cpu, limit, reached: usage.cpu_ms.max(limit) });
    }
    let too_large = status.is_some_and(|raw| ended_by(raw, libc::SIGXFSZ));
    if let Some(limit) = caps.file_bytes.filter(|_| too_large) {
        note(&mut hits, CapHit { cap: Cap::FileSize, limit, reached: limit });
    }
    hits
}

/// Whether a signal ended the command, or its last part where a shell ran it.
fn ended_by(raw: i32, signal: i32) -> bool {
    (libc::WIFSIGNALED(raw) && libc::WTERMSIG(raw) == signal)
        || (libc::WIFEXITED(raw) && libc::WEXITSTATUS(raw) == 128 + signal)
}

/// Keeps the furthest of each cap.
pub(super) fn note(hits: &mut Vec<CapHit>, hit: CapHit) {
    match hits.iter_mut().find(|found| found.cap == hit.cap) {
        Some(found) => found.reached = found.reached.max(hit.reached),
        None => hits.push(hit),
    }
}

fn sums(tree: &[u32]) -> Sums {
    let mut sums = Sums::default();
    let (page, tick_ms) = (rustix::param::page_size() as u64, 1000 / rustix::param::clock_ticks_per_second());
    for pid in tree {
        let Some(text) = read_proc(&format!("/proc/{pid}/stat")) else { continue };
        // proc(5), counted from the state, which stands behind the name: utime 14, stime 15, cutime 16, cstime 17,
        // num_threads 20, rss 24. What its dead children took stands in a process once it has collected them.
        let Some((_, fields)) = text.rsplit_once(')') else { continue };
        let fields: Vec<u64> = fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        sums.cpu_ms += [14, 15, 16, 17].map(field).iter().sum::<u64>() * tick_ms;
        sums.tasks += field(20);
        sums.resident += field(24) * page;
    }
    sums
}

/// Memory in bytes, shared pages in shares. Of a process that may not be looked at, all that is resident.
fn proportional(tree: &[u32]) -> u64 {
    let of = |pid: &u32| {
        let kib = read_proc(&format!("/proc/{pid}/smaps_rollup")).and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        });
        kib.map_or_else(|| sums(&[*pid]).resident, |kib| kib * 1024)
    };
    tree.iter().map(of).sum()
}
