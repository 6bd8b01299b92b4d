//! A driver that dies or is stopped at a chosen moment, and the one that takes up its run (I2, I4, I6). `kill.rs` has
//! twenty moments of an ordinary run; here each moment is one that an ordinary run passes too quickly.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Ran, Rehearsal, Repo, Running, TestEnvironment, bodies, eventually, processes_at, text,
};

fn call(name: &str, arguments: &Value) -> Value {
    json!({ "call": { "name": name, "arguments": arguments }, "usage": { "input": 100, "output": 10 } })
}

fn shell(line: &str) -> Value {
    call("exec", &json!({ "argv": ["sh", "-c", line] }))
}

fn submit() -> Value {
    call("submit", &json!({ "summary": "done" }))
}

/// A repository, and a model that lives in another world: what is left of the run is then the run's.
struct Stage {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
    _vendor: TestEnvironment,
}

impl Stage {
    /// `script` is given the text that a command must have about it to be found by [`Stage::processes`].
    fn new(script: impl FnOnce(&Path) -> Value) -> Self {
        let (env, vendor) = (TestEnvironment::new(), TestEnvironment::new());
        let repo = env.repository("repository", &[("a.txt", "one\n"), (".gitignore", "/count.txt\n/flag\n")]);
        let model = vendor.rehearse(&script(env.root()));
        Self { env, repo, model, _vendor: vendor }
    }

    fn start(&self, more: &[&str]) -> Running {
        self.env.start(self.env.run_args(&self.repo.path, &self.model, more))
    }

    fn resume(&self, run: &str) -> Ran {
        self.env.provost(["resume", run, "--json"])
    }

    /// Lines that commands wrote where git does not look.
    fn count(&self) -> Vec<String> {
        let text = fs::read_to_string(self.repo.path.join("count.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What the model was last told, and how often it was asked.
    fn told(&self) -> (String, usize) {
        let requests = self.model.requests();
        let body = requests.last().map(|request| text(&request["body"])).unwrap_or_default();
        (body, requests.len())
    }

    fn processes(&self) -> Vec<String> {
        processes_at(self.env.root())
    }
}

/// Says that it runs, and stays for longer than any test: two processes, one in a session of its own.
fn hang(root: &Path) -> String {
    let mark = format!("MARK={}", root.display());
    format!("echo begun >> count.txt; {mark} setsid sleep 900 & {mark} sleep 900; echo never >> count.txt")
}

/// The run's ledger is the sum over its answers, and no answer was counted twice.
#[track_caller]
fn assert_counted_once(stage: &Stage, run: &str) {
    let journal = stage.env.journal(run);
    let answers = bodies(&journal, "model.answered");
    let mut invocations: Vec<String> = answers.iter().map(|body| text(&body["invocation"])).collect();
    invocations.dedup();
    assert_eq!(invocations.len(), answers.len());
    // What was asked and never answered is charged by estimate, once.
    let failed = bodies(&journal, "model.failed");
    let charged: Vec<_> =
        answers.iter().chain(failed.iter().filter(|body| !body["usage"].is_null())).collect();
    let sum = |field: &str| charged.iter().map(|body| body["usage"][field].as_u64().unwrap()).sum::<u64>();
    let shown = stage.env.show(run);
    assert_eq!(shown["usage"]["input"], sum("input"));
    assert_eq!(shown["usage"]["output"], sum("output"));
    assert_eq!(shown["steps"], answers.len());
}

#[test]
fn i4_a_command_whose_driver_is_killed_is_gone_with_it_and_is_not_run_again() {
    let stage = Stage::new(|root| json!({ "steps": [shell(&hang(root)), submit()] }));
    let driver = stage.start(&[]);
    eventually("the command runs", || stage.count() == ["begun"]);
    // Control: its processes are found while it runs. The driver itself is one more.
    eventually("both sleep", || {
        stage.processes().iter().filter(|line| line.contains("sleep 900")).count() >= 2
    });
    let _ = driver.kill();
    eventually("its tree is gone", || stage.processes().is_empty());

    let run = stage.env.only_run();
    let _ = stage.resume(&run).code(0);
    assert_eq!(stage.count(), ["begun"]);
    let journal = stage.env.journal(&run);
    let ended = bodies(&journal, "act.finished")[0];
    assert_eq!(ended["end"], "interrupted", "{ended}");
    assert_eq!(ended["command"]["exit"]["how"], "driver_lost", "{ended}");
    let (told, asked) = stage.told();
    assert!(told.contains("interrupted: it was ended because the program that ran it ended"), "{told}");
    assert_eq!(asked, 2);
    assert_counted_once(&stage, &run);
    stage.env.assert_store_intact();
}

#[test]
fn i2_a_command_that_ended_while_nobody_drove_is_settled_from_its_record() {
    // The driver is stopped and not killed, so that the command can end before the driver does.
    let line =
        "echo begun >> count.txt; while [ ! -e flag ]; do sleep 0.01; done; echo ended >> count.txt; exit 3";
    let stage = Stage::new(|_| json!({ "steps": [shell(line), submit()] }));
    let driver = stage.start(&[]);
    eventually("the command runs", || stage.count() == ["begun"]);
    driver.signal(Signal::STOP);
    fs::write(stage.repo.path.join("flag"), "").unwrap();
    eventually("the command ended", || stage.count() == ["begun", "ended"]);
    let spool = stage.env.at("state/provost/provost.spool");
    eventually("its record is written", || {
        crate::support::files_beneath(&spool).iter().any(|file| file.ends_with("exit.json"))
    });
    let _ = driver.kill();

    let run = stage.env.only_run();
    let _ = stage.resume(&run).code(0);
    assert_eq!(stage.count(), ["begun", "ended"]);
    let journal = stage.env.journal(&run);
    let ended = bodies(&journal, "act.finished")[0];
    assert_eq!((&ended["end"], &ended["command"]["exit"]["code"]), (&json!("failed"), &json!(3)), "{ended}");
    assert_counted_once(&stage, &run);
}

#[test]
fn i4_a_write_that_was_cut_short_is_carried_to_its_end() {
    // Many files, so that the write takes long enough to be met in the middle; whichever side of it the kill meets,
    // the end is the same. Tried until one was met between its start and its end.
    const FILES: usize = 400;
    let patch = (0..FILES).fold(String::new(), |text, n| {
        text + &format!("--- /dev/null\n+++ b/new/{n}.txt\n@@ -0,0 +1 @@\n+{n}\n")
    });
    let script = json!({ "steps": [call("apply_patch", &json!({ "patch": patch })), submit()] });
    let mut met = 0;
    for attempt in 0..40 {
        let stage = Stage::new(|_| script.clone());
        let mut driver = stage.start(&[]);
        let folder = stage.repo.path.join("new");
        let written = || fs::read_dir(&folder).map_or(0, |entries| entries.flatten().count());
        // Another place each time.
        eventually("the write goes on", || written() > attempt * 9 || driver.is_over());
        let _ = driver.kill();
        let run = stage.env.only_run();
        let journal = stage.env.journal(&run);
        let open = bodies(&journal, "act.started").len() == 1 && bodies(&journal, "act.finished").is_empty();
        if open && written() < FILES {
            met += 1;
        }

        let _ = stage.resume(&run).code(0);
        for n in 0..FILES {
            assert_eq!(fs::read_to_string(folder.join(format!("{n}.txt"))).unwrap(), format!("{n}\n"));
        }
        assert_eq!(written(), FILES, "and nothing half-written beside them");
        let journal = stage.env.journal(&run);
        assert_eq!(bodies(&journal, "act.finished")[0]["end"], "done");
        assert_eq!(stage.env.show(&run)["changes"].as_array().unwrap().len(), FILES);
        assert_counted_once(&stage, &run);
        if met == 2 {
            return;
        }
    }
    panic!("no kill met the write between its start and its end");
}

#[test]
fn i6_a_request_in_flight_is_made_again_under_the_same_name_and_counted_once() {
    let stage = Stage::new(|_| {
        let mut slow = call("read_file", &json!({ "path": "a.txt" }));
        slow["fault"] = json!({ "stall_ms": 900_000, "times": 1 });
        json!({ "steps": [call("list_dir", &json!({ "path": "." })), slow, submit()] })
    });
    let driver = stage.start(&[]);
    eventually("the second request is made", || stage.model.requests().len() == 2);
    let _ = driver.kill();
    let run = stage.env.only_run();
    let _ = stage.resume(&run).code(0);

    let requests = stage.model.requests();
    assert_eq!(requests.len(), 4);
    let key = |request: &Value| text(header(request, "idempotency-key"));
    assert_eq!(key(&requests[1]), key(&requests[2]));
    assert_ne!(key(&requests[0]), key(&requests[1]));
    assert_eq!(requests[1]["body"], requests[2]["body"], "byte for byte");
    assert_counted_once(&stage, &run);
    // The vendor counted 100 for each that it answered. The one that was lost is charged by estimate.
    let shown = stage.env.show(&run);
    assert_eq!(
        (&shown["estimated_calls"], shown["usage"]["input"].as_u64().unwrap() > 400),
        (&json!(1), true)
    );
}

fn header<'a>(request: &'a Value, name: &str) -> &'a Value {
    let headers = &request["headers"];
    let pairs = headers.as_array().into_iter().flatten();
    let found = pairs.clone().find(|pair| pair[0] == name).map(|pair| &pair[1]);
    found.unwrap_or(&headers[name])
}

#[test]
fn i4_a_gate_that_was_cut_short_judged_nothing_and_is_run_again() {
    let stage = Stage::new(
        |_| json!({ "steps": [call("write_file", &json!({ "path": "b.txt", "content": "new\n" })), submit()] }),
    );
    // An ignored file tells the gate, which runs in a checkout of its own, whether to wait.
    stage.repo.write("flag", "wait\n");
    let mark = stage.env.root().display();
    let gate = format!("sh -c 'if grep -q wait flag; then MARK={mark} sleep 900; fi; grep new b.txt'");
    let driver = stage.start(&["--verify", &gate, "--verify-with", "flag"]);
    eventually("the gate runs", || stage.processes().iter().any(|line| line.ends_with("sleep 900")));
    let _ = driver.kill();
    stage.repo.write("flag", "go\n");
    let run = stage.env.only_run();
    let ran = stage.resume(&run).code(0);
    assert_eq!(ran.last()["verified"], true);
    stage.env.assert_no_processes();
    let journal = stage.env.journal(&run);
    let verdicts: Vec<&Value> = bodies(&journal, "gate.judged").iter().map(|body| &body["verdict"]).collect();
    assert_eq!(verdicts, ["errored", "passed"]);
    assert_eq!(stage.told().1, 2, "a gate that judged nothing is not the model's affair");
    assert_counted_once(&stage, &run);
}

#[test]
fn what_somebody_changed_after_the_crash_is_not_the_commands_doing() {
    let stage =
        Stage::new(|_| json!({ "steps": [shell("echo made > made.txt; touch flag; sleep 900"), submit()] }));
    let driver = stage.start(&[]);
    eventually("the command runs", || stage.repo.path.join("flag").exists());
    let _ = driver.kill();
    let spool = stage.env.at("state/provost/provost.spool");
    let record =
        || crate::support::files_beneath(&spool).into_iter().find(|file| file.ends_with("exit.json"));
    eventually("its record is written", || record().is_some());
    let record: Value = serde_json::from_slice(&fs::read(record().unwrap()).unwrap()).unwrap();
    let ended = record["ended_at_ns"].as_u64().unwrap();
    // The file system's clock ticks every few milliseconds: within one tick nobody can tell.
    eventually("a new file is younger than that", || {
        let probe = stage.env.at("probe");
        let _ = fs::remove_file(&probe);
        fs::write(&probe, "").unwrap();
        let meta = fs::metadata(&probe).unwrap();
        (meta.ctime() * 1_000_000_000 + meta.ctime_nsec()) as u64 > ended
    });
    stage.repo.write("mine.txt", "mine\n");
    stage.repo.write("a.txt", "mine\n");
    let run = stage.env.only_run();
    let _ = stage.resume(&run).code(0);
    let journal = stage.env.journal(&run);
    let paths = |kind: &str| -> Vec<String> {
        let changes = bodies(&journal, kind)[0]["changes"].as_array().cloned().unwrap_or_default();
        changes.iter().map(|change| text(&change["path"])).collect()
    };
    assert_eq!(paths("act.finished"), ["made.txt"]);
    assert_eq!(paths("workspace.drifted"), ["a.txt", "mine.txt"]);
}

#[test]
fn what_nobody_can_tell_is_settled_by_a_person() {
    let line = "echo began >> count.txt; echo made > made.txt; touch flag; sleep 900";
    for (how, count, end, told) in [
        ("--happened", 1, "interrupted", "says that it happened"),
        ("--did-not", 1, "interrupted", "says that it did not happen"),
        ("--again", 2, "done", "exit status 0"),
    ] {
        // The second time it does not stay.
        let line = if how == "--again" {
            format!("test -e flag || {{ {line}; }}; {}", &line[..24])
        } else {
            line.to_owned()
        };
        let stage = Stage::new(|_| json!({ "steps": [shell(&line), submit()] }));
        let driver = stage.start(&[]);
        eventually("the command runs", || stage.repo.path.join("flag").exists());
        let _ = driver.kill();
        stage.env.assert_no_processes();
        let run = stage.env.only_run();
        // As after a power cut: the record of the command is gone.
        fs::remove_dir_all(stage.env.at("state/provost/provost.spool")).unwrap();

        let early = stage.env.provost(["settle", &run, "--act", "0", how]).code(2);
        assert!(early.stderr.contains("resume it to find out"), "{early}");
        let ran = stage.resume(&run).code(5);
        assert_eq!(ran.last()["outcome"], "waiting_for_decision");
        let ran = stage.env.provost(["resume", &run]).code(5);
        assert!(ran.stdout.contains(&format!("provost settle {run} --act 0 --happened")), "{ran}");
        let _ = stage.env.provost(["settle", &run, "--act", "1", how]).code(2).says("act 0 it is not");
        let _ = stage.env.provost(["settle", &run, "--act", "0"]).code(2).says("--again");
        assert_eq!(stage.count(), ["began"], "nothing is repeated meanwhile");

        let _ = stage.env.provost(["settle", &run, "--act", "0", how]).code(0);
        assert_eq!(stage.count().len(), count, "{how}");
        let journal = stage.env.journal(&run);
        assert_eq!(bodies(&journal, "act.finished")[0]["end"], end, "{how}");
        assert!(stage.told().0.contains(told), "{how}: {}", stage.told().0);
        // What had changed is the act's if it happened, and drift otherwise.
        let drifted = !bodies(&journal, "workspace.drifted").is_empty();
        assert_eq!(drifted, how != "--happened", "{how}");
        let _ = stage.env.provost(["settle", &run, "--act", "0", how]).code(2);
        stage.env.assert_store_intact();
    }
}

#[test]
fn i12_a_run_has_one_driver_at_a_time() {
    let stage = Stage::new(|root| json!({ "steps": [shell(&hang(root)), submit()] }));
    let driver = stage.start(&[]);
    eventually("the command runs", || stage.count() == ["begun"]);
    let run = stage.env.only_run();
    let before = stage.env.journal(&run);
    let holder = driver.pid().to_string();
    let refused = stage.resume(&run).code(7);
    assert!(refused.stderr.contains(&holder), "it names process {holder}\n{refused}");
    assert_eq!(stage.env.journal(&run), before, "a second driver writes nothing");
    assert_eq!(stage.told().1, 1, "and asks nobody");
    // Reading is free.
    assert_eq!(stage.env.show(&run)["state"], "running");
    let _ = driver.kill();
    // A holder that is dead is none: no lease has to lapse first.
    let _ = stage.resume(&run).code(0);
    assert_eq!(stage.count(), ["begun"]);
}

#[test]
fn a_run_that_is_over_says_so_and_asks_nobody() {
    for (gate, code, word) in [("true", 0, "done"), ("false", 1, "gate_failed")] {
        let stage = Stage::new(|_| json!({ "steps": [submit()], "final": "no more" }));
        let ran = stage.env.run(&stage.repo.path, &stage.model, &["--verify", gate]).code(code);
        let (run, asked) = (ran.run(), stage.told().1);
        let journal = stage.env.journal(&run);
        let again = stage.resume(&run).code(code);
        assert_eq!(again.last()["outcome"], ran.last()["outcome"], "{again}");
        assert_eq!(again.last()["outcome"], word, "{again}");
        let _ = stage.env.provost(["resume", &run]).code(code).says("is over already");
        assert_eq!(stage.told().1, asked);
        assert_eq!(stage.env.journal(&run), journal);
    }
    let env = TestEnvironment::new();
    let _ = env.provost(["resume", "r0"]).code(2).says("no store at");
}

#[test]
fn an_interrupt_ends_in_130_wherever_it_comes_and_the_run_goes_on() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let stage = Stage::new(|root| json!({ "steps": [shell(&hang(root)), submit()] }));
        let driver = stage.start(&[]);
        eventually("the command runs", || stage.count() == ["begun"]);
        driver.signal(signal);
        let ran = driver.wait().code(130);
        let last = ran.last();
        assert_eq!((&last["outcome"], &last["exit_code"]), (&json!("interrupted"), &json!(130)), "{ran}");
        eventually("its command is gone with it", || stage.processes().is_empty());
        assert_eq!(stage.env.show(&ran.run())["state"], "interrupted");

        let _ = stage.resume(&ran.run()).code(0);
        assert_eq!(stage.count(), ["begun"], "what was cancelled is not run again");
        let journal = stage.env.journal(&ran.run());
        assert_eq!(bodies(&journal, "act.finished")[0]["command"]["exit"]["how"], "cancelled");
        assert_counted_once(&stage, &ran.run());
        stage.env.assert_store_intact();
    }

    // While the model is asked.
    let stage = Stage::new(|_| {
        let mut slow = submit();
        slow["fault"] = json!({ "stall_ms": 900_000, "times": 1 });
        json!({ "steps": [slow] })
    });
    let driver = stage.start(&[]);
    eventually("a request is made", || stage.model.requests().len() == 1);
    driver.signal(Signal::INT);
    let ran = driver.wait().code(130);
    let _ = stage.resume(&ran.run()).code(0);
    assert_counted_once(&stage, &ran.run());
    let journal = stage.env.journal(&ran.run());
    let given_up = bodies(&journal, "model.failed");
    assert_eq!((&given_up[0]["class"], &given_up[0]["estimated"]), (&json!("cancelled"), &json!(true)));
}
