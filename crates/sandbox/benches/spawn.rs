//! What containment adds to a spawn of a program that does nothing: `cargo bench -p provost-sandbox`, or `-- 30` for
//! fewer rounds, or `-- 30 R3` for one kind beside `plain`.
//!
//! Each kind takes turns with `plain`, so that a busy machine shows in both alike, and what the kernel still has to take
//! away of one kind's namespaces is not in the way of another's. `plain` is std's own spawn (posix_spawn) and wait,
//! without any supervisor, capture or record; `bwrap` is bubblewrap with the namespaces that R3 has, likewise without.
//! Then all of it again with 512 MB touched in this process. It asserts no duration.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use provost_core::digest::Digest;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_sandbox::{
    Cancel, Changes, Command, Egress, HOME, HostDecision, ImageRoot, NotRecorded, Probe, Profile, Record,
    RungChoice, Sandbox,
};

const ROUNDS: usize = 300;
const HEAP: usize = 512 << 20;

struct Unrecorded;

impl Record for Unrecorded {
    fn record(&self, _: HostDecision) -> Result<(), NotRecorded> {
        Ok(())
    }
}

/// A network of one host, which the program does not dial.
fn network() -> Egress {
    let layer = Layer::named("hosts").rule(Effect::Allow, "net example.org:443").expect("a rule");
    Egress::new(Policy::preset(Preset::Workspace).with(layer).into(), Arc::new(Unrecorded))
}

/// A way to start the program, and what it is called in the table.
struct Kind {
    name: &'static str,
    start: Box<dyn Fn()>,
}

/// Where the commands work, and where their records go.
struct Place {
    workspace: PathBuf,
    records: PathBuf,
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let rounds = args.next().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let only = args.next();
    let dir = tempfile::tempdir().expect("a folder");
    let place = Place { workspace: dir.path().join("ws"), records: dir.path().join("records") };
    for folder in [&place.workspace, &place.records] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let mut kinds = kinds(&place, dir.path());
    kinds.retain(|kind| kind.name == "plain" || only.as_ref().is_none_or(|only| kind.name == only));
    println!("## Starting a program that does nothing, {rounds} rounds\n");
    table(&kinds, rounds);
    let heap = touched();
    println!("\n## The same with {} MB of touched memory in the starting process\n", heap.len() >> 20);
    table(&kinds, rounds);
    std::hint::black_box(heap);
    let probes = (0..20).map(|_| time(|| drop(Probe::run()))).collect();
    println!("\nprobe of the host, not from its cache: {:.1} ms (p50 of 20)", at(&sorted(probes), 50));
}

fn kinds(place: &Place, dir: &Path) -> Vec<Kind> {
    let mut kinds = vec![Kind {
        name: "plain",
        start: Box::new(|| {
            let status = std::process::Command::new("/bin/true").env_clear().status().expect("it starts");
            assert!(status.success());
        }),
    }];
    match bubblewrap(&place.workspace) {
        Some(kind) => kinds.push(kind),
        None => println!("bwrap is not installed: without it\n"),
    }
    let profile = Profile::for_workspace(&place.workspace).expect("a profile");
    for (name, rung) in [("R0", Rung::R0), ("R1", Rung::R1), ("R2", Rung::R2), ("R3", Rung::R3)] {
        kinds.push(contained(name, rung, profile.clone(), place, Network::None));
    }
    kinds.push(contained("R3 with a network", Rung::R3, profile.clone(), place, Network::OneHost));
    let staged = Profile { changes: Changes::Staged { direct: Vec::new(), copy: None }, ..profile.clone() };
    kinds.push(contained("R3 staged", Rung::R3, staged, place, Network::None));
    match image(dir) {
        Some(root) => {
            let profile = Profile { image: Some(root), ..profile };
            kinds.push(contained("R4", Rung::R4, profile, place, Network::None));
        }
        None => println!("no C compiler that links statically: without an image (R4)\n"),
    }
    kinds
}

/// With the namespaces, the view and the private folders that R3 has too.
fn bubblewrap(workspace: &Path) -> Option<Kind> {
    let program = Path::new("/usr/bin/bwrap");
    program.is_file().then(|| {
        let workspace = workspace.to_owned();
        let start = move || {
            let mut command = std::process::Command::new(program);
            command.env_clear().args([
                "--unshare-all",
                "--die-with-parent",
                "--new-session",
                "--proc",
                "/proc",
            ]);
            command.args(["--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]);
            for folder in ["/usr", "/bin", "/lib", "/lib64", "/etc"] {
                command.args(["--ro-bind-try", folder, folder]);
            }
            command
                .arg("--bind")
                .args([&workspace, &workspace])
                .arg("--chdir")
                .arg(&workspace)
                .arg("/bin/true");
            assert!(command.stdin(Stdio::null()).status().expect("it starts").success());
        };
        Kind { name: "bwrap", start: Box::new(start) }
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    None,
    OneHost,
}

fn contained(name: &'static str, rung: Rung, profile: Profile, place: &Place, network: Network) -> Kind {
    let staged = profile.changes != Changes::Direct;
    let sandbox = Sandbox::new(&Probe::run(), profile, RungChoice::Exactly(rung)).expect("a sandbox");
    let cancel = Cancel::new().expect("a handle");
    let (workspace, records) = (place.workspace.clone(), place.records.clone());
    let start = move || {
        let command = Command {
            program: None,
            argv: vec!["/bin/true".into()],
            cwd: workspace.clone(),
            env: [("HOME".into(), HOME.into())].into(),
            wall: Duration::from_secs(10),
            keep_head: 1000,
            keep_tail: 1000,
            egress: (network == Network::OneHost).then(self::network),
            reaches: Vec::new(),
            record_dir: tempfile::tempdir_in(&records).expect("a folder").keep(),
        };
        if staged {
            drop(sandbox.run_staged(&command, &cancel).expect("it runs"));
        } else {
            drop(sandbox.run(&command, &cancel).expect("it runs"));
        }
    };
    Kind { name, start: Box::new(start) }
}

/// An image that holds nothing but a program that does nothing.
fn image(dir: &Path) -> Option<ImageRoot> {
    let folder = dir.join("image");
    std::fs::create_dir_all(folder.join("bin")).expect("a folder");
    let source = dir.join("true.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let built = std::process::Command::new("cc")
        .args(["-static", "-o"])
        .args([&folder.join("bin/true"), &source])
        .stderr(Stdio::null())
        .status();
    built.is_ok_and(|status| status.success()).then_some(ImageRoot { folder, digest: Digest::ZERO, by: None })
}

fn touched() -> Vec<u8> {
    let mut heap = vec![0u8; HEAP];
    heap.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    heap
}

/// Each kind in turn with `plain`, which comes first.
fn table(kinds: &[Kind], rounds: usize) {
    println!("| kind | least ms | p50 ms | p90 ms | p50 over plain |");
    println!("| --- | --- | --- | --- | --- |");
    let plain = &kinds[0];
    for kind in kinds {
        // The first rounds start the launcher and fill the caches.
        let rounds = (0..rounds + 3).map(|_| (time(&plain.start), time(&kind.start))).skip(3);
        let (beside, times): (Vec<_>, Vec<_>) = rounds.unzip();
        let (beside, times) = (sorted(beside), sorted(times));
        let (least, p50, p90) = (at(&times, 0), at(&times, 50), at(&times, 90));
        println!("| {} | {least:.2} | {p50:.2} | {p90:.2} | {:+.2} |", kind.name, p50 - at(&beside, 50));
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort();
    times
}

/// The time at this part of a hundred, in milliseconds.
fn at(times: &[Duration], part: usize) -> f64 {
    times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3
}
