//! The same, as an ordinary user without capabilities.

use std::os::unix::fs::PermissionsExt;

/// Set in the copy that runs as an ordinary user.
const ORDINARY: &str = "PROVOST_IT_ORDINARY";

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if std::env::var_os(ORDINARY).is_some() {
        return;
    }
    if !rustix::process::getuid().is_root() {
        // Then every other test is that already.
        return;
    }
    let dir = tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let copy = dir.path().join("it");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let output = std::process::Command::new("setpriv")
        .args([
            "--reuid=1000",
            "--regid=1000",
            "--clear-groups",
            "--bounding-set=-all",
            "--no-new-privs",
            "--",
        ])
        .arg(&copy)
        .args([
            "basics::",
            "cache::",
            "caps::",
            "files::",
            "git::",
            "images::",
            "protected::",
            "staged::",
            "kernel::",
            "network::",
            "egress::bounds::",
            "egress::clients::",
            "egress::refusals::",
            "egress::requests::",
            "egress::resolver::",
            "processes::",
            "lifecycle::",
            "languages::go",
            "languages::make",
            "languages::npm",
            "languages::a_browser",
            "programs",
            "require::",
            "hosts::",
            "leaks::",
            "reported::",
            "selftest::",
            "egress::brokered::",
            "unix::",
        ])
        .args(["--test-threads", "2"])
        .env_clear()
        .env(ORDINARY, "1")
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // The filters must have found the tests.
    let passed = text.lines().find_map(|line| line.strip_prefix("test result: ok. ")).unwrap();
    let count: usize = passed.split_whitespace().next().unwrap().parse().unwrap();
    assert!(count > 45, "{count}");
    println!("{count} tests as uid 1000");
}
