//! Shared memory, queues and semaphores of the host.

use std::fs;
use std::path::Path;

use provost_core::containment::Guarantee::{FsRead, FsWrite, Ipc};

use super::raw::{call, structure};
use super::stage::Stage;
use super::stage::{c, missing, say};
use super::{Attack, Judge, Needs, Place, Promise, Tried};

const SHARED: Promise = Promise::Nothing("under R2 System V IPC is the host's");

const fn shared(
    name: &'static str,
    judge: Judge,
    tries: &'static str,
    perform: fn(&Stage) -> Tried,
) -> Attack {
    Attack::new(name, Ipc, judge, tries, perform).needs(Needs::Ipc)
}

pub(super) const ATTACKS: &[Attack] = &[
    shared("segment-read", Judge::Secret, "reads a System V segment of the host", |s| {
        let segment = s.segment.ok_or_else(|| missing("no segment"))?;
        say(attached(segment, libc::SHM_RDONLY, |memory| memory.to_vec())?);
        Ok(())
    })
    .on_r2(SHARED),
    shared("segment-write", Judge::Ipc, "writes a System V segment of the host", |s| {
        let segment = s.segment.ok_or_else(|| missing("no segment"))?;
        attached(segment, 0, |memory| memory[0] = b'X')
    })
    .on_r2(SHARED),
    shared("segment-remove", Judge::Ipc, "removes a System V segment of the host", |s| {
        let segment = s.segment.ok_or_else(|| missing("no segment"))?;
        call(libc::SYS_shmctl, [segment.into(), libc::IPC_RMID.into(), 0.into()]).map(drop)
    })
    .on_r2(SHARED),
    shared("semaphore", Judge::Ipc, "raises a System V semaphore of the host", |s| {
        let semaphore = s.semaphore.ok_or_else(|| missing("no semaphore"))?;
        // SETVAL
        call(libc::SYS_semctl, [semaphore.into(), 0.into(), 16.into(), 7.into()]).map(drop)
    })
    .on_r2(SHARED),
    shared("queue", Judge::Secret, "takes a message from a System V queue of the host", |s| {
        let queue = s.queue.ok_or_else(|| missing("no queue"))?;
        let mut message = [0u8; 264];
        let arguments =
            [queue.into(), message.as_mut_slice().into(), 256.into(), 0.into(), libc::IPC_NOWAIT.into()];
        let length = call(libc::SYS_msgrcv, arguments)?;
        say(&message[8..8 + length as usize]);
        Ok(())
    })
    .on_r2(SHARED),
    shared("posix-queue", Judge::Secret, "takes a message from a POSIX queue of the host", |s| {
        let name = c(&s.token)?;
        let queue = call(libc::SYS_mq_open, [name.as_c_str().into(), libc::O_RDONLY.into()])?;
        let mut message = [0u8; 8192];
        let until: [u8; 16] = structure(&[]);
        let arguments =
            [queue.into(), message.as_mut_slice().into(), 8192.into(), 0.into(), until.as_slice().into()];
        let length = call(libc::SYS_mq_timedreceive, arguments)?;
        say(&message[..length as usize]);
        Ok(())
    })
    .on_r2(Promise::Layer("Landlock: no queue lies below a path that may be opened")),
    shared("shared-memory-read", Judge::Secret, "reads a file of the host's /dev/shm", |s| {
        say(fs::read(Path::new("/dev/shm").join(format!("{}-secret", s.token)))?);
        Ok(())
    })
    .on_r2(Promise::By(FsRead)),
    shared("shared-memory-write", Judge::Appears(Place::Shm), "leaves a file in the host's /dev/shm", |s| {
        fs::write(Path::new("/dev/shm").join(&s.token), "x")
    })
    .on_r2(Promise::By(FsWrite)),
];

/// Works on an attached segment of 4096 bytes.
fn attached<T>(segment: i32, flags: i32, work: impl FnOnce(&mut [u8]) -> T) -> std::io::Result<T> {
    let address = call(libc::SYS_shmat, [segment.into(), 0.into(), flags.into()])?;
    if flags & libc::SHM_RDONLY != 0 {
        let mut copy = [0u8; 128];
        // SAFETY: the kernel has just mapped at least a page of readable memory there.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, copy.as_mut_ptr(), copy.len()) };
        return Ok(work(&mut copy));
    }
    // SAFETY: the kernel has just mapped a page of memory there, readable and writable, which nothing unmaps.
    Ok(work(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, 4096) }))
}
