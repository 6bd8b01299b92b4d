//! The probe's checks. Each is performed in a process of its own, against a scratch folder, by the code that
//! contains commands, and has 500 ms.

mod broker;
mod group;
mod layer;

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::digest::Digest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};

use super::rules::Rules;
use super::{kill, mounts, pid1, read_proc};
use crate::bytes::Bytes;
use crate::plan::{Carve, LandlockPlan};
use crate::probe::{Fact, fact};
use crate::profile::{ImageRoot, Profile};
use crate::seccomp::Sockets;
use crate::sys::{self, Side};
use crate::system::{self, SYSTEM};
use crate::view::{self, View};
use crate::wire::{self, Report};
use crate::{landlock, seccomp};

const LIMIT: Duration = Duration::from_millis(500);

/// What was seen, or what was wrong.
type Seen = Result<String, String>;
type Check<'probe> = &'probe dyn Fn() -> Seen;

/// Performs every check and reports each; returns the helper's exit status.
pub(super) fn perform(control: BorrowedFd<'_>) -> i32 {
    let say = |name: &str, seen: Seen| {
        let holds = seen.is_ok();
        let detail = seen.unwrap_or_else(|wrong| wrong);
        wire::report(control, &Report::Fact(Fact { name: name.to_owned(), holds, detail }));
    };
    say(fact::SUPERVISOR, Ok("answers".to_owned()));
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            say(fact::VIEW, Err(format!("no scratch folder in /tmp: {error}")));
            return 1;
        }
    };
    let host = Host::new();
    let silent = look_for_system();
    let view = scratch.view();
    let all = pid1::NAMESPACES;
    // Taken here: in a new user namespace nobody has an id before its map is written.
    let ids = sys::ids();
    let in_view = |check: &dyn Fn() -> Seen| -> Seen {
        let view = view.as_ref().map_err(Clone::clone)?;
        let built =
            pid1::enter(view, ids).and_then(|()| pid1::build(view, ids)).and_then(|_| mounts::leave());
        built.map_err(|failure| failure.to_string())?;
        check()
    };
    let in_image = |check: &dyn Fn() -> Seen| -> Seen {
        let view = scratch.image_view()?;
        let built =
            pid1::enter(&view, ids).and_then(|()| pid1::build(&view, ids)).and_then(|_| mounts::leave());
        built.map_err(|failure| failure.to_string())?;
        check()
    };
    let checks: [(&str, libc::c_int, Check<'_>); 20] = [
        (fact::SUBREAPER, 0, &subreaper),
        (fact::NO_NEW_PRIVILEGES, 0, &no_new_privileges),
        (fact::SECCOMP, 0, &|| filter(Sockets::Namespace)),
        (fact::SECCOMP_NO_INET, 0, &|| filter(Sockets::UnixOnly)),
        (fact::LANDLOCK_WRITE, 0, &|| scratch.landlock_write()),
        (fact::LANDLOCK_READ, 0, &|| scratch.landlock_read()),
        (fact::LANDLOCK_SIBLINGS, 0, &|| scratch.landlock_siblings()),
        (fact::USER_NAMESPACE, libc::CLONE_NEWUSER, &|| user_namespace(ids)),
        (fact::VIEW, all, &|| in_view(&|| scratch.only_listed(&silent))),
        (fact::READ_ONLY, all, &|| in_view(&|| scratch.read_only())),
        (fact::PIN, all, &|| in_view(&|| scratch.pinned())),
        (fact::PROC, all, &|| in_view(&own_proc)),
        (fact::NET, all, &|| in_view(&|| host.unreachable())),
        (fact::IPC, all, &|| in_view(&|| host.no_segment())),
        (fact::OVERLAY, all | libc::CLONE_NEWNS, &|| layer::overlay(&scratch.path, ids)),
        (fact::FILE_SIZE, 0, &|| scratch.file_size()),
        (fact::OPEN_FILES, 0, &open_files),
        (fact::IMAGE, all, &|| in_image(&|| scratch.image_only())),
        (fact::PROCESSES, libc::CLONE_NEWUSER, &|| processes(ids)),
        (fact::CONTROL_GROUP, 0, &group::control_group),
    ];
    for (name, namespaces, check) in checks {
        say(name, in_child(namespaces, check));
    }
    say(fact::PID_NAMESPACE, pid_namespace());
    say(fact::BROKER, broker::broker(&scratch));
    0
}

/// Performs the one check of an overlay over this folder, and reports it; returns the helper's exit status.
pub(super) fn perform_overlay(control: BorrowedFd<'_>, folder: &Path) -> i32 {
    let ids = sys::ids();
    let seen = in_child(pid1::NAMESPACES | libc::CLONE_NEWNS, &|| layer::overlay(folder, ids));
    let (holds, detail) = (seen.is_ok(), seen.unwrap_or_else(|wrong| wrong));
    wire::report(control, &Report::Fact(Fact { name: fact::OVERLAY.to_owned(), holds, detail }));
    0
}

/// Looks for the system's folders in processes of their own, for all that is done here; gives those that do not answer.
fn look_for_system() -> Vec<&'static str> {
    let is_there = |path: &str| Path::new(path).exists();
    // All in one, as mostly each answers.
    let all = in_child(0, &|| Ok(SYSTEM.iter().filter(|path| is_there(path)).count().to_string()));
    let mut silent = Vec::new();
    if all.is_err() {
        let hangs = |path: &&str| in_child(0, &|| Ok(is_there(path).to_string())).is_err();
        silent.extend(SYSTEM.into_iter().filter(hangs));
    }
    let answers = SYSTEM.iter().filter(|path| !silent.contains(path));
    system::know(answers.filter(|path| is_there(path)).map(PathBuf::from).collect());
    silent
}

/// Runs a check in a forked process and waits for its answer, at most [`LIMIT`].
fn in_child(namespaces: libc::c_int, check: Check<'_>) -> Seen {
    let (ours, theirs) = wire::pair().map_err(text)?;
    match sys::fork(namespaces).map_err(|errno| format!("clone: {errno}"))? {
        Side::Child => {
            drop(ours);
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check))
                .unwrap_or(Err("panic".to_owned()));
            let (holds, detail) = (seen.is_ok(), seen.unwrap_or_else(|wrong| wrong));
            wire::report(&theirs, &Report::Fact(Fact { name: String::new(), holds, detail }));
            sys::exit(0)
        }
        Side::Parent(pid) => {
            drop(theirs);
            let answered = readable(&ours, LIMIT);
            let answer = if answered { wire::next(&ours) } else { None };
            let _ = sys::kill(pid, libc::SIGKILL);
            collect(pid);
            match answer {
                Some(Report::Fact(Fact { holds: true, detail, .. })) => Ok(detail),
                Some(Report::Fact(Fact { detail, .. })) => Err(detail),
                _ if answered => Err("its process died".to_owned()),
                _ => Err("no answer in 500 ms".to_owned()),
            }
        }
    }
}

/// Collects a killed child; one that hangs in the kernel is left to `init`.
fn collect(pid: libc::pid_t) {
    let deadline = Instant::now() + LIMIT;
    while matches!(sys::reap(pid, false), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn readable(fd: &OwnedFd, limit: Duration) -> bool {
    let timeout = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A refusal was wanted.
fn refused<T>(what: &str, result: Result<T, std::io::Error>, wanted: &[Errno]) -> Result<(), String> {
    match result {
        Ok(_) => Err(format!("{what} was not refused")),
        Err(error) if wanted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) => Ok(()),
        Err(error) => Err(format!("{what}: unexpected {error}")),
    }
}

/// Something was to work.
fn works<T>(what: &str, result: Result<T, std::io::Error>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Leaves a process that has its own session and an orphan's parent, holding `pipe`'s writing end.
fn leave_daemon() -> Result<OwnedFd, String> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(text)?;
    if let Side::Parent(pid) = sys::fork(0).map_err(text)? {
        drop(write);
        let _ = sys::reap(pid, true);
        return Ok(read);
    }
    let _ = rustix::process::setsid();
    if let Ok(Side::Child) = sys::fork(0) {
        // Longer than any probe; it is killed, or its kill did not work and it ends by itself.
        std::thread::sleep(Duration::from_secs(5));
    }
    drop(write);
    sys::exit(0)
}

fn subreaper() -> Seen {
    sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map_err(text)?;
    let held = leave_daemon()?;
    let left = kill::tree(Instant::now() + Duration::from_millis(300));
    if left > 0 || !readable(&held, Duration::from_millis(100)) {
        return Err(format!("{left} left alive"));
    }
    Ok("a process with a session of its own was killed".to_owned())
}

/// Kills process 1 of a pid namespace and watches a daemon in it die.
fn pid_namespace() -> Seen {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(text)?;
    match sys::fork(libc::CLONE_NEWUSER | libc::CLONE_NEWPID).map_err(|errno| format!("clone: {errno}"))? {
        Side::Child => {
            // The daemon inherits `write`; one byte says that it is there.
            let left = leave_daemon();
            if std::process::id() == 1 && left.is_ok() {
                let _ = rustix::io::write(&write, b"d");
            }
            std::thread::sleep(LIMIT);
            sys::exit(0)
        }
        Side::Parent(pid) => {
            drop(write);
            let there = readable(&read, LIMIT) && rustix::io::read(&read, &mut [0u8; 1]) == Ok(1);
            let began = Instant::now();
            let _ = sys::kill(pid, libc::SIGKILL);
            let gone = there && readable(&read, LIMIT) && rustix::io::read(&read, &mut [0u8; 1]) == Ok(0);
            let took = began.elapsed();
            collect(pid);
            match (there, gone) {
                (false, _) => Err("no process 1 with a daemon below it".to_owned()),
                (_, false) => Err("a daemon outlived process 1".to_owned()),
                _ => Ok(format!("all gone after {} us", took.as_micros())),
            }
        }
    }
}

fn no_new_privileges() -> Seen {
    rustix::thread::set_no_new_privs(true).map_err(text)?;
    sys::drop_capabilities().map_err(text)?;
    let status = read_proc("/proc/self/status").ok_or("no /proc/self/status")?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match (field("NoNewPrivs:"), field("CapEff:"), field("CapPrm:")) {
        (Some("1"), Some("0000000000000000"), Some("0000000000000000")) => {
            Ok("set; no capability is left".to_owned())
        }
        other => Err(format!("{other:?}")),
    }
}

fn filter(sockets: Sockets) -> Seen {
    rustix::thread::set_no_new_privs(true).map_err(text)?;
    let file = rustix::fs::memfd_create("probe", rustix::fs::MemfdFlags::CLOEXEC).map_err(text)?;
    sys::load_filter(&seccomp::program(sockets)).map_err(text)?;
    let open = |family| socket(family, SocketType::STREAM, None).map_err(std::io::Error::from);
    works("a unix socket", open(AddressFamily::UNIX))?;
    if sockets == Sockets::Namespace {
        works("an internet socket", open(AddressFamily::INET))?;
    } else {
        refused("an internet socket", open(AddressFamily::INET), &[Errno::ACCESS])?;
        refused("an IPv6 socket", open(AddressFamily::INET6), &[Errno::ACCESS])?;
    }
    refused("a vsock socket", open(AddressFamily::from_raw(libc::AF_VSOCK as u16)), &[Errno::AFNOSUPPORT])?;
    let set = rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o4755));
    refused("a setuid bit", set.map_err(Into::into), &[Errno::PERM])?;
    refused("a user namespace", sys::unshare(libc::CLONE_NEWUSER).map_err(Into::into), &[Errno::PERM])?;
    Ok("refuses what it should".to_owned())
}

fn user_namespace(ids: (u32, u32)) -> Seen {
    pid1::map_ids(ids, ids).map_err(text)?;
    if sys::ids() != ids {
        return Err(format!("ids became {:?}", sys::ids()));
    }
    let status = read_proc("/proc/self/status").ok_or("no /proc/self/status")?;
    if status.lines().any(|line| line == "CapEff:\t0000000000000000") {
        return Err("it gives no capabilities".to_owned());
    }
    Ok("own ids and capabilities".to_owned())
}

fn open_files() -> Seen {
    sys::limit(libc::RLIMIT_NOFILE, 0).map_err(text)?;
    refused("a descriptor", fs::File::open("/dev/null"), &[Errno::MFILE])?;
    Ok("no more than allowed".to_owned())
}

fn processes(ids: (u32, u32)) -> Seen {
    pid1::map_ids(ids, ids).map_err(text)?;
    sys::drop_capabilities().map_err(text)?;
    sys::limit(libc::RLIMIT_NPROC, 1).map_err(text)?;
    match sys::fork(0) {
        Ok(Side::Child) => sys::exit(0),
        Ok(Side::Parent(pid)) => {
            collect(pid);
            Err("one more was not refused; the kernel exempts uid 0".to_owned())
        }
        Err(Errno::AGAIN) => Ok("one more is refused".to_owned()),
        Err(errno) => Err(text(errno)),
    }
}

fn own_proc() -> Seen {
    let entries = works("/proc", fs::read_dir("/proc"))?;
    let numbers = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    match numbers.count() {
        1 => Ok("shows this process only".to_owned()),
        count => Err(format!("shows {count} processes")),
    }
}

/// Folders for the checks: `in` is a workspace with `a/`, `.git/` and `file`; `out` holds `secret`; `image` is a root.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let mut random = [0u8; 8];
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        let scratch = Self { path: format!("/tmp/provost-probe-{:016x}", u64::from_ne_bytes(random)).into() };
        rustix::fs::mkdir(&scratch.path, rustix::fs::Mode::from_raw_mode(0o700))?;
        for folder in ["in", "in/a", "in/.git", "out", "image", "image/etc"] {
            fs::create_dir(scratch.path.join(folder))?;
        }
        for file in ["in/file", "in/.git/config", "out/secret", "image/etc/of-the-image"] {
            fs::write(scratch.path.join(file), "x")?;
        }
        Ok(scratch)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    fn view(&self) -> Result<View, String> {
        let mut profile = Profile::for_workspace(self.at("in")).map_err(text)?;
        profile.protected = vec![self.at("in/.git")];
        profile.limits.tmp_bytes = Some(1 << 20);
        Ok(view::view(&profile, &self.at("in")))
    }

    /// `image` as the root.
    fn image_view(&self) -> Result<View, String> {
        let mut profile = Profile::for_workspace(self.at("in")).map_err(text)?;
        profile.limits.tmp_bytes = Some(1 << 20);
        profile.image = Some(ImageRoot { folder: self.at("image"), digest: Digest::ZERO, by: None });
        Ok(view::view(&profile, &self.at("in")))
    }

    fn image_only(&self) -> Seen {
        works("the workspace", fs::read(self.at("in/file")))?;
        works("a file of the image", fs::read("/etc/of-the-image"))?;
        works("/tmp", fs::write("/tmp/new", "x"))?;
        refused("a file of the host", fs::symlink_metadata("/etc/passwd"), &[Errno::NOENT])?;
        refused("a write to the image", fs::write("/etc/of-the-image", "y"), &[Errno::ROFS])?;
        Ok("an image's files are the root".to_owned())
    }

    fn restrict(&self, plan: LandlockPlan) -> Result<(), String> {
        rustix::thread::set_no_new_privs(true).map_err(text)?;
        works("a write before", fs::write(self.at("out/before"), "x"))?;
        works("a read before", fs::read(self.at("out/secret")))?;
        Rules::make(&plan).and_then(Rules::restrict).map_err(text)
    }

    fn plan(&self, govern_reads: bool) -> Result<LandlockPlan, String> {
        let abi = landlock::abi().ok_or("the kernel has no Landlock")?;
        let full = vec![Bytes::from(self.at("in"))];
        Ok(LandlockPlan {
            abi,
            govern_reads,
            read: Vec::new(),
            full,
            write: Vec::new(),
            files: Vec::new(),
            carve: None,
        })
    }

    fn file_size(&self) -> Seen {
        sys::limit(libc::RLIMIT_FSIZE, 100).map_err(text)?;
        sys::ignore_file_size();
        works("a small file", fs::write(self.at("in/small"), [0; 100]))?;
        refused("a larger file", fs::write(self.at("in/large"), [0; 101]), &[Errno::FBIG])?;
        Ok("no larger than allowed".to_owned())
    }

    fn landlock_write(&self) -> Seen {
        self.restrict(self.plan(false)?)?;
        works("a write inside", fs::write(self.at("in/new"), "x"))?;
        refused("a new file outside", fs::write(self.at("out/new"), "x"), &[Errno::ACCESS])?;
        refused("a write outside", fs::write(self.at("out/secret"), "y"), &[Errno::ACCESS])?;
        refused("a removal outside", fs::remove_file(self.at("out/secret")), &[Errno::ACCESS])?;
        Ok("writes outside are refused".to_owned())
    }

    fn landlock_read(&self) -> Seen {
        self.restrict(self.plan(true)?)?;
        works("a read inside", fs::read(self.at("in/file")))?;
        refused("a read outside", fs::read(self.at("out/secret")), &[Errno::ACCESS])?;
        refused("a listing outside", fs::read_dir(self.at("out")), &[Errno::ACCESS])?;
        Ok("reads outside are refused".to_owned())
    }

    fn landlock_siblings(&self) -> Seen {
        let mut plan = self.plan(true)?;
        plan.full.clear();
        let protected = vec![Bytes::from(self.at("in/.git"))];
        plan.carve =
            Some(Carve { root: self.at("in").into(), writable: true, protected, hidden: Vec::new() });
        self.restrict(plan)?;
        works("a write beside", fs::write(self.at("in/a/new"), "x"))?;
        works("a read of it", fs::read(self.at("in/.git/config")))?;
        refused("a change of it", fs::write(self.at("in/.git/config"), "y"), &[Errno::ACCESS])?;
        refused("a new file in it", fs::write(self.at("in/.git/hook"), "y"), &[Errno::ACCESS])?;
        refused("a rename of it", fs::rename(self.at("in/.git"), self.at("in/moved")), &[Errno::ACCESS])?;
        let linked = fs::hard_link(self.at("in/.git/config"), self.at("in/a/link"));
        refused("a hard link to it", linked, &[Errno::ACCESS, Errno::XDEV])?;
        Ok("a protected folder beside writable ones stays".to_owned())
    }

    fn only_listed(&self, silent: &[&str]) -> Seen {
        works("the workspace", fs::read(self.at("in/file")))?;
        works("/etc/passwd", fs::read("/etc/passwd"))?;
        works("/tmp", fs::write("/tmp/new", "x"))?;
        for path in [
            self.at("out"),
            PathBuf::from("/run/user"),
            PathBuf::from("/sys/kernel"),
            PathBuf::from("/dev/mem"),
        ] {
            refused("an unlisted path", fs::symlink_metadata(path), &[Errno::NOENT])?;
        }
        Ok(match silent {
            [] => "only listed paths exist".to_owned(),
            silent => {
                format!("only listed paths exist; left out, as they do not answer: {}", silent.join(", "))
            }
        })
    }

    fn read_only(&self) -> Seen {
        works("a write in the workspace", fs::write(self.at("in/written"), "x"))?;
        for path in ["/new", "/usr/new", "/etc/new", "/dev/new", "/run/new"] {
            refused(path, fs::write(path, "x"), &[Errno::ROFS])?;
        }
        Ok("writes elsewhere are refused with EROFS".to_owned())
    }

    fn pinned(&self) -> Seen {
        works("a read of it", fs::read(self.at("in/.git/config")))?;
        refused("a change of it", fs::write(self.at("in/.git/config"), "y"), &[Errno::ROFS])?;
        refused("a rename of it", fs::rename(self.at("in/.git"), self.at("in/moved")), &[Errno::BUSY])?;
        Ok("a protected folder can be neither changed nor moved".to_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Things of the host that a namespace must hide.
struct Host {
    tcp: Option<TcpListener>,
    name: String,
    _unix: Option<UnixListener>,
    segment: Result<i32, Errno>,
}

impl Host {
    fn new() -> Self {
        let name = format!("provost-probe-{}", std::process::id());
        let unix =
            SocketAddr::from_abstract_name(&name).and_then(|address| UnixListener::bind_addr(&address));
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").ok(),
            name,
            _unix: unix.ok(),
            segment: sys::shared_segment(),
        }
    }

    fn unreachable(&self) -> Seen {
        let tcp = self.tcp.as_ref().ok_or("no listener on the host's loopback to try")?;
        let address = works("its address", tcp.local_addr())?;
        refused("the host's loopback", TcpStream::connect(address), &[Errno::CONNREFUSED])?;
        let name = works("an abstract name", SocketAddr::from_abstract_name(&self.name))?;
        refused("the host's abstract socket", UnixStream::connect_addr(&name), &[Errno::CONNREFUSED])?;
        match TcpStream::connect_timeout(&([192, 0, 2, 1], 9).into(), Duration::from_millis(100)) {
            Err(error) if error.kind() == ErrorKind::NetworkUnreachable => {}
            other => return Err(format!("an outside address: {other:?}")),
        }
        let own = works("a loopback listener", TcpListener::bind("127.0.0.1:0"))?;
        works("its own loopback", TcpStream::connect(works("its address", own.local_addr())?))?;
        Ok("only its own loopback answers".to_owned())
    }

    fn no_segment(&self) -> Seen {
        let segment = self.segment.map_err(|errno| format!("no segment on the host to try: {errno}"))?;
        refused(
            "the host's segment",
            sys::attach_segment(segment).map_err(Into::into),
            &[Errno::INVAL, Errno::IDRM],
        )?;
        Ok("the host's segments are not there".to_owned())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Ok(segment) = self.segment {
            sys::remove_segment(segment);
        }
    }
}
