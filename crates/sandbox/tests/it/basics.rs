//! What every rung does: exact arguments, exact environment, one combined output, typed failures.

use provost_core::containment::Rung;
use provost_sandbox::{Ended, RunError, RungChoice, Sandbox};

use crate::support::Host;

const ALL: [Rung; 4] = [Rung::R3, Rung::R2, Rung::R1, Rung::R0];

#[test]
fn output_and_status_arrive() {
    let host = Host::new();
    for rung in ALL {
        let ran = host.sh(rung, "echo out; echo err >&2; exit 7");
        assert_eq!(ran.record.ended, Ended::Exited(7), "{rung}");
        assert_eq!(ran.text, "out\nerr\n", "{rung}");
        assert_eq!(ran.record.receipt.rung, rung);
        assert_eq!(ran.record.survivors, 0);
    }
}

#[test]
fn a_signal_is_not_an_exit() {
    let host = Host::new();
    for rung in ALL {
        assert_eq!(host.sh(rung, "kill -SEGV $$").record.ended, Ended::Signalled(11), "{rung}");
    }
}

#[test]
fn arguments_arrive_byte_for_byte() {
    use std::os::unix::ffi::OsStringExt;
    let host = Host::new();
    for rung in ALL {
        let mut command = host.command(&[
            "printf",
            "[%s]",
            "a b",
            "it's \"quoted\"",
            "line\nbreak",
            "back\\slash",
            "$HOME",
            "",
        ]);
        command.argv.push(std::ffi::OsString::from_vec(vec![0xff, 0xfe]));
        let record = host.try_run(rung, host.profile(), &command).unwrap();
        assert_eq!(
            record.output.head,
            b"[a b][it's \"quoted\"][line\nbreak][back\\slash][$HOME][][\xff\xfe]".as_slice(),
            "{rung}"
        );
    }
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    let host = Host::new();
    for rung in ALL {
        let mut command = host.command(&["env"]);
        command.env = [("PATH".into(), "/usr/bin".into()), ("A".into(), "x\ny".into())].into();
        let ran = host.run_with(rung, host.profile(), &command);
        let mut names: Vec<_> =
            ran.text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
        names.sort_unstable();
        let expected: &[_] = if rung == Rung::R2 { &["A", "PATH", "TMPDIR"] } else { &["A", "PATH"] };
        assert_eq!(names, expected, "{rung}");
    }
}

#[test]
fn what_did_not_start_says_so() {
    let host = Host::new();
    for rung in ALL {
        let not_started = |argv: &[&str], cwd: &str| {
            let mut command = host.command(argv);
            command.cwd.push(cwd);
            match host.try_run(rung, host.profile(), &command) {
                Err(RunError::NotStarted(failure)) => {
                    assert!(!command.record_dir.join("started").exists());
                    (failure.step, failure.errno)
                }
                other => panic!("{rung}: {other:?}"),
            }
        };
        std::fs::write(host.ws().join("plain"), "not a program").unwrap();
        assert_eq!(not_started(&["no-such-program"], ""), ("exec".into(), libc::ENOENT), "{rung}");
        assert_eq!(not_started(&["./plain"], ""), ("exec".into(), libc::EACCES), "{rung}");
        assert_eq!(not_started(&["true"], "missing"), ("chdir".into(), libc::ENOENT), "{rung}");
    }
}

#[test]
fn the_probe_finds_everything_on_this_host() {
    let began = std::time::Instant::now();
    let probe = provost_sandbox::Probe::run();
    println!("{:?} {:#?}", began.elapsed(), probe);
    // The kernel exempts uid 0 from a bound on processes; they are counted instead. Control groups are the host's to give
    // (`groups/` has a host that does).
    let exempt = |name: &str| {
        name == "control-group" || (name == "process-limit" && rustix::process::getuid().is_root())
    };
    let missing: Vec<_> = probe.facts.iter().filter(|fact| !fact.holds && !exempt(&fact.name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(probe.strongest, Rung::R3);
}

/// Set in the copy that is itself contained.
const NESTED: &str = "PROVOST_IT_NESTED";

#[test]
fn nested_process() {
    if std::env::var_os(NESTED).is_none() {
        return;
    }
    let probe = provost_sandbox::Probe::run();
    let dir = tempfile::tempdir().unwrap();
    for name in ["ws", "record"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let profile = || provost_sandbox::Profile::for_workspace(dir.path().join("ws")).unwrap();
    let refused = Sandbox::new(&probe, profile(), RungChoice::Strongest { at_least: Rung::R3 }).unwrap_err();
    let contained = Sandbox::new(&probe, profile(), RungChoice::Strongest { at_least: Rung::R2 }).unwrap();
    let command = provost_sandbox::Command {
        program: None,
        argv: vec!["echo".into(), "deep".into()],
        cwd: dir.path().join("ws"),
        env: [("PATH".into(), "/usr/bin".into())].into(),
        wall: std::time::Duration::from_secs(10),
        keep_head: 100,
        keep_tail: 100,
        egress: None,
        reaches: Vec::new(),
        record_dir: dir.path().join("record"),
    };
    let record = contained.run(&command, &provost_sandbox::Cancel::new().unwrap()).unwrap();
    assert_eq!(record.output.head, b"deep\n");
    println!("nested: {} | {refused}", contained.rung());
}

#[test]
fn where_namespaces_are_refused_the_next_rung_is_taken_and_the_reason_named() {
    let host = Host::new();
    std::fs::copy(std::env::current_exe().unwrap(), host.ws().join("it")).unwrap();
    let mut command = host.command(&["./it", "--exact", "basics::nested_process", "--nocapture"]);
    command.env.insert(NESTED.into(), "1".into());
    let ran = host.run_with(Rung::R3, host.profile(), &command);
    let text = &ran.assert_ok().text;
    let line = text.lines().find(|line| line.contains("nested: ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("R2 (Landlock and seccomp) | R3"), "{line}");
    assert!(line.contains("user-namespace: clone: Operation not permitted"), "{line}");
}
