//! What is asked of the model beside the goal: effort, a schema for the answer, images.

use std::fs;

use serde_json::{Value, json};

use crate::script::{Wire, body, call, messages, read, script};
use crate::support::{Rehearsal, Repo, TestEnvironment, bodies, eventually};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and the rest";
const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;

fn hand_in(summary: &str) -> Value {
    call("submit", json!({ "summary": summary }))
}

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new(steps: impl IntoIterator<Item = Value>) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script(steps));
        fs::write(env.at("schema.json"), SCHEMA).unwrap();
        fs::write(env.at("shot.png"), PNG).unwrap();
        Self { env, repo, model }
    }
}

#[test]
fn an_answer_that_is_wrong_by_its_schema_is_told_so_and_the_third_ends_the_run_in_10() {
    let case = Case::new([hand_in("seven"), hand_in(r#"{"n": "7"}"#), hand_in(r#"{"n": 7}"#)]);
    let ran = case.env.run(&case.repo.path, &case.model, &["--schema", "schema.json"]).code(0);
    assert_eq!(ran.last()["answer"], json!({ "n": 7 }));
    assert_eq!(case.env.show(&ran.run())["answer"], json!({ "n": 7 }));
    let requests = case.model.requests();
    let told: Vec<String> = requests.iter().map(|request| body(request).to_string()).collect();
    assert!(told[0].contains("satisfies this JSON Schema"), "{}", told[0]);
    assert_eq!(
        body(&requests[0])["response_format"]["json_schema"]["schema"],
        serde_json::from_str::<Value>(SCHEMA).unwrap()
    );
    assert!(told[1].contains("it is no JSON"), "{}", told[1]);
    assert!(told[2].contains("is not of type"), "{}", told[2]);
    let journal = case.env.journal(&ran.run());
    assert_eq!(bodies(&journal, "note").len(), 2);
    // The third time it is not asked again.
    let case = Case::new([hand_in("1"), hand_in("2"), hand_in("3"), hand_in(r#"{"n": 7}"#)]);
    let ran = case.env.run(&case.repo.path, &case.model, &["--schema", "schema.json"]).code(10);
    assert_eq!((&ran.last()["outcome"], &ran.last()["answer"]), (&json!("schema_failed"), &Value::Null));
    assert_eq!(case.model.requests().len(), 3);
    let shown = case.env.provost(["show", &ran.run()]).code(0);
    assert!(shown.stdout.contains("the answer never satisfied its schema"), "{shown}");
    let log = case.env.provost(["log", &ran.run()]).code(0).stdout;
    let reason = "it does not satisfy the schema:\n           at its top: 3 is not of type \"object\"";
    assert!(log.contains(reason), "the last reason is told to the person, as nobody tells the model: {log}");
    // The control: without a schema anything goes.
    let case = Case::new([hand_in("seven")]);
    let ran = case.env.run(&case.repo.path, &case.model, &[]).code(0);
    assert!(ran.last()["answer"].is_null());
}

/// Neither the answer nor the schema is in a bundle, so whoever verifies it is told whose word that is.
#[test]
fn a_verification_does_not_claim_that_an_answer_satisfies_its_schema() {
    for (more, claimed) in [(&["--schema", "schema.json"][..], true), (&[], false)] {
        let case = Case::new([hand_in(r#"{"n": 7}"#)]);
        let bundle = case.env.at("bundle").display().to_string();
        let more = [more, &["--export", &bundle]].concat();
        let _ = case.env.run(&case.repo.path, &case.model, &more).code(0);
        let key = case.env.public_key().display().to_string();
        let args = ["verify", &bundle, "--key", &key, "--repo", case.repo.path.to_str().unwrap()];
        let said = case.env.provost(args).code(0).stdout;
        assert_eq!(said.contains("Whether the answer satisfies it is the runner's word"), claimed, "{said}");
        let last = case.env.provost([&args[..], &["--json"]].concat()).code(0);
        assert_eq!(last.last()["by_word"].as_array().unwrap().len(), usize::from(claimed));
    }
}

#[test]
fn effort_and_images_reach_the_model_on_every_wire() {
    for wire in Wire::ALL {
        let case = Case::new([hand_in("done")]);
        let more = ["--effort", "low", "--show-image", "shot.png"];
        let ran = wire.run(&case.env, &case.repo.path, &case.model, &more).code(0);
        let sent = body(&case.model.requests()[0]).to_string();
        assert!(sent.contains("iVBORw0KGgo"), "{wire:?}: {sent}");
        let effort = ["low", "LOW", "1024"].iter().any(|word| sent.contains(word));
        assert!(effort, "{wire:?}: {sent}");
        let shown = case.env.provost(["show", &ran.run()]).code(0);
        assert!(shown.stdout.contains("asked for: effort low; 1 image shown"), "{shown}");
    }
}

/// I3: what was shown is shown again byte for byte by whoever goes on with the run, from the journal alone.
#[test]
fn a_resume_and_a_worker_say_it_again() {
    let mut slow = read("a.txt");
    slow["fault"] = json!({ "stall_ms": 900_000, "times": 1 });
    let case = Case::new([slow.clone(), hand_in(r#"{"n": 1}"#)]);
    let more = ["--effort", "high", "--show-image", "shot.png", "--schema", "schema.json"];
    let driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &more));
    eventually("it is asked", || case.model.requests().len() == 1);
    let _ = driver.kill();
    for file in ["shot.png", "schema.json"] {
        fs::remove_file(case.env.at(file)).unwrap();
    }
    let ran = case.env.provost(["resume", &case.env.only_run(), "--json"]).code(0);
    assert_eq!(ran.last()["answer"], json!({ "n": 1 }));
    let requests = case.model.requests();
    assert_eq!(requests[0]["body"], requests[1]["body"], "the same bytes");
    assert!(bodies(&case.env.journal(&case.env.only_run()), "prompt.broke").is_empty());

    let case = Case::new([hand_in("x"), hand_in(r#"{"n": 1}"#)]);
    let mut args = case.env.run_args(&case.repo.path, &case.model, &more);
    args[0] = "enqueue".to_owned();
    let queue =
        |args: &[String]| case.env.provost([args, &["--id".to_owned(), "job-one".to_owned()]].concat());
    let _ = queue(&args).code(0);
    // The same contract is the same run; another image is another contract.
    let _ = queue(&args).code(0);
    fs::write(case.env.at("shot.png"), b"GIF89a").unwrap();
    let _ = queue(&args).code(2).says("what is asked of the model differs");
    let _ = case.env.provost(["worker", "--until-empty"]).code(0);
    let sent = body(&case.model.requests()[0]);
    assert!(
        messages(&sent)[0].to_string().contains("JSON Schema") && sent.to_string().contains("iVBORw0KGgo"),
        "{sent}"
    );
    assert_eq!(sent["reasoning_effort"], "high");
    assert_eq!(case.env.show("job-one")["state"], "done");
}

#[test]
fn i9_what_cannot_be_asked_is_said_before_anybody_is() {
    let case = Case::new([hand_in("done")]);
    for (name, text) in [("no.json", "{"), ("type.json", r#"{"type": "nothing"}"#), ("text.png", "no image")]
    {
        fs::write(case.env.at(name), text).unwrap();
    }
    fs::write(case.env.at("large.json"), format!("{{\"title\": \"{}\"}}", "x".repeat(70_000))).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        case.env.at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    for (option, file, words) in [
        ("--schema", "no.json", "no JSON"),
        ("--schema", "type.json", "cannot be used"),
        ("--schema", "large.json", "larger than 65536 bytes"),
        ("--schema", "pipe", "no regular file"),
        ("--schema", "nowhere", "No such file"),
        ("--show-image", "text.png", "no PNG, JPEG, GIF or WebP"),
        ("--show-image", "pipe", "no regular file"),
        ("--prices", "pipe", "no regular file"),
    ] {
        let _ = case.env.run(&case.repo.path, &case.model, &[option, file]).code(2).says(words);
    }
    assert_eq!(case.model.requests().len(), 0);
    assert!(case.env.runs().is_empty());
}
