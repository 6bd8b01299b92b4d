//! Commands that go on in the background, through the whole of Provost: started, polled, ended, gone with the run.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::script::{call, scene, script, sh, submit, together, told, with, write};
use crate::support::{Rehearsal, Repo, TestEnvironment, bodies, eventually, text};

/// Serves the workspace and reads a file from its own server, again and again until it is there.
const SERVE: &str = "/usr/bin/python3 -m http.server 8000 --bind 127.0.0.1 > /dev/null 2>&1 & \
                     until curl -sf http://127.0.0.1:8000/a.txt; do sleep 0.05; done; wait";

/// Beats on in a session of its own, and a line for who waits for it.
const BEAT: &str = "(setsid sh -c 'while :; do echo . >> beat; sleep 0.005; done') & echo beating; sleep 900";

fn start(command: &str) -> Value {
    call("shell_start", json!({ "command": command }))
}

fn poll(id: &str, wait: u32) -> Value {
    call("shell_poll", json!({ "id": id, "wait_seconds": wait }))
}

fn kill(id: &str) -> Value {
    call("shell_kill", json!({ "id": id }))
}

/// Waits in a command until the workspace has a file.
fn until(file: &str) -> Value {
    sh(&format!("until [ -e {file} ]; do sleep 0.01; done"))
}

/// An answer that begins and does not go on: the driver lives until it is killed.
fn stall() -> Value {
    with(submit(), "fault", json!({ "stall_ms": 900_000, "times": 1 }))
}

/// A world whose repository ignores `beat`, and a model that takes these steps.
fn beating(steps: impl IntoIterator<Item = Value>) -> (TestEnvironment, Repo, Rehearsal) {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n"), (".gitignore", "/beat\n/go\n")]);
    let model = env.rehearse(&script(steps));
    (env, repo, model)
}

fn kinds(journal: &[Value]) -> Vec<String> {
    journal.iter().map(|event| text(&event["kind"])).collect()
}

fn beats(repo: &Repo) -> usize {
    fs::read(repo.path.join("beat")).unwrap_or_default().len()
}

/// What the model was told by the runtime, and not as the result of a call.
fn notes(env: &TestEnvironment, run: &str) -> String {
    let log = env.provost(["log", run]).code(0).stdout;
    log.lines().filter(|line| line.contains("told the model")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_server_is_started_polled_and_ended() {
    let steps =
        [start(SERVE), poll("bg-0", 20), poll("bg-0", 0), kill("bg-0"), poll("bg-0", 0), kill("bg-0")];
    let (env, repo, model) = scene(steps);
    let bundle = env.at("bundle").display().to_string();
    let _ = env.run(&repo.path, &model, &["--export", &bundle]).code(0);
    let told = told(&model);
    assert!(told[0].contains("bg-0 is running."), "{told:?}");
    let shown = told[..3].concat();
    assert!(shown.contains("one\n"), "what it served: {told:?}");
    assert!(told[3].starts_with("bg-0 ended: it was ended, with all its processes."), "{told:?}");
    assert!(told[4].contains("no new output") && told[5].contains("bg-0 ended"), "{told:?}");
    let journal = env.journal(&env.only_run());
    let ended = bodies(&journal, "process.ended");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["command"]["exit"]["how"], "cancelled");
    assert_eq!(ended[0]["command"]["survivors"], 0);
    // Each part of the output was shown once.
    let mut at = 0;
    for shown in bodies(&journal, "act.finished").iter().filter_map(|body| body.get("told")) {
        assert_eq!(shown["from"], at);
        at = shown["to"].as_u64().unwrap();
    }
    assert_eq!(ended[0]["command"]["output_bytes"], at);
    env.assert_no_processes_but(&model);
    let key = env.public_key().display().to_string();
    let _ = env.provost(["verify", &bundle, "--key", &key, "--repo", repo.path.to_str().unwrap()]).code(0);
}

/// The gate judges a tree that a command changed all the time until then: it holds only because that is gone.
#[test]
fn the_end_of_the_run_ends_it_before_the_gate() {
    let line = "(setsid sh -c 'while :; do date +%N > counter; sleep 0.005; done') & sleep 900";
    let (env, repo, model) = scene([start(line), until("counter")]);
    let ran = env.run(&repo.path, &model, &["--verify", "test -e counter"]).code(0);
    assert_eq!(ran.last()["verified"], true);
    let journal = env.journal(&ran.run());
    let kinds = kinds(&journal);
    let place = |kind: &str| kinds.iter().rposition(|other| other == kind).unwrap();
    let gate = journal.iter().position(|event| event["body"]["tool"] == "gate").unwrap();
    assert!(place("run.submitted") < place("process.ended") && place("process.ended") < gate, "{kinds:?}");
    // All that it did is the run's doing.
    assert!(!kinds.iter().any(|kind| kind == "workspace.drifted"), "{kinds:?}");
    env.assert_no_processes_but(&model);
}

#[test]
fn what_it_changes_between_acts_is_its_doing_and_what_is_protected_is_put_back() {
    let script = "until [ -e go ]; do sleep 0.01; done; echo two > a.txt; mkdir .vscode; \
                  echo evil > .vscode/tasks.json; echo new > made.txt; echo said; sleep 900\n";
    let steps = [
        write("do.sh", script),
        start("sh do.sh"),
        sh("touch go"),
        poll("bg-1", 20),
        poll("bg-1", 0),
        kill("bg-1"),
        submit(),
    ];
    let (env, repo, model) = beating(steps);
    let run = env.run(&repo.path, &model, &[]).code(0).run();
    assert!(!repo.path.join(".vscode/tasks.json").exists());
    let journal = env.journal(&run);
    assert!(bodies(&journal, "workspace.drifted").is_empty());
    let mut changed: Vec<String> = Vec::new();
    for kind in ["process.changed", "process.ended", "act.finished"] {
        let bodies = bodies(&journal, kind);
        let all = bodies.iter().filter_map(|body| body["changes"].as_array()).flatten();
        changed.extend(all.map(|change| text(&change["path"])));
    }
    changed.sort();
    changed.dedup();
    assert_eq!(changed, ["a.txt", "made.txt"]);
    let kinds = ["process.changed", "process.ended", "act.finished"];
    let all = kinds.iter().flat_map(|kind| bodies(&journal, kind));
    assert!(all.filter(|body| body.get("reverted").is_some()).count() > 0);
    let diff = env.provost(["diff", &run]).code(0).stdout;
    assert!(diff.contains("+two") && diff.contains("made.txt") && !diff.contains("b/.vscode"), "{diff}");
    // And all of it can be taken back.
    let _ = env.provost(["rewind", &run, "--step", "0"]).code(0);
    assert_eq!(fs::read_to_string(repo.path.join("a.txt")).unwrap(), "one\n");
    assert!(!repo.path.join("made.txt").exists());
}

#[test]
fn a_driver_that_is_killed_takes_it_along_and_the_model_is_told() {
    let (env, repo, model) = beating([start(BEAT), until("beat"), stall()]);
    let driver = env.start(env.run_args(&repo.path, &model, &[]));
    eventually("the last answer is asked for", || model.requests().len() == 3);
    assert!(beats(&repo) > 0);
    let _ = driver.kill();
    env.assert_no_processes_but(&model);
    let before = beats(&repo);
    let run = env.only_run();
    // Not before somebody says what became of it.
    let _ = env.provost(["rewind", &run, "--step", "0"]).code(2).says("resume");
    let _ = env.provost(["resume", &run, "--json"]).code(0);
    assert_eq!(beats(&repo), before, "it was not started again");
    let journal = env.journal(&run);
    let ended = bodies(&journal, "process.ended");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["command"]["exit"]["how"], "driver_lost");
    assert_eq!(bodies(&journal, "act.started").len(), 2);
    assert!(notes(&env, &run).contains("driver died"), "{}", notes(&env, &run));
    env.assert_store_intact();
}

#[test]
fn an_interrupted_run_ends_it_and_tells_the_model_when_it_goes_on() {
    let (env, repo, model) = beating([start(BEAT), until("beat"), stall()]);
    let driver = env.start(env.run_args(&repo.path, &model, &[]));
    eventually("the last answer is asked for", || model.requests().len() == 3);
    driver.signal(Signal::INT);
    let run = driver.wait().code(130).run();
    env.assert_no_processes_but(&model);
    let journal = env.journal(&run);
    let kinds = kinds(&journal);
    assert_eq!(kinds[kinds.len() - 2..], ["process.ended", "driver.detached"]);
    let _ = env.provost(["resume", &run, "--json"]).code(0);
    assert!(notes(&env, &run).contains("not started again"), "{}", notes(&env, &run));
}

#[test]
fn a_run_that_waits_for_approval_has_none() {
    let (env, repo, model) = beating([start(BEAT), until("beat"), write("a.txt", "two\n"), submit()]);
    let policy = env.at("policy.toml");
    fs::write(&policy, "preset = \"workspace\"\nask = [\"write a.txt\"]\n").unwrap();
    let policy = policy.display().to_string();
    let run = env.run(&repo.path, &model, &["--policy", &policy]).code(5).run();
    env.assert_no_processes_but(&model);
    assert_eq!(bodies(&env.journal(&run), "process.ended").len(), 1);
    let _ = env.provost(["resume", &run, "--approve", "2", "--json"]).code(0);
    assert!(notes(&env, &run).contains("bg-0 ended"), "{}", notes(&env, &run));
}

#[test]
fn cancelling_the_run_ends_it() {
    let (env, repo, model) = beating([start(BEAT), until("beat"), poll("bg-0", 600), submit()]);
    let driver = env.start(env.run_args(&repo.path, &model, &[]));
    // The poll has the first line, and waits for more that never comes.
    eventually("it beats", || beats(&repo) > 0 && model.requests().len() == 3);
    let run = env.only_run();
    let _ = env.provost(["cancel", &run]).code(0);
    let _ = driver.wait().code(10);
    env.assert_no_processes_but(&model);
    assert_eq!(bodies(&env.journal(&run), "process.ended").len(), 1);
}

#[test]
fn each_of_its_commands_is_decided_on_before_anything_starts() {
    let line = "echo yes > out.txt; touch second.txt";
    let steps = || [start(line), poll("bg-0", 20), poll("bg-0", 0)];
    let (env, repo, model) = scene(steps());
    let run = env.run(&repo.path, &model, &["--deny", "exec touch"]).code(0).run();
    assert!(told(&model)[0].contains("`exec touch second.txt` is not allowed"), "{:?}", told(&model));
    assert!(told(&model)[1].contains("There is no background command bg-0; none runs."));
    assert!(!repo.path.join("out.txt").exists());
    assert!(bodies(&env.journal(&run), "act.started").is_empty());
    // The control.
    let (env, repo, model) = scene(steps());
    let _ = env.run(&repo.path, &model, &[]).code(0);
    eventually("it ran", || repo.path.join("second.txt").exists());
    assert!(told(&model)[1].contains("bg-0 ended: exit status 0."), "{:?}", told(&model));
}

#[test]
fn one_that_ends_by_itself_says_how() {
    let line = "echo first; until [ -e go ]; do sleep 0.01; done; echo last; exit 3";
    let (env, repo, model) = beating([start(line), sh("touch go"), poll("bg-0", 20), submit()]);
    let run = env.run(&repo.path, &model, &[]).code(0).run();
    let told = told(&model);
    assert!(told[0].contains("first"), "{told:?}");
    assert!(told[2].contains("bg-0 ended: exit status 3.") && told[2].contains("last"), "{told:?}");
    assert!(!told[2].contains("first"), "{told:?}");
    assert_eq!(bodies(&env.journal(&run), "process.ended")[0]["command"]["exit"]["code"], 3);
}

#[test]
fn much_output_is_kept_to_its_start_and_its_end_and_says_so() {
    let line = "seq 1 200000; echo done; sleep 900";
    let (env, repo, model) = scene([start(line), poll("bg-0", 1), kill("bg-0")]);
    let _ = env.run(&repo.path, &model, &[]).code(0);
    let told = told(&model);
    let all = told.concat();
    assert!(all.contains("bytes left out") && all.contains("done"), "{all}");
    assert!(told.iter().all(|text| text.len() < 200_000));
    let total = (1..=200_000).map(|n: u32| n.to_string().len() + 1).sum::<usize>() + 5;
    assert!(all.contains(&format!("{total} in all")), "{all}");
}

#[test]
fn only_so_many_run_at_once() {
    let starts: Vec<Value> = (0..9).map(|_| start("echo up; sleep 900")).collect();
    let (env, repo, model) = scene([together(&starts), kill("bg-0"), start("sleep 900")]);
    let run = env.run(&repo.path, &model, &[]).code(0).run();
    let told = told(&model);
    assert!(told[8].contains("8 background commands run already"), "{told:?}");
    assert!(told[10].contains("bg-10 is running."), "{told:?}");
    assert_eq!(bodies(&env.journal(&run), "process.ended").len(), 9);
    env.assert_no_processes_but(&model);
}

#[test]
fn where_changes_are_staged_it_is_refused_in_words() {
    let (env, repo, model) = scene([start("sleep 900")]);
    let _ = env.run(&repo.path, &model, &["--workspace-mode", "staged"]).code(0);
    assert!(told(&model)[0].contains("where changes are staged"), "{:?}", told(&model));
}

#[test]
fn one_that_cannot_start_has_not_run() {
    let (env, repo, model) =
        scene([call("shell_start", json!({ "command": "for" })), poll("bg-1", 0), poll("x", 0)]);
    let _ = env.run(&repo.path, &model, &[]).code(0);
    let told = told(&model);
    assert!(told[0].contains("`command`: is not read as bash"), "{told:?}");
    assert!(told[1].contains("There is no background command bg-1"), "{told:?}");
    assert!(told[2].contains("`id`: is none that `shell_start` answers"), "{told:?}");
}

/// A server that answers each connection with the same line, and says when it listens.
const ANSWER: &str = "/usr/bin/python3 -u -c \"
import socket
s = socket.create_server(('127.0.0.1', PORT))
print('listens')
while True:
    c, _ = s.accept()
    c.recv(100)
    c.sendall(b'from within')
    c.close()
\"";

/// A port that nobody has just now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What the host's loopback answers at a port.
fn dialled(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"hello")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_published_port_is_reached_from_the_host_as_long_as_its_command_lives() {
    let port = free_port();
    let line = ANSWER.replace("PORT", &port.to_string());
    let serve = |publish: bool| {
        let mut arguments = json!({ "command": line });
        if publish {
            arguments["publish"] = json!(port);
        }
        call("shell_start", arguments)
    };
    // The control: it listens, and the host does not reach it.
    let (env, repo, model) = scene([serve(false), stall()]);
    let driver = env.start(env.run_args(&repo.path, &model, &[]));
    eventually("it listens", || model.requests().len() == 2 && told(&model)[0].contains("listens"));
    assert!(dialled(port).is_err());
    let _ = driver.kill();

    let (env, repo, model) = scene([serve(true), stall()]);
    let policy = env.at("policy.toml");
    fs::write(&policy, format!("preset = \"workspace\"\npublish = [{port}]\n")).unwrap();
    let policy = policy.display().to_string();
    let bundle = env.at("bundle").display().to_string();
    let driver = env.start(env.run_args(&repo.path, &model, &["--policy", &policy]));
    eventually("it listens", || model.requests().len() == 2 && told(&model)[0].contains("listens"));
    // More than there are sockets for it, one after the other.
    for round in 0..100 {
        assert_eq!(dialled(port).unwrap_or_else(|error| panic!("{round}: {error}")), "from within");
    }
    driver.signal(Signal::INT);
    let run = driver.wait().code(130).run();
    assert!(dialled(port).is_err(), "it is gone, and its port with it");
    let journal = env.journal(&run);
    let published = &bodies(&journal, "process.ended")[0]["published"];
    assert_eq!((&published["connections"], &published["sent"]), (&json!(100), &json!(1100)), "{published}");
    let _ = env.provost(["resume", &run, "--export", &bundle, "--json"]).code(0);
    let key = env.public_key().display().to_string();
    let _ = env.provost(["verify", &bundle, "--key", &key, "--repo", repo.path.to_str().unwrap()]).code(0);
}

#[test]
fn a_later_command_reaches_a_published_port() {
    let port = free_port();
    let line = ANSWER.replace("PORT", &port.to_string());
    let client = format!(
        "/usr/bin/python3 -c \"import socket; s = socket.create_connection(('127.0.0.1', {port})); s.sendall(b'x'); \
         print(s.recv(100))\""
    );
    for publish in [true, false] {
        let mut arguments = json!({ "command": line });
        if publish {
            arguments["publish"] = json!(port);
        }
        let client = call("shell", json!({ "line": client }));
        let (env, repo, model) = scene([call("shell_start", arguments), client]);
        let policy = env.at("policy.toml");
        fs::write(&policy, format!("preset = \"workspace\"\npublish = [{port}]\n")).unwrap();
        let _ = env.run(&repo.path, &model, &["--policy", &policy.display().to_string()]).code(0);
        let answer = &told(&model)[1];
        assert_eq!(answer.contains("from within"), publish, "{answer}");
    }
}

#[test]
fn a_port_that_the_policy_does_not_grant_or_somebody_has_is_refused_in_words() {
    let (env, repo, model) = scene([call("shell_start", json!({ "command": "sleep 900", "publish": 3000 }))]);
    let run = env.run(&repo.path, &model, &[]).code(0).run();
    assert!(
        told(&model)[0].contains("does not let port 3000 be published; it lets: none."),
        "{:?}",
        told(&model)
    );
    assert!(bodies(&env.journal(&run), "act.started").is_empty());
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let (env, repo, model) = scene([call("shell_start", json!({ "command": "sleep 900", "publish": port }))]);
    let policy = env.at("policy.toml");
    fs::write(&policy, format!("preset = \"workspace\"\npublish = [{port}]\n")).unwrap();
    let _ = env.run(&repo.path, &model, &["--policy", &policy.display().to_string()]).code(0);
    assert!(told(&model)[0].contains("cannot be listened on"), "{:?}", told(&model));
}
