//! Taking more than the caps allow.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use provost_core::caps::Caps;
use provost_core::containment::Guarantee::{
    CapCpu, CapDisk, CapFileSize, CapMemory, CapOpenFiles, CapProcesses, CapTmp, FsWrite, Output, WallClock,
};

use super::raw::call;
use super::stage::{Stage, child, idle, say};
use super::{Amount, Attack, Judge, Needs, Promise, Tried};

/// The caps of every attack.
pub(super) const CAPS: Caps = Caps {
    cpu_ms: Some(1_000),
    memory_bytes: Some(MEMORY),
    processes: Some(48),
    file_bytes: Some(8 << 20),
    open_files: Some(128),
    tmp_bytes: Some(4 << 20),
    disk_bytes: None,
};
/// And of the layer, where changes are staged.
pub(super) const LAYER: u64 = 12 << 20;
const MEMORY: u64 = 64 << 20;
/// How much an attacker on memory takes.
const HOG: usize = 160 << 20;

const NO_CAP_ON_DISK: Promise =
    Promise::Nothing("there is no cap on the disk below a workspace that is changed directly");
const NOT_MAPPED: Promise = Promise::Nothing("memory that no process maps is not counted");

const fn takes(
    name: &'static str,
    amount: Amount,
    tries: &'static str,
    perform: fn(&Stage) -> Tried,
) -> Attack {
    let guarantee = match amount {
        Amount::Processes => CapProcesses,
        Amount::Memory => CapMemory,
        Amount::Descriptors => CapOpenFiles,
        Amount::Cpu => CapCpu,
        Amount::File => CapFileSize,
        Amount::Tmp | Amount::Inodes => CapTmp,
        Amount::Workspace => FsWrite,
        Amount::Layer => CapDisk,
    };
    Attack::new(name, guarantee, Judge::Takes(amount), tries, perform)
}

pub(super) const ATTACKS: &[Attack] = &[
    takes("fork-bomb", Amount::Processes, "forks 300 processes", |_| {
        for _ in 0..300 {
            if child(idle).is_err() {
                break;
            }
        }
        Ok(())
    }),
    takes("thread-bomb", Amount::Processes, "starts 300 threads", |_| {
        for _ in 0..300 {
            let started = std::thread::Builder::new().stack_size(64 * 1024).spawn(|| idle());
            if started.is_err() {
                break;
            }
        }
        Ok(())
    }),
    takes("private-memory", Amount::Memory, "takes private memory", |_| {
        map(HOG, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }),
    takes("shared-memory", Amount::Memory, "takes shared memory", |_| {
        map(HOG, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }),
    takes("memory-by-many", Amount::Memory, "takes memory in many processes", |_| {
        for _ in 0..16 {
            let _ = child(|| {
                let _ = map(HOG / 16, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
                idle()
            });
        }
        // Until they have it; the judge counts for itself.
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    }),
    takes("mapped-file-in-memory", Amount::Memory, "maps files that lie in memory", |_| {
        for _ in 0..HOG / CHUNK {
            let file = unnamed_in_memory()?;
            call(libc::SYS_ftruncate, [file.into(), (CHUNK as i64).into()])?;
            map(CHUNK, libc::MAP_SHARED, file)?;
        }
        Ok(())
    }),
    takes("file-in-memory", Amount::Memory, "fills files that lie in memory and maps none", |_| {
        let chunk = vec![1u8; CHUNK];
        for _ in 0..HOG / CHUNK {
            let file = unnamed_in_memory()?;
            call(libc::SYS_write, [file.into(), chunk.as_slice().into(), (CHUNK as i64).into()])?;
        }
        Ok(())
    })
    .on_r3(NOT_MAPPED)
    .by_engine(Promise::Receipt)
    .on_r2(NOT_MAPPED)
    .on_r1(NOT_MAPPED),
    takes("processor-time", Amount::Cpu, "uses the processor", |_| {
        let until = Instant::now() + Duration::from_millis(1_150);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        Ok(())
    }),
    takes("large-file", Amount::File, "writes a large file", |s| {
        // An error instead of a signal, so that it goes on.
        crate::sys::ignore_file_size();
        fill(&s.work("large"), 24 << 20);
        Ok(())
    }),
    takes("large-sparse-file", Amount::File, "makes a large file of a hole", |s| {
        crate::sys::ignore_file_size();
        let _ = File::create(s.work("large"))?.set_len(24 << 20);
        Ok(())
    }),
    takes("open-files", Amount::Descriptors, "opens 400 descriptors", |_| {
        for _ in 0..400 {
            match File::open("/dev/null") {
                Ok(file) => std::mem::forget(file),
                Err(_) => break,
            }
        }
        Ok(())
    }),
    takes("fill-tmp", Amount::Tmp, "fills the temp folder", |_| {
        let folder = std::env::temp_dir();
        (0..4).for_each(|number| fill(&folder.join(format!("provost-fill-{number}")), 6 << 20));
        Ok(())
    }),
    takes("fill-shared-memory", Amount::Tmp, "fills /dev/shm", |s| {
        (0..4).for_each(|number| fill(&Path::new("/dev/shm").join(format!("{}-{number}", s.token)), 6 << 20));
        Ok(())
    })
    .on_r2(Promise::By(FsWrite)),
    takes("many-files", Amount::Inodes, "makes 2000 files in the temp folder", |_| {
        let folder = std::env::temp_dir().join("provost-many");
        fs::create_dir(&folder)?;
        for number in 0..2_000 {
            if File::create(folder.join(number.to_string())).is_err() {
                break;
            }
        }
        Ok(())
    })
    .by_engine(Promise::Nothing("an engine bounds a temp folder by bytes, not by files")),
    takes("fill-workspace", Amount::Workspace, "fills the disk below the workspace", |s| {
        (0..4).for_each(|number| fill(&s.work(&format!("fill-{number}")), 6 << 20));
        Ok(())
    })
    .on_r3(NO_CAP_ON_DISK)
    .on_r2(NO_CAP_ON_DISK),
    takes("fill-layer", Amount::Layer, "fills the layer over the workspace", |s| {
        (0..4).for_each(|number| fill(&s.workspace.join(format!("fill-{number}")), 6 << 20));
        Ok(())
    })
    .needs(Needs::Staged),
    Attack::new("flood", Output, Judge::Kept, "writes 16 MiB to its output", |_| {
        let chunk = vec![b'x'; 1 << 20];
        (0..16).for_each(|_| say(&chunk));
        Ok(())
    }),
    Attack::new("overrun", WallClock, Judge::Overruns, "runs on, deaf to signals", |_| {
        for signal in 1..32 {
            // SAFETY: ignoring a signal is sound; those that cannot be ignored are refused.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        Ok(())
    }),
];

const CHUNK: usize = 4 << 20;

/// A file in memory that has no name; its descriptor is never closed.
fn unnamed_in_memory() -> std::io::Result<i64> {
    call(libc::SYS_memfd_create, [c"provost".into(), 0.into()])
}

/// Maps memory and touches every page of it.
fn map(length: usize, flags: i32, file: i64) -> Tried {
    let length = length as i64;
    let arguments = [
        0.into(),
        length.into(),
        (libc::PROT_READ | libc::PROT_WRITE).into(),
        flags.into(),
        file.into(),
        0.into(),
    ];
    let address = call(libc::SYS_mmap, arguments)?;
    for offset in (0..length).step_by(4096) {
        // SAFETY: within the mapping just made, which is writable and never unmapped.
        unsafe { std::ptr::write_volatile((address + offset) as *mut u8, 1) };
    }
    Ok(())
}

/// Writes as much as there is room for.
fn fill(path: &Path, bytes: usize) {
    let Ok(mut file) = File::create(path) else { return };
    let chunk = vec![1u8; 256 * 1024];
    for _ in 0..bytes / chunk.len() {
        if file.write_all(&chunk).is_err() {
            break;
        }
    }
}
