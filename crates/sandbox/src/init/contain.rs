//! What the command's process does to itself between its fork and `execve`, under every rung.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use provost_core::caps::Caps;
use provost_core::containment::Rung;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::Signal;

use crate::bytes::Bytes;
use crate::landlock::{self, Ruleset};
use crate::plan::{Carve, LandlockPlan, Order, Plan};
use crate::record::Failure;
use crate::sys::{self, Step};
use crate::wire::{self, Report};

/// More entries than this in a folder that has to be carved is an error: rules are added one by one.
const CARVE_LIMIT: usize = 20_000;

/// The descriptors that the command's process gets.
pub(super) struct Ends {
    pub(super) setup: OwnedFd,
    pub(super) output: OwnedFd,
}

/// Contains this process, reports readiness, waits to be let go, and executes the command.
pub(super) fn run(plan: &Plan, order: &Order, ends: &Ends, unprotected: &[String]) -> ! {
    let failure = match prepare(plan, order, ends) {
        Ok(program) => {
            wire::report(&ends.setup, &Report::Ready { unprotected: unprotected.to_vec() });
            // Anything but the one byte means that the supervisor is gone or does not want it any more.
            match wire::receive(&ends.setup, RecvFlags::empty()) {
                Ok((go, _)) if go == [GO] => execute(&program),
                _ => sys::exit(1),
            }
        }
        Err(failure) => failure,
    };
    wire::report(&ends.setup, &Report::Failed(failure));
    sys::exit(1)
}

/// From the supervisor to the command's process: execute.
pub(super) const GO: u8 = b'G';

/// Everything `execve` needs, made before the filters are in place.
pub(super) struct Program {
    name: String,
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
}

fn prepare(plan: &Plan, order: &Order, ends: &Ends) -> Result<Program, Failure> {
    let program = program(order)?;
    // No controlling terminal, and a process group that the supervisor can signal.
    rustix::process::setsid().map(drop).step("setsid")?;
    if plan.rung > Rung::R0 {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("parent-death-signal")?;
    }
    sys::dup_onto(ends.output.as_fd(), 1).step("descriptors")?;
    sys::dup_onto(ends.output.as_fd(), 2).step("descriptors")?;
    sys::close_from(3, true).step("descriptors")?;
    sys::reset_signals();
    if plan.rung > Rung::R0 {
        limits(&plan.limits, plan.rung)?;
    }
    if plan.rung >= Rung::R2 {
        rustix::thread::set_no_new_privs(true).step("no-new-privileges")?;
        if let Some(rules) = &plan.landlock {
            restrict(rules)?;
        }
        sys::drop_capabilities().step("capabilities")?;
    }
    // With the command's own rights, so that no folder is entered which it could not enter itself.
    rustix::process::chdir(order.cwd.path()).at("chdir", order.cwd.path())?;
    if plan.brokered {
        let listener = sys::load_filter_with_listener(&plan.seccomp.0).step("seccomp-notify")?;
        // It must not stay here: whoever has it answers.
        wire::try_report(&ends.setup, &Report::Brokered, &[listener.as_fd()]).step("seccomp-notify")?;
    } else if !plan.seccomp.0.is_empty() {
        sys::load_filter(&plan.seccomp.0).step("seccomp")?;
    }
    if plan.rung > Rung::R0
        && let Some(most) = plan.limits.open_files
    {
        // Last: the kernel also takes it for the number of descriptors that may be on their way to others.
        sys::limit(libc::RLIMIT_NOFILE, most).step("limits")?;
    }
    Ok(program)
}

pub(super) fn program(order: &Order) -> Result<Program, Failure> {
    let strings = |all: &[Bytes], what: &str| -> Result<Vec<CString>, Failure> {
        let string =
            |bytes: &Bytes| bytes.c_string().ok_or_else(|| Failure::new(what, libc::EINVAL, "holds a NUL"));
        all.iter().map(string).collect()
    };
    let argv = strings(&order.argv, "argv")?;
    let name = argv.first().map(|name| name.to_string_lossy().into_owned());
    Ok(Program {
        name: name.ok_or_else(|| Failure::new("argv", libc::EINVAL, "is empty"))?,
        candidates: strings(&order.candidates, "argv")?,
        env: strings(&order.env, "env")?,
        argv,
    })
}

/// Tries each place of the search path, as `execvp` does; a script without `#!` is an error, not a shell script.
pub(super) fn execute(program: &Program) -> Failure {
    let mut result = Errno::NOENT;
    for candidate in &program.candidates {
        match sys::exec(candidate, &program.argv, &program.env) {
            Errno::NOENT | Errno::NOTDIR => {}
            // Remembered, as a later folder may hold one that can be executed.
            Errno::ACCESS => result = Errno::ACCESS,
            errno => {
                result = errno;
                break;
            }
        }
    }
    Failure::new("exec", result.raw_os_error(), program.name.as_str())
}

fn limits(limits: &Caps, rung: Rung) -> Result<(), Failure> {
    let set = |resource, value: Option<u64>| match value {
        Some(value) => sys::limit(resource, value).step("limits"),
        None => Ok(()),
    };
    set(libc::RLIMIT_CORE, Some(0))?;
    // The sum over the tree is watched; this bounds what one process can take between two looks. A quarter more, so that
    // the tree is killed and the cap named rather than an allocation refused.
    set(libc::RLIMIT_DATA, limits.memory_bytes.map(|bytes| bytes.saturating_add(bytes / 4)))?;
    if let Some(ms) = limits.cpu_ms {
        sys::limit_cpu(ms.div_ceil(1000)).step("limits")?;
    }
    set(libc::RLIMIT_FSIZE, limits.file_bytes)?;
    if rung >= Rung::R3 {
        // Inside of the user namespace this counts the sandbox alone; outside it would count all of the user's.
        set(libc::RLIMIT_NPROC, limits.processes)?;
    }
    Ok(())
}

/// Applies the Landlock rules. Paths that are absent are skipped: a rule only ever adds rights.
pub(super) fn restrict(plan: &LandlockPlan) -> Result<(), Failure> {
    let mut governed = landlock::known_fs(plan.abi);
    if !plan.govern_reads {
        governed &= !(landlock::READS | landlock::IOCTL_DEV);
    }
    let rules = Ruleset::new(plan.abi, governed, plan.govern_reads).step("landlock")?;
    let write = landlock::READS | landlock::WRITE_FILE | landlock::TRUNCATE | landlock::IOCTL_DEV;
    let files = write | landlock::MAKE_FILE | landlock::REMOVE_FILE | landlock::REFER;
    let groups =
        [(&plan.read, landlock::READS), (&plan.write, write), (&plan.files, files), (&plan.full, u64::MAX)];
    for (paths, rights) in groups {
        for path in paths {
            allow(&rules, path.path(), rights)?;
        }
    }
    if let Some(carve) = &plan.carve {
        let exceptions = Exceptions::of(carve);
        let rights = if carve.writable { u64::MAX } else { landlock::READS };
        carve_out(&rules, carve.root.path(), rights, &exceptions, &mut 0)?;
    }
    rules.restrict().step("landlock")
}

fn allow(rules: &Ruleset, path: &Path, rights: u64) -> Result<(), Failure> {
    match sys::open_path(path) {
        Ok(fd) => {
            let kind = rustix::fs::fstat(&fd).at("landlock", path)?;
            let is_dir = FileType::from_raw_mode(kind.st_mode) == FileType::Directory;
            rules.allow(fd.as_fd(), is_dir, rights).at("landlock", path)
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(()),
        Err(errno) => Err(errno).at("landlock", path),
    }
}

/// Protected and hidden paths, each also by the name it has without symbolic links.
struct Exceptions {
    protected: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
}

impl Exceptions {
    fn of(carve: &Carve) -> Self {
        let both = |paths: &[Bytes]| -> Vec<PathBuf> {
            let named = paths.iter().map(|path| path.path().to_owned());
            named.flat_map(|path| [path.canonicalize().ok(), Some(path)]).flatten().collect()
        };
        Self { protected: both(&carve.protected), hidden: both(&carve.hidden) }
    }

    fn any_in(&self, folder: &Path) -> bool {
        self.protected.iter().chain(&self.hidden).any(|path| path != folder && path.starts_with(folder))
    }

    fn hides_in(&self, folder: &Path) -> bool {
        self.hidden.iter().any(|path| path.starts_with(folder))
    }
}

/// Grants `rights` on every entry below `root` that is not an exception and holds none. A folder that holds one gets
/// no right to change anything itself: Landlock's rights reach downwards without end.
fn carve_out(
    rules: &Ruleset,
    root: &Path,
    rights: u64,
    exceptions: &Exceptions,
    entries: &mut usize,
) -> Result<(), Failure> {
    if exceptions.hidden.iter().any(|hidden| hidden == root) {
        return Ok(());
    }
    let rights = if exceptions.protected.iter().any(|path| path == root) { landlock::READS } else { rights };
    if !exceptions.any_in(root) {
        return allow(rules, root, rights);
    }
    // Names may be listed everywhere; contents may be read where nothing below is hidden.
    allow(rules, root, if exceptions.hides_in(root) { landlock::READ_DIR } else { landlock::READS })?;
    let list = |errno: std::io::Error| {
        Failure::new("landlock", errno.raw_os_error().unwrap_or(libc::EIO), root.to_string_lossy())
    };
    for entry in std::fs::read_dir(root).map_err(list)? {
        let entry = entry.map_err(list)?;
        *entries += 1;
        if *entries > CARVE_LIMIT {
            return Err(Failure::new("landlock", libc::E2BIG, "too many entries beside a protected path"));
        }
        // What a link leads to has rules of its own, or none.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            carve_out(rules, &entry.path(), rights, exceptions, entries)?;
        }
    }
    Ok(())
}
