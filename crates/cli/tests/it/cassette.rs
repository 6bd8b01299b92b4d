//! A run recorded, and had again without its model.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::script::{Wire, exec, read, script, submit, together, with, write};
use crate::support::{TestEnvironment, bodies, finish};

/// What the journal says, without times and what follows from the run's own name: salted digests and hashes.
fn facts(journal: &[Value]) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|key, _| {
                    !key.ends_with("_ms")
                        && ![
                            "replayed",
                            "stream",
                            "prev",
                            "hash",
                            "salt",
                            "invocation",
                            "host",
                            "pid",
                            "boot",
                        ]
                        .contains(&key.as_str())
                });
                members.values_mut().for_each(strip);
            }
            Value::Array(all) => all.iter_mut().for_each(strip),
            Value::String(text) if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
                *text = "[digest]".to_owned();
            }
            _ => {}
        }
    }
    let mut facts: Vec<Value> =
        journal.iter().filter(|event| event["kind"] != "driver.attached").cloned().collect();
    facts.iter_mut().for_each(strip);
    facts
}

#[test]
fn a_replayed_run_asks_nobody_and_is_the_same_run() {
    for wire in Wire::ALL {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script([
            with(together(&[read("a.txt"), write("b.txt", "two\n")]), "think", "Well."),
            with(
                exec(&["cat", "b.txt"]),
                "fault",
                json!({ "status": 500, "headers": { "x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "7" } }),
            ),
            submit(),
        ]));
        let run = |cassette: &[&str]| {
            let mut more = cassette.to_vec();
            more.extend(["--max-tokens", "50000"]);
            wire.run(&env, &repo.path, &model, &more)
        };
        let first = run(&["--record", "tape"]).code(0).run();
        let asked = model.requests().len();
        assert_eq!(asked, 4, "{wire:?}");
        let tape = fs::read_to_string(env.at("tape")).unwrap();
        assert_eq!(tape.lines().count(), 1 + asked);
        assert_eq!(fs::metadata(env.at("tape")).unwrap().permissions().mode() & 0o777, 0o600);

        fs::remove_file(repo.path.join("b.txt")).unwrap();
        let second = run(&["--replay", "tape"]).code(0).run();
        assert_eq!(model.requests().len(), asked, "{wire:?}: nothing was asked");
        assert_eq!(fs::read_to_string(repo.path.join("b.txt")).unwrap(), "two\n");
        let (one, other) = (env.journal(&first), env.journal(&second));
        assert_eq!(facts(&one), facts(&other), "{wire:?}");
        assert_eq!(bodies(&other, "model.failed").len(), 1, "what failed fails again");
        let said = &bodies(&other, "model.failed")[0]["rate_limits"]["windows"][0];
        assert_eq!((&said["limit"], &said["remaining"]), (&json!(100), &json!(7)), "{wire:?}");
        // It says so itself, wherever one looks.
        for look in [vec!["show", &second], vec!["status", &second]] {
            let ran = env.provost(look).code(0);
            assert!(ran.stdout.contains("replayed from a cassette"), "{ran}");
        }
        let bill = env.provost(["cost", &second, "--json"]).code(0).last();
        assert_eq!((&bill["cost_micros"], &bill["replayed_runs"]), (&json!(0), &json!(1)));
        let bill = env.provost(["cost", &first, "--json"]).code(0).last();
        assert_eq!(bill["replayed_runs"], 0);
    }
}

#[test]
fn a_replayed_run_is_resumed_from_its_cassette_and_never_by_a_live_server() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&script([write("b.txt", "two\n"), submit()]));
    let strict = ["--policy", "strict"];
    let recorded = [&strict[..], &["--yes", "--record", "tape"]].concat();
    let _ = Wire::OpenAi.run(&env, &repo.path, &model, &recorded).code(0);
    fs::remove_file(repo.path.join("b.txt")).unwrap();
    let asked = model.requests().len();
    // The model's name stands on the cassette.
    let dir = repo.path.display().to_string();
    let args = ["run", "Mend it.", "-C", &dir, "--policy", "strict", "--replay", "tape"];
    let said = env.provost(args).code(5).stdout;
    let run = env.runs().pop().unwrap();
    assert!(said.contains(&format!("`provost resume {run} --replay FILE --approve 0`")), "{said}");
    let status = env.provost(["status", &run]).code(0).stdout;
    assert!(status.contains(&format!("next: `provost resume {run} --replay FILE --approve 0`")), "{status}");
    // No vendor is named as if it were asked.
    assert!(
        said.contains("openai-chat, from a cassette: nobody is asked)") && !said.contains("http"),
        "{said}"
    );
    let shown = env.provost(["show", &run]).code(0).stdout;
    assert!(shown.contains("from a cassette: nobody is asked") && !shown.contains("http"), "{shown}");
    let resume = |more: &[&str]| env.provost([&["resume", &run, "--approve", "0", "--json"], more].concat());
    let _ = resume(&[]).code(2).says("replayed from a cassette, and none is named");
    let _ = resume(&["--replay", "tape"]).code(0);
    assert_eq!(fs::read_to_string(repo.path.join("b.txt")).unwrap(), "two\n");
    assert_eq!(model.requests().len(), asked, "nobody was asked");
    // The control: a run that asks a live model takes no cassette.
    let live = Wire::OpenAi.run(&env, &repo.path, &model, &strict).code(5).run();
    let status = env.provost(["status", &live]).code(0).stdout;
    assert!(status.contains(&format!("next: `provost resume {live} --approve 0`")), "{status}");
    let args = ["resume", &live, "--replay", "tape", "--base-url", &model.base_url];
    let _ = env.provost(args).code(2).says("is no replay");
}

#[test]
fn a_cassette_that_ends_at_a_pause_is_said_to_be_cut_short() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&script([write("b.txt", "two\n"), submit()]));
    let words = "the cassette `tape` ends where the run pauses";
    let cut = Wire::OpenAi.run(&env, &repo.path, &model, &["--policy", "strict", "--record", "tape"]);
    let _ = cut.code(5).says(words);
    let more = ["--policy", "strict", "--yes", "--record", "whole"];
    let whole = Wire::OpenAi.run(&env, &repo.path, &model, &more).code(0);
    assert!(!whole.stderr.contains("cassette"), "{}", whole.stderr);
}

#[test]
fn i9_an_absurd_cassette_is_refused_or_fails_as_a_provider_does() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&script([read("a.txt"), submit()]));
    let _ = Wire::OpenAi.run(&env, &repo.path, &model, &["--record", "tape"]).code(0);
    let tape = fs::read_to_string(env.at("tape")).unwrap();
    let lines: Vec<&str> = tape.lines().collect();
    let altered = |change: &dyn Fn(&mut Value)| {
        let mut attempt: Value = serde_json::from_str(lines[1]).unwrap();
        change(&mut attempt["end"]["answered"]);
        format!("{}\n{attempt}\n{}\n", lines[0], lines[2])
    };
    let replay = |tape: &str| {
        fs::write(env.at("altered"), tape).unwrap();
        Wire::OpenAi.run(&env, &repo.path, &model, &["--replay", "altered"])
    };
    let many = altered(&|told| {
        let call = told["assistant"]["calls"][0].clone();
        told["assistant"]["calls"] = Value::Array(vec![call; 100_000]);
    });
    let _ = replay(&many).code(2).says("100000 calls");
    let _ = replay(&altered(&|told| told["usage"]["input"] = json!(-1))).code(2).says("altered:2");
    // Numbers beyond any real answer are cut to what a journal can hold.
    let most = u64::MAX;
    let _ = replay(&altered(&|told| {
        told["latency_ms"] = json!(most);
        told["ttft_ms"] = json!(most);
        told["usage"] = json!({ "input": most, "output": most });
    }))
    .code(0);
    // The control.
    let _ = replay(&tape).code(0);
}

#[test]
fn a_request_that_was_not_recorded_is_told_with_the_nearest() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&script([read("a.txt"), submit()]));
    let _ = Wire::OpenAi.run(&env, &repo.path, &model, &["--record", "tape"]).code(0);
    fs::write(repo.path.join("a.txt"), "changed\n").unwrap();
    let dir = repo.path.display().to_string();
    // No key and no address is needed: nobody is asked.
    let args = ["run", "Mend it.", "-C", &dir, "--model", "rehearsal", "--replay", "tape"];
    let ran = finish(env.provost_command(args)).code(6);
    assert!(ran.stdout.contains("the nearest is number 2") && ran.stdout.contains("changed"), "{ran}");
    assert_eq!(model.requests().len(), 2);

    for (option, file, words) in [
        ("--replay", "nowhere", "nowhere"),
        ("--replay", "repository/a.txt", "does not begin like a cassette"),
        ("--record", "tape", "never written over"),
    ] {
        let ran = env.provost([
            "run",
            "x",
            "-C",
            &dir,
            "--model",
            "m",
            "--base-url",
            &model.base_url,
            option,
            file,
        ]);
        let ran = ran.code(2);
        assert!(ran.stderr.contains(words), "{ran}");
    }
    // A line that was cut is named.
    let tape = fs::read_to_string(env.at("tape")).unwrap();
    fs::write(env.at("torn"), &tape[..tape.len() - 9]).unwrap();
    let ran = env.provost(["run", "x", "-C", &dir, "--model", "m", "--replay", "torn"]).code(2);
    assert!(ran.stderr.contains("torn:3: "), "{ran}");
}
