//! The named policies on real runs, approvals, and rules from the command line.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Ran, Rehearsal, Repo, TestEnvironment};

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "call": { "name": name, "arguments": arguments } })
}

fn exec(argv: &[&str]) -> Value {
    call("exec", json!({ "argv": argv }))
}

fn write() -> Value {
    call("write_file", json!({ "path": "new.txt", "content": "x\n" }))
}

impl Case {
    fn new(steps: Vec<Value>) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&json!({ "steps": steps, "final": "All is done." }));
        Self { env, repo, model }
    }

    fn run(&self, more: &[&str]) -> Ran {
        self.env.run(&self.repo.path, &self.model, more)
    }

    fn resume(&self, more: &[&str]) -> Ran {
        let run = self.env.only_run();
        let args = ["resume", &run, "--base-url", &self.model.base_url, "--json"];
        self.env.provost(args.iter().chain(more))
    }

    fn has(&self, name: &str) -> bool {
        self.repo.path.join(name).exists()
    }

    /// The `n`th decision: what, by which rule, of which layer, from which file.
    fn decision(&self, n: usize) -> Value {
        let journal = self.env.journal(&self.env.only_run());
        let mut decided = journal.into_iter().filter(|event| event["kind"] == "act.decided");
        decided.nth(n).unwrap()["body"]["decision"].clone()
    }

    fn told(&self) -> String {
        self.model.requests().pop().unwrap().to_string()
    }
}

#[test]
fn strict_asks_and_waits_for_a_word() {
    let case = Case::new(vec![write()]);
    let ran = case.run(&["--policy", "strict"]).code(5);
    assert_eq!(ran.last()["outcome"], "waiting_for_approval");
    assert!(!case.has("new.txt"), "nothing was written before the word");
    let _ = case.resume(&["--approve", "9"]).code(2).says("does not wait");
    let _ = case.resume(&["--approve", "0"]).code(0);
    assert!(case.has("new.txt"));

    let case = Case::new(vec![write()]);
    let _ = case.run(&["--policy", "strict"]).code(5);
    let _ = case.resume(&["--deny", "0"]).code(0);
    assert!(!case.has("new.txt"));
    assert!(case.told().contains("said no"));

    let case = Case::new(vec![write()]);
    let _ = case.run(&["--policy", "strict", "--yes"]).code(0);
    assert!(case.has("new.txt"));
}

#[test]
fn d13_an_allowed_command_needs_no_other_rule() {
    let steps = || vec![exec(&["echo", "test", "--lib"])];
    let case = Case::new(steps());
    let _ = case.run(&["--policy", "strict", "--allow", "exec echo test*"]).code(0);
    let decision = case.decision(0);
    assert_eq!(
        (&decision["rule"], &decision["layer"]),
        (&json!("allow exec echo test*"), &json!("command line"))
    );
    // The controls: without the rule it is asked about, and another command of the same program is as well.
    let _ = Case::new(steps()).run(&["--policy", "strict"]).code(5);
    let other = Case::new(vec![exec(&["echo", "other"])]);
    let _ = other.run(&["--policy", "strict", "--allow", "exec echo test*"]).code(5);
}

#[test]
fn deny_beats_allow_and_names_the_file() {
    let case = Case::new(vec![write(), exec(&["/bin/echo", "x"])]);
    let rules = "preset = \"workspace\"\ndeny = [\"write new.txt\", \"exec echo\"]\nallow = [\"write **\"]\n";
    fs::write(case.env.at("policy.toml"), rules).unwrap();
    let _ = case.run(&["--policy", "policy.toml", "--allow", "write new.txt"]).code(0);
    assert!(!case.has("new.txt"));
    let decision = case.decision(0);
    assert_eq!(decision["effect"], "deny");
    assert!(decision["source"].as_str().unwrap().ends_with("policy.toml"));
    assert_eq!(case.decision(1)["rule"], "deny exec echo", "found under another path");
    assert!(case.told().contains("policy.toml"), "the model is told the rule");
}

#[test]
fn read_only_means_read_only_for_commands_too() {
    let steps = || vec![write(), exec(&["sh", "-c", "echo y > by-command.txt"]), exec(&["cat", "a.txt"])];
    let case = Case::new(steps());
    let _ = case.run(&["--policy", "read-only"]).code(0);
    assert!(!case.has("new.txt") && !case.has("by-command.txt"));
    assert!(case.told().contains("one"), "reading works");
    // The control.
    let case = Case::new(steps());
    let _ = case.run(&[]).code(0);
    assert!(case.has("new.txt") && case.has("by-command.txt"));
}

#[test]
fn commands_write_in_the_workspace_only_unless_access_is_full() {
    let case = Case::new(vec![]);
    let outside = case.env.at("outside.txt");
    let steps = vec![exec(&["sh", "-c", &format!("echo z > {}", outside.display())])];
    let model = case.env.rehearse(&json!({ "steps": steps, "final": "done" }));
    let _ = case.env.run(&case.repo.path, &model, &[]).code(0);
    assert!(!outside.exists());
    let _ = case.env.run(&case.repo.path, &model, &["--policy", "full-access"]).code(0);
    assert!(outside.exists(), "the control");
}

#[test]
fn control_files_are_out_of_reach_and_ordinary_work_is_not() {
    let hook = "mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit";
    let swap = "mv .git .git.old && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit";
    let plant = "mkdir -p .cargo && echo '[build]' > .cargo/config.toml";
    let steps = vec![
        exec(&["sh", "-c", hook]),
        exec(&["sh", "-c", swap]),
        exec(&["sh", "-c", plant]),
        call("write_file", json!({ "path": ".git/config", "content": "evil" })),
        exec(&["git", "status", "--short"]),
        exec(&["sh", "-c", "echo fine > fine.txt"]),
    ];
    let case = Case::new(steps.clone());
    let config = fs::read_to_string(case.repo.path.join(".git/config")).unwrap();
    let _ = case.run(&[]).code(0);
    assert!(!case.has(".git/hooks/pre-commit") && !case.has(".git.old"));
    assert!(!case.has(".cargo/config.toml"), "what a command planted is undone");
    assert_eq!(fs::read_to_string(case.repo.path.join(".git/config")).unwrap(), config);
    assert!(case.has("fine.txt"));
    // The control: with full access the first of them succeeds.
    let case = Case::new(steps[..1].to_vec());
    let _ = case.run(&["--policy", "full-access"]).code(0);
    assert!(case.has(".git/hooks/pre-commit"));
}

#[test]
fn secrets_by_custom_are_hidden_from_tools_and_commands() {
    let steps = || {
        vec![
            call("read_file", json!({ "path": ".env" })),
            call("grep", json!({ "pattern": "canary" })),
            exec(&["cat", ".env"]),
            exec(&["sh", "-c", "cat sub/.env"]),
        ]
    };
    let plant = |case: &Case| {
        case.repo.write(".gitignore", ".env\n");
        case.repo.write(".env", "KEY=canary-5f1e\n");
        case.repo.write("sub/.env", "KEY=canary-5f1e\n");
        case.repo.write("sub/kept.txt", "kept\n");
    };
    let case = Case::new(steps());
    plant(&case);
    let _ = case.run(&[]).code(0);
    assert!(!case.told().contains("canary-5f1e"), "{}", case.told());
    let case = Case::new(steps());
    plant(&case);
    let _ = case.run(&["--policy", "full-access"]).code(0);
    assert!(case.told().contains("canary-5f1e"), "the control");
}

#[test]
fn explain_prints_rule_and_layer() {
    let env = TestEnvironment::new();
    let explain = |args: &[&str]| {
        let ran = env.provost(["policy", "explain"].iter().chain(args)).code(0);
        ran.stdout.lines().nth(1).unwrap_or_default().to_owned()
    };
    let denied = "deny: rule `deny write **/.git` of layer `control files`";
    assert_eq!(explain(&["write", ".git/config"]), denied);
    assert_eq!(
        explain(&["net", "example.org:443"]),
        "deny: rule `default net = deny` of layer `preset workspace`"
    );
    let strict = explain(&["--policy", "strict", "exec", "cargo", "publish"]);
    assert_eq!(strict, "ask: rule `default exec = ask` of layer `preset strict`");
}
