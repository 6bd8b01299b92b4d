//! What the command's process does to itself between its fork and `execve`, under every rung.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use provost_core::containment::Rung;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::Signal;

use super::ready::{self, Ordered, PrivateTmp};
use super::rules::Rules;
use crate::bytes::Bytes;
use crate::plan::{Order, Plan};
use crate::record::Failure;
use crate::sys::{self, Step};
use crate::wire::{self, Report};

/// The descriptors that the command's process gets.
pub(super) struct Ends {
    pub(super) setup: OwnedFd,
    pub(super) output: OwnedFd,
    /// Becomes standard input and output, where there is one. Errors go to `output` all the same.
    pub(super) channel: Option<OwnedFd>,
}

/// Where there are no namespaces: makes this process ready, waits for the order, and goes on as [`run`].
pub(super) fn run_ordered(plan: &Plan, private: Option<&PrivateTmp>, ends: &mut Ends) -> ! {
    let ordered = become_command(plan, ends)
        .and_then(|ahead| Ok(ready::await_order(&ends.setup)?.map(|order| (ahead, order))));
    match ordered {
        Ok(Some((ahead, Ordered { mut order, channel }))) => {
            ends.channel = channel;
            if let Some(private) = private {
                private.tell(&mut order);
            }
            contained(plan, &order, ends, ahead, None)
        }
        Ok(None) => sys::exit(0),
        Err(failure) => fail(&ends.setup, failure),
    }
}

/// What process 1 made for the command's process.
pub(super) struct View {
    /// Protected paths that could not be pinned whole.
    pub(super) unprotected: Vec<String>,
    /// Where process 1 says that the old root is gone ([`LEFT`]).
    pub(super) left: OwnedFd,
}

/// From process 1 to the command's process: the old root is gone.
pub(super) const LEFT: u8 = b'L';

/// Contains this process, reports readiness, waits to be let go, and executes the command.
pub(super) fn run(plan: &Plan, order: &Order, ends: &Ends, view: &View) -> ! {
    match become_command(plan, ends) {
        Ok(ahead) => contained(plan, order, ends, ahead, Some(view)),
        Err(failure) => fail(&ends.setup, failure),
    }
}

fn contained(plan: &Plan, order: &Order, ends: &Ends, ahead: Ahead<'_>, view: Option<&View>) -> ! {
    let failure = match prepare(plan, order, ends, ahead) {
        Ok(program) => {
            if view.is_some_and(|view| !has_left(&view.left)) {
                // Process 1 says why, and is gone, and this process with it.
                sys::exit(1)
            }
            let unprotected = view.map(|view| view.unprotected.clone()).unwrap_or_default();
            wire::report(&ends.setup, &Report::Ready { unprotected });
            // Anything but the one byte means that the supervisor is gone or does not want it any more.
            match wire::receive(&ends.setup, RecvFlags::empty()) {
                Ok((go, _)) if go == [GO] => execute(&program),
                _ => sys::exit(1),
            }
        }
        Err(failure) => failure,
    };
    fail(&ends.setup, failure)
}

fn fail(setup: &OwnedFd, failure: Failure) -> ! {
    wire::report(setup, &Report::Failed(failure));
    sys::exit(1)
}

/// Waits until process 1 has taken the old root away; false where it has not.
fn has_left(left: &OwnedFd) -> bool {
    let mut said = [0];
    loop {
        match rustix::io::read(left, &mut said) {
            Err(Errno::INTR) => {}
            read => return read == Ok(1) && said == [LEFT],
        }
    }
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

/// What there is of a command's containment before its order.
struct Ahead<'plan> {
    rules: Option<Rules<'plan>>,
    /// Where calls wait that its filter hands over.
    asked: Option<OwnedFd>,
}

/// As far as no order is needed for it.
fn become_command<'plan>(plan: &'plan Plan, ends: &Ends) -> Result<Ahead<'plan>, Failure> {
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
        limits(plan)?;
    }
    if plan.rung >= Rung::R2 {
        rustix::thread::set_no_new_privs(true).step("no-new-privileges")?;
        sys::bound_capabilities();
    }
    let rules = plan.landlock.as_ref().map(Rules::make).transpose()?;
    let mut asked = None;
    if plan.brokered {
        asked = Some(sys::load_filter_with_listener(&plan.seccomp.0).step("seccomp-notify")?);
    } else if !plan.seccomp.0.is_empty() {
        sys::load_filter(&plan.seccomp.0).step("seccomp")?;
    }
    Ok(Ahead { rules, asked })
}

fn prepare(plan: &Plan, order: &Order, ends: &Ends, ahead: Ahead<'_>) -> Result<Program, Failure> {
    let program = program(order)?;
    if plan.rung >= Rung::R2 {
        if let Some(rules) = ahead.rules {
            rules.restrict()?;
        }
        sys::clear_capabilities().step("capabilities")?;
    }
    if let Some(channel) = &ends.channel {
        sys::dup_onto(channel.as_fd(), 0).step("descriptors")?;
        sys::dup_onto(channel.as_fd(), 1).step("descriptors")?;
    }
    // With the command's own rights, so that no folder is entered which it could not enter itself.
    rustix::process::chdir(order.cwd.path()).at("chdir", order.cwd.path())?;
    if let Some(asked) = ahead.asked {
        // It must not stay here: whoever has it answers.
        wire::try_report(&ends.setup, &Report::Brokered, &[asked.as_fd()]).step("seccomp-notify")?;
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

fn limits(plan: &Plan) -> Result<(), Failure> {
    let (limits, rung) = (&plan.limits, plan.rung);
    let set = |resource, value: Option<u64>| match value {
        Some(value) => sys::limit(resource, value).step("limits"),
        None => Ok(()),
    };
    set(libc::RLIMIT_CORE, Some(0))?;
    // What a control group bounds it is to bound alone, so that it can tell of it.
    if plan.groups.is_none() {
        // The sum over the tree is watched; this bounds what one process can take between two looks. A quarter more, so
        // that the tree is killed and the cap named rather than an allocation refused.
        set(libc::RLIMIT_DATA, limits.memory_bytes.map(|bytes| bytes.saturating_add(bytes / 4)))?;
    }
    if let Some(ms) = limits.cpu_ms {
        sys::limit_cpu(ms.div_ceil(1000)).step("limits")?;
    }
    set(libc::RLIMIT_FSIZE, limits.file_bytes)?;
    if rung >= Rung::R3 && plan.groups.is_none() {
        // Inside of the user namespace this counts the sandbox alone; outside it would count all of the user's.
        set(libc::RLIMIT_NPROC, limits.processes)?;
    }
    Ok(())
}
