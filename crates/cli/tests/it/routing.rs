//! Models beside the first, from the command line: two rehearsed vendors on two wires.

use std::fs;

use serde_json::{Value, json};

use crate::script::{body, read, results, script, submit, with, write};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, bodies};

struct Case {
    env: TestEnvironment,
    repo: Repo,
    first: Rehearsal,
    second: Rehearsal,
}

impl Case {
    /// The first refuses its key from `step` on.
    fn new(step: usize) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let steps = [read("a.txt"), write("b.txt", "two\n"), submit()];
        let refused = |(n, it): (usize, &Value)| {
            if n < step {
                it.clone()
            } else {
                with(it.clone(), "fault", json!({ "status": 401, "times": 99 }))
            }
        };
        let broken: Vec<Value> = steps.iter().enumerate().map(refused).collect();
        let first = env.rehearse(&script(broken));
        let second = env.rehearse(&script(steps));
        Self { env, repo, first, second }
    }

    fn fallback(&self) -> String {
        format!("anthropic/claude@2026@{}", self.second.bare_url())
    }

    fn run(&self, more: &[&str]) -> Ran {
        let fallback = self.fallback();
        let more: Vec<&str> = ["--fallback", &fallback].into_iter().chain(more.iter().copied()).collect();
        self.env.run(&self.repo.path, &self.first, &more)
    }

    fn answered(&self) -> Vec<u64> {
        let journal = self.env.journal(&self.env.only_run());
        let route = |answer: &&Value| answer["route"].as_u64().unwrap_or(0);
        bodies(&journal, "model.answered").iter().map(route).collect()
    }
}

#[test]
fn a_fallback_finishes_what_the_first_began() {
    let case = Case::new(1);
    let ran = case.run(&["--yes"]).code(0);
    assert_eq!(case.answered(), [0, 1, 1]);
    assert_eq!(fs::read_to_string(case.repo.path.join("b.txt")).unwrap(), "two\n");
    // It was told what the first read, in its own vendor's words, and asked for by its own name.
    let asked = case.second.requests();
    let told = body(&asked[0]);
    assert_eq!(told["model"], "claude@2026");
    assert!(results(&told)[0].text.contains("one"), "{told}");
    drop(ran);
}

#[test]
fn a_run_does_not_begin_with_a_fallback_that_nobody_chose() {
    let case = Case::new(0);
    let _ = case.run(&["--yes"]).code(6);
    assert_eq!(case.second.requests().len(), 0);

    let case = Case::new(0);
    let _ = case.run(&["--yes", "--begin-with-fallback"]).code(0);
    assert_eq!(case.answered(), [1, 1, 1]);
}

#[test]
fn a_resume_asks_the_first_again_and_a_worker_knows_the_fallback_too() {
    let case = Case::new(0);
    let _ = case.run(&["--yes"]).code(6);
    let asked = case.first.requests().len();
    let _ = case.env.provost(["resume", &case.env.only_run()]).code(6);
    assert!(case.first.requests().len() > asked);
    assert_eq!(case.second.requests().len(), 0);

    let case = Case::new(1);
    let fallback = case.fallback();
    let mut args = case.env.run_args(&case.repo.path, &case.first, &["--yes", "--fallback", &fallback]);
    args[0] = "enqueue".to_owned();
    args.retain(|arg| arg != "--json");
    let _ = case.env.provost(args).code(0);
    let _ = case.env.provost(["worker", "--until-empty"]).code(0);
    assert_eq!(case.answered(), [0, 1, 1]);
}

#[test]
fn a_cassette_holds_all_models_of_a_run() {
    let case = Case::new(1);
    let _ = case.run(&["--yes", "--record", "tape"]).code(0);
    let asked = (case.first.requests().len(), case.second.requests().len());
    fs::remove_file(case.repo.path.join("b.txt")).unwrap();
    let _ = case.run(&["--yes", "--replay", "tape"]).code(0);
    assert_eq!((case.first.requests().len(), case.second.requests().len()), asked, "nobody was asked");
    assert_eq!(fs::read_to_string(case.repo.path.join("b.txt")).unwrap(), "two\n");
}

#[test]
fn i9_a_model_that_cannot_be_is_said_so() {
    let case = Case::new(9);
    for (spec, words) in [
        ("claude", "expected PROVIDER/MODEL"),
        ("nobody/m", "nobody"),
        ("azure/m", "a base URL of its own"),
        ("anthropic/m=3", "expected IN/OUT"),
    ] {
        let _ = case.env.run(&case.repo.path, &case.first, &["--fallback", spec]).code(2).says(words);
    }
    // What cannot be meant.
    let first = format!("openai/rehearsal@{}", case.first.base_url);
    let _ = case.run(&["--fallback", &first]).code(2).says("is the model that is asked first");
    let go_on = ["--unknown-outcome", "go-on"];
    let _ = case.env.run(&case.repo.path, &case.first, &go_on).code(2).says("no fallback");
    // A bound on money wants to know what each of them costs.
    let _ = case.run(&["--yes", "--max-cost", "1", "--price", "1/1"]).code(2).says("price");
    let priced = format!("{}=3/15", case.fallback());
    let args = ["--yes", "--max-cost", "1", "--price", "1/1", "--fallback", &priced];
    let _ = case.env.run(&case.repo.path, &case.first, &args).code(0);
}

/// Who would be asked next stands in `show` as long as the run is not over, with the reason.
#[test]
fn show_says_who_is_asked_now_and_why() {
    let case = Case::new(1);
    let _ = case.run(&["--policy", "strict", "--allow", "read **"]).code(5);
    let shown = case.env.provost(["show", &case.env.only_run()]).code(0).stdout;
    let line = shown.lines().find(|line| line.starts_with("asked now: ")).unwrap_or_default();
    assert_eq!(line, "asked now: claude@2026 (it stands in for one that gives no answer)", "{shown}");
    // The control: where there is nobody else it goes without saying.
    let case = Case::new(9);
    let _ = case.env.run(&case.repo.path, &case.first, &["--policy", "strict", "--allow", "read **"]).code(5);
    let shown = case.env.provost(["show", &case.env.only_run()]).code(0).stdout;
    assert!(!shown.contains("asked now"), "{shown}");
}

/// What is missing is said of the model that it is missing of.
#[test]
fn i9_what_a_fallback_lacks_is_said_of_the_fallback() {
    let case = Case::new(9);
    let run = |spec: &str, more: &[&str]| {
        let more: Vec<&str> = ["--fallback", spec].into_iter().chain(more.iter().copied()).collect();
        case.env.run(&case.repo.path, &case.first, &more).code(2).stderr
    };
    let unpriced = run("groq/unheard-of", &["--max-cost", "1", "--price", "1/2"]);
    assert!(
        unpriced.contains("`unheard-of` at `groq`, which is named beside the first model")
            && unpriced.contains("groq/unheard-of=IN/OUT"),
        "{unpriced}"
    );
    let keyless = run("groq/unheard-of", &[]);
    assert!(
        keyless.contains(
            "`unheard-of`, which is named beside the first model: the environment variable `GROQ_API_KEY`"
        ) && keyless.contains("--key-env is of the first model alone"),
        "{keyless}"
    );
    assert!(case.env.runs().is_empty());
}
