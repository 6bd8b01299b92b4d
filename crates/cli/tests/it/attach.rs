//! Watching and answering from another process. The first answer wins, and whoever comes second is told.

use std::fs;

use serde_json::{Value, json};

use crate::script::{scene, sh, write};
use crate::support::{Ran, Rehearsal, Repo, Running, TestEnvironment, bodies, eventually, text};
use crate::terminal::DRIVER;

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new(steps: impl IntoIterator<Item = Value>) -> Self {
        let (env, repo, model) = scene(steps);
        Self { env, repo, model }
    }

    /// A run that is parked with a question about act 0.
    fn parked(&self) -> String {
        let args = self.env.run_args(&self.repo.path, &self.model, &["--policy", "strict"]);
        self.env.provost(args).code(5).run()
    }

    fn attach(&self, run: &str, more: &[&str]) -> Ran {
        self.env.provost(["attach", run].iter().chain(more))
    }

    fn waiting(&self, run: &str) -> Value {
        self.env.provost(["status", run, "--json"]).code(0).last()["waiting"].clone()
    }

    /// `provost …` at a terminal, in the background, where this is said.
    fn at_terminal(&self, talk: &[(&str, &str)], args: &[&str]) -> Running {
        let mut command = self.env.command("python3");
        command.args(["-c", DRIVER, &json!(talk).to_string(), env!("CARGO_BIN_EXE_provost")]);
        command.args(args);
        Running::start(command)
    }

    /// A run that asks at its own terminal.
    fn asking(&self, talk: &[(&str, &str)]) -> Running {
        let mut args = self.env.run_args(&self.repo.path, &self.model, &["--policy", "strict"]);
        args.retain(|arg| arg != "--json");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let running = self.at_terminal(talk, &args);
        eventually("it asks", || {
            self.env.store().exists()
                && self.env.runs().first().is_some_and(|run| !self.waiting(run).is_null())
        });
        running
    }
}

fn approvals(env: &TestEnvironment, run: &str) -> Vec<(String, String)> {
    let journal = env.journal(run);
    let said = |body: &&Value| (text(&body["by"]), text(&body["verdict"]));
    bodies(&journal, "act.approved").iter().map(said).collect()
}

#[test]
fn an_answer_to_a_parked_run_waits_for_whoever_resumes_it() {
    let case = Case::new([write("b.txt", "two\n")]);
    let run = case.parked();
    assert_eq!(case.waiting(&run)["act"], 0);
    assert_eq!(case.waiting(&run)["tool"], "write_file");
    // To look is not to answer.
    let seen = case.attach(&run, &[]).code(5);
    assert!(seen.stdout.contains(&format!("`provost resume {run} --approve 0`")), "{seen}");
    let _ = case.attach(&run, &["--approve", "7"]).code(2).says("act 7 of");

    let said = case.attach(&run, &["--approve", "0"]).code(0);
    assert!(said.stdout.contains("act 0 approved; `provost resume"), "{said}");
    let late = case.attach(&run, &["--deny", "0"]).code(7);
    assert!(late.stdout.contains("too late: act 0 was approved by attach before"), "{late}");
    // Also for whoever resumes it.
    let _ = case.env.provost(["resume", &run, "--deny", "0"]).code(2).says("was approved by attach before");
    let _ = case.env.provost(["resume", &run, "--json"]).code(0);
    assert_eq!(approvals(&case.env, &run), [("attach".to_owned(), "approved".to_owned())]);
    assert_eq!(fs::read_to_string(case.repo.path.join("b.txt")).unwrap(), "two\n");
    let _ = case.attach(&run, &["--approve", "0"]).code(7);
}

#[test]
fn of_many_answers_at_once_one_is_first_and_all_others_are_told() {
    let case = Case::new([write("b.txt", "two\n")]);
    let run = case.parked();
    let answers: Vec<(&str, Running)> = (0..8)
        .map(|n| if n % 2 == 0 { "--approve" } else { "--deny" })
        .map(|word| (word, case.env.start(["attach", &run, word, "0"])))
        .collect();
    let said: Vec<(&str, Ran)> = answers.into_iter().map(|(word, running)| (word, running.wait())).collect();
    let first: Vec<&str> = said.iter().filter(|(_, ran)| ran.code == 0).map(|(word, _)| *word).collect();
    assert_eq!(first.len(), 1, "{said:?}");
    assert!(said.iter().all(|(_, ran)| ran.code == 0 || ran.stdout.contains("too late")), "{said:?}");
    let _ = case.env.provost(["resume", &run, "--json"]).code(0);
    let verdict = if first[0] == "--approve" { "approved" } else { "denied" };
    assert_eq!(approvals(&case.env, &run), [("attach".to_owned(), verdict.to_owned())]);
    assert_eq!(case.repo.path.join("b.txt").exists(), verdict == "approved");
}

#[test]
fn a_question_that_a_driver_asks_at_its_terminal_can_be_answered_from_elsewhere() {
    let case = Case::new([write("b.txt", "two\n"), write("c.txt", "three\n")]);
    // The second question is answered where it is asked: what is typed then is not lost to the first.
    let driver = case.asking(&[("act 0 approved by attach", ""), ("allow?", "y\n")]);
    let run = case.env.only_run();
    let said = case.attach(&run, &["--approve", "0"]).code(0);
    assert_eq!(said.stdout, "act 0 approved\n");
    let ran = driver.wait().code(0);
    assert!(ran.stdout.contains("act 0 approved by attach"), "{ran}");
    let by: Vec<String> = approvals(&case.env, &run).into_iter().map(|(by, _)| by).collect();
    assert_eq!(by, ["attach", "terminal"]);
    assert!(case.repo.path.join("b.txt").exists() && case.repo.path.join("c.txt").exists());
}

#[test]
fn a_person_who_is_attached_is_asked_and_a_second_is_not_in_the_way() {
    let case = Case::new([write("b.txt", "two\n")]);
    let driver = case.asking(&[]);
    let run = case.env.only_run();
    let other = case.at_terminal(&[("allow?", "n\n")], &["attach", &run]);
    let other = other.wait();
    let _ = driver.wait().code(0);
    assert_eq!(other.code, 0, "it follows the run to its end: {other}");
    assert!(other.stdout.contains("act 0 denied"), "{other}");
    assert_eq!(approvals(&case.env, &run), [("attach".to_owned(), "denied".to_owned())]);
    assert!(!case.repo.path.join("b.txt").exists());
}

#[test]
fn whoever_follows_a_run_sees_all_of_it_and_its_end() {
    let case = Case::new([write("b.txt", "two\n"), sh("until test -e go; do sleep 0.02; done")]);
    let driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &["--yes"]));
    eventually("the command runs", || {
        case.env.store().exists()
            && case.env.runs().first().is_some_and(|run| case.env.journal(run).len() > 5)
    });
    let run = case.env.only_run();
    let lines = case.env.start(["attach", &run]);
    let json = case.env.start(["attach", &run, "--json"]);
    fs::write(case.repo.path.join("go"), "").unwrap();
    let _ = driver.wait().code(0);
    let lines = lines.wait().code(0);
    assert!(lines.stdout.contains("write_file b.txt") && lines.stdout.contains("submitted"), "{lines}");
    let mut json = json.wait().code(0).json();
    assert_eq!(json.pop().unwrap()["state"], "done");
    assert_eq!(json, case.env.journal(&run), "every event once, in its order");
}

/// An answer that nobody has acted on is none any more once the run is cancelled, and is in nobody's way.
#[test]
fn a_run_with_an_answer_that_waits_can_be_cancelled() {
    for word in ["--approve", "--deny"] {
        let case = Case::new([write("b.txt", "two\n")]);
        let run = case.parked();
        let _ = case.attach(&run, &[word, "0"]).code(0);
        let _ = case.env.provost(["cancel", &run]).code(0);
        assert_eq!(case.env.show(&run)["state"], "cancelled");
        assert!(approvals(&case.env, &run).is_empty());
        let _ = case.env.provost(["resume", &run]).code(10);
    }
}
