//! What containment adds to a spawn of `/bin/true`: `cargo bench -p provost-sandbox`.
//!
//! `plain` is std's own spawn (posix_spawn) and wait, without any supervisor, capture or record.

use std::time::Duration;

use divan::Bencher;
use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Command, HOME, Probe, Profile, RungChoice, Sandbox};

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 300)]
fn plain() {
    let status = std::process::Command::new("/bin/true").env_clear().status().expect("it starts");
    assert!(status.success());
}

#[divan::bench(args = ["R0", "R1", "R2", "R3"], sample_count = 300)]
fn contained(bencher: Bencher<'_, '_>, rung: &str) {
    let rung = match rung {
        "R0" => Rung::R0,
        "R1" => Rung::R1,
        "R2" => Rung::R2,
        _ => Rung::R3,
    };
    let dir = tempfile::tempdir().expect("a folder");
    let (workspace, records) = (dir.path().join("ws"), dir.path().join("records"));
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::create_dir(&records).expect("a folder");
    let profile = Profile::for_workspace(&workspace).expect("a profile");
    let sandbox = Sandbox::new(&Probe::run(), profile, RungChoice::Exactly(rung)).expect("a sandbox");
    let cancel = Cancel::new().expect("a handle");
    bencher
        .with_inputs(|| Command {
            program: None,
            argv: vec!["/bin/true".into()],
            cwd: workspace.clone(),
            env: [("HOME".into(), HOME.into())].into(),
            wall: Duration::from_secs(10),
            keep_head: 1000,
            keep_tail: 1000,
            egress: None,
            record_dir: tempfile::tempdir_in(&records).expect("a folder").keep(),
        })
        .bench_local_values(|command| sandbox.run(&command, &cancel).expect("it runs"));
}

#[divan::bench(sample_count = 20)]
fn probe() -> Probe {
    Probe::run()
}
