//! What people are told around a governed session: before they sign, when it is refused, and when it is verified.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::session::{Governed, keygen};
use crate::support::{eventually, finish, text};

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// Prepares a session with a signed file, and gives how that ended.
fn prepare(it: &Governed, session: &str, authorization: &str, more: &[&str]) -> crate::support::Ran {
    let mut args = vec![session, "--authorization", authorization];
    args.extend(more);
    it.session("prepare", &args)
}

#[test]
fn claims_that_were_not_come_to_share_a_line_and_nothing_is_said_of_a_task_that_was_not_given() {
    let it = Governed::new();
    let bundle = it.env.at("bundle").display().to_string();
    let _ = it.own(&["-o", &bundle]).code(0);
    let (repo, commit) = (it.package.repo.path.display().to_string(), it.package.repo.head());
    let task = it.task.display().to_string();
    let verify = |trust: &str, more: &[&str]| {
        let mut args = vec![
            "verify", &bundle, "--repo", &repo, "--rev", &commit, "--scope", "package/", "--trust", trust,
        ];
        args.extend(more);
        it.env.provost(args)
    };
    let trust = it.env.at("config/provost/trust").display().to_string();
    let with = verify(&trust, &["--task", &task]).code(0);
    assert!(with.stdout.contains("The order is for your task, your commit"), "{with}");
    let without = verify(&trust, &[]).code(0);
    assert!(without.stdout.contains("its task was held against none of yours"), "{without}");
    assert!(!without.stdout.contains("is for your task"), "{without}");

    let nobody = it.env.at("nobody");
    fs::create_dir(&nobody).unwrap();
    let refused = verify(&nobody.display().to_string(), &["--task", &task]).code(8);
    let unchecked: Vec<&str> = refused.stdout.lines().filter(|line| line.contains("not checked")).collect();
    let [line] = unchecked.as_slice() else { panic!("{refused}") };
    assert!(line.contains("24 claims") && line.contains("revocation, request, signature"), "{line}");
    // A program is told each of them.
    let rows = verify(&nobody.display().to_string(), &["--task", &task, "--json"]).code(8).json();
    assert_eq!(rows.iter().filter(|row| row["kind"] == "claim").count(), 25);
}

#[test]
fn what_opens_nothing_is_refused() {
    let it = Governed::new();
    let asking = [
        "--repo",
        &it.package.repo.path.display().to_string(),
        "--scope",
        "package/",
        "--task",
        &it.task.display().to_string(),
        "--model",
        "rehearsal",
        "--base-url",
        &it.model.base_url,
    ]
    .map(str::to_owned);
    let ask = |more: &[&str]| {
        let args: Vec<&str> = asking.iter().map(String::as_str).chain(more.iter().copied()).collect();
        it.session("init", &args)
    };
    let _ = ask(&["--open", "tests/one.rs"]).code(2).says("`tests/one.rs` opens nothing").says("**/tests/**");
    assert!(it.session("status", &["--json"]).code(0).json().is_empty(), "no session is made");
    // The controls: a usual pattern, and one of one's own.
    let _ = ask(&["--open", "**/tests/**"]).code(0);
    let _ = ask(&["--protect", "fixed/**", "--open", "fixed/**"]).code(0);
}

#[test]
fn the_name_that_a_runner_took_a_session_by_is_remembered() {
    let it = Governed::new();
    let _ = it.trust();
    let (session, request) = it.ask(&["--runner", "elsewhere"]);
    let authorization = it.authorize(&request, &[]).display().to_string();
    // The control: the host's own name is another.
    let _ = prepare(&it, &session, &authorization, &[]).code(3).says("it is for the runner `elsewhere`");
    let _ = prepare(&it, &session, &authorization, &["--runner", "elsewhere"]).code(0);
    let _ = it.session("run", &[&session]).code(0);
}

#[test]
fn an_authorization_that_is_over_can_be_signed_again_by_others() {
    let it = Governed::new();
    let trust = it.trust();
    let (session, request) = it.ask(&[]);
    let expired = it.authorize(&request, &["--expires", "1s"]).display().to_string();
    let until = now_ms() + 1000;
    eventually("its time is over", || now_ms() > until);
    let _ = prepare(&it, &session, &expired, &[]).code(3).says("have it signed again").says("--expires");
    // Two sign what is taken first, one of them what is taken in its place.
    let second = it.env.at("second");
    keygen(&it.env, &second);
    let signers = trust.join("allowed_signers");
    let public = fs::read_to_string(second.with_extension("pub")).unwrap();
    fs::write(&signers, format!("{}second {public}", fs::read_to_string(&signers).unwrap())).unwrap();
    let (request, first_key, second_key) =
        (request.display().to_string(), it.key.display().to_string(), second.display().to_string());
    let _ = it
        .session(
            "authorize",
            &[&request, "--key", &first_key, "--key", &second_key, "--yes", "-o", "two.json"],
        )
        .code(0);
    let _ = prepare(&it, &session, "two.json", &[]).code(0);
    let _ = it.session("authorize", &[&request, "--key", &second_key, "--yes", "-o", "one.json"]).code(0);
    let _ = prepare(&it, &session, "one.json", &[]).code(0);
    let _ = it.session("run", &[&session]).code(0);
}

#[test]
fn nobody_is_asked_to_sign_what_lacks_the_providers_key() {
    let it = Governed::new();
    let run = |key_env: Option<&str>| {
        let mut command = it.env.provost_command(["session", "run", "--scope", "package/"]);
        command
            .arg("--repo")
            .arg(&it.package.repo.path)
            .arg("--task")
            .arg(&it.task)
            .arg("--key")
            .arg(&it.key);
        command.args(["--model", "rehearsal", "--base-url", &it.model.base_url]);
        if let Some(name) = key_env {
            command.args(["--key-env", name]);
        }
        finish(command)
    };
    let ran = run(Some("ANOTHER_API_KEY"));
    assert!(ran.stderr.contains("`ANOTHER_API_KEY`") && !ran.stderr.contains("nobody is here"), "{ran}");
    let _ = ran.code(2);
    let sessions: Vec<String> = it
        .session("status", &["--json"])
        .code(0)
        .json()
        .iter()
        .map(|row: &Value| text(&row["session"]))
        .collect();
    assert!(sessions.is_empty(), "{sessions:?}");
    // The control: with nothing amiss the person is asked, who is not here.
    let _ = run(None).code(5).says("nobody is here to be asked");
}
