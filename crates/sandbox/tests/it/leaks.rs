//! Commands leave nothing of themselves behind: no process, mount, namespace, descriptor or file.
//!
//! 1,000 in a row and 50 at once, under each rung. `PROVOST_LEAKS=long` makes it 10,000 and 200, which takes minutes.
//!
//! The driver runs in namespaces of its own, so that all that is to be seen there is its: it is the only program in its
//! `/proc`, its `/tmp` is empty, and no more namespaces may exist below it than a few hundred, which many commands in a
//! row would exceed if each left one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Command, Ended, Probe, Profile, RungChoice, Sandbox};

use crate::support::{CONTAINED, eventually};

/// Set in the copy that is the driver: how many in a row, how many at once.
const DRIVER: &str = "PROVOST_IT_LEAKS";

/// What there is to be seen of this process and below it.
#[derive(Debug, PartialEq, Eq)]
struct Footprint {
    processes: BTreeSet<u32>,
    mounts: usize,
    descriptors: usize,
    temporary: BTreeSet<PathBuf>,
    shared: usize,
}

impl Footprint {
    fn take() -> Self {
        let names =
            |folder: &str| fs::read_dir(folder).unwrap().filter_map(Result::ok).map(|entry| entry.path());
        let number = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
        let lines = |path: &str| fs::read_to_string(path).map_or(0, |text| text.lines().count());
        Self {
            processes: names("/proc").filter_map(number).collect(),
            mounts: lines("/proc/self/mountinfo"),
            descriptors: names("/proc/self/fd").count(),
            temporary: names("/tmp").chain(names("/dev/shm")).collect(),
            shared: lines("/proc/sysvipc/shm") + lines("/proc/sysvipc/sem") + lines("/proc/sysvipc/msg"),
        }
    }
}

#[test]
fn driver_process() {
    let Ok(order) = std::env::var(DRIVER) else { return };
    let (row, at_once) = order.split_once(' ').unwrap();
    let (row, at_once): (u32, u32) = (row.parse().unwrap(), at_once.parse().unwrap());
    let probe = Probe::run();
    assert_eq!(probe.strongest, Rung::R3, "{probe:#?}");
    let home = Path::new("/tmp/case");
    for folder in ["ws", "records"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    for rung in CONTAINED {
        let before = Footprint::take();
        {
            let profile = Profile::for_workspace(home.join("ws")).unwrap();
            let sandbox = Sandbox::new(&probe, profile, RungChoice::Exactly(rung)).unwrap();
            for number in 0..row {
                run(&sandbox, home, number);
            }
            // The launcher is left, and the supervisor that stands by with one process. The last one has said all and is
            // about to end.
            eventually("three processes at most", || {
                Footprint::take().processes.len() <= before.processes.len() + 3
            });
            std::thread::scope(|scope| {
                for number in 0..at_once {
                    let sandbox = &sandbox;
                    scope.spawn(move || run(sandbox, home, row + number));
                }
            });
        }
        let until = Instant::now() + Duration::from_secs(10);
        while Footprint::take() != before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(Footprint::take(), before, "{rung}");
        assert_eq!(fs::read_dir(home.join("ws")).unwrap().count(), 0, "{rung}");
    }
    println!("nothing is left");
}

/// One command that leaves what it can: a daemon, a file in its temp folder, shared memory.
fn run(sandbox: &Sandbox, home: &Path, number: u32) {
    let record_dir = home.join("records").join(number.to_string());
    fs::create_dir(&record_dir).unwrap();
    let script = "setsid sleep 100 & echo x > \"${TMPDIR:-/tmp}/left\"";
    let command = Command {
        argv: ["sh", "-c", script].map(Into::into).to_vec(),
        cwd: home.join("ws"),
        env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        wall: Duration::from_secs(60),
        keep_head: 100,
        keep_tail: 100,
        record_dir: record_dir.clone(),
        program: None,
        egress: None,
        reaches: Vec::new(),
    };
    let record = sandbox.run(&command, &Cancel::new().unwrap()).unwrap();
    assert_eq!((record.ended, record.survivors), (Ended::Exited(0), 0), "{record:?}");
    fs::remove_dir_all(record_dir).unwrap();
}

#[test]
fn many_commands_leave_nothing_behind() {
    let long = std::env::var_os("PROVOST_LEAKS").is_some_and(|value| value == "long");
    let (row, at_once) = if long { (10_000, 200) } else { (1_000, 50) };
    let most = if long { 700 } else { 300 };
    // The program is opened before /tmp is covered, where its copy for the ordinary user lies.
    let script = format!(
        "exec 9<\"$0\" && mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && \
         for kind in user mnt pid net ipc uts; do echo {most} > /proc/sys/user/max_\"$kind\"_namespaces; done && \
         /proc/self/fd/9 --exact leaks::driver_process --nocapture; exit $?"
    );
    let output = std::process::Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "--ipc",
            "--pid",
            "--fork",
            "--mount-proc",
            "sh",
            "-c",
        ])
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .env(DRIVER, format!("{row} {at_once}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("nothing is left"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
