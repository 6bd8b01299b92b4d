//! Failures that users of other agents report, numbered here, as far as this machine can express them.
//!
//! | no. | test |
//! | --- | --- |
//! | 1, 2, 3 | `hosts::f01_…`, `hosts::f02_…`, `hosts::f03_…` |
//! | 4, 5 | `toolchains::programs_that_filters_break` |
//! | 6 | `git::what_people_do_all_day_works`, `git::what_git_takes_orders_from_stays`; `provost-agent`: `commits::` |
//! | 7 | `f07_…` here, and `files::nothing_appears_on_the_host` |
//! | 8 | `lifecycle::a_plan_and_a_command_of_any_size` |
//! | 9 | `f09_…` here; what it costs is in `bench/` |
//! | 10 | `f10_…` here |
//! | 11 | `network::pathname_unix_socket`, attacks `docker-socket`, `socket-in-run` (`selftest.rs`) |
//! | 12, 13 | `egress::clients`, `egress::tools`, `egress::refusals`; without hosts allowed `network.rs` |
//! | 14 | `provost-tools`: `s8_no_way_out_by_argument`; no file of a workspace is read as policy |
//! | 15 | `provost-cli`: `containment_that_is_not_to_be_had_ends_in_9_…`; `require.rs` |
//! | 16 | `processes::a_daemon_dies_with_its_command_…`, attacks `daemon-…` |
//! | 17 | `f17_…` here |
//! | 18 | `files::a_workspace_may_lie_below_what_is_made_anew` |
//! | 19 | `toolchains::cargo_test_runs_inside` |
//! | 20 | `egress::brokered`, `unix.rs` (what the broker is asked, it does itself); attacks `dial-race`, `path-race` |
//! | 21 | `f21_…` here, and `protected::a_git_link_stays_…` |
//! | 22, 23 | macOS and Windows |
//!
//! Of another agent's own list of defects: D2 is `processes::grandchildren_that_ignore_term_die_at_the_limit`, D7 and D14
//! `output.rs`, D13 `d13_…` of `provost-core` and `provost-cli`, D15 `d15_…` of `provost-tools`, D19 `network.rs` and
//! `processes::the_supervisor_cannot_be_reached`.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Ended, Probe, Profile, Recovered, RungChoice, Sandbox, recover};

use rustix::mount::{MountFlags, mount};

use crate::support::{CONTAINED, Host, eventually};

/// Every path below a folder, with its content.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let content = if entry.path().is_file() { fs::read(entry.path()).unwrap() } else { Vec::new() };
        found.insert(entry.path(), content);
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path()));
        }
    }
    found
}

/// Set in the copy that drives: the folder of the test, and the rung.
const DRIVES: &str = "PROVOST_IT_F07";

#[test]
fn f07_process() {
    let Ok(order) = std::env::var(DRIVES) else { return };
    let (rung, home) = order.split_once(' ').unwrap();
    let rung = if rung == "R3" { Rung::R3 } else { Rung::R2 };
    let home = PathBuf::from(home);
    let ws = home.join("ws");
    let mut profile = Profile::for_workspace(&ws).unwrap();
    // Some of them are not there, which is what placeholders were made for elsewhere.
    profile.protected = [".git", ".bashrc", "sub/.vscode"].map(|name| ws.join(name)).to_vec();
    profile.hidden = [".env", "sub/.env"].map(|name| ws.join(name)).to_vec();
    let command = provost_sandbox::Command {
        argv: ["sh", "-c", "echo x > work/started; exec sleep 100"].map(Into::into).to_vec(),
        cwd: ws,
        env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        wall: Duration::from_secs(100),
        keep_head: 1000,
        keep_tail: 1000,
        record_dir: home.join("records"),
        program: None,
        egress: None,
        reaches: Vec::new(),
    };
    let sandbox = Sandbox::new(&Probe::run(), profile, RungChoice::Exactly(rung)).unwrap();
    let _ = sandbox.run(&command, &Cancel::new().unwrap());
}

#[test]
fn f07_no_placeholder_is_left_by_a_driver_that_was_killed() {
    for rung in CONTAINED {
        let host = Host::new();
        fs::create_dir_all(host.ws().join(".git/hooks")).unwrap();
        fs::create_dir(host.ws().join("sub")).unwrap();
        fs::create_dir(host.ws().join("work")).unwrap();
        let before = tree(&host.ws());
        let mut driver = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "reported::f07_process"])
            .env(DRIVES, format!("{rung:?} {}", host.dir.path().display()))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("the command runs", || host.ws().join("work/started").exists());
        // Under way: nothing was made for what is not there either.
        let mut during = tree(&host.ws());
        during.remove(&host.ws().join("work/started"));
        assert_eq!(during, before, "{rung}");
        driver.kill().unwrap();
        driver.wait().unwrap();
        let recovered = recover(&host.dir.path().join("records"), Duration::from_secs(10)).unwrap();
        assert!(matches!(recovered, Recovered::Finished(_)), "{recovered:?}");
        fs::remove_file(host.ws().join("work/started")).unwrap();
        assert_eq!(tree(&host.ws()), before, "{rung}");
    }
}

#[test]
fn f09_what_lies_in_a_workspace_is_not_walked_for_a_command() {
    let host = Host::new();
    let deep = host.ws().join("deep");
    fs::create_dir(&deep).unwrap();
    for number in 0..5_000 {
        fs::create_dir(deep.join(number.to_string())).unwrap();
    }
    // A folder that nobody may list would stop whoever walks, except root.
    let closed = deep.join("0");
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    fs::create_dir(host.ws().join(".git")).unwrap();
    for rung in CONTAINED {
        let mut profile = host.profile();
        profile.protected = vec![host.ws().join(".git")];
        host.run_with(rung, profile, &host.command(&["true"])).assert_ok();
    }
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Set in the copy that has a file system in `/opt` which never answers.
const SILENT: &str = "PROVOST_IT_SILENT";

#[test]
fn f10_process() {
    let Some(home) = std::env::var_os(SILENT).map(PathBuf::from) else { return };
    // Held open and never read: whoever looks waits.
    let server = fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
    let options = std::ffi::CString::new(options).unwrap();
    mount("silent", "/opt", "fuse", MountFlags::empty(), options.as_c_str()).unwrap();
    let probe = Probe::run();
    assert_eq!(probe.strongest, Rung::R3, "{probe:#?}");
    assert!(probe.facts.iter().any(|fact| fact.detail.contains("do not answer: /opt")), "{probe:#?}");
    for rung in CONTAINED {
        let record_dir = home.join("records").join(format!("{rung:?}"));
        fs::create_dir(&record_dir).unwrap();
        let profile = Profile::for_workspace(home.join("ws")).unwrap();
        let sandbox = Sandbox::new(&probe, profile, RungChoice::Exactly(rung)).unwrap();
        let command = provost_sandbox::Command {
            argv: ["sh", "-c", "echo runs"].map(Into::into).to_vec(),
            cwd: home.join("ws"),
            env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
            wall: Duration::from_secs(20),
            keep_head: 1000,
            keep_tail: 1000,
            record_dir,
            program: None,
            egress: None,
            reaches: Vec::new(),
        };
        let record = sandbox.run(&command, &Cancel::new().unwrap()).unwrap();
        assert_eq!((record.ended, record.output.head.as_slice()), (Ended::Exited(0), b"runs\n".as_slice()));
    }
    println!("f10 holds");
}

/// An ordinary user may not open `/dev/fuse` everywhere; root's run of this test is the one that counts.
#[test]
fn f10_a_file_system_that_hangs_stops_nobody() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    assert!(Path::new("/opt").is_dir(), "a folder is needed to mount over");
    let host = Host::new();
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "reported::f10_process", "--nocapture"])
        .env(SILENT, host.dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("f10 holds"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Set in the copy that has another `/etc`.
const OTHER_ETC: &str = "PROVOST_IT_OTHER_ETC";

#[test]
fn f17_process() {
    let Some(home) = std::env::var_os(OTHER_ETC).map(PathBuf::from) else { return };
    let probe = Probe::run();
    for rung in CONTAINED {
        let record_dir = home.join("records").join(format!("{rung:?}"));
        fs::create_dir(&record_dir).unwrap();
        let profile = Profile::for_workspace(home.join("ws")).unwrap();
        let sandbox = Sandbox::new(&probe, profile, RungChoice::Exactly(rung)).unwrap();
        let command = provost_sandbox::Command {
            argv: ["sh", "-c", "readlink /etc/resolv.conf; cat /etc/other"].map(Into::into).to_vec(),
            cwd: home.join("ws"),
            env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
            wall: Duration::from_secs(20),
            keep_head: 1000,
            keep_tail: 1000,
            record_dir,
            program: None,
            egress: None,
            reaches: Vec::new(),
        };
        let record = sandbox.run(&command, &Cancel::new().unwrap()).unwrap();
        assert_eq!(record.ended, Ended::Exited(0), "{rung}: {record:?}");
        assert_eq!(record.output.head, b"/run/nowhere/resolv.conf\nhere\n", "{rung}");
    }
    println!("f17 holds");
}

#[test]
fn f17_a_resolver_file_that_leads_nowhere_stops_no_command() {
    let host = Host::new();
    let etc = host.dir.path().join("etc");
    fs::create_dir(&etc).unwrap();
    symlink("/run/nowhere/resolv.conf", etc.join("resolv.conf")).unwrap();
    for name in ["passwd", "group", "ld.so.cache"] {
        let _ = fs::copy(Path::new("/etc").join(name), etc.join(name));
    }
    fs::write(etc.join("other"), "here\n").unwrap();
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount --bind \"$1\" /etc && exec \"$0\" --exact reported::f17_process --nocapture")
        .arg(std::env::current_exe().unwrap())
        .arg(&etc)
        .env(OTHER_ETC, host.dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("f17 holds"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn f21_a_protected_path_that_is_a_link_stops_no_command() {
    for rung in CONTAINED {
        let host = Host::new();
        fs::create_dir(host.ws().join("real")).unwrap();
        for (link, target) in
            [("inside", "real"), ("outside", "/etc"), ("nowhere", "no/such"), ("round", "round")]
        {
            symlink(target, host.ws().join(link)).unwrap();
        }
        let mut profile = host.profile();
        profile.protected =
            ["inside", "outside", "nowhere", "round"].map(|name| host.ws().join(name)).to_vec();
        profile.hidden = vec![host.ws().join("nowhere")];
        host.run_with(rung, profile, &host.command(&["true"])).assert_ok();
    }
}
