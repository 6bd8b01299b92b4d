//! Hosts that give less: what a container's filter, AppArmor and a switch of the kernel take away is taken from a copy of
//! this program, which then says what it found. The rung that is left is taken, and the words name cause and remedy.

use std::ffi::OsString;

use provost_core::containment::{Guarantee, Rung, StagedBy, Strength};
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_sandbox::{
    Cancel, Egress, HostDecision, NotRecorded, Probe, Profile, Record, RunError, RungChoice, Sandbox,
    Surroundings, Unavailable, advice,
};
use serde_json::{Value, json};

use crate::support::{Host, probe};

/// Set in the copy: what it takes from itself, and where it may work.
const TAKES: &str = "PROVOST_IT_TAKES";
const WORKS: &str = "PROVOST_IT_WORKS";
/// The line that the copy says what it found in.
const FOUND: &str = "found: ";

/// A container's default filter, as docker has it: no namespaces, no mounts.
const DOCKER: &[(libc::c_long, i32)] = &[
    (libc::SYS_unshare, libc::EPERM),
    (libc::SYS_setns, libc::EPERM),
    (libc::SYS_mount, libc::EPERM),
    (libc::SYS_umount2, libc::EPERM),
    (libc::SYS_pivot_root, libc::EPERM),
    (libc::SYS_open_tree, libc::EPERM),
    (libc::SYS_move_mount, libc::EPERM),
    (libc::SYS_fsopen, libc::EPERM),
    (libc::SYS_fsmount, libc::EPERM),
    (libc::SYS_mount_setattr, libc::EPERM),
    (libc::SYS_keyctl, libc::EPERM),
    (libc::SYS_clone3, libc::ENOSYS),
];
/// As AppArmor has it on Ubuntu: a user namespace, and no rights in it.
const APPARMOR: &[(libc::c_long, i32)] = &[
    (libc::SYS_mount, libc::EACCES),
    (libc::SYS_umount2, libc::EACCES),
    (libc::SYS_pivot_root, libc::EACCES),
    (libc::SYS_open_tree, libc::EACCES),
    (libc::SYS_move_mount, libc::EACCES),
    (libc::SYS_fsmount, libc::EACCES),
    (libc::SYS_mount_setattr, libc::EACCES),
];
/// A kernel without Landlock.
const NO_LANDLOCK: &[(libc::c_long, i32)] = &[
    (libc::SYS_landlock_create_ruleset, libc::ENOSYS),
    (libc::SYS_landlock_add_rule, libc::ENOSYS),
    (libc::SYS_landlock_restrict_self, libc::ENOSYS),
];

/// Refuses these calls to this thread and all that it starts; with `namespaces`, also `clone` that makes any.
fn refuse(calls: &[(libc::c_long, i32)], namespaces: bool) {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, bits, give) = (0x20, 0x15, 0x45, 0x06);
    let mut program = vec![statement(load, 0, 0, 0)];
    for (number, errno) in calls {
        program.push(statement(equal, 0, 1, *number as u32));
        program.push(statement(give, 0, 0, 0x0005_0000 | *errno as u32));
    }
    if namespaces {
        program.push(statement(equal, 0, 4, libc::SYS_clone as u32));
        program.push(statement(load, 0, 0, 16));
        program.push(statement(bits, 0, 1, 0x7E02_0000));
        program.push(statement(give, 0, 0, 0x0005_0000 | libc::EPERM as u32));
        program.push(statement(give, 0, 0, 0x7fff_0000));
    }
    program.push(statement(give, 0, 0, 0x7fff_0000));
    rustix::thread::set_no_new_privs(true).unwrap();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program points at `len` live instructions, which the kernel copies. TSYNC (1): for all threads.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, 1, 1, &raw const filter) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// What a poorer host finds, in a process of its own.
#[test]
fn poorer_process() {
    let Ok(takes) = std::env::var(TAKES) else { return };
    let host = std::path::PathBuf::from(std::env::var_os(WORKS).unwrap());
    // What an earlier process found where nothing was missing.
    let before = Probe::run();
    match takes.as_str() {
        "docker" => refuse(DOCKER, true),
        "apparmor" => refuse(APPARMOR, false),
        "landlock" => refuse(NO_LANDLOCK, false),
        "landlock-and-namespaces" => refuse(&[DOCKER, NO_LANDLOCK].concat(), true),
        _ => {}
    }
    let probe = Probe::run();
    let profile = || Profile::for_workspace(host.join("ws")).unwrap();
    let command = |name: &str| {
        let record_dir = host.join("records").join(name);
        std::fs::create_dir(&record_dir).unwrap();
        provost_sandbox::Command {
            argv: ["sh", "-c", "echo x > made && ! echo x > ../outside/made"].map(OsString::from).to_vec(),
            cwd: host.join("ws"),
            env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
            wall: std::time::Duration::from_secs(20),
            keep_head: 1000,
            keep_tail: 1000,
            record_dir,
            program: None,
            egress: None,
            reaches: Vec::new(),
        }
    };
    let run = |sandbox: &Sandbox, name: &str| match sandbox.run(&command(name), &Cancel::new().unwrap()) {
        Ok(record) => json!({ "ended": record.ended }),
        Err(RunError::NotStarted(failure)) => json!({ "not_started": failure.step, "errno": failure.errno }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    let strongest = Sandbox::new(&probe, profile(), RungChoice::Strongest { at_least: Rung::R0 }).unwrap();
    let taken = run(&strongest, "strongest");
    // A sandbox that was promised by a probe of better days.
    let stale = Sandbox::new(&before, profile(), RungChoice::Exactly(before.strongest)).unwrap();
    let stale = run(&stale, "stale");
    // The host's own sockets, and a network of one of them, as far as what is left can tell them apart.
    let dialled = strongest.receipt().can_dial().then(|| dial(&strongest, command("dial")));
    let refused = match Sandbox::new(&probe, profile(), RungChoice::Strongest { at_least: Rung::R3 }) {
        Err(error @ Unavailable::Rung { .. }) => error.to_string(),
        other => format!("{other:?}"),
    };
    let found = json!({
        "strongest": format!("{:?}", probe.strongest),
        "facts": probe.facts,
        "taken": taken,
        "stale": stale,
        "dialled": dialled,
        "refused": refused,
        "advice": advice(&probe, &Surroundings::look(), "/usr/bin/provost"),
        "receipt": strongest.receipt().guarantees,
    });
    println!("{FOUND}{found}");
}

struct Unrecorded;

impl Record for Unrecorded {
    fn record(&self, _: HostDecision) -> Result<(), NotRecorded> {
        Ok(())
    }
}

/// What a command says that may dial one of two ports, and connects to a socket in its workspace and one outside.
fn dial(sandbox: &Sandbox, mut command: provost_sandbox::Command) -> String {
    let serve = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::io::Write::write_all(&mut stream.unwrap(), b"welcome").unwrap();
            }
        });
        address
    };
    let (may, may_not) = (serve(), serve());
    let (inside, outside) = (command.cwd.join("sock"), command.cwd.join("../outside/docker.sock"));
    let _sockets = [&inside, &outside].map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
    let script = format!(
        "import socket\n\
        def said(address, family=socket.AF_INET):\n    \
            try: s = socket.socket(family); s.connect(address); return s.recv(7) if family == socket.AF_INET else 'joined'\n    \
            except OSError as e: return type(e).__name__\n\
        print(said(('127.0.0.1', {})), said(('127.0.0.1', {})), said('{}', socket.AF_UNIX), said('{}', socket.AF_UNIX))",
        may.port(),
        may_not.port(),
        inside.display(),
        outside.display()
    );
    command.argv = ["/usr/bin/python3", "-c", &script].map(OsString::from).to_vec();
    let layer = Layer::named("hosts").rule(Effect::Allow, &format!("net {may}")).unwrap();
    let policy = Policy::preset(Preset::Workspace).with(layer);
    command.egress = Some(Egress::new(policy.into(), std::sync::Arc::new(Unrecorded)));
    let record = sandbox.run(&command, &Cancel::new().unwrap()).unwrap();
    String::from_utf8_lossy(&record.output.head).trim().to_owned()
}

/// Runs the copy; `wrap` comes before it on the command line.
#[track_caller]
fn poorer(host: &Host, takes: &str, wrap: &[&str]) -> Value {
    let exe = std::env::current_exe().unwrap();
    let mut words: Vec<OsString> = wrap.iter().map(OsString::from).collect();
    words.push(exe.into());
    words.extend(["--exact", "hosts::poorer_process", "--nocapture"].map(OsString::from));
    let output = std::process::Command::new(&words[0])
        .args(&words[1..])
        .env(TAKES, takes)
        .env(WORKS, host.dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once(FOUND)).map(|(_, found)| found.to_owned());
    let line = line.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&line).unwrap()
}

/// The rung that is left is taken, commands run in it, and what is wrong is told with what to do.
#[track_caller]
fn falls_to(host: &Host, found: &Value, rung: &str, cause: &str, mend: &str) {
    assert_eq!(found["strongest"], rung, "{found:#}");
    assert_eq!(found["taken"]["ended"]["value"], 0, "{found:#}");
    assert!(host.ws().join("made").exists() && !host.outside().join("made").exists());
    assert!(found["refused"].as_str().unwrap().contains("R3"), "{found:#}");
    let advice = found["advice"].as_array().unwrap();
    let told = advice.iter().find(|one| one["cause"].as_str().unwrap().contains(cause));
    let told = told.unwrap_or_else(|| panic!("{advice:#?}"));
    assert!(told["mend"].to_string().contains(mend), "{told:#}");
}

#[test]
fn f02_in_a_container_without_namespaces_the_next_rung_is_taken() {
    let host = Host::new();
    let found = poorer(&host, "docker", &[]);
    falls_to(&host, &found, "R2", "a filter of system calls is on this process", "--security-opt seccomp=");
    assert!(found["refused"].as_str().unwrap().contains("user-namespace: clone: Operation not permitted"));
    assert_eq!(found["receipt"]["fs-write"], "enforced");
    assert_eq!(found["receipt"]["kill-tree"], "sampled");
    // The broker needs nothing that such a filter refuses.
    assert_eq!(found["receipt"]["unix-sockets"], "enforced");
    assert_eq!(found["dialled"], "b'welcome' PermissionError joined PermissionError");
}

#[test]
fn f01_where_user_namespaces_have_no_rights_the_next_rung_is_taken() {
    let host = Host::new();
    let found = poorer(&host, "apparmor", &[]);
    // The filter stands for AppArmor here; with its switch on, AppArmor is named (`cache.rs`).
    falls_to(&host, &found, "R2", "a filter of system calls is on this process", "podman");
    let facts = found["facts"].as_array().unwrap();
    let of = |name: &str| facts.iter().find(|fact| fact["name"] == name).unwrap();
    assert_eq!(of("user-namespace")["holds"], true);
    assert_eq!(of("view")["holds"], false);
    assert!(of("view")["detail"].as_str().unwrap().contains("Permission denied"), "{found:#}");
}

/// A set-up that fails is a step with its error and never an exit status: the command has not run.
#[test]
fn f03_a_sandbox_that_cannot_be_set_up_is_no_exit_status() {
    for (takes, step, errno) in
        [("docker", "user-namespace", libc::EPERM), ("apparmor", "mount-private", libc::EACCES)]
    {
        let host = Host::new();
        let found = poorer(&host, takes, &[]);
        assert_eq!(found["stale"], json!({ "not_started": step, "errno": errno }), "{takes}: {found:#}");
    }
}

#[test]
fn where_no_more_user_namespaces_are_allowed_the_switch_is_named() {
    let host = Host::new();
    let none = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" \"$@\"";
    let found = poorer(&host, "nothing", &["unshare", "--user", "--map-root-user", "sh", "-c", none]);
    falls_to(&host, &found, "R2", "user.max_user_namespaces", "sysctl -w user.max_user_namespaces=15000");
    assert!(found["refused"].as_str().unwrap().contains("No space left"), "{found:#}");
}

/// As podman and docker cover parts of `/proc`: the kernel then gives no new one.
#[test]
fn where_proc_is_covered_in_part_the_container_is_named() {
    let host = Host::new();
    let cover = "mount -t tmpfs none /proc/sys/fs && exec \"$0\" \"$@\"";
    let wrap = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", cover];
    let found = poorer(&host, "nothing", &wrap);
    falls_to(&host, &found, "R2", "the kernel gives no new one", "systempaths=unconfined");
}

/// Namespaces alone are R3 still; what they alone cannot give is not claimed.
#[test]
fn a_kernel_without_landlock_has_namespaces() {
    let host = Host::new();
    let found = poorer(&host, "landlock", &[]);
    assert_eq!(found["strongest"], "R3", "{found:#}");
    assert_eq!(found["taken"]["ended"]["value"], 0, "{found:#}");
    assert_eq!(found["receipt"]["fs-write"], "enforced");
}

#[test]
fn a_host_with_neither_contains_nothing_and_says_so() {
    let host = Host::new();
    let found = poorer(&host, "landlock-and-namespaces", &[]);
    assert_eq!(found["strongest"], "R1", "{found:#}");
    assert_eq!(found["receipt"]["fs-write"], "absent");
    assert!(found["advice"].to_string().contains("the kernel has no Landlock"), "{found:#}");
}

/// What is missing is missing by name: the same profile under a weaker rung says what it does not hold.
#[test]
fn a_weaker_rung_claims_less() {
    let (r3, r2) = (probe().receipt(Rung::R3), probe().receipt(Rung::R2));
    let lost: Vec<_> = Guarantee::ALL
        .into_iter()
        .filter(|guarantee| r3.enforces(*guarantee) && !r2.enforces(*guarantee))
        .map(Guarantee::name)
        .collect();
    let with_processes =
        ["kill-tree", "processes", "ipc", "git-commit", "cap-processes", "cap-tmp", "cap-disk"];
    assert_eq!((r3.staged, r2.staged), (Some(StagedBy::Overlay), Some(StagedBy::Copy)));
    let is_root = rustix::process::getuid().is_root();
    let expected: Vec<_> =
        with_processes.into_iter().filter(|name| !is_root || *name != "cap-processes").collect();
    assert_eq!(lost, expected);
    assert_eq!(r2.guarantees[&Guarantee::KillTree], Strength::Sampled);
}
