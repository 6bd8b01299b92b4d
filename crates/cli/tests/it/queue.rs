//! The queue: queued once, driven once, cancelled for good; workers that die, runs that kill them.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::script::{scene, script, sh, submit, with, write};
use crate::support::{Ran, Rehearsal, Repo, Running, TestEnvironment, bodies, eventually, text};

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

    fn enqueue_args(&self, dir: &Path, goal: &str, more: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = [
            "enqueue",
            goal,
            "--model",
            "rehearsal",
            "--json",
            "--yes",
            "--base-url",
            &self.model.base_url,
            "-C",
        ]
        .map(str::to_owned)
        .into();
        args.push(dir.display().to_string());
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        args
    }

    fn enqueue(&self, goal: &str, more: &[&str]) -> Ran {
        self.env.provost(self.enqueue_args(&self.repo.path, goal, more))
    }

    fn worker(&self, more: &[&str]) -> Ran {
        self.env.provost(["worker", "--until-empty", "--json"].iter().chain(more))
    }

    fn status(&self, run: &str) -> Value {
        self.env.provost(["status", run, "--json"]).code(0).last()
    }

    fn state(&self, run: &str) -> String {
        text(&self.status(run)["state"])
    }

    fn cancel(&self, run: &str, more: &[&str]) -> Ran {
        self.env.provost(["cancel", run, "--json"].iter().chain(more))
    }
}

/// All rows of all tables, to see that something changed nothing.
fn dump(env: &TestEnvironment) -> String {
    let store = rusqlite::Connection::open(env.store()).unwrap();
    let mut all = String::new();
    for table in ["run", "event", "blob", "salt", "letter"] {
        let mut select = store.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = select.column_count();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                all.push_str(&format!("{:?} ", row.get::<_, rusqlite::types::Value>(column).unwrap()));
            }
            all.push('\n');
        }
    }
    all
}

#[test]
fn what_is_queued_is_driven_in_its_order_and_proved() {
    let case = Case::new([write("b.txt", "two\n")]);
    let _ = case.enqueue("First.", &["--id", "first-one", "--verify", "grep -q two b.txt"]).code(0);
    let _ = case.enqueue("Second.", &["--id", "an-earlier-name"]).code(0);
    let first = case.status("first-one");
    assert_eq!((&first["state"], &first["over"]), (&json!("queued"), &json!(false)), "{first}");
    // What is queued can be looked at by all that look at runs.
    let shown = case.env.provost(["show", "first-one"]).code(0);
    assert!(shown.stdout.contains("First.") && shown.stdout.contains("queued"), "{shown}");
    let _ = case.env.provost(["log", "first-one"]).code(0);

    let bundles = case.env.at("bundles").display().to_string();
    let worked = case.worker(&["--export", &bundles]).code(0);
    let said: Vec<(String, String)> =
        worked.json().iter().map(|line| (text(&line["run"]), text(&line["kind"]))).collect();
    let of = |run: &str, kinds: &[&str]| {
        kinds.iter().map(|kind| (run.to_owned(), (*kind).to_owned())).collect::<Vec<_>>()
    };
    // The second begins with what the first left, which is not committed.
    let expected = [
        of("first-one", &["taken", "exported", "done"]),
        of("an-earlier-name", &["note", "taken", "exported", "done"]),
    ];
    assert_eq!(said, expected.concat());

    let journal = case.env.journal("first-one");
    assert_eq!(journal[0]["kind"], "run.queued");
    assert_eq!(bodies(&journal, "driver.attached").len(), 1);
    let key = case.env.public_key().display().to_string();
    let repo = case.repo.path.display().to_string();
    let bundle = format!("{bundles}/first-one");
    let _ = case.env.provost(["verify", &bundle, "--key", &key, "--repo", &repo, "--require-gate"]).code(0);
}

#[test]
fn b9_the_same_is_queued_once_from_however_many_processes_and_another_is_refused() {
    let case = Case::new([]);
    let args = case.enqueue_args(&case.repo.path, "Do it.", &["--id", "nightly"]);
    let started: Vec<Running> = (0..12).map(|_| case.env.start(args.clone())).collect();
    let said: Vec<Value> = started.into_iter().map(|running| running.wait().code(0).last()).collect();
    let new = said.iter().filter(|line| line["enqueued"] == true).count();
    assert_eq!(new, 1, "{said:?}");
    assert_eq!(case.env.journal("nightly").len(), 1);

    let _ = case.enqueue("Do something else.", &["--id", "nightly"]).code(2).says("the goal differs");
    let _ =
        case.enqueue("Do it.", &["--id", "nightly", "--max-steps", "3"]).code(2).says("the budget differs");
    let _ =
        case.enqueue("Do it.", &["--id", "nightly", "--deny", "exec rm"]).code(2).says("the policy differs");
    let _ =
        case.enqueue("Do it.", &["--id", "nightly", "--verify", "true"]).code(2).says("verification differs");
    let _ = case.enqueue("Do it.", &["--id", "UPPER"]).code(2);
    // Also when it is done: the same is still the same.
    let _ = case.worker(&[]).code(0);
    assert_eq!(case.enqueue("Do it.", &["--id", "nightly"]).code(0).last()["enqueued"], false);
    assert_eq!(case.state("nightly"), "done");
    // A run that was never queued keeps its name.
    let ran = case.env.run(&case.repo.path, &case.model, &[]).code(0);
    let _ = case.enqueue("Do it.", &["--id", &ran.run()]).code(2).says("it was not queued");
}

#[test]
fn many_workers_share_a_queue_and_each_run_has_one_driver() {
    let case = Case::new([write("b.txt", "two\n"), sh("echo x >> count.txt")]);
    let names: Vec<String> = (0..6).map(|n| format!("job-{n}")).collect();
    for name in &names {
        let repo = case.env.repository(name, &[("a.txt", "one\n"), (".gitignore", "count.txt\n")]);
        let _ = case.env.provost(case.enqueue_args(&repo.path, "Do it.", &["--id", name])).code(0);
    }
    let workers: Vec<Running> =
        (0..3).map(|_| case.env.start(["worker", "--until-empty", "--jobs", "2", "--json"])).collect();
    for worker in workers {
        let _ = worker.wait().code(0);
    }
    for name in &names {
        let journal = case.env.journal(name);
        assert_eq!(bodies(&journal, "driver.attached").len(), 1, "{name}");
        assert_eq!(case.state(name), "done");
        let count = fs::read_to_string(case.env.at(name).join("count.txt")).unwrap();
        assert_eq!(count, "x\n", "{name}: nothing is done twice");
    }
}

#[test]
fn a5_a_status_a_list_and_a_watch_change_nothing() {
    let case = Case::new([]);
    // Without a store there is none afterwards.
    for args in [vec!["status"], vec!["list"], vec!["status", "x"], vec!["watch"], vec!["cancel", "x"]] {
        let _ = case.env.provost(args).code(2).says("no store at");
    }
    assert!(!case.env.store().exists());
    let _ = case.enqueue("One.", &["--id", "job-one"]).code(0);
    let _ = case.enqueue("Two.", &["--id", "job-two"]).code(0);
    let _ = case.env.run(&case.repo.path, &case.model, &[]).code(0);
    let before = dump(&case.env);
    let all = case.env.provost(["status"]).code(0);
    assert!(all.stdout.contains("job-one") && all.stdout.contains("over: 1 done"), "{all}");
    let _ = case.env.provost(["status", "job-o"]).code(0);
    let _ = case.env.provost(["status", "--json"]).code(0);
    let _ = case.env.provost(["list", "--json"]).code(0);
    // A run that is over has nothing left to watch.
    let over = case.env.runs().pop().unwrap();
    let _ = case.env.provost(["watch", &over, "--every", "1s"]).code(0);
    // A reader that goes away is no error.
    let line = format!("'{}' status | head -n 1", env!("CARGO_BIN_EXE_provost"));
    let mut shell = case.env.command("sh");
    shell.args(["-c", &line]);
    let _ = crate::support::finish(shell).code(0);
    assert_eq!(dump(&case.env), before);
}

#[test]
fn a_run_that_is_cancelled_in_the_queue_never_begins() {
    let case = Case::new([write("b.txt", "two\n")]);
    let _ = case.enqueue("One.", &["--id", "job-one"]).code(0);
    let _ = case.enqueue("Two.", &["--id", "job-two"]).code(0);
    let said = case.cancel("job-one", &[]).code(0).last();
    assert_eq!((&said["state"], &said["done"]), (&json!("cancelled"), &json!(true)));
    // Again is no error, and no event.
    let _ = case.cancel("job-one", &[]).code(0);
    assert_eq!(case.env.journal("job-one").len(), 2);
    let worked = case.worker(&[]).code(0);
    assert!(!worked.stdout.contains("job-one"), "{worked}");
    assert_eq!(case.state("job-two"), "done");
    let _ = case.env.provost(["resume", "job-one"]).code(10).says("cancelled by cancel before it began");
    let _ = case.env.provost(["show", "job-one"]).code(0);
    // Queued again with the same contract it is the same run, which is over.
    assert_eq!(case.enqueue("One.", &["--id", "job-one"]).code(0).last()["enqueued"], false);
}

/// What leaves the group, the session and the terminal of whoever started it.
const DEEP: &str = "echo begun > begun.txt; (setsid sh -c 'sleep 301; echo late > late.txt' &) ; sleep 300";

#[test]
fn a14_a_cancel_ends_a_running_command_with_all_that_it_started() {
    let case = Case::new([write("b.txt", "two\n"), sh(DEEP)]);
    let driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &["--yes"]));
    eventually("the command runs", || case.repo.path.join("begun.txt").exists());
    let run = case.env.only_run();
    let said = case.cancel(&run, &[]).code(0).last();
    assert_eq!(said["state"], "cancelled");
    let ran = driver.wait().code(10);
    assert_eq!(ran.last()["outcome"], "cancelled");
    case.env.assert_no_processes_but(&case.model);
    let journal = case.env.journal(&run);
    let end = bodies(&journal, "act.finished").into_iter().next_back().unwrap().clone();
    assert_eq!(
        (&end["end"], &end["command"]["exit"]["how"]),
        (&json!("interrupted"), &json!("cancelled")),
        "{end}"
    );
    let kinds: Vec<&str> =
        journal.iter().rev().take(2).map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run.finished", "run.cancelled"]);
    // What it did until then can be proved.
    let out = case.env.at("bundle").display().to_string();
    let _ = case.env.provost(["export", &run, "--out", &out]).code(0);
    let (key, repo) = (case.env.public_key().display().to_string(), case.repo.path.display().to_string());
    let _ = case.env.provost(["verify", &out, "--key", &key, "--repo", &repo]).code(0);
    let patch = fs::read_to_string(case.env.at("bundle/changes.patch")).unwrap();
    assert!(patch.contains("b.txt") && patch.contains("begun.txt"), "{patch}");
}

#[test]
fn a_run_that_is_held_is_left_by_its_driver_and_by_workers_until_somebody_resumes_it() {
    let case = Case::new([write("b.txt", "two\n"), sh("test -e go || { touch begun; sleep 300; }")]);
    let _ = case.enqueue("One.", &["--id", "job-one"]).code(0);
    let worker = case.env.start(["worker", "--until-empty", "--json"]);
    eventually("the command runs", || case.repo.path.join("begun").exists());
    let said = case.cancel("job-one", &["--resumable"]).code(0).last();
    assert_eq!((&said["state"], &said["done"]), (&json!("held"), &json!(true)));
    let _ = worker.wait().code(5);
    case.env.assert_no_processes_but(&case.model);
    // No worker takes it.
    assert_eq!(case.worker(&[]).code(0).stdout, "");
    let _ = case.cancel("job-one", &["--resumable"]).code(0);
    fs::write(case.repo.path.join("go"), "").unwrap();
    let _ = case.env.provost(["resume", "job-one", "--yes", "--json"]).code(0);
    assert_eq!(case.state("job-one"), "done");
    let _ = case.cancel("job-one", &["--resumable"]).code(2).says("was over before: done");

    let _ = case.enqueue("Two.", &["--id", "job-two"]).code(0);
    assert_eq!(case.cancel("job-two", &["--resumable"]).code(0).last()["state"], "held");
    assert_eq!(case.worker(&[]).code(0).stdout, "");
    let _ = case.env.provost(["resume", "job-two", "--yes", "--json"]).code(0);
}

#[test]
fn a6_a_cancel_that_was_acknowledged_is_never_overwritten_and_an_end_is_never_either() {
    let mut lost = 0;
    for round in 0..12_u64 {
        let steps = (0..6).flat_map(|n| [write(&format!("file-{n}"), "two\n"), sh("sleep 0.05")]);
        let case = Case::new(steps);
        let mut driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &["--yes"]));
        // At another place of the run each time.
        eventually("the run goes on", || {
            driver.is_over()
                || (case.env.store().exists()
                    && case
                        .env
                        .runs()
                        .first()
                        .is_some_and(|run| case.status(run)["events"].as_u64() > Some(5 * round)))
        });
        let run = case.env.only_run();
        let cancel = case.cancel(&run, &[]);
        let ran = driver.wait();
        let finished =
            bodies(&case.env.journal(&run), "run.finished").into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(finished.len(), 1);
        let cancelled = finished[0]["outcome"]["why"] == "cancelled";
        assert_eq!(cancel.code == 0, cancelled, "{cancel}\n{finished:?}");
        assert_eq!(ran.code, if cancelled { 10 } else { 0 }, "{ran}");
        assert_eq!(case.state(&run), if cancelled { "cancelled" } else { "done" });
        lost += u32::from(!cancelled);
    }
    assert!((1..12).contains(&lost), "{lost} of 12 came too late: this tried one side only");
}

#[test]
fn a_run_whose_driver_died_is_cancelled_with_what_it_did_on_record() {
    let case = Case::new([write("b.txt", "two\n"), sh("echo half > half.txt; touch begun.txt; sleep 300")]);
    let driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &["--yes"]));
    eventually("the command runs", || case.repo.path.join("begun.txt").exists());
    driver.signal(Signal::KILL);
    let _ = driver.wait();
    let run = case.env.only_run();
    assert_eq!(case.state(&run), "running");
    assert_eq!(case.status(&run)["driver"]["alive"], false);
    assert_eq!(case.cancel(&run, &[]).code(0).last()["state"], "cancelled");
    let shown = case.env.show(&run);
    let changed: Vec<String> =
        shown["changes"].as_array().unwrap().iter().map(|change| text(&change["path"])).collect();
    assert_eq!(changed, ["b.txt", "begun.txt", "half.txt"]);
    case.env.assert_no_processes_but(&case.model);
    let _ = case.env.provost(["resume", &run]).code(10);
}

#[test]
fn a_cancelled_run_whose_workspace_is_gone_is_cancelled_all_the_same() {
    let case = Case::new([write("b.txt", "two\n")]);
    let args = case.env.run_args(&case.repo.path, &case.model, &["--policy", "strict"]);
    let run = case.env.provost(args).code(5).run();
    fs::rename(&case.repo.path, case.env.at("elsewhere")).unwrap();
    let said = case.cancel(&run, &[]).code(0).says("it is cancelled; what its workspace was like").last();
    assert_eq!((&said["state"], &said["done"]), (&json!("cancelling"), &json!(true)));
    let _ = case.env.provost(["resume", &run]).code(2);
    fs::rename(case.env.at("elsewhere"), &case.repo.path).unwrap();
    assert_eq!(case.cancel(&run, &[]).code(0).last()["state"], "cancelled");
}

#[test]
fn a_worker_that_died_is_replaced_by_the_next() {
    let case = Case::new([write("b.txt", "two\n"), sh("test -e go || { touch begun; sleep 300; }")]);
    let _ = case.enqueue("One.", &["--id", "job-one"]).code(0);
    let worker = case.env.start(["worker", "--json"]);
    eventually("the command runs", || case.repo.path.join("begun").exists());
    worker.signal(Signal::KILL);
    let _ = worker.wait();
    fs::write(case.repo.path.join("go"), "").unwrap();
    let _ = case.worker(&[]).code(0);
    assert_eq!(case.state("job-one"), "done");
    assert_eq!(bodies(&case.env.journal("job-one"), "driver.attached").len(), 2);
}

#[test]
fn a_worker_that_is_told_to_stop_leaves_its_run_for_the_next() {
    let case = Case::new([write("b.txt", "two\n"), sh("test -e go || { touch begun; sleep 300; }")]);
    let _ = case.enqueue("One.", &["--id", "job-one"]).code(0);
    let worker = case.env.start(["worker", "--json"]);
    eventually("the command runs", || case.repo.path.join("begun").exists());
    worker.signal(Signal::TERM);
    let _ = worker.wait().code(130);
    case.env.assert_no_processes_but(&case.model);
    assert_eq!(case.state("job-one"), "interrupted");
    fs::write(case.repo.path.join("go"), "").unwrap();
    let _ = case.worker(&[]).code(0);
    assert_eq!(case.state("job-one"), "done");
}

/// A run that kills whoever drives it is tried three times, and then is somebody's to look at (A8).
#[test]
fn a8_a_run_that_kills_its_workers_is_held() {
    let case = Case::new([]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let mut args = case.enqueue_args(&case.repo.path, "One.", &["--id", "job-one"]);
    let at = args.iter().position(|arg| arg == &case.model.base_url).unwrap();
    args[at].clone_from(&url);
    let _ = case.env.provost(args).code(0);
    for _ in 0..3 {
        let worker = case.env.start(["worker", "--json"]);
        let (asked, _) = silent.accept().unwrap();
        worker.signal(Signal::KILL);
        let _ = worker.wait();
        drop(asked);
    }
    let worked = case.worker(&[]).code(5);
    assert!(worked.stdout.contains("3 drivers in a row died under it"), "{worked}");
    assert_eq!(case.state("job-one"), "held");
    assert_eq!(case.worker(&[]).code(0).stdout, "");
    // Whoever looked at it can have it driven again.
    // Its answers were lost, and the vendor may have charged for them: nobody else is asked by the way.
    let elsewhere = ["resume", "job-one", "--base-url", &case.model.base_url, "--json"];
    let _ = case.env.provost(elsewhere).code(2).says("was lost on its way");
    let _ = case.env.provost(elsewhere.iter().chain(&["--unknown-outcome", "go-on"])).code(0);
}

#[test]
fn what_cannot_begin_is_held_with_its_reason_and_the_queue_goes_on() {
    let case = Case::new([write("b.txt", "two\n")]);
    let gone = case.env.repository("gone", &[("a.txt", "one\n")]);
    let _ = case.env.provost(case.enqueue_args(&gone.path, "One.", &["--id", "job-one"])).code(0);
    let _ = case.enqueue("Two.", &["--id", "job-two", "--verify", "no-such-program-here"]).code(0);
    let _ = case.enqueue("Three.", &["--id", "job-three", "--key-env", "NO_SUCH_KEY"]).code(0);
    let _ = case.enqueue("Four.", &["--id", "job-four"]).code(0);
    fs::rename(&gone.path, case.env.at("moved")).unwrap();
    let worked = case.worker(&[]).code(5);
    for (run, state, why) in [
        ("job-one", "held", "there is no such folder"),
        ("job-two", "held", "no-such-program-here"),
        ("job-three", "held", "NO_SUCH_KEY"),
        ("job-four", "done", ""),
    ] {
        assert_eq!(case.state(run), state, "{run}\n{worked}");
        let log = case.env.provost(["log", run]).code(0);
        assert!(log.stdout.contains(why), "{log}");
    }
    fs::rename(case.env.at("moved"), &gone.path).unwrap();
    let _ = case.env.provost(["resume", "job-one", "--yes", "--json"]).code(0);
}

/// A worker takes only what was queued: a person's own run is the person's.
#[test]
fn a_run_that_was_not_queued_is_left_to_its_person() {
    let case = Case::new([write("b.txt", "two\n")]);
    let args = case.env.run_args(&case.repo.path, &case.model, &["--policy", "strict"]);
    let run = case.env.provost(args).code(5).run();
    let _ = case.env.provost(["attach", &run, "--approve", "0"]).code(0);
    assert_eq!(case.worker(&[]).code(0).stdout, "");
    assert_eq!(case.state(&run), "waiting_for_approval");
    let _ = case.env.provost(["resume", &run, "--yes"]).code(0);
}

/// Runs in one folder go one after the other, and that one waits is no failure.
#[test]
fn runs_in_one_folder_wait_for_each_other() {
    let case = Case::new([sh("echo x >> count.txt; sleep 0.3")]);
    for n in 0..3 {
        let _ = case.enqueue("Do it.", &["--id", &format!("job-{n}")]).code(0);
    }
    let workers: Vec<Running> =
        (0..2).map(|_| case.env.start(["worker", "--until-empty", "--jobs", "2", "--json"])).collect();
    for worker in workers {
        let _ = worker.wait().code(0);
    }
    for n in 0..3 {
        assert_eq!(case.state(&format!("job-{n}")), "done");
    }
    assert_eq!(fs::read_to_string(case.repo.path.join("count.txt")).unwrap(), "x\nx\nx\n");
}

#[test]
fn a_watch_that_is_to_look_all_the_time_looks_often() {
    let case = Case::new([]);
    let run = case.env.run(&case.repo.path, &case.model, &[]).code(0).run();
    let _ = case.env.provost(["watch", &run, "--every", "0s"]).code(0);
}

/// What one worker of a process left for good, the one beside it does not try again.
#[test]
fn workers_of_one_process_share_what_they_left() {
    let case = Case::new([with(write("a.txt", "x\n"), "fault", json!({ "status": 401, "times": 99 }))]);
    let _ = case.enqueue("Refused.", &["--id", "refused"]).code(0);
    let other = case.env.rehearse(&script([submit()]));
    for n in 0..6 {
        let id = format!("quick-{n}");
        let repo = case.env.repository(&id, &[("a.txt", "one\n")]);
        let mut args = case.enqueue_args(&repo.path, "Quick.", &["--id", &id]);
        args.extend(["--base-url", &other.base_url].map(str::to_owned));
        let at = args.iter().position(|arg| arg == "--base-url").unwrap();
        args.drain(at..at + 2);
        let _ = case.env.provost(args).code(0);
    }
    let _ = case.worker(&["--jobs", "2"]).code(6);
    assert_eq!(case.model.requests().len(), 1, "a refused key is refused again");
    assert_eq!(case.state("quick-5"), "done");
}

/// What is wrong with one run keeps nobody from the others.
#[test]
fn a_damaged_run_leaves_the_others_alone() {
    let case = Case::new([write("b.txt", "two\n")]);
    let _ = case.enqueue("One.", &["--id", "job-one"]).code(0);
    let _ = case.enqueue("Two.", &["--id", "job-two"]).code(0);
    let store = rusqlite::Connection::open(case.env.store()).unwrap();
    let damage = "UPDATE event SET json = replace(json, 'run.queued', 'run.quexed') WHERE key >> 32 = \
                  (SELECT id FROM run WHERE name = 'job-one')";
    assert_eq!(store.execute(damage, []).unwrap(), 1);
    drop(store);
    let shown = case.env.provost(["status"]).code(0);
    assert!(shown.stdout.contains("job-one") && shown.stdout.contains("damaged: "), "{shown}");
    assert!(
        shown.stdout.lines().any(|line| line.starts_with("job-two") && line.contains("queued")),
        "{shown}"
    );
    let _ = case.worker(&[]);
    assert_eq!(case.state("job-two"), "done");
    assert_eq!(fs::read_to_string(case.repo.path.join("b.txt")).unwrap(), "two\n");
}
