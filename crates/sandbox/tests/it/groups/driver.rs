//! What a driver sees of its commands where they have control groups. Each bound has a control without it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use provost_core::caps::{Cap, CapHit, Caps};
use provost_core::containment::{Guarantee, Rung, Strength};
use provost_sandbox::{Ended, Probe, Recovered, recover};

use crate::support::{Host, Ran, eventually, probe, sandbox};

/// Where groups are mounted.
pub(super) const CGROUPS: &str = "/sys/fs/cgroup";
/// The folder that the driver's groups are made in.
pub(super) const DRIVER: &str = "PROVOST_IT_GROUPS";
pub(super) const TEST: &str = "groups::driver::drives";
/// What a command is to take.
const TAKES: &str = "PROVOST_IT_TAKES";
/// Where a driver is killed.
const SHORT: &str = "PROVOST_IT_SHORT";

const RUNGS: [Rung; 2] = [Rung::R3, Rung::R2];
const MEMORY: Caps = Caps { memory_bytes: Some(96 << 20), ..Caps::none() };

fn home() -> Option<PathBuf> {
    std::env::var_os(DRIVER).map(PathBuf::from)
}

/// The names of the groups that there are.
fn groups(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("provost-")).collect()
}

#[test]
fn drives() {
    let Some(home) = home() else { return };
    let began = Instant::now();
    let step = |what: &str| println!("{what}: {} ms", began.elapsed().as_millis());
    is_seen(&home);
    step("seen");
    memory_is_bounded_for_the_tree();
    step("memory");
    files_in_memory_count();
    step("files in memory");
    processes_are_refused();
    step("processes");
    time_is_the_sum_of_the_tree();
    step("time");
    eventually("no group", || groups(&home).is_empty());
    a_killed_supervisor_leaves_nothing_for_long(&home);
    step("a killed supervisor");
    a_killed_driver_leaves_nothing(&home);
    step("a killed driver");
}

fn is_seen(home: &Path) {
    let seen = probe().facts.iter().find(|fact| fact.name == "control-group").unwrap();
    let said = format!("bounds and ends a tree, in `{}`", home.display());
    assert_eq!((seen.holds, seen.detail.as_str()), (true, said.as_str()), "{:#?}", probe());
    assert_eq!(probe().strongest, Rung::R3, "{:#?}", probe());
    assert!(groups(home).is_empty(), "{:?}", groups(home));
    let host = Host::new();
    let caps = Caps { processes: Some(100), cpu_ms: Some(60_000), ..MEMORY };
    for (rung, strength) in
        [(Rung::R3, Strength::Enforced), (Rung::R2, Strength::Enforced), (Rung::R1, Strength::Sampled)]
    {
        let mut profile = host.profile();
        profile.limits = caps;
        let receipt = sandbox(rung, profile).receipt().clone();
        let held = |guarantee| receipt.guarantees.get(&guarantee).copied();
        assert_eq!(held(Guarantee::CapMemory), Some(strength), "{rung}");
        assert_eq!(held(Guarantee::CapProcesses), Some(strength), "{rung}");
        assert_eq!(held(Guarantee::CapCpu), Some(Strength::Sampled), "{rung}");
    }
}

/// This user may make groups nowhere, and is told.
pub(super) fn refuses_without_a_folder_of_its_own(user: u32) {
    let output = Command::new("/it")
        .args(["--nocapture", "--exact", "groups::driver::tells_what_is_missing"])
        .env(DRIVER, "nowhere")
        .uid(user)
        .gid(user)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn tells_what_is_missing() {
    if home().is_none_or(|home| home != Path::new("nowhere")) {
        return;
    }
    let probe = Probe::run();
    let seen = probe.facts.iter().find(|fact| fact.name == "control-group").unwrap();
    let said = "no group from `/sys/fs/cgroup` upwards is this user's to make groups in";
    assert_eq!((seen.holds, seen.detail.as_str()), (false, said));
    assert!(probe.receipt(Rung::R2).guarantees[&Guarantee::CapMemory] == Strength::Sampled);
}

/// A command that is this program, and takes something.
fn takes(rung: Rung, caps: Caps, what: &str) -> Ran {
    let host = Host::new();
    let mut profile = host.profile();
    profile.limits = caps;
    profile.readable.push("/it".into());
    let ran = host.run_with(rung, profile, &command(&host, what));
    assert_eq!(ran.record.survivors, 0, "{rung}");
    ran
}

fn command(host: &Host, what: &str) -> provost_sandbox::Command {
    let mut command =
        host.command(&["/it", "--nocapture", "--test-threads", "1", "--exact", "groups::driver::taker"]);
    command.env.insert(TAKES.into(), what.into());
    command
}

#[track_caller]
fn is_capped(rung: Rung, ran: &Ran, cap: Cap, limit: u64) -> CapHit {
    let Ended::Capped(hit) = ran.record.ended else { panic!("{rung}: {:?}: {}", ran.record.ended, ran.text) };
    assert!(hit.cap == cap && hit.limit == limit && hit.reached >= limit, "{rung}: {hit}");
    hit
}

fn memory_is_bounded_for_the_tree() {
    for rung in RUNGS {
        is_capped(rung, &takes(rung, MEMORY, "three times 40 MiB"), Cap::Memory, 96 << 20);
        takes(rung, Caps::none(), "three times 40 MiB").assert_ok();
        takes(rung, MEMORY, "40 MiB").assert_ok();
    }
}

/// No look at processes would find these.
fn files_in_memory_count() {
    is_capped(Rung::R3, &takes(Rung::R3, MEMORY, "160 MiB in /tmp"), Cap::Memory, 96 << 20);
    takes(Rung::R3, Caps::none(), "160 MiB in /tmp").assert_ok();
}

fn processes_are_refused() {
    let caps = Caps { processes: Some(6), ..Caps::none() };
    for rung in RUNGS {
        let ran = takes(rung, caps, "twelve processes");
        ran.assert_refused();
        assert!(ran.text.contains("refused: Resource temporarily unavailable"), "{}", ran.text);
        assert_eq!(ran.record.caps, [CapHit { cap: Cap::Processes, limit: 6, reached: 6 }], "{rung}");
        let ran = takes(rung, Caps::none(), "twelve processes");
        assert!(ran.assert_ok().record.caps.is_empty());
    }
}

fn time_is_the_sum_of_the_tree() {
    let caps = Caps { cpu_ms: Some(900), ..Caps::none() };
    for rung in RUNGS {
        is_capped(rung, &takes(rung, caps, "time"), Cap::Cpu, 900);
    }
}

/// Starts a command that holds on, and gives its group and its supervisor.
fn held(home: &Path, host: &Host) -> (PathBuf, i32) {
    let started = host.ws().join("started");
    eventually("the command", || started.exists());
    let mut found = groups(home).into_iter().filter_map(|group| {
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        let pid = processes.lines().find(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|all| String::from_utf8_lossy(&all).contains(TAKES))
        })?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())?;
        Some((group, parent))
    });
    found.next().unwrap()
}

fn a_killed_supervisor_leaves_nothing_for_long(home: &Path) {
    let host = Host::new();
    let mut profile = host.profile();
    profile.limits = MEMORY;
    profile.readable.push("/it".into());
    let contained = sandbox(Rung::R2, profile);
    let command = command(&host, "nothing");
    let (group, ran) = std::thread::scope(|scope| {
        let running = scope.spawn(|| contained.run(&command, &provost_sandbox::Cancel::new().unwrap()));
        let (group, supervisor) = held(home, &host);
        let supervisor = rustix::process::Pid::from_raw(supervisor).unwrap();
        rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
        (group, running.join().unwrap())
    });
    assert!(ran.is_err(), "{ran:?}");
    assert!(group.exists(), "the control: nobody has taken it away yet");
    let found = recover(&command.record_dir, Duration::from_secs(5)).unwrap();
    assert_eq!(found, Recovered::Unknown);
    assert!(!group.exists());
    drop(contained);
    eventually("no group", || groups(home).is_empty());
}

fn a_killed_driver_leaves_nothing(home: &Path) {
    let status = Command::new("/it")
        .args(["--nocapture", "--exact", "groups::driver::is_killed"])
        .env(DRIVER, home)
        .env(SHORT, "1")
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(9));
    eventually("no group", || groups(home).is_empty());
}

#[test]
fn is_killed() {
    let Some(home) = home().filter(|_| std::env::var_os(SHORT).is_some()) else { return };
    let host = Host::new();
    let mut profile = host.profile();
    profile.limits = MEMORY;
    profile.readable.push("/it".into());
    let contained = sandbox(Rung::R3, profile);
    let command = command(&host, "nothing");
    std::thread::scope(|scope| {
        scope.spawn(|| contained.run(&command, &provost_sandbox::Cancel::new().unwrap()));
        eventually("the command", || host.ws().join("started").exists());
        assert!(!groups(&home).is_empty());
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    });
}

/// The command.
#[test]
fn taker() {
    let Some(what) = std::env::var_os(TAKES) else { return };
    let again = |what: &str| {
        Command::new("/it")
            .args(["--nocapture", "--test-threads", "1", "--exact", "groups::driver::taker"])
            .env(TAKES, what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    };
    match what.to_str().unwrap() {
        "40 MiB" => take(40 << 20),
        "three times 40 MiB" => {
            let mut all: Vec<_> = (0..3).map(|_| again("40 MiB for long").unwrap()).collect();
            for one in &mut all {
                let mut lines = BufReader::new(one.stdout.take().unwrap()).lines();
                assert!(lines.any(|line| line.unwrap() == "held"));
            }
            // All three hold theirs together.
            for mut one in all {
                drop(one.stdin.take());
                assert!(one.wait().unwrap().success());
            }
        }
        "40 MiB for long" => {
            take(40 << 20);
            println!("\nheld");
            let _ = std::io::stdin().read(&mut [0; 1]);
            // Nobody reads what the test runner would say.
            std::process::exit(0);
        }
        "160 MiB in /tmp" => {
            let mut file = fs::File::create("/tmp/file").unwrap();
            (0..160).for_each(|_| file.write_all(&[1; 1 << 20]).unwrap());
        }
        "twelve processes" => {
            let mut all = Vec::new();
            for _ in 0..12 {
                match again("nothing") {
                    Ok(one) => all.push(one),
                    Err(error) => {
                        println!("refused: {error}");
                        std::process::exit(3);
                    }
                }
            }
            for mut one in all {
                one.kill().unwrap();
                one.wait().unwrap();
            }
        }
        "time" => loop {
            std::hint::spin_loop();
        },
        "nothing" => {
            let _ = fs::write("started", "");
            std::thread::sleep(Duration::from_secs(60));
        }
        other => panic!("{other}"),
    }
}

/// Memory that is written to.
fn take(bytes: usize) {
    let held = vec![1u8; bytes];
    std::mem::forget(std::hint::black_box(held));
}
