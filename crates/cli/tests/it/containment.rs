//! `provost doctor` and `provost sandbox selftest`.

use std::fs;

use serde_json::Value;

use crate::script::{script, sh, submit};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, bodies, finish};

/// A repository with a file and a rehearsed model that plays some steps and submits.
struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new(steps: impl IntoIterator<Item = Value>) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script(steps.into_iter().chain([submit()])));
        Self { env, repo, model }
    }

    fn run(&self, more: &[&str]) -> Ran {
        self.env.run(&self.repo.path, &self.model, more)
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let journal = self.env.journal(&self.env.only_run());
        bodies(&journal, kind).into_iter().cloned().collect()
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.repo.path.join(name)).ok()
    }
}

fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn doctor_says_what_holds_and_remembers_it() {
    let env = TestEnvironment::new();
    let first = env.provost(["doctor"]).code(0);
    assert!(first.stdout.contains("strongest rung: R3 (namespaces, Landlock and seccomp)"), "{first}");
    assert!(first.stdout.contains("tried now"), "{first}");
    assert!(first.stdout.contains("container engine podman: /usr/bin/podman "), "{first}");
    let mut without = env.provost_command(["doctor"]);
    without.env("PATH", "/nowhere");
    let without = finish(without).code(0);
    assert!(
        without.stdout.contains("engine podman: not to be had: there is no `podman` on PATH"),
        "{without}"
    );
    let second = env.provost(["doctor"]).code(0);
    assert!(second.stdout.contains("found by an earlier process"), "{second}");
    let fresh = env.provost(["doctor", "--fresh", "--json"]).code(0);
    let told = last(&fresh.stdout);
    assert_eq!((told["kind"].as_str(), told["strongest"].as_str()), (Some("doctor"), Some("R3")));
    assert_eq!(told["guarantees"]["fs-write"], "enforced");
    assert_eq!(told["origin"], "tried now");
}

/// A host that has no namespaces to give.
#[test]
fn doctor_names_the_cause_what_it_costs_and_the_remedy() {
    let env = TestEnvironment::new();
    let line = format!(
        "echo 0 >/proc/sys/user/max_user_namespaces && \
         exec setpriv --bounding-set=-all --inh-caps=-all {} doctor",
        env!("CARGO_BIN_EXE_provost"),
    );
    let mut command = env.command("unshare");
    command.args(["-Ur", "sh", "-c", &line]);
    let ran = finish(command).code(0);
    assert!(ran.stdout.contains("strongest rung: R2 (Landlock and seccomp)"), "{ran}");
    assert!(ran.stdout.contains("R3 (namespaces, Landlock and seccomp) needs it"), "{ran}");
    assert!(ran.stdout.contains("sysctl -w user.max_user_namespaces=15000"), "{ran}");
}

#[test]
fn a_self_test_attacks_and_tells_people_and_programs() {
    let env = TestEnvironment::new();
    let ran = env.provost(["sandbox", "selftest", "--json"]).code(0);
    let all: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (whole, attacks) = all.split_last().unwrap();
    assert_eq!((whole["kind"].as_str(), whole["rung"].as_str()), (Some("selftest"), Some("R3")));
    assert_eq!(whole["counts"]["broken"], 0);
    assert_eq!(whole["disabled"], false);
    assert!(attacks.len() > 67 && attacks.iter().all(|attack| attack["kind"] == "attack"));
    let one = attacks.iter().find(|attack| attack["name"] == "read-ssh-key").unwrap();
    assert_eq!((one["verdict"].as_str(), one["breaks"].as_str()), (Some("held"), Some("fs-read")));

    let ran = env.provost(["sandbox", "selftest", "--rung", "r2"]).code(0);
    assert!(ran.stdout.contains("not promised  see-processes"), "{ran}");
    assert!(ran.stdout.contains(" held, 0 broken, "), "{ran}");
}

/// A file that says so stands for a self-test that found a mismatch: no run takes the rung, and the words say why.
#[test]
fn a_rung_that_a_self_test_disabled_is_not_taken() {
    let env = TestEnvironment::new();
    let _ = env.provost(["doctor"]).code(0);
    let kept = env.at("home/.cache/provost/probe.json");
    let mut content: Value = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
    content["probe"]["disabled"] = serde_json::json!([{ "rung": "R3", "attacks": ["tcp"] }]);
    fs::write(&kept, content.to_string()).unwrap();

    let doctor = env.provost(["doctor"]).code(0);
    assert!(doctor.stdout.contains("strongest rung: R2"), "{doctor}");
    assert!(doctor.stdout.contains("these attacks worked or could not be tried: tcp"), "{doctor}");
    assert!(doctor.stdout.contains("provost sandbox selftest --rung R3"), "{doctor}");

    // A self-test that finds it sound takes it back.
    let _ = env.provost(["sandbox", "selftest"]).code(0);
    let doctor = env.provost(["doctor"]).code(0);
    assert!(doctor.stdout.contains("strongest rung: R3"), "{doctor}");
}

/// A host that gives no namespaces runs commands under R2, where a killed tree is only sampled.
#[test]
fn a_guarantee_that_is_required_and_not_enforced_ends_in_9_before_anything_is_asked() {
    let case = Case::new([sh("echo x > b.txt")]);
    fs::write(case.env.at("policy.toml"), "preset = \"workspace\"\nrequire = [\"kill-tree\"]\n").unwrap();
    let bare = |options: &str| {
        let line = format!(
            "echo 0 >/proc/sys/user/max_user_namespaces && \
             exec setpriv --bounding-set=-all --inh-caps=-all {} run 'Mend it.' -C repository --model m \
             --base-url {} --json {options}",
            env!("CARGO_BIN_EXE_provost"),
            case.model.base_url,
        );
        let mut command = case.env.command("unshare");
        command.args(["-Ur", "sh", "-c", &line]);
        finish(command)
    };
    for options in ["--require kill-tree", "--policy policy.toml", "--policy policy.toml --require net"] {
        let ran = bare(options).code(9);
        assert!(ran.stderr.contains("`kill-tree` is only sampled"), "{ran}");
        assert!(ran.stderr.contains("user-namespace"), "{ran}");
        assert!(case.model.requests().is_empty() && case.file("b.txt").is_none());
    }
    // The controls: there, something that R2 enforces; here, the same.
    let ran = bare("--require net,fs-write");
    assert!([0, 5].contains(&ran.code), "{ran}");
    let other = Case::new([sh("echo x > b.txt")]);
    let _ = other.run(&["--require", "kill-tree,net"]).code(0);
    // It is in the contract, and so in the journal.
    let created = &other.events("run.created")[0];
    assert_eq!(created["policy"]["require"], serde_json::json!(["net", "kill-tree"]));
}

#[test]
fn a_guarantee_that_does_not_exist_is_named_with_those_that_do() {
    let case = Case::new([]);
    let ran = case.run(&["--require", "nett"]).code(2);
    assert!(ran.stderr.contains("`nett` is no guarantee") && ran.stderr.contains("kill-tree"), "{ran}");
    fs::write(case.env.at("policy.toml"), "require = [\"nett\"]\n").unwrap();
    let ran = case.run(&["--policy", "policy.toml"]).code(2);
    assert!(ran.stderr.contains("nett") && ran.stderr.contains("kill-tree"), "{ran}");
}
