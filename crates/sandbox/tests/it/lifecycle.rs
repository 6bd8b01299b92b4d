//! Cancellation, a driver that dies, and records that outlive it.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Ended, Recovered, RunError, prepare_record, recover};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Host, eventually, read, sandbox};

const DRIVE: &str = "PROVOST_IT_DRIVE";

/// Not a test of its own: what a re-executed copy of this binary does when told to drive a command.
#[test]
fn driver_process() {
    let Some(told) = std::env::var_os(DRIVE) else { return };
    let told = told.into_string().unwrap();
    let [rung, base, script] = told.splitn(3, '|').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let rung = if rung == "R3" { Rung::R3 } else { Rung::R2 };
    let base = PathBuf::from(base);
    let profile = provost_sandbox::Profile::for_workspace(base.join("ws")).unwrap();
    let mut command = provost_sandbox::Command {
        program: None,
        argv: ["sh", "-c", script].map(Into::into).to_vec(),
        cwd: base.join("ws"),
        env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        wall: Duration::from_secs(30),
        keep_head: 1000,
        keep_tail: 1000,
        egress: None,
        reaches: Vec::new(),
        record_dir: base.join("record"),
    };
    let contained = sandbox(rung, profile);
    let result = contained.run(&command, &Cancel::new().unwrap());
    std::fs::write(base.join("result"), format!("{result:?}")).unwrap();
    eventually("another order", || base.join("again").exists());
    command.record_dir = base.join("second-record");
    std::fs::create_dir(&command.record_dir).unwrap();
    let result = contained.run(&command, &Cancel::new().unwrap());
    std::fs::write(base.join("second-result"), format!("{result:?}")).unwrap();
}

fn drive(base: &Path, rung: &str, script: &str) -> Child {
    std::fs::create_dir(base.join("record")).unwrap();
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifecycle::driver_process", "--nocapture"])
        .env(DRIVE, format!("{rung}|{}|{script}", base.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// `kill -9`.
fn shoot(mut driver: Child) {
    driver.kill().unwrap();
    driver.wait().unwrap();
}

#[test]
fn the_tree_dies_with_its_driver_and_the_record_says_so() {
    for rung in ["R3", "R2"] {
        let host = Host::new();
        let script = "echo begun; (setsid sh -c 'while :; do echo . >> beat; sleep 0.005; done') & sleep 50";
        let driver = drive(host.dir.path(), rung, script);
        let beat = host.ws().join("beat");
        eventually("the command runs", || read(&beat).len() > 4);
        let record = host.dir.path().join("record");
        assert_eq!(recover(&record, Duration::ZERO).unwrap(), Recovered::Running);
        shoot(driver);
        let Recovered::Finished(found) = recover(&record, Duration::from_secs(5)).unwrap() else {
            panic!("{rung}")
        };
        assert_eq!(found.ended, Ended::DriverLost, "{rung}");
        assert_eq!((found.survivors, found.output.head.as_slice()), (0, b"begun\n".as_slice()), "{rung}");
        let after = read(&beat).len();
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(read(&beat).len(), after, "{rung}");
    }
}

#[test]
fn a_finished_command_is_recovered_whoever_is_left() {
    let host = Host::new();
    let driver = drive(host.dir.path(), "R3", "echo done; exit 3");
    let record = host.dir.path().join("record");
    // The record is there before the driver has read it; whether it has by now does not matter.
    eventually("the record", || record.join("exit.json").exists());
    shoot(driver);
    let Recovered::Finished(found) = recover(&record, Duration::from_secs(5)).unwrap() else { panic!() };
    assert_eq!((found.ended, found.output.head.as_slice()), (Ended::Exited(3), b"done\n".as_slice()));
}

#[test]
fn a_killed_supervisor_leaves_the_unknown_and_no_tree() {
    let host = Host::new();
    let driver = drive(host.dir.path(), "R3", "while :; do echo . >> beat; sleep 0.005; done");
    let beat = host.ws().join("beat");
    eventually("the command runs", || read(&beat).len() > 4);
    // The launcher is the driver's child. Of its children one is at work, with process 1 and the command below it.
    let launcher = child_of(driver.id());
    let mut at_work = None;
    eventually("the supervisor", || {
        at_work = children_of(launcher).into_iter().find(|supervisor| {
            children_of(*supervisor).into_iter().any(|first| !children_of(first).is_empty())
        });
        at_work.is_some()
    });
    let supervisor = at_work.unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    let record = host.dir.path().join("record");
    assert_eq!(recover(&record, Duration::from_secs(5)).unwrap(), Recovered::Unknown);
    eventually("the driver says so", || read(&host.dir.path().join("result")).contains("Unknown"));
    let after = read(&beat).len();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(read(&beat).len(), after);
    shoot(driver);
}

fn child_of(parent: u32) -> Pid {
    let parent = Pid::from_raw(parent as i32).unwrap();
    let mut found = None;
    eventually("a child", || {
        found = children_of(parent).first().copied();
        found.is_some()
    });
    found.unwrap()
}

/// Those that live.
fn children_of(parent: Pid) -> Vec<Pid> {
    let child = |entry: std::fs::DirEntry| {
        let stat = read(&entry.path().join("stat"));
        let fields = stat.rsplit_once(')')?.1;
        let mut fields = fields.split_whitespace();
        let (state, above) = (fields.next()?, fields.next()?);
        let is_one = state != "Z" && above == parent.as_raw_pid().to_string();
        is_one.then(|| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))?
    };
    std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(child).collect()
}

#[test]
fn an_untouched_folder_is_a_command_that_never_ran() {
    let host = Host::new();
    let untouched = host.record_dir();
    assert_eq!(recover(&untouched, Duration::ZERO).unwrap(), Recovered::Unknown);
    prepare_record(&untouched).unwrap();
    assert!(matches!(recover(&untouched, Duration::ZERO).unwrap(), Recovered::NotStarted(_)));
    // After a restart of the host nothing is proven by what is missing.
    std::fs::write(untouched.join("boot"), "another boot\n").unwrap();
    assert_eq!(recover(&untouched, Duration::ZERO).unwrap(), Recovered::Unknown);
    assert!(recover(Path::new("/no/such/folder"), Duration::ZERO).is_err());
    let command = host.command(&["no-such-program"]);
    assert!(host.try_run(Rung::R3, host.profile(), &command).is_err());
    let Recovered::NotStarted(failure) = recover(&command.record_dir, Duration::ZERO).unwrap() else {
        panic!()
    };
    assert_eq!((failure.step.as_str(), failure.errno), ("exec", libc::ENOENT));
}

#[test]
fn a_killed_launcher_is_replaced_and_takes_nothing_with_it() {
    let host = Host::new();
    let script = "touch begun; while [ ! -e go ]; do sleep 0.01; done; echo whole";
    let driver = drive(host.dir.path(), "R3", script);
    eventually("the command runs", || host.ws().join("begun").exists());
    kill_process(child_of(driver.id()), Signal::KILL).unwrap();
    std::fs::write(host.ws().join("go"), "").unwrap();
    let result = || read(&host.dir.path().join("result"));
    eventually("the result", || !result().is_empty());
    assert!(result().contains("Exited(0)"), "{}", result());
    std::fs::write(host.dir.path().join("again"), "").unwrap();
    let again = || read(&host.dir.path().join("second-result"));
    eventually("another result", || !again().is_empty());
    assert!(again().contains("Exited(0)"), "{}", again());
    shoot(driver);
}

#[test]
fn cancelling_kills_the_tree_at_once() {
    for rung in [Rung::R3, Rung::R2, Rung::R1, Rung::R0] {
        let host = Host::new();
        let cancel = Cancel::new().unwrap();
        let contained = sandbox(rung, host.profile());
        let command = host.command(&["sh", "-c", "touch begun; sleep 50 & sleep 50"]);
        let began = Instant::now();
        let record = std::thread::scope(|scope| {
            let running = scope.spawn(|| contained.run(&command, &cancel));
            eventually("the command runs", || host.ws().join("begun").exists());
            cancel.clone().cancel();
            running.join().unwrap()
        });
        assert_eq!(record.unwrap().ended, Ended::Cancelled, "{rung}");
        assert!(began.elapsed() < Duration::from_secs(5));
        // It stays cancelled: nothing is started any more, or it is ended at once.
        let command = host.command(&["sleep", "50"]);
        match contained.run(&command, &cancel) {
            Ok(record) => assert_eq!(record.ended, Ended::Cancelled),
            Err(RunError::NotStarted(failure)) => assert_eq!(failure.step, "cancelled"),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn no_zombie_is_left() {
    let host = Host::new();
    for _ in 0..3 {
        host.sh(Rung::R3, "true").assert_ok();
        let _ = host.try_run(Rung::R3, host.profile(), &host.command(&["no-such-program"]));
    }
    // Other tests of this process have running supervisors; a zombie that stays is what must not be.
    let own = std::process::id().to_string();
    let zombies = || {
        std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(Result::ok)
            .filter(|entry| {
                let stat = read(&entry.path().join("stat"));
                stat.rsplit_once(')').is_some_and(|(_, fields)| fields.starts_with(&format!(" Z {own} ")))
            })
            .count()
    };
    eventually("no zombie", || zombies() == 0);
}

#[test]
fn many_run_at_once() {
    let host = Host::new();
    let contained = sandbox(Rung::R3, host.profile());
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..16)
            .map(|index| {
                let (host, contained) = (&host, &contained);
                scope.spawn(move || {
                    let command = host.command(&["sh", "-c", &format!("echo {index}; exit {index}")]);
                    (index, contained.run(&command, &Cancel::new().unwrap()).unwrap())
                })
            })
            .collect();
        for run in runs {
            let (index, record) = run.join().unwrap();
            assert_eq!(record.ended, Ended::Exited(index));
            assert_eq!(record.output.head, format!("{index}\n").as_bytes());
        }
    });
}

#[test]
fn a_plan_and_a_command_of_any_size() {
    let host = Host::new();
    let mut profile = host.profile();
    profile.hidden = (0..5_000)
        .map(|index| host.ws().join(format!("no-such-file-with-a-rather-long-name-{index}")))
        .collect();
    let mut command = host.command(&["sh", "-c", "echo $#", "sh"]);
    command.argv.extend((0..10_000).map(|index| format!("argument-{index}").into()));
    let ran = host.run_with(Rung::R3, profile, &command);
    assert_eq!(ran.assert_ok().text, "10000\n");
}
