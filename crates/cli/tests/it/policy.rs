//! Policy on real runs: each decision is an event and an observation, what a command may not change does not change,
//! approvals are for one act, and what is refused works without the protection. The presets as such are in
//! `presets.rs`.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::script::{call, exec, script, sh, submit, together, told, with, write};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, bodies, finish, text};

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

    fn resume(&self, more: &[&str]) -> Ran {
        let run = self.env.only_run();
        self.env.provost(["resume", &run, "--json"].iter().chain(more))
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let journal = self.env.journal(&self.env.only_run());
        bodies(&journal, kind).into_iter().cloned().collect()
    }

    fn told(&self) -> Vec<String> {
        told(&self.model)
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.repo.path.join(name)).ok()
    }
}

#[test]
fn a_command_that_policy_asks_about_waits_and_each_word_is_for_one_act() {
    let steps = || [sh("echo 1 >> count.txt"), sh("echo 2 >> count.txt"), sh("echo 3 >> count.txt")];
    let case = Case::new(steps());
    let ran = case.run(&["--policy", "strict"]).code(5);
    assert_eq!(
        (&ran.last()["outcome"], &ran.last()["waiting_act"]),
        (&json!("waiting_for_approval"), &json!(0))
    );
    assert_eq!(case.file("count.txt"), None, "nothing ran before the word");
    let asked = case.model.requests().len();
    // Without a word it waits on, and the model is not asked again.
    let _ = case.resume(&[]).code(5);
    assert_eq!(case.model.requests().len(), asked);
    // Words for another act, or two for one, change nothing.
    let _ = case.resume(&["--approve", "1"]).code(2);
    let _ = case.resume(&["--approve", "0", "--deny", "0"]).code(2);
    assert_eq!(case.file("count.txt"), None);
    // Yes to the first; the second is asked about on its own.
    let ran = case.resume(&["--approve", "0"]).code(5);
    assert_eq!(ran.last()["waiting_act"], 1);
    assert_eq!(case.file("count.txt").as_deref(), Some("1\n"));
    // No to the second: the model is told, and goes on to the third.
    let ran = case.resume(&["--deny", "1"]).code(5);
    assert_eq!(ran.last()["waiting_act"], 2);
    assert!(case.told()[1].contains("said no"), "{:?}", case.told());
    // Yes to all that is left.
    let _ = case.resume(&["--yes"]).code(0);
    assert_eq!(case.file("count.txt").as_deref(), Some("1\n3\n"));
    let approved: Vec<(String, String)> = case
        .events("act.approved")
        .iter()
        .map(|event| (text(&event["verdict"]), text(&event["by"])))
        .collect();
    let verdict = |verdict: &str, by: &str| (verdict.to_owned(), by.to_owned());
    assert_eq!(approved[..2], [verdict("approved", "resume"), verdict("denied", "resume")]);
    assert!(approved[2..].iter().all(|one| *one == verdict("approved", "--yes")), "{approved:?}");
    // The control: where policy allows it nothing waits.
    let case = Case::new(steps());
    let _ = case.run(&[]).code(0);
    assert_eq!(case.file("count.txt").as_deref(), Some("1\n2\n3\n"));
}

#[test]
fn yes_answers_questions_and_lifts_no_containment() {
    let outside = |case: &Case| case.env.at("outside.txt");
    for (args, reaches) in
        [(vec!["--policy", "strict", "--yes"], false), (vec!["--policy", "full-access"], true)]
    {
        let case = Case::new([]);
        let line = format!("echo x > {}; echo inside > inside.txt", outside(&case).display());
        let denied = write(".git/hooks/pre-commit", "#!/bin/sh\n");
        let model = case.env.rehearse(&script([sh(&line), denied, submit()]));
        let _ = case.env.run(&case.repo.path, &model, &args).code(0);
        assert_eq!(outside(&case).exists(), reaches);
        assert_eq!(case.file("inside.txt").as_deref(), Some("inside\n"));
        assert_eq!(case.file(".git/hooks/pre-commit").is_some(), reaches, "a deny is no question");
    }
}

#[test]
fn a_decision_names_rule_layer_and_file_in_the_event_and_to_the_model() {
    let case = Case::new([write("secret/new.txt", "x"), exec(&["env", "true"]), exec(&["/bin/echo", "x"])]);
    let file = case.env.at("rules.toml");
    fs::write(&file, "preset = \"workspace\"\ndeny = [\"write secret/**\"]\n").unwrap();
    let file = file.display().to_string();
    let allow = ["--allow", "write **", "--allow", "exec *", "--deny", "exec echo"];
    let _ = case.run(&[&["--policy", file.as_str()][..], &allow].concat()).code(0);
    assert!(!case.repo.path.join("secret").exists());
    let decided: Vec<Value> =
        case.events("act.decided").iter().map(|event| event["decision"].clone()).collect();
    assert_eq!(
        decided[0],
        json!({
            "effect": "deny", "touch": 0, "rule": "deny write secret/**", "layer": "policy file", "source": file,
        })
    );
    assert_eq!((&decided[1]["effect"], &decided[1]["rule"]), (&json!("allow"), &json!("allow exec *")));
    assert_eq!(
        (&decided[2]["rule"], &decided[2]["layer"]),
        (&json!("deny exec echo"), &json!("command line"))
    );
    let told = case.told();
    assert!(
        ["deny write secret/**", "policy file", &file].iter().all(|word| told[0].contains(word)),
        "{}",
        told[0]
    );
    assert!(told[2].contains("deny exec echo") && told[2].contains("command line"), "{}", told[2]);
    let ends: Vec<String> = case.events("act.finished").iter().map(|event| text(&event["end"])).collect();
    assert_eq!(ends, ["refused", "done", "refused", "done"]);
    assert_eq!(case.events("act.started").len(), 1, "only what was allowed was begun");
}

#[test]
fn read_only_holds_for_commands_by_the_kernels_word() {
    let steps = || {
        [
            sh("echo x > new.txt"),
            sh("echo x >> a.txt"),
            sh("cat a.txt; echo x > /tmp/scratch && echo scratched"),
        ]
    };
    let case = Case::new(steps());
    let _ = case.run(&["--policy", "read-only"]).code(0);
    let told = case.told();
    for text in &told[..2] {
        assert!(text.contains("Read-only file system") || text.contains("Permission denied"), "{text}");
    }
    assert!(told[2].contains("one") && told[2].contains("scratched"), "{}", told[2]);
    assert_eq!((case.file("new.txt"), case.file("a.txt").as_deref()), (None, Some("one\n")));
    let case = Case::new(steps());
    let _ = case.run(&[]).code(0);
    assert_eq!(case.file("a.txt").as_deref(), Some("one\nx\n"), "the control");
}

#[test]
fn what_a_command_does_to_protected_files_is_undone_and_said() {
    let steps = || {
        [
            sh("echo evil > .cargo/config.toml"),
            sh("rm .cargo/config.toml; echo ok > fine.txt"),
            sh(
                "mkdir -p deep/er/.cargo && echo evil > deep/er/.cargo/config.toml && echo ok > deep/fine.txt",
            ),
            sh("rm -rf .cargo && ln -s /etc .cargo"),
            sh("mv .cargo elsewhere"),
        ]
    };
    let plant = |case: &Case| {
        case.repo.write(".cargo/config.toml", "[build]\n");
        case.repo.commit();
    };
    let case = Case::new(steps());
    plant(&case);
    let _ = case.run(&[]).code(0);
    assert_eq!(case.file(".cargo/config.toml").as_deref(), Some("[build]\n"), "{:?}", case.told());
    assert_eq!(case.file("fine.txt").as_deref(), Some("ok\n"), "what else it did stays");
    assert_eq!(
        (case.file("deep/er/.cargo/config.toml"), case.file("deep/fine.txt").as_deref()),
        (None, Some("ok\n"))
    );
    assert!(fs::symlink_metadata(case.repo.path.join(".cargo")).unwrap().is_dir());
    // Either the kernel refused it, or it is undone and the model is told.
    for (act, text) in case.events("act.finished").iter().zip(case.told()) {
        let undone = act["reverted"].as_array().is_some_and(|paths| !paths.is_empty());
        assert!(!undone || text.contains("undone"), "{text}");
        let changed = act["changes"].to_string();
        assert!(!changed.contains("config.toml"), "no event says that it was changed: {changed}");
    }
    assert_eq!(case.repo.git(&["status", "--short", ".cargo"]), "");
    // The control.
    let case = Case::new(steps());
    plant(&case);
    let _ = case.run(&["--policy", "full-access"]).code(0);
    assert_ne!(case.file(".cargo/config.toml").as_deref(), Some("[build]\n"));
}

#[test]
fn ordinary_work_goes_on_contained() {
    let env = TestEnvironment::new();
    let package = env.package();
    let steps = [
        exec(&["cargo", "build", "--offline"]),
        sh(
            "set -e; t=$(mktemp); echo x > $t; cat $t; mkdir -p out/deep; mv out out2; ln -s out2 link; chmod 755 out2",
        ),
        sh("true | tee /dev/null && : > /dev/null && head -c 4 /dev/urandom | wc -c"),
        submit(),
    ];
    let model = env.rehearse(&script(steps));
    let run = env.run(&package.dir, &model, &["--verify", "cargo build --offline"]).code(0).run();
    let journal = env.journal(&run);
    let ends: Vec<String> =
        bodies(&journal, "act.finished").iter().map(|event| text(&event["end"])).collect();
    assert!(ends.iter().all(|end| end == "done"), "{ends:?} {:?}", told(&model));

    let case = Case::new([
        exec(&["git", "status", "--short"]),
        exec(&["git", "diff", "--exit-code"]),
        exec(&["git", "log", "--oneline"]),
        exec(&["git", "show", "HEAD:a.txt"]),
    ]);
    let _ = case.run(&["--verify", "git status"]).code(0);
    let ends: Vec<String> = case.events("act.finished").iter().map(|event| text(&event["end"])).collect();
    assert!(ends.iter().all(|end| end == "done"), "{ends:?} {:?}", case.told());
    assert!(case.told()[2].contains("A commit") && case.told()[3].contains("one"));
}

#[test]
fn commands_have_no_network_and_those_with_full_access_have_it() {
    let reach = |model: &Rehearsal| {
        let port = model.base_url.trim_end_matches("/v1").rsplit(':').next().unwrap().to_owned();
        exec(&[
            "python3",
            "-c",
            &format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')"),
        ])
    };
    for (policy, reached) in [("workspace", false), ("full-access", true)] {
        let case = Case::new([]);
        let other = case.env.rehearse(&script([]));
        let model = case.env.rehearse(&script([reach(&other), submit()]));
        let _ = case.env.run(&case.repo.path, &model, &["--policy", policy]).code(0);
        let ended = &case.events("act.finished")[0]["command"]["exit"];
        assert_eq!(ended["code"] == 0, reached, "{policy}: {:?}", told(&model));
    }
}

#[test]
fn containment_that_is_not_to_be_had_ends_in_9_before_anything_is_asked() {
    let case = Case::new([sh("echo x > b.txt")]);
    fs::write(case.env.at("policy.toml"), "preset = \"workspace\"\nat_least = \"R3\"\n").unwrap();
    // A host that has no namespaces to give: none more of users, and no right to make the others.
    let line = format!(
        "echo 0 >/proc/sys/user/max_user_namespaces && \
         exec setpriv --bounding-set=-all --inh-caps=-all {} run 'Mend it.' -C repository --model m \
         --base-url {} --policy \"$0\" --json",
        env!("CARGO_BIN_EXE_provost"),
        case.model.base_url,
    );
    let bare = |policy: &str| {
        let mut command = case.env.command("unshare");
        command.args(["-Ur", "sh", "-c", &line, policy]);
        finish(command)
    };
    let ran = bare("policy.toml").code(9);
    assert!(ran.stderr.contains("R3"), "{ran}");
    assert!(case.model.requests().is_empty() && case.file("b.txt").is_none());
    // The controls: there a weaker rung does, if the policy takes one; here it is to be had.
    let ran = bare("workspace");
    assert!([0, 5].contains(&ran.code), "{ran}");
    let other = Case::new([sh("echo x > b.txt")]);
    fs::write(other.env.at("policy.toml"), "preset = \"workspace\"\nat_least = \"R3\"\n").unwrap();
    let _ = other.run(&["--policy", "policy.toml"]).code(0);
}

#[test]
fn one_refusal_among_parallel_calls_stops_none_of_the_others() {
    let case =
        Case::new([together(&[write("b.txt", "1\n"), write(".git/config", "evil"), write("c.txt", "2\n")])]);
    let config = case.file(".git/config");
    let _ = case.run(&[]).code(0);
    assert_eq!((case.file("b.txt").as_deref(), case.file("c.txt").as_deref()), (Some("1\n"), Some("2\n")));
    assert_eq!(case.file(".git/config"), config);
    assert!(case.told()[1].contains("Refused"), "{:?}", case.told());
}

#[test]
fn a_model_that_only_meets_refusals_does_not_end_in_0() {
    let case = Case::new([with(write(".git/config", "evil"), "repeat", 50)]);
    let _ = case.run(&[]).code(10);
    let case = Case::new([]);
    let _ = case.run(&["--verify", "sh -c 'exit 0'", "--deny", "exec sh"]).code(3);
}

#[test]
fn explain() {
    let env = TestEnvironment::new();
    let file = "preset = \"strict\"\nallow = [\"exec cargo test*\", \"write src/**\", \"net *.example.org:443\"]\n\
                ask = [\"write src/main.rs\"]\ndeny = [\"exec cargo publish\"]\n[default]\nspawn = \"deny\"\n";
    fs::write(env.at("rules.toml"), file).unwrap();
    // A run in the folder that holds it would refuse it.
    fs::create_dir(env.at("here")).unwrap();
    let rules = ["--policy", "../rules.toml"];
    let asked: [(&[&str], &[&str]); 17] = [
        (&[], &["exec", "cargo", "publish"]),
        (&[], &["write", "src/lib.rs"]),
        (&[], &["write", ".git/hooks/pre-commit"]),
        (&[], &["read", "deep/.env"]),
        (&["--policy", "read-only"], &["write", "src/lib.rs"]),
        (&["--policy", "full-access"], &["write", ".git/config"]),
        (&rules, &["exec", "cargo", "test", "--offline"]),
        (&rules, &["exec", "cargo", "publish", "--dry-run"]),
        (&rules, &["exec", "/usr/bin/cargo", "publish"]),
        (&rules, &["write", "src/main.rs"]),
        (&rules, &["net", "api.example.org:443"]),
        (&rules, &["spawn", "helper"]),
        (&["--policy", "../rules.toml", "--deny", "write src/lib.rs"], &["write", "src/lib.rs"]),
        (&["--policy", "strict", "--allow", "exec cargo test*"], &["exec", "cargo", "test", "-p", "x"]),
        (&["--deny", "exec rm"], &["exec", "timeout", "5", "rm", "x"]),
        (&["--deny", "exec rm"], &["shell", "cd src && cat a | sort > out.txt; $X"]),
        (&["--policy", "strict", "--allow", "exec cat*"], &["shell", "cat a; echo done"]),
    ];
    let mut out = String::new();
    for (policy, act) in asked {
        let args: Vec<&str> = ["policy", "explain"].iter().chain(policy).chain(act).copied().collect();
        let mut command = env.command(env!("CARGO_BIN_EXE_provost"));
        command.args(&args).current_dir(env.at("here"));
        let ran = finish(command).code(0);
        assert_eq!(ran.stderr, "");
        out.push_str(&format!("$ provost {}\n{}\n", args.join(" "), ran.stdout));
    }
    assert_snapshot!(out.trim_end());
    assert!(!Path::new(&env.store()).exists(), "it needs no store");
}

/// Each of four processes is within the cap; together they are not.
#[test]
fn a_command_that_takes_too_much_is_ended_and_told_which_cap() {
    let hogs = |seconds: u32| {
        let script = format!(
            "import os, time\nfor i in range(4):\n    if os.fork() == 0:\n        held = bytearray(60 << 20)\n        \
             time.sleep({seconds})\n        os._exit(0)\nfor i in range(4): os.wait()\nprint('all done')"
        );
        [exec(&["/usr/bin/python3", "-c", &script])]
    };
    let capped = Case::new(hogs(60));
    fs::write(capped.env.at("policy.toml"), "preset = \"workspace\"\n[caps]\nmemory_mib = 150\n").unwrap();
    let _ = capped.run(&["--policy", "policy.toml"]).code(0);
    let exit = &capped.events("act.finished")[0]["command"]["exit"];
    assert_eq!((&exit["how"], &exit["hit"]["cap"]), (&json!("capped"), &json!("memory")), "{exit}");
    assert!(exit["hit"]["reached"].as_u64() > exit["hit"]["limit"].as_u64(), "{exit}");
    assert!(capped.told()[0].contains("of memory; the cap is 150 MiB of memory"), "{:?}", capped.told());

    let free = Case::new(hogs(1));
    let _ = free.run(&["--policy", "workspace"]).code(0);
    assert!(free.told()[0].contains("all done"), "{:?}", free.told());
}

/// A line for a shell goes through the same door as any command: what it writes is on record, and a command in it that the
/// policy denies keeps all of it from starting.
#[test]
fn a_shell_line_is_decided_on_as_a_whole_before_it_starts() {
    let line = |line: &str| call("shell", json!({ "line": line }));
    let steps = [line("cat a.txt | tr a-z A-Z > b.txt; echo told"), line("echo x > c.txt && env rm a.txt")];
    let case = Case::new(steps.clone());
    let _ = case.run(&["--deny", "exec rm"]).code(0);
    assert!(case.told()[0].contains("told"), "{:?}", case.told());
    assert!(case.told()[1].contains("deny exec rm"), "{:?}", case.told());
    assert_eq!(case.file("b.txt").as_deref(), Some("ONE\n"));
    assert_eq!((case.file("a.txt").as_deref(), case.file("c.txt")), (Some("one\n"), None));
    let decided = &case.events("act.decided")[0];
    let touches = decided["touches"].as_array().unwrap();
    assert!(touches.contains(&json!({ "access": "write", "path": "b.txt" })), "{decided}");

    let free = Case::new(steps);
    let _ = free.run(&[]).code(0);
    assert_eq!((free.file("a.txt"), free.file("c.txt").as_deref()), (None, Some("x\n")));
}
