//! The main job over every wire: a library is mended, its tests pass, and the evidence verifies.

use serde_json::{Value, json};

use crate::script::{Wire, body, call, exec, limit, messages, read, script, submit, together, with, write};
use crate::support::{TestEnvironment, bodies, text};

/// Looks, thinks, is refused something, mends, tests, submits.
fn job() -> Value {
    let edit = json!({ "path": "src/lib.rs", "edits": [{ "old": "left - right", "new": "left + right" }] });
    script([
        with(
            with(
                together(&[exec(&["cargo", "test", "--offline"]), read("src/lib.rs")]),
                "think",
                "It may subtract.",
            ),
            "say",
            "I run the tests and read \u{2192} the source.",
        ),
        write(".git/hooks/pre-commit", "#!/bin/sh\n"),
        with(call("edit_file", edit), "usage", json!({ "input": 900, "output": 60, "cache_read": 100 })),
        exec(&["cargo", "test", "--offline"]),
        submit(),
    ])
}

#[test]
fn the_main_job_over_every_wire() {
    let mut journals = Vec::new();
    for wire in Wire::ALL {
        let env = TestEnvironment::new();
        let package = env.package();
        let model = env.rehearse(&job());
        let ran = wire.run(
            &env,
            &package.dir,
            &model,
            &["--verify", "cargo test --offline", "--export", "bundle", "--max-tokens", "100000"],
        );
        let ran = ran.code(0);
        assert_eq!(ran.last()["outcome"], "done", "{wire:?}");
        let source = std::fs::read_to_string(package.dir.join("src/lib.rs")).unwrap();
        assert!(source.contains("left + right"), "{wire:?}");

        let key = env.public_key().display().to_string();
        let repository = package.repo.path.display().to_string();
        let _ =
            env.provost(["verify", "bundle", "--key", &key, "--repo", &repository, "--require-gate"]).code(0);

        let journal = env.journal(&env.only_run());
        let created = &bodies(&journal, "run.created")[0]["model"];
        assert!(text(&created["wire"]).starts_with(wire.option()), "{created}");
        // What was counted and done is the same, whoever's words it came in.
        let acts: Vec<String> =
            bodies(&journal, "act.finished").iter().map(|act| text(&act["end"])).collect();
        let answers: Vec<Value> = bodies(&journal, "model.answered")
            .iter()
            .map(|answer| {
                let usage = &answer["usage"];
                let prompt: u64 = ["input", "cache_read", "cache_write"]
                    .iter()
                    .filter_map(|key| usage[*key].as_u64())
                    .sum();
                // By itself the rehearsal counts the bytes of the prompt, which no two wires have alike.
                json!([usage["output"], if prompt == 1_000 { json!(prompt) } else { Value::Null }])
            })
            .collect();
        journals.push((wire, acts, answers));

        // Reasoning that a vendor wants back goes back, in front of what it led to.
        let requests = model.requests();
        let second = body(&requests[1]);
        let dialogue: String = messages(&second).iter().map(Value::to_string).collect();
        let sealed = match wire {
            Wire::OpenAi => None,
            Wire::Responses => Some("\"encrypted_content\":\"c2VhbGVk\""),
            Wire::Anthropic => Some("\"signature\":\"c2lnbmVk\""),
            Wire::Gemini => Some("\"thoughtSignature\":\"c2lnbmVk\""),
            Wire::Ollama => Some("\"thinking\":\"It may subtract.\""),
        };
        assert!(sealed.is_none_or(|sealed| dialogue.contains(sealed)), "{wire:?}: {dialogue}");
        assert!(limit(&second).is_some(), "{wire:?}");
    }
    let (_, acts, answers) = &journals[0];
    assert_eq!(acts.len(), 7);
    for (wire, others, counted) in &journals {
        assert_eq!((others, counted), (acts, answers), "{wire:?}");
    }
}

/// The run names its wire, so whoever goes on with it speaks the same.
#[test]
fn a_run_is_resumed_over_its_wire() {
    for wire in Wire::ALL {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let fault = json!({ "status": 401, "times": 1, "type": "authentication_error", "message": "no" });
        let model = env.rehearse(&script([read("a.txt"), with(submit(), "fault", fault)]));
        let _ = wire.run(&env, &repo.path, &model, &[]).code(6);
        let ran = env.provost(["resume", &env.only_run(), "--json"]).code(0);
        assert_eq!(ran.last()["steps"], 2, "{wire:?}");
        let paths: Vec<String> = model.requests().iter().map(|seen| text(&seen["path"])).collect();
        assert!(paths.iter().all(|path| *path == paths[0]), "{paths:?}");
    }
}
