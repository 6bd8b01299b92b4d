//! `/etc/resolv.conf` as hosts have it: a file, a link into `/run` that leads nowhere in the sandbox, or nothing.

use std::sync::Arc;

use provost_sandbox::Cancel;

use super::fixture::{Net, Origin, Recorded, Told};

/// Set in the copy that runs under another `/etc`.
const INSIDE: &str = "PROVOST_IT_RESOLVER";

/// Runs this test again in a mount namespace whose `/etc` is made by `make`.
#[track_caller]
fn with_etc(name: &str, make: &str) {
    let dir = tempfile::tempdir().unwrap();
    let etc = dir.path().join("etc");
    std::fs::create_dir(&etc).unwrap();
    for kept in ["nsswitch.conf", "ld.so.cache", "ld.so.conf", "passwd", "group", "alternatives"] {
        let from = std::path::Path::new("/etc").join(kept);
        let copied = std::process::Command::new("cp").arg("-a").arg(&from).arg(&etc).status().unwrap();
        assert!(copied.success() || !from.exists());
    }
    let script = format!(
        "set -e; cd {}; {make}; ls > ../before; mount --bind {0} /etc; exec \"$0\" --exact {name} --nocapture",
        etc.display()
    );
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    // Nothing is made there, nor changed.
    let after = std::process::Command::new("ls").current_dir(&etc).output().unwrap().stdout;
    assert_eq!(after, std::fs::read(dir.path().join("before")).unwrap());
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Names are found by the C library, whatever is there.
#[track_caller]
fn names_are_found() {
    let origin = Origin::start();
    let port = origin.address.port();
    let line = format!("curl -sS --fail http://origin.test:{port}/");
    Net::with_origin(&origin).sh(&line, Told::No).assert_ok().assert_says("hello from origin");
}

#[test]
fn s17_a_link_into_run_that_leads_nowhere() {
    if is_inside() {
        let target = std::fs::read_link("/etc/resolv.conf").unwrap();
        assert!(target.starts_with("../run/"));
        return names_are_found();
    }
    with_etc(
        "egress::resolver::s17_a_link_into_run_that_leads_nowhere",
        "ln -s ../run/systemd/resolve/stub-resolv.conf resolv.conf",
    );
}

#[test]
fn s17_a_file_of_the_hosts_own() {
    if is_inside() {
        assert_eq!(std::fs::read_to_string("/etc/resolv.conf").unwrap(), "nameserver 203.0.113.9\n");
        return names_are_found();
    }
    with_etc(
        "egress::resolver::s17_a_file_of_the_hosts_own",
        "echo nameserver 203.0.113.9 > resolv.conf; echo 203.0.113.8 origin.test > hosts",
    );
}

#[test]
fn s17_nothing() {
    if is_inside() {
        assert!(!std::path::Path::new("/etc/resolv.conf").exists());
        return names_are_found();
    }
    with_etc("egress::resolver::s17_nothing", "true");
}

/// An image has no such file either, or one of its own, and what runs in it has the same network.
#[test]
fn names_in_an_image() {
    let net = Net::with_origin(&Origin::start());
    let (_, profile) = crate::images::shell(&net.host);
    let line = "getent ahostsv4 origin.test; getent ahostsv4 evil.test; test $? = 2";
    let command = net.command(&["/bin/sh", "-c", line], Told::No);
    let done = net.run_with(profile, command, &Cancel::new().unwrap(), Arc::new(Recorded::default()));
    done.assert_ok().assert_says("198.18.0.1").assert_refused("evil.test", "does not allow it");
}
