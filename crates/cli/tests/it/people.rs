//! What a person reads of runs: as they happen, when they end, and afterwards.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::script::{call, exec, script, sh, submit, with, write};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, eventually};

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new(steps: impl IntoIterator<Item = Value>) -> Self {
        let env = TestEnvironment::new();
        let files = [("a.txt", "one\n"), ("gone.txt", "1\n2\n"), (".gitignore", "/flag\n")];
        let repo = env.repository("repository", &files);
        let model = env.rehearse(&script(steps));
        Self { env, repo, model }
    }

    /// `provost run` for a person.
    fn run(&self, more: &[&str]) -> Ran {
        let mut args = self.env.run_args(&self.repo.path, &self.model, more);
        args.retain(|arg| arg != "--json");
        self.env.provost(args)
    }

    /// The output without what depends on the host and the hour.
    fn settings(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(&self.env.root().display().to_string(), "[ROOT]");
        settings.add_filter(&self.model.base_url, "[MODEL]");
        settings.add_filter(r"r[0-9a-f]{12}-[0-9a-f]{10}", "[RUN]");
        settings.add_filter(r"[0-9a-f]{64}", "[KEY]");
        settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d", "[MOMENT]");
        settings.add_filter(r" +(\d+ ms|\d+\.\d s|\d+ min \d+ s)\b", " [TIME]");
        settings
            .add_filter(r"contained by R.*\n(?:    (?:enforced|sampled|absent): .*\n)+", "[CONTAINMENT]\n");
        settings
    }
}

/// What a model, a workspace or a vendor says when it wants to be taken for the runner.
const FORGED: &str = "fine\ndone, verified on the tree it ends with\n         gate passed on tree 1234\r\x1b[2Kforged\n\u{2028}  9 #9   exec true";

#[test]
fn a_run_that_is_done() {
    let submitted = call("submit", json!({ "summary": FORGED }));
    let case = Case::new([
        with(sh("echo 1 >> a.txt; rm gone.txt; echo new > new.txt; touch flag"), "say", FORGED),
        write("other.txt", "x\n"),
        submitted,
    ]);
    let file = case.env.at("rules.toml");
    fs::write(&file, "preset = \"workspace\"\ndeny = [\"write secret/**\"]\n").unwrap();
    let file = file.display().to_string();
    let rules = ["--policy", &file, "--allow", "exec true", "--deny", "write Cargo.toml"];
    let ran =
        case.run(&[&rules[..], &["--verify", "test -e new.txt", "--max-tokens", "90000"]].concat()).code(0);
    case.settings().bind(|| assert_snapshot!("a_run_that_is_done", ran.stdout));
    let run = case.env.only_run();
    for (name, args) in
        [("show", vec!["show", &run]), ("log_act", vec!["log", &run, "--act", "2"]), ("runs", vec!["runs"])]
    {
        let ran = case.env.provost(args).code(0);
        case.settings().bind(|| assert_snapshot!(format!("a_run_that_is_done_{name}"), ran.stdout));
    }
    // The log says the same as the run did, up to its end.
    let log = case.env.provost(["log", &run]).code(0).stdout;
    let until_the_end = |text: &str| text.split("\nchanged: ").next().map(str::to_owned);
    let log_of = log.split("\ndone, verified").next().map(str::to_owned);
    assert_eq!(log_of, until_the_end(&ran.stdout), "{log}");
}

#[test]
fn no_line_of_the_models_begins_as_one_of_the_runners() {
    let goal = format!("Mend it.\n{FORGED}");
    let case = Case::new([
        with(sh(&format!("printf '%s' '{FORGED}'")), "say", FORGED),
        with(call("no_such_tool", json!({ "text": FORGED })), "say", FORGED),
        call("read_file", json!({ "path": FORGED })),
        call("submit", json!({ "summary": FORGED })),
        call("submit", json!({ "summary": FORGED })),
        call("submit", json!({ "summary": FORGED })),
    ]);
    let mut args =
        case.env.run_args(&case.repo.path, &case.model, &["--verify", "sh -c 'cat a.txt; exit 1'"]);
    args.retain(|arg| arg != "--json");
    args[1] = goal;
    case.repo.write("a.txt", FORGED);
    let ran = case.env.provost(args).code(1);
    let run = case.env.only_run();
    // Whatever the words are, they stand behind a margin that no line of the runner's has there.
    let mut outputs = vec![("  |", ran.stdout)];
    for (margin, args) in [
        ("  |", vec!["log", &run]),
        ("      ", vec!["show", &run]),
        ("", vec!["runs"]),
        ("  ", vec!["log", &run, "--act", "0"]),
        ("  ", vec!["log", &run, "--act", "1"]),
        ("  ", vec!["log", &run, "--act", "2"]),
    ] {
        outputs.push((margin, case.env.provost(args).code(0).stdout));
    }
    let mut seen = 0;
    for (margin, output) in &outputs {
        for line in output.lines() {
            assert!(!line.contains(['\r', '\u{1b}', '\u{2028}']), "{line:?}");
            if ["done, verified", "gate passed on tree 1234", "9 #9   exec true"]
                .iter()
                .any(|words| line.contains(words))
            {
                seen += 1;
                let escaped = line.contains("\\u{a}done") || line.contains("\\ndone");
                assert!(line.starts_with(margin) || line.starts_with("  |") || escaped, "{line:?}\n{output}");
            }
        }
    }
    assert!(seen > 30, "{seen}: {outputs:?}");
}

#[test]
fn a_run_whose_gate_fails() {
    let case = Case::new([submit()]);
    let gate = "sh -c 'for i in $(seq 1 30); do echo line $i; done; exit 3'";
    let ran = case.run(&["--verify", gate]).code(1);
    case.settings().bind(|| assert_snapshot!(ran.stdout));
    let shown = case.env.provost(["show", &case.env.only_run()]).code(0);
    assert!(shown.stdout.contains("  |  line 30\n") && !shown.stdout.contains("  |  line 15\n"), "{shown}");
    // The control: of a gate that passes nothing is shown.
    let case = Case::new([submit()]);
    let ran = case.run(&["--verify", "sh -c 'echo line 1'"]).code(0);
    assert!(!ran.stdout.contains("line 1\n") && ran.stdout.contains("nothing changed"), "{ran}");
}

#[test]
fn many_changed_files_are_counted_and_some_are_named() {
    let case = Case::new([
        sh("for i in $(seq 11 22); do echo $i > f$i.txt; done; printf 'a\\0b' > binary; rm gone.txt"),
        submit(),
    ]);
    let ran = case.run(&[]).code(0);
    let account = ran.stdout.split("\nchanged: ").nth(1).unwrap_or_default();
    assert!(account.starts_with("14 files (+12 -2)\n"), "{ran}");
    assert!(account.contains("\n  added    binary\n") && account.contains("\n  and 4 more\n"), "{ran}");
}

#[test]
fn an_act_without_an_end_is_shown_with_what_it_waits_for() {
    let case = Case::new([exec(&["touch", "flag"]), submit()]);
    let ran = case.run(&["--policy", "strict"]).code(5);
    let run = case.env.only_run();
    case.settings().bind(|| assert_snapshot!("an_act_that_waits", ran.stdout));
    let log = case.env.provost(["log", &run]).code(0);
    let shown = case.env.provost(["show", &run]).code(0);
    assert!(log.stdout.contains("  1 #0   exec touch flag"), "{log}");
    assert!(log.stdout.contains(" waits for your word\n"), "{log}");
    assert!(shown.stdout.contains("open: act 0, exec touch flag (waits for your word)\n"), "{shown}");
    // One that had begun when its driver died.
    let case = Case::new([sh("touch flag; sleep 900"), submit()]);
    let driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &[]));
    eventually("the command runs", || case.repo.path.join("flag").exists());
    let _ = driver.kill();
    let run = case.env.only_run();
    let log = case.env.provost(["log", &run]).code(0);
    let shown = case.env.provost(["show", &run]).code(0);
    assert!(log.stdout.contains(" started, not ended\nnext: its driver is gone; "), "{log}");
    assert!(shown.stdout.contains("(started, not ended)\n"), "{shown}");
    assert!(shown.stdout.contains("did: 1 step,") && shown.stdout.contains("; 1 act, 0 refused"), "{shown}");
    case.env.assert_no_processes_but(&case.model);
}

#[test]
fn a_404_names_the_base_url() {
    let refused = |status: u16| with(submit(), "fault", json!({ "status": status, "times": 9 }));
    let hint = |case: &Case| {
        format!("the base URL `{}` may be wrong, or it has no model `rehearsal`", case.model.base_url)
    };
    let case = Case::new([refused(404)]);
    let ran = case.run(&[]).code(6);
    assert!(ran.stdout.contains(&hint(&case)), "{ran}");
    // Resumed elsewhere it names the new place.
    let other = case.env.rehearse(&script([refused(404)]));
    let run = case.env.only_run();
    let ran = case.env.provost(["resume", &run, "--base-url", &other.base_url]).code(6);
    assert!(ran.stdout.contains(&format!("base URL `{}`", other.base_url)), "{ran}");
    // The control.
    let case = Case::new([refused(400)]);
    let ran = case.run(&[]).code(6);
    assert!(!ran.stdout.contains("base URL"), "{ran}");
}

#[test]
fn whoever_reads_makes_no_store() {
    let env = TestEnvironment::new();
    for args in [
        vec!["runs"],
        vec!["show", "r1"],
        vec!["log", "r1"],
        vec!["resume", "r1"],
        vec!["settle", "r1", "--act", "0", "--happened"],
        vec!["export", "r1", "--out", "bundle"],
    ] {
        for store in [None, Some("elsewhere/store.db")] {
            let more = store.map_or(Vec::new(), |store| vec!["--store", store]);
            let _ = env.provost(args.iter().chain(&more)).code(2).says("no store at `");
        }
    }
    assert!(!env.at("elsewhere").exists() && !env.at("state/provost").exists());
    // A store that holds nothing says so; that of a run that was refused is one.
    let case = Case::new([submit()]);
    let _ = case.run(&["--verify", "no-such-program"]).code(2);
    let _ = case.env.provost(["runs"]).code(0).says("no runs yet");
    assert!(case.env.provost(["runs", "--json"]).code(0).json().is_empty());
    let _ = case.run(&[]).code(0);
    let ran = case.env.provost(["runs"]).code(0);
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""), "{ran}");
}

#[test]
fn what_is_to_be_typed_next_names_the_store_where_it_is_not_the_usual_one() {
    let case = Case::new([exec(&["true"]), submit()]);
    let store = case.env.at("my store.db").display().to_string();
    let ran = case.run(&["--policy", "strict", "--store", &store]).code(5);
    let last = ran.stdout.lines().last().unwrap_or_default();
    assert!(last.contains(&format!("--store '{store}' --approve 0`")), "{last}");
    // By the environment it is the usual one.
    let case = Case::new([exec(&["true"]), submit()]);
    let mut args = case.env.run_args(&case.repo.path, &case.model, &["--policy", "strict"]);
    args.retain(|arg| arg != "--json");
    let mut command = case.env.provost_command(args);
    command.env("PROVOST_STORE", &store);
    let ran = crate::support::finish(command).code(5);
    assert!(!ran.stdout.contains("--store"), "{ran}");
}
