//! Where of a command either all is put into the workspace or nothing: what makes it nothing, and what does not.

use std::os::unix::fs::symlink;
use std::sync::atomic::Ordering;

use provost_agent::Ending;
use provost_core::caps::{Cap, Caps};
use provost_core::contract::Contract;
use provost_core::event::{ActFinished, Body, Unapplied, WhyUnapplied};
use provost_core::id::RunId;
use provost_core::outcome::{Outcome, StopWhy};
use provost_core::policy::{Effect, Layer, Policy, Preset, WorkspaceMode};
use provost_model::Answer;
use serde_json::json;

use crate::sessions;
use crate::support::{Bench, How, calls};

const FILES: [(&str, &str); 3] = [("a.txt", "one\n"), ("src/Lib.rs", "lib\n"), (".gitignore", "/ignored\n")];

fn contract(workspace: WorkspaceMode) -> Contract {
    let deny = Layer::named("test").rule(Effect::Deny, "write locked/**").unwrap();
    let caps = Caps { file_bytes: Some(1 << 20), disk_bytes: Some(4 << 20), ..Caps::default() };
    Contract::new("do it").policy(Policy { workspace, caps, ..Policy::preset(Preset::Workspace).with(deny) })
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line] }))
}

fn shell_for(line: &str, seconds: u64) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line], "timeout_seconds": seconds }))
}

async fn ends(bench: &Bench, run: &RunId) -> Vec<ActFinished> {
    let finished = bench.bodies(run).await.into_iter().filter_map(|body| match body {
        Body::ActFinished(finished) => Some(*finished),
        _ => None,
    });
    finished.collect()
}

fn why(end: &ActFinished, path: &str) -> Option<WhyUnapplied> {
    end.unapplied.iter().find(|left| left.path.as_str() == path).map(|left| left.why)
}

/// A line that does this too, what is said of it, and what is left out for it.
type Bad = (&'static str, &'static str, Option<(&'static str, WhyUnapplied)>);

fn bad() -> Vec<Bad> {
    vec![
        ("while :; do :; done", "it ran into its time limit", None),
        ("kill -9 $$", "signal 9 ended it", None),
        ("head -c 2000000 /dev/zero > big", "it reached a cap", None),
        (
            "mkdir -p locked; echo x > locked/x",
            "made something that cannot stand",
            Some(("locked/x", WhyUnapplied::Guarded)),
        ),
        ("mkfifo pipe", "made something that cannot stand", Some(("pipe", WhyUnapplied::Special))),
        (
            "ln -s /etc/hostname away",
            "made something that cannot stand",
            Some(("away", WhyUnapplied::LeadsOut)),
        ),
        (
            "ln -s ../x src/up && ln -s ../../x src/out",
            "made something that cannot stand",
            Some(("src/out", WhyUnapplied::LeadsOut)),
        ),
        (
            "echo x > src/lib.rs",
            "made something that cannot stand",
            Some(("src/lib.rs", WhyUnapplied::Collides)),
        ),
        (
            "mkdir SRC && echo x > SRC/other",
            "made something that cannot stand",
            Some(("SRC/other", WhyUnapplied::Collides)),
        ),
    ]
}

#[tokio::test]
async fn a_command_that_is_not_clean_leaves_nothing_and_the_agent_goes_on() {
    for how in How::ALL {
        for (line, said, cause) in bad() {
            let bench = Bench::on(how, &FILES);
            let line = format!("echo two > a.txt; echo new > new.txt; mkdir made; echo i > ignored; {line}");
            let script = vec![shell_for(&line, 2), shell("echo three > a.txt; exit 1")];
            let runtime = bench.runtime(script);
            let (run, ending) =
                bench.start(&runtime, contract(WorkspaceMode::all_or_nothing())).await.unwrap();
            assert_eq!(ending.exit_code(), 0, "{how:?} {line}");
            let ends = ends(&bench, &run).await;
            let told = bench.told(&run, 0).await;
            assert_eq!(ends[0].changes, [], "{how:?} {line}\n{told}");
            assert!(
                told.contains(said) && told.contains("Nothing that this command changed was kept"),
                "{told}"
            );
            if let Some((path, cause)) = cause {
                assert_eq!(why(&ends[0], path), Some(cause), "{how:?} {line}: {:?}", ends[0].unapplied);
                assert!(told.contains(&format!("`{path}`")), "{told}");
            }
            assert_eq!(why(&ends[0], "new.txt"), Some(WhyUnapplied::RolledBack), "{how:?} {line}");
            for name in ["new.txt", "made", "ignored"] {
                assert!(!bench.path(name).exists(), "{how:?} {line}: {name}");
            }
            // That it exits with something else than 0 is no reason.
            assert_eq!(
                (ends[1].changes.len(), bench.read("a.txt").as_str()),
                (1, "three\n"),
                "{how:?} {line}"
            );
        }
    }
}

#[tokio::test]
async fn staged_alone_keeps_what_the_policy_lets_stand() {
    // The control: the same lines, and what they do beside what cannot stand is there.
    for (line, _, _) in bad() {
        let bench = Bench::new(&FILES);
        let line = format!("echo new > new.txt; {line}");
        let runtime = bench.runtime(vec![shell_for(&line, 2)]);
        bench.start(&runtime, contract(WorkspaceMode::staged())).await.unwrap();
        assert_eq!(bench.read("new.txt"), "new\n", "{line}");
    }
}

#[tokio::test]
async fn too_much_on_disk_leaves_nothing() {
    let bench = Bench::new(&FILES);
    // Each file is small, and a hole costs the layer nothing.
    let line = "for i in 1 2 3 4 5 6; do head -c 900000 /dev/zero > $i; done; echo two > a.txt";
    let runtime = bench.runtime(vec![shell(line)]);
    let (run, _) = bench.start(&runtime, contract(WorkspaceMode::all_or_nothing())).await.unwrap();
    let end = &ends(&bench, &run).await[0];
    let hits = end.command.as_ref().unwrap().caps.iter().any(|hit| hit.cap == Cap::Disk);
    assert!(hits || end.unapplied.iter().any(|left| left.why == WhyUnapplied::Cap), "{end:?}");
    assert_eq!((end.changes.len(), bench.read("a.txt").as_str()), (0, "one\n"));
}

#[tokio::test]
async fn what_stands_there_already_is_its_owners() {
    let bench = Bench::new(&[("a.txt", "one\n"), ("README", "r\n"), ("readme", "r\n")]);
    symlink("/etc/hostname", bench.path("away")).unwrap();
    let runtime = bench.runtime(vec![shell("echo two > a.txt; echo two > readme; mv README Other")]);
    let (run, _) = bench.start(&runtime, contract(WorkspaceMode::all_or_nothing())).await.unwrap();
    let end = &ends(&bench, &run).await[0];
    assert_eq!((end.unapplied.as_slice(), end.changes.len()), (&[] as &[Unapplied], 4));
}

#[tokio::test]
async fn tools_that_write_files_refuse_the_same_before_anything_is_written() {
    let link = "--- /dev/null\n+++ b/away\nnew file mode 120000\n@@ -0,0 +1 @@\n+/etc/hostname\n\\ No newline at end of file\n";
    let script = || {
        vec![
            calls("write_file", json!({ "path": "src/lib.rs", "content": "x\n" })),
            calls("apply_patch", json!({ "patch": link })),
            calls("write_file", json!({ "path": "src/other.rs", "content": "x\n" })),
        ]
    };
    let bench = Bench::new(&FILES);
    let (run, _) =
        bench.start(&bench.runtime(script()), contract(WorkspaceMode::all_or_nothing())).await.unwrap();
    let told = bench.told(&run, 0).await;
    assert!(told.contains("`src/lib.rs` cannot be written: another name there is the same"), "{told}");
    assert!(!bench.path("src/lib.rs").exists() && bench.path("away").symlink_metadata().is_err());
    assert_eq!(bench.read("src/other.rs"), "x\n");

    let bench = Bench::new(&FILES);
    bench.start(&bench.runtime(script()), contract(WorkspaceMode::staged())).await.unwrap();
    assert_eq!(bench.read("src/lib.rs"), "x\n");
}

#[tokio::test]
async fn a_session_puts_up_with_so_many_and_no_more() {
    // Its authorization puts up with two; staged is enough to order it.
    for (bad, outcome) in [(2, Outcome::Done), (3, Outcome::Stopped { why: StopWhy::RolledBack })] {
        let bench = Bench::new(&FILES);
        let mut script = vec![shell("echo two > a.txt; mkfifo pipe"); bad];
        script.push(shell("echo three > a.txt"));
        let mut runtime = bench.runtime(script);
        let clock = sessions::stands(&mut runtime, 1_000_000);
        let (_, ending) = sessions::start(&bench, &runtime, contract(WorkspaceMode::staged())).await.unwrap();
        let Ending::Over(finished) = &ending else { panic!("{ending:?}") };
        assert_eq!(finished.outcome, outcome);
        let expected = if outcome == Outcome::Done { ("three\n", 0) } else { ("one\n", 10) };
        assert_eq!((bench.read("a.txt").as_str(), ending.exit_code()), expected);
        assert_eq!(clock.load(Ordering::SeqCst), 1_000_000);
    }
}
