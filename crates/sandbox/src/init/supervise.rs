//! The supervisor: starts the command, drains its output, keeps the clock, kills its tree, leaves the record.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use provost_core::caps::{Cap, CapHit, Caps};
use provost_core::containment::{Guarantee, Rung, Strength};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::capture::Capture;
use super::pid1::Last;
use super::ready::{Child, PIPE_SIZE, PrivateTmp, Ready, parse};
use super::sample::{self, Sampler};
use super::{contain, kill, overlay};
use crate::broker;
use crate::engine::{Container, Fate};
use crate::group::Group;
use crate::plan::Order;
use crate::record::{self, Ended, ExitRecord, Failure};
use crate::sandbox::memory;
use crate::sys::{self, Step};
use crate::wire::{self, Report};

/// Set-up that takes longer hangs (a dead network file system, most likely).
const SETUP_LIMIT: Duration = Duration::from_secs(10);
/// How long the dead may take to be gone.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(3);
const CHUNK: usize = 64 * 1024;
/// Reads that empty a full pipe with room to spare.
const LAST_READS: usize = 4 * PIPE_SIZE / CHUNK;

/// Stands by for a command of this plan, and supervises it from start to record; returns the helper's exit status.
pub(super) fn stand_by(driver: OwnedFd, launcher: OwnedFd, plan: &OwnedFd) -> i32 {
    // What fails now is made again when it is wanted, and then it is the command's failure.
    let ready = Ready::make(plan);
    let descriptors = match wire::receive(&driver, RecvFlags::empty()) {
        Ok((packet, descriptors)) if packet == [wire::SUPERVISE] => descriptors,
        // The driver is gone or does not need us any more.
        _ => return withdraw(ready),
    };
    // Should it not be heard, nobody stands by until the next command is wanted.
    let _ = rustix::io::write(&launcher, &[wire::TAKEN]);
    drop(driver);
    match ready {
        Ok(ready) if ready.is_whole() => supervise(descriptors, launcher, Ok(ready)),
        other => {
            withdraw(other);
            supervise(descriptors, launcher, Ready::make(plan))
        }
    }
}

fn withdraw(ready: Result<Ready, Failure>) -> i32 {
    if let Ok(ready) = ready {
        ready.abandon();
    }
    0
}

/// Supervises one command from start to record; returns the helper's exit status.
fn supervise(descriptors: Vec<OwnedFd>, launcher: OwnedFd, ready: Result<Ready, Failure>) -> i32 {
    let mut descriptors = descriptors.into_iter();
    let (Some(order), Some(folder), Some(control)) =
        (descriptors.next(), descriptors.next(), descriptors.next())
    else {
        return withdraw(ready);
    };
    let channel = descriptors.next();
    // Held until this process ends, however it ends: it must outlive the record's rename.
    let file = match take_lock(folder.as_fd()) {
        Ok(file) => file,
        Err(failure) => {
            // The folder is somebody else's, so nothing is written to it.
            wire::report(&control, &Report::Failed(failure));
            withdraw(ready);
            return 1;
        }
    };
    let result = ready.and_then(|ready| {
        let result = run(&control, (&order, channel), folder.as_fd(), launcher, &ready);
        ready.clear();
        result
    });
    match result {
        Ok(record) => {
            let written = serde_json::to_vec(&record)
                .map_err(|_| Errno::INVAL)
                .and_then(|text| leave(folder.as_fd(), &file, record::EXIT, &text));
            wire::report(
                &control,
                &match written {
                    Ok(()) => Report::Finished,
                    Err(errno) => Report::RecordLost { errno: errno.raw_os_error() },
                },
            );
            0
        }
        Err(failure) => {
            // Should the record fail to be written, the message below still says it; and with the `started` marker
            // gone the folder says the same.
            let _ = rustix::fs::unlinkat(&folder, record::STARTED, AtFlags::empty());
            if let Ok(text) = serde_json::to_vec(&failure) {
                let _ = leave(folder.as_fd(), &file, record::NOT_STARTED, &text);
            }
            wire::report(&control, &Report::Failed(failure));
            1
        }
    }
}

fn run(
    control: &OwnedFd,
    (order, channel): (&OwnedFd, Option<OwnedFd>),
    folder: BorrowedFd<'_>,
    launcher: OwnedFd,
    ready: &Ready,
) -> Result<ExitRecord, Failure> {
    let Ready { plan, signals, private, group, child } = ready;
    // Nobody of the same user reads our memory or takes our descriptors. Not earlier: who is forked before has to write
    // files of `/proc` that then belong to root.
    let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0);
    let wanted = parse::<Order>(order).and_then(|wanted| child.order(order, channel).map(|()| wanted));
    let order = wanted.inspect_err(|_| child.abandon(plan.rung))?;
    let private = private.as_ref().map(PrivateTmp::path);
    let Readiness { unprotected, layer } = await_ready(control, child, plan.rung, private)?;
    let mut receipt = plan.receipt.clone();
    if !unprotected.is_empty() {
        receipt.guarantees.insert(Guarantee::Protected, Strength::Absent);
    }
    if let Some(guarantee) = plan.require.iter().find(|guarantee| !receipt.enforces(**guarantee)) {
        child.abandon(plan.rung);
        let detail = format!("`{}` does not hold for {}", guarantee.name(), unprotected.join(", "));
        return Err(Failure::new("require", libc::EPERM, detail));
    }
    // From here on the command may have run.
    mark_started(folder)
        .step("started-marker")
        .and_then(|()| let_go(control, child))
        .inspect_err(|_| child.abandon(plan.rung))?;
    let began = Instant::now();
    wire::report(control, &Report::Started);
    // The command runs: now there is time to make the next one ready.
    drop(launcher);

    let mut watch = Watch {
        control: Some(control),
        child,
        signals,
        capture: Capture::new(order.keep_head, order.keep_tail),
        buffer: vec![0; CHUNK],
        output_open: true,
        notice: Notice::NotWanted,
        last: Last::default(),
        group: group.as_ref(),
        sampler: match group {
            Some(_) => Sampler::of_group(&plan.limits),
            None if plan.rung >= Rung::R3 => None,
            None => Sampler::new(&plan.limits, plan.rung, sys::ids().0),
        },
    };
    let limit = Duration::from_millis(order.wall_ms);
    let cut = watch.until_end(began + limit);
    // Before the tree: what the engine started need not be in it.
    let (fate, left) = order.container.as_ref().map_or((Fate::AsSaid, 0), |container| {
        end_container(container, watch.last.status.filter(|_| cut.is_none()))
    });
    let survivors = watch.finish(plan.rung, cut.is_some()) + left;
    if let Some(failure) = exec_failure(child) {
        return Err(failure);
    }
    let Last { status, over, mut hits } = std::mem::take(&mut watch.last);
    if matches!(plan.rung, Rung::R1 | Rung::R2) {
        // Under R3 process 1 has said so.
        hits = sample::reached(&plan.limits, watch.sampler.take(), status);
    }
    hits.extend(full_layer(&plan.limits, layer.as_ref()));
    let over = over.or(group.as_ref().and_then(|group| judge(group, &plan.limits, status, &mut hits)));
    let output = std::mem::replace(&mut watch.capture, Capture::new(0, 0)).finish();
    let cut = cut.or(over.map(Cut::Capped));
    if let (Fate::NeverStarted, None) = (fate, cut) {
        return Err(Failure::new("engine", libc::ECANCELED, String::from_utf8_lossy(&output.head).trim()));
    }
    let ended = match (cut, status) {
        (Some(Cut::Deadline), _) => Ended::TimedOut { limit_ms: order.wall_ms },
        (Some(Cut::Capped(hit)), _) => Ended::Capped(hit),
        (Some(Cut::Cancel), _) => Ended::Cancelled,
        (Some(Cut::DriverLost), _) => Ended::DriverLost,
        (None, _) if let Fate::Exited(status) = fate => Ended::Exited(status),
        (None, _) if let Fate::OutOfMemory(hit) = fate => Ended::Capped(hit),
        (None, Some(raw)) if libc::WIFEXITED(raw) => Ended::Exited(libc::WEXITSTATUS(raw)),
        (None, Some(raw)) => Ended::Signalled(libc::WTERMSIG(raw)),
        // Process 1 was killed from outside, which killed the command.
        (None, None) => Ended::Signalled(libc::SIGKILL),
    };
    Ok(ExitRecord {
        ended,
        duration_ms: began.elapsed().as_millis() as u64,
        ended_at_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
        output,
        receipt,
        survivors,
        caps: hits,
        unprotected,
    })
}

/// What a control group says of a command that has ended: the cap that the kernel killed it for; others are noted.
fn judge(group: &Group, caps: &Caps, status: Option<i32>, hits: &mut Vec<CapHit>) -> Option<CapHit> {
    group.out_of_processes(caps).into_iter().for_each(|hit| sample::note(hits, hit));
    let over = group.out_of_memory(caps)?;
    // All that is in the group is killed, process 1 too, which then says nothing.
    let killed = |raw: i32| libc::WIFSIGNALED(raw) && libc::WTERMSIG(raw) == libc::SIGKILL;
    if status.is_none_or(killed) {
        return Some(over);
    }
    // Something that outlived the command for a moment.
    sample::note(hits, over);
    None
}

/// Has an engine say how a container ended whose program of the engine's ended by itself with a raw wait status, and
/// remove it; how many containers are left.
fn end_container(container: &Container, status: Option<i32>) -> (Fate, u32) {
    let fate = match status.filter(|raw| libc::WIFEXITED(*raw)) {
        Some(raw) => container.fate(libc::WEXITSTATUS(raw)),
        None => Fate::AsSaid,
    };
    (fate, u32::from(!container.remove()))
}

fn take_lock(folder: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::openat(folder, record::BOOT, flags, Mode::empty()).step("record-lock")?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).step("record-lock")?;
    for name in record::LEFT_BEHIND {
        if rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            // Somebody's record; it must not be mixed with ours.
            return Err(Failure::new("record-folder", libc::EEXIST, name));
        }
    }
    Ok(lock)
}

/// Makes the folder's file the record: under its name it is there whole or not at all.
fn leave(folder: BorrowedFd<'_>, file: &OwnedFd, name: &str, text: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < text.len() {
        match rustix::io::pwrite(file, &text[done..], done as u64) {
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    rustix::fs::ftruncate(file, text.len() as u64)?;
    rustix::fs::renameat(folder, record::BOOT, folder, name)
}

fn mark_started(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::fs::linkat(folder, record::BOOT, folder, record::STARTED, AtFlags::empty()) {
        // A file system that gives no file two names.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(folder, record::STARTED, flags, Mode::from_raw_mode(0o600)).map(drop)
        }
        other => other,
    }
}

/// What is known when the command's process stands ready.
struct Readiness {
    /// Protected paths that could not be pinned.
    unprotected: Vec<String>,
    /// What its changes gather in, where they are staged.
    layer: Option<OwnedFd>,
}

/// Waits for the command's process to stand ready before `execve`; otherwise kills and collects it. The driver gets the
/// layer before that.
fn await_ready(
    control: &OwnedFd,
    child: &Child,
    rung: Rung,
    private: Option<&Path>,
) -> Result<Readiness, Failure> {
    let mut layer = None;
    let deadline = Instant::now() + SETUP_LIMIT;
    let failure = loop {
        let mut ready = [PollFd::new(&child.setup, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        wait(&mut ready, deadline);
        let (from_child, from_driver) = (ready[0].revents(), ready[1].revents());
        if !from_driver.is_empty() {
            break match read_driver(control) {
                Some(Cut::Cancel) => Failure::new("cancelled", libc::ECANCELED, ""),
                Some(_) => Failure::new("driver-lost", libc::EPIPE, ""),
                None => continue,
            };
        }
        if !from_child.is_empty() {
            break match wire::next_with(&child.setup) {
                Some((Report::Layer, mut descriptors)) => {
                    layer = descriptors.pop();
                    let passed: Vec<_> = layer.iter().map(AsFd::as_fd).collect();
                    wire::report_with(control, &Report::Layer, &passed);
                    continue;
                }
                Some((Report::Brokered, mut descriptors)) => match private.map(broker::folder).transpose() {
                    Ok(folder) => {
                        descriptors.extend(folder);
                        let passed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                        wire::report_with(control, &Report::Brokered, &passed);
                        continue;
                    }
                    Err(errno) => Failure::new("private-tmp", errno.raw_os_error(), ""),
                },
                Some((Report::Ready { unprotected }, _)) => return Ok(Readiness { unprotected, layer }),
                Some((
                    for_driver @ (Report::Listening { .. } | Report::Dialling | Report::Reaching),
                    sockets,
                )) => {
                    let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
                    wire::report_with(control, &for_driver, &sockets);
                    continue;
                }
                Some((Report::Failed(failure), _)) => failure,
                _ => Failure::new("set-up", libc::ECHILD, "its process died"),
            };
        }
        if Instant::now() >= deadline {
            break Failure::new("set-up", libc::ETIMEDOUT, "");
        }
    };
    child.abandon(rung);
    Err(failure)
}

/// The cap on what a layer holds, if nothing more fits in.
fn full_layer(caps: &Caps, layer: Option<&OwnedFd>) -> Option<CapHit> {
    let limit = caps.limit(Cap::Disk)?;
    layer.filter(|layer| overlay::is_full(layer)).map(|_| CapHit { cap: Cap::Disk, limit, reached: limit })
}

/// Lets the command's process execute and waits until it has: its end of the socket closes on a good `execve`.
///
/// An `execve` that hangs (a dead network file system) is left to the clock; its failure is asked for again at the end.
fn let_go(control: &OwnedFd, child: &Child) -> Result<(), Failure> {
    wire::send(&child.setup, &[contain::GO], &[]).step("let-go")?;
    let mut ready = [PollFd::new(&child.setup, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
    wait(&mut ready, Instant::now() + SETUP_LIMIT);
    if ready[0].revents().is_empty() { Ok(()) } else { exec_failure(child).map_or(Ok(()), Err) }
}

/// What the command's process said after it was let go, if it said anything: that `execve` failed.
fn exec_failure(child: &Child) -> Option<Failure> {
    let (packet, _) = wire::receive(&child.setup, RecvFlags::DONTWAIT).ok()?;
    match serde_json::from_slice(&packet) {
        Ok(Report::Failed(failure)) => Some(failure),
        _ => None,
    }
}

/// Why a command was stopped by the supervisor.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    Deadline,
    Capped(CapHit),
    Cancel,
    DriverLost,
}

/// What a driver says.
enum Word {
    Stop(Cut),
    Take,
    Notice,
}

fn hear(control: &OwnedFd) -> Option<Word> {
    match wire::receive(control, RecvFlags::DONTWAIT) {
        Ok((packet, _)) => match packet.as_slice() {
            [] => Some(Word::Stop(Cut::DriverLost)),
            [wire::CANCEL] => Some(Word::Stop(Cut::Cancel)),
            [wire::TAKE] => Some(Word::Take),
            [wire::NOTICE] => Some(Word::Notice),
            _ => None,
        },
        Err(Errno::AGAIN) => None,
        Err(_) => Some(Word::Stop(Cut::DriverLost)),
    }
}

/// The same, of which only an order to stop counts.
pub(super) fn read_driver(control: &OwnedFd) -> Option<Cut> {
    match hear(control)? {
        Word::Stop(cut) => Some(cut),
        Word::Take | Word::Notice => None,
    }
}

/// Whether the driver wants to know that there is output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notice {
    Wanted,
    NotWanted,
}

/// Polls until something happens or the deadline passes.
pub(super) fn wait(descriptors: &mut [PollFd<'_>], deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout =
        Timespec { tv_sec: left.as_secs().min(i32::MAX as u64) as i64, tv_nsec: left.subsec_nanos().into() };
    // An interrupted or failed poll reports nothing; the caller looks at the clock and comes back.
    if poll(descriptors, Some(&timeout)).is_err() {
        for descriptor in descriptors {
            descriptor.clear_revents();
        }
    }
}

/// All processes below the supervisor.
fn tree() -> Vec<u32> {
    kill::below(std::process::id()).into_iter().map(|(pid, _)| pid).collect()
}

struct Watch<'run> {
    /// `None` once the driver is known to be gone or to have cancelled.
    control: Option<&'run OwnedFd>,
    child: &'run Child,
    signals: &'run OwnedFd,
    capture: Capture,
    buffer: Vec<u8>,
    output_open: bool,
    notice: Notice,
    /// What is known of its end.
    last: Last,
    /// The command's control group, where it has one.
    group: Option<&'run Group>,
    /// Watches the sums of the tree where no process 1 does.
    sampler: Option<Sampler>,
}

impl Watch<'_> {
    /// Drains output until the command ends (`None`) or has to be stopped.
    fn until_end(&mut self, deadline: Instant) -> Option<Cut> {
        loop {
            self.wait(self.sampler.as_ref().map_or(deadline, |sampler| deadline.min(sampler.due())));
            match self.control.and_then(hear) {
                Some(Word::Stop(cut)) => {
                    self.control = None;
                    return Some(cut);
                }
                Some(Word::Take) => self.hand_over(),
                Some(Word::Notice) => self.notice = Notice::Wanted,
                None => {}
            }
            if self.collect() {
                return None;
            }
            self.drain_once();
            self.give_notice();
            let over = self.sampler.as_mut().and_then(|sampler| match self.group {
                Some(group) => sampler.look_at(group),
                None => sampler.look(tree),
            });
            if let Some(hit) = over {
                return Some(Cut::Capped(hit));
            }
            if Instant::now() >= deadline {
                return Some(Cut::Deadline);
            }
        }
    }

    /// Gives the driver what the command wrote since it last asked, with what is still in the pipe.
    fn hand_over(&mut self) {
        for _ in 0..LAST_READS {
            if !self.drain_once() {
                break;
            }
        }
        let Some(control) = self.control else { return };
        // What cannot be handed over stays where it is, and no file comes.
        match memory(&self.capture.part()) {
            Ok(file) if wire::report_with(control, &Report::Output, &[file.as_fd()]) => self.capture.taken(),
            Ok(_) | Err(_) => drop(wire::report(control, &Report::Output)),
        }
    }

    fn give_notice(&mut self) {
        if self.notice == Notice::Wanted && self.capture.is_new() {
            self.notice = Notice::NotWanted;
            if let Some(control) = self.control {
                wire::report(control, &Report::Wrote);
            }
        }
    }

    fn wait(&self, deadline: Instant) {
        let mut descriptors = Vec::with_capacity(4);
        descriptors.push(PollFd::new(self.signals, PollFlags::IN));
        if self.output_open {
            descriptors.push(PollFd::new(&self.child.output, PollFlags::IN));
        }
        descriptors.extend(self.control.map(|control| PollFd::new(control, PollFlags::IN)));
        descriptors.extend(self.child.status.as_ref().map(|status| PollFd::new(status, PollFlags::IN)));
        wait(&mut descriptors, deadline);
    }

    /// Collects the dead; whether the command is among them.
    fn collect(&mut self) -> bool {
        sys::drain(self.signals);
        if let Some(status) = &self.child.status {
            let mut text = [0u8; 4096];
            return match rustix::io::read(status, &mut text) {
                Ok(count) if count > 0 => {
                    // From our own process 1; anything else is as if it had said nothing.
                    self.last = serde_json::from_slice(&text[..count]).unwrap_or_default();
                    true
                }
                // Process 1 is gone and has said nothing.
                Ok(_) => true,
                Err(_) => false,
            };
        }
        while let Ok(Some((pid, raw))) = sys::reap(-1, false) {
            if pid == self.child.pid {
                self.last.status = Some(raw);
            }
        }
        self.last.status.is_some()
    }

    /// Reads what is there, at most one chunk; whether there was anything.
    fn drain_once(&mut self) -> bool {
        if !self.output_open {
            return false;
        }
        match rustix::io::read(&self.child.output, &mut self.buffer[..]) {
            Ok(0) => self.output_open = false,
            Ok(count) => {
                self.capture.push(&self.buffer[..count]);
                return true;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.output_open = false,
        }
        false
    }

    /// Makes sure that the tree is gone, takes the output that is left in the pipe, and counts what lives on.
    fn finish(&mut self, rung: Rung, cut: bool) -> u32 {
        let deadline = Instant::now() + KILL_LIMIT;
        // At one stroke, what is being forked too; what follows collects them.
        self.group.into_iter().for_each(Group::kill);
        let survivors = match rung {
            Rung::R3 | Rung::R4 => {
                let _ = sys::kill(self.child.pid, libc::SIGKILL);
                self.await_death(deadline)
            }
            Rung::R2 | Rung::R1 => {
                // One call for the many that are still in the command's group; only while the command is not
                // collected, because then its number cannot belong to a stranger.
                if cut {
                    let _ = sys::kill(-self.child.pid, libc::SIGKILL);
                }
                kill::tree(deadline)
            }
            Rung::R0 if cut => {
                let _ = sys::kill(-self.child.pid, libc::SIGKILL);
                self.await_death(deadline)
            }
            Rung::R0 => 0,
        };
        // Nobody in the tree writes any more, so what is in the pipe is all there is; its end would come only when
        // the last stranger closes it. Bounded by the pipe's size, for a stranger that keeps writing.
        for _ in 0..LAST_READS {
            if !self.drain_once() {
                break;
            }
        }
        survivors
    }

    /// Collects the direct child; 1 when it does not die in time.
    fn await_death(&mut self, deadline: Instant) -> u32 {
        loop {
            match sys::reap(self.child.pid, false) {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => return 0,
            }
            if Instant::now() >= deadline {
                return 1;
            }
            wait(&mut [PollFd::new(self.signals, PollFlags::IN)], deadline);
            sys::drain(self.signals);
        }
    }
}
