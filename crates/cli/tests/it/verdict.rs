//! What a recipient's last line says, what `--require-gate` refuses, and how a run ends whose bundle cannot be made.

use serde_json::{Value, json};

use crate::script::{script, sh, submit, write};
use crate::support::{Ran, Repo, TestEnvironment, text};

struct Case {
    env: TestEnvironment,
    repo: Repo,
}

impl Case {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        Self { env, repo }
    }

    /// A run of these steps that exports to `bundle`.
    fn run(&self, steps: impl IntoIterator<Item = Value>, more: &[&str]) -> Ran {
        self.run_to("bundle", steps, more)
    }

    fn run_to(&self, bundle: &str, steps: impl IntoIterator<Item = Value>, more: &[&str]) -> Ran {
        let model = self.env.rehearse(&script(steps));
        self.env.run(&self.repo.path, &model, &[&["--export", bundle][..], more].concat())
    }

    fn verify(&self, more: &[&str]) -> Ran {
        let key = self.env.public_key().display().to_string();
        let args = ["verify", "bundle", "--key", &key];
        self.env.provost(
            args.iter()
                .chain(if more.contains(&"--no-repo") { &[][..] } else { &["--repo", "repository"] })
                .chain(more),
        )
    }

    fn last_line(&self, code: i32, more: &[&str]) -> String {
        let ran = self.verify(more).code(code);
        ran.stdout.lines().last().unwrap_or_default().to_owned()
    }
}

#[test]
fn what_verifies_says_how_far_the_work_is_done() {
    let passed = "verified: the evidence holds, and the gate passed on this very tree";
    let ungated = "verified: the evidence holds. The run was ordered without a gate: only the agent says that the work is done";
    let failed =
        "verified: the evidence holds, of a run that is NOT done: the verification gate did not pass";
    let spent = "verified: the evidence holds, of a run that is NOT done: the budget of steps is spent";
    let done = || [write("b.txt", "x\n"), submit()];
    let cases: [(&[&str], i32, &str, bool); 4] = [
        (&["--verify", "test -e b.txt"], 0, passed, true),
        (&[], 0, ungated, false),
        (&["--verify", "test -e c.txt"], 1, failed, false),
        (&["--max-steps", "1"], 4, spent, false),
    ];
    for (more, code, words, gate) in cases {
        let case = Case::new();
        let _ = case.run(done(), more).code(code);
        assert_eq!(case.last_line(0, &[]), words);
        let alone = case.last_line(0, &["--no-repo"]);
        assert!(
            alone.starts_with("verified, except against a commit (no repository was given): the evidence"),
            "{alone}"
        );
        assert_eq!(alone.split(": the evidence holds").nth(1), words.split(": the evidence holds").nth(1));

        let required = case.verify(&["--require-gate", "--json"]).code(if gate { 0 } else { 8 });
        let verdict = required.last();
        assert_eq!(
            (&verdict["verified"], &verdict["gate_holds"]),
            (&json!(gate), &json!(gate)),
            "{required}"
        );
        let line = case.last_line(if gate { 0 } else { 8 }, &["--require-gate"]);
        assert_eq!(line.starts_with("NOT verified: gate: "), !gate, "{line}");
    }
}

#[test]
fn a_claim_that_only_the_repository_can_settle_is_named_with_the_way_round_it() {
    // What was not committed.
    let case = Case::new();
    case.repo.write("a.txt", "two\n");
    let _ = case.run([submit()], &[]).code(0);
    let line = case.last_line(8, &[]);
    assert!(line.starts_with("NOT verified: base: commit ") && line.contains("--no-repo"), "{line}");
    assert!(case.last_line(0, &["--no-repo"]).starts_with("verified, except"));
    // What is in no commit at all.
    let case = Case::new();
    let _ = case.run([submit()], &["--no-repo"]).code(0);
    let line = case.last_line(8, &[]);
    assert!(line.starts_with("NOT verified: base was not checked: ") && line.contains("--no-repo"), "{line}");
    // A claim that no option settles otherwise does not name one.
    std::fs::write(case.env.at("bundle/changes.patch"), "x").unwrap();
    let line = case.last_line(8, &[]);
    assert!(line.starts_with("NOT verified: files: ") && !line.contains("--no-repo"), "{line}");
}

#[test]
fn a_run_that_is_done_and_has_no_bundle_is_no_wrong_use() {
    let large = || sh("head -c 9000000 /dev/zero > big.bin");
    let case = Case::new();
    let ran = case.run([large(), submit()], &[]).code(8).says("`big.bin` changed and is larger than 8 MiB");
    let last = ran.last();
    assert_eq!((&last["outcome"], &last["exit_code"]), (&json!("done"), &json!(8)), "{ran}");
    assert!(text(&last["no_bundle"]).contains("8 MiB") && !case.env.at("bundle").exists());
    let _ =
        case.env.provost(["export", last["run"].as_str().unwrap(), "--out", "bundle"]).code(8).says("8 MiB");
    // Where the run itself did not end well, that is what the exit code says.
    let case = Case::new();
    let ran = case.run([large(), submit()], &["--max-steps", "1"]).code(4).says("8 MiB");
    assert_eq!(ran.last()["exit_code"], 4);
    // A folder that cannot be written is no wrong use either, once the work is done.
    let case = Case::new();
    std::fs::write(case.env.at("file"), "").unwrap();
    let ran = case.run_to("file/bundle", [submit()], &[]).code(70);
    assert_eq!((&ran.last()["outcome"], &ran.last()["exit_code"]), (&json!("done"), &json!(70)), "{ran}");
    // The control.
    let case = Case::new();
    let ran = case.run([sh("head -c 8000000 /dev/zero > big.bin"), submit()], &[]).code(0);
    assert!(text(&ran.last()["bundle"]).ends_with("bundle"), "{ran}");
}
