//! What goes wrong between us and a vendor, on every wire: tried again, told to the model, or paused; never run twice,
//! never counted twice.

use std::fs;

use serde_json::{Value, json};

use crate::script::{
    Wire, body, call, call_ids, calls, exec, header, limit, messages, read, results, script, sh, submit,
    together, told, with, write,
};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, bodies, text};

/// A repository and a rehearsed model.
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
        Self { env, repo, model }
    }

    fn run(&self, wire: Wire, more: &[&str]) -> Ran {
        wire.run(&self.env, &self.repo.path, &self.model, more)
    }

    fn resume(&self) -> Ran {
        self.env.provost(["resume", &self.env.only_run(), "--json"])
    }

    fn journal(&self) -> Vec<Value> {
        self.env.journal(&self.env.only_run())
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.repo.path.join(name)).ok()
    }
}

/// A command that counts how often it was run.
fn count() -> Value {
    sh("echo run >> count.txt")
}

/// The newest request answers every call that it holds, once and in order.
#[track_caller]
fn assert_calls_are_answered(model: &Rehearsal) {
    let requests = model.requests();
    let newest = body(requests.last().unwrap());
    let answered: Vec<String> = results(&newest).into_iter().map(|told| told.id).collect();
    assert_eq!(answered, call_ids(&newest), "{newest}");
}

/// All that the assistant said and called in a request, as the wire has it.
fn said(request: &Value) -> String {
    let body = body(request);
    let said = |message: &&Value| message["role"] == "assistant" || message["role"] == "model";
    messages(&body).iter().filter(said).map(Value::to_string).collect()
}

#[test]
fn w6_a_stream_that_breaks_off_is_asked_for_again() {
    for wire in Wire::ALL {
        // It breaks off at every place from the first event to the middle of the call.
        for after in if wire.has_whole_calls() { vec![0, 1] } else { vec![0, 1, 3, 4] } {
            let step =
                with(with(count(), "say", "Let me look at this."), "fault", json!({ "drop_after": after }));
            let case = Case::new([step, submit()]);
            let _ = case.run(wire, &[]).code(0);
            assert_eq!(case.file("count.txt").as_deref(), Some("run\n"), "{wire:?} after {after}");
            let journal = case.journal();
            assert_eq!(bodies(&journal, "model.failed").len(), 1, "{wire:?} after {after}");
            assert_eq!(bodies(&journal, "model.answered").len(), 2, "{wire:?} after {after}");
            let requests = case.model.requests();
            assert_eq!(header(&requests[0], "idempotency-key"), header(&requests[1], "idempotency-key"));
            assert_eq!(said(&requests[2]).matches("Let me look at this.").count(), 1, "text is not doubled");
        }
    }
}

#[test]
fn what_a_broken_answer_cost_is_counted() {
    let step = |after: usize| {
        let counted = with(count(), "usage", json!({ "input": 100_000, "output": 10 }));
        with(counted, "fault", json!({ "drop_after": after }))
    };
    let end = with(submit(), "usage", json!({ "input": 1, "output": 1 }));
    // This vendor counts the input in its first event. With none sent it has not said what it counted: that is estimated.
    for (after, least, most, estimated) in [(0, 100_101, 110_000, 1), (1, 200_001, 200_001, 0)] {
        let case = Case::new([step(after), end.clone()]);
        let ran = case.run(Wire::Anthropic, &[]).code(0);
        let shown = case.env.show(&ran.run());
        let input = shown["usage"]["input"].as_u64().unwrap();
        assert!((least..=most).contains(&input), "{after}: {input}");
        assert_eq!(shown["estimated_calls"], estimated, "{after}");
    }
    // One that is refused costs nothing.
    let refused = with(count(), "fault", json!({ "status": 500 }));
    let case = Case::new([refused, submit()]);
    let ran = case.run(Wire::Anthropic, &[]).code(0);
    assert!(bodies(&case.env.journal(&ran.run()), "model.failed")[0]["usage"].is_null());
    // What it cost counts against the budget before it is asked for again.
    let case = Case::new([step(1), end]);
    let ran = case.run(Wire::Anthropic, &["--max-tokens", "50000"]).code(4);
    assert_eq!(case.env.show(&ran.run())["usage"]["input"], 100_000);
}

#[test]
fn an_ending_without_an_answer_says_why() {
    for (status, words) in [(401, "the server refused the key"), (400, "the server refused the request")] {
        let case = Case::new([with(submit(), "fault", json!({ "status": status, "times": 9 }))]);
        let args = case.env.run_args(&case.repo.path, &case.model, &[]);
        let args: Vec<&String> = args.iter().filter(|arg| *arg != "--json").collect();
        let ran = case.env.provost(args).code(6);
        assert!(ran.stdout.contains(words) && !ran.stdout.contains("could not be reached"), "{ran}");
    }
}

#[test]
fn w4_malformed_arguments_are_not_run() {
    let malformed = [
        r#"{"path": "a"#,
        r#"{"path": "a.txt", "content": "half"#,
        "null",
        "[1]",
        r#""a.txt""#,
        "",
        r#"{"path": "a.txt", "path": "b.txt", "content": "twice"}"#,
        r#"{"path": "a.txt"}"#,
        r#"{"path": "a.txt", "content": 7}"#,
        r#"{"path": "a.txt", "content": "x", "mode": "0777"}"#,
    ];
    for wire in Wire::ALL {
        let case =
            Case::new(malformed.map(|arguments| call("write_file", arguments)).into_iter().chain([submit()]));
        let _ = case.run(wire, &[]).code(0);
        assert_eq!(case.file("a.txt").as_deref(), Some("one\n"), "{wire:?}: nothing was run");
        assert_eq!(case.file("b.txt"), None);
        let journal = case.journal();
        let invalid = bodies(&journal, "call.invalid");
        assert_eq!(invalid.len(), malformed.len(), "{wire:?}");
        assert!(invalid.iter().all(|event| event["why"] == "bad_arguments"));
        let told = told(&case.model);
        for (text, arguments) in told.iter().zip(malformed) {
            assert!(text.contains("`write_file`") && text.contains("othing was"), "{arguments}: {text}");
            assert!(text.len() < 2_000, "the echo is bounded");
        }
        assert!(told[6].contains("twice"), "{}", told[6]);
        assert_calls_are_answered(&case.model);
        // What is sent back is valid on any wire, whatever was received.
        let requests = case.model.requests();
        let sent = calls(&body(requests.last().unwrap()));
        assert_eq!(sent.len(), malformed.len(), "{wire:?}");
        assert!(sent.iter().all(|(_, arguments)| arguments.is_object()), "{wire:?}: {sent:?}");
    }
    // The control: well-formed arguments are run.
    let case = Case::new([call("write_file", r#"{"path": "a.txt", "content": "two\n"}"#), submit()]);
    let _ = case.run(Wire::OpenAi, &[]).code(0);
    assert_eq!(case.file("a.txt").as_deref(), Some("one\n"), "not seen before: refused as stale");
    let case = Case::new([call("write_file", r#"{"path": "b.txt", "content": "two\n"}"#), submit()]);
    let _ = case.run(Wire::OpenAi, &[]).code(0);
    assert_eq!(case.file("b.txt").as_deref(), Some("two\n"));
}

#[test]
fn w4_arguments_that_are_cut_in_the_stream_are_not_run() {
    for wire in Wire::ALL {
        let case =
            Case::new([with(write("b.txt", "whole\n"), "fault", json!({ "bad_json": true })), submit()]);
        let _ = case.run(wire, &[]).code(0);
        assert_eq!(case.file("b.txt"), None, "{wire:?}");
        assert_eq!(bodies(&case.journal(), "call.invalid").len(), 1);
    }
}

#[test]
fn an_unknown_tool_is_named_with_its_nearest() {
    for wire in Wire::ALL {
        let case = Case::new([call("read_flie", json!({ "path": "a.txt" })), submit()]);
        let _ = case.run(wire, &[]).code(0);
        assert_eq!(bodies(&case.journal(), "call.invalid")[0]["why"], "unknown_tool");
        assert!(told(&case.model)[0].contains("`read_file`"), "{wire:?}");
    }
}

#[test]
fn parallel_calls_are_run_in_order_and_answered_one_by_one() {
    for wire in Wire::ALL {
        let calls = [
            write("b.txt", "two\n"),
            read("b.txt"),
            read("nowhere"),
            call("no_tool", json!({})),
            read("a.txt"),
        ];
        let case = Case::new([together(&calls), submit()]);
        let _ = case.run(wire, &[]).code(0);
        let told = told(&case.model);
        assert_eq!(told.len(), 5, "{wire:?}");
        assert!(told[1].contains("two"), "the second sees what the first did");
        assert!(told[4].contains("one"), "a failure does not stop those behind it");
        assert_calls_are_answered(&case.model);
        let journal = case.journal();
        assert_eq!((bodies(&journal, "act.finished").len(), bodies(&journal, "call.invalid").len()), (5, 1));
    }
}

#[test]
fn w7_a_stated_pause_is_kept() {
    for wire in Wire::ALL {
        let fault = json!({ "status": 429, "headers": { "retry-after": "1" } });
        let case = Case::new([with(count(), "fault", fault), submit()]);
        let _ = case.run(wire, &[]).code(0);
        let journal = case.journal();
        let failed = bodies(&journal, "model.failed");
        assert_eq!((failed.len(), &failed[0]["class"]), (1, &json!("rate_limited")), "{wire:?}");
        let at: Vec<u64> = case.model.requests().iter().map(|seen| seen["at_ms"].as_u64().unwrap()).collect();
        assert!(at[1] - at[0] >= 1_000, "{wire:?}: asked again after {} ms", at[1] - at[0]);
        assert_eq!(case.file("count.txt").as_deref(), Some("run\n"));
    }
}

#[test]
fn w7_a_pause_of_a_day_ends_in_6_at_once_with_words() {
    for wire in Wire::ALL {
        let fault = json!({ "status": 429, "headers": { "retry-after": "86400" } });
        let case = Case::new([count(), with(count(), "fault", fault), submit()]);
        let ran = case.run(wire, &[]).code(6);
        assert_eq!(ran.last()["outcome"], "provider_failed");
        assert_eq!(case.model.requests().len(), 2, "{wire:?}: not asked again");
        let run = case.env.only_run();
        let log = case.env.provost(["log", &run]).code(0);
        assert!(log.stdout.contains("86400 s"), "{log}");
        // It is resumable. The request that failed is made again under the same name, nothing is counted twice.
        let ran = case.resume().code(0);
        assert_eq!((&ran.last()["outcome"], &ran.last()["steps"]), (&json!("done"), &json!(3)));
        assert_eq!(case.file("count.txt").as_deref(), Some("run\nrun\n"));
        let requests = case.model.requests();
        let keys: Vec<_> = requests.iter().map(|seen| header(seen, "idempotency-key")).collect();
        assert!(keys[1].is_some());
        assert_eq!(keys[1], keys[2], "{wire:?}");
        assert_eq!(requests[1]["body"], requests[2]["body"], "the same bytes");
        let journal = case.journal();
        let sum: u64 = bodies(&journal, "model.answered")
            .iter()
            .map(|event| {
                event["usage"]["input"].as_u64().unwrap() + event["usage"]["output"].as_u64().unwrap()
            })
            .sum();
        assert_eq!(ran.last()["tokens"], sum);
    }
}

#[test]
fn server_errors_until_patience_ends_leave_a_run_that_can_be_resumed() {
    // Once more than are put up with, so that the run gives up and the resumed one meets the last of them.
    let case = Case::new([count(), with(count(), "fault", json!({ "status": 500, "times": 7 })), submit()]);
    let ran = case.run(Wire::OpenAi, &[]).code(6);
    assert_eq!((&ran.last()["outcome"], &ran.last()["steps"]), (&json!("provider_failed"), &json!(1)));
    let attempts = case.model.requests().len() - 1;
    let journal = case.journal();
    let failed = bodies(&journal, "model.failed");
    assert_eq!(failed.len(), attempts, "each attempt is in the journal");
    assert!(
        failed.last().unwrap()["retry_in_ms"].is_null(),
        "the last one says that there is none behind it"
    );
    let ran = case.resume().code(0);
    assert_eq!((&ran.last()["outcome"], &ran.last()["steps"]), (&json!("done"), &json!(3)));
    assert_eq!(case.file("count.txt").as_deref(), Some("run\nrun\n"));
    let keys: Vec<_> =
        case.model.requests()[1..=8].iter().map(|seen| header(seen, "idempotency-key")).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn a_key_that_is_refused_is_said_and_not_tried_again() {
    for wire in Wire::ALL {
        let fault = json!({ "status": 401, "times": 99, "type": "authentication_error", "message": "invalid x-api-key" });
        let case = Case::new([with(read("a.txt"), "fault", fault)]);
        let _ = case.run(wire, &[]).code(6);
        let journal = case.journal();
        let failed = bodies(&journal, "model.failed");
        assert_eq!(
            (failed.len(), &failed[0]["class"], &failed[0]["status"]),
            (1, &json!("auth"), &json!(401))
        );
        let log = case.env.provost(["log", &case.env.only_run()]).code(0);
        assert!(log.stdout.contains("auth 401") && log.stdout.contains("invalid x-api-key"), "{log}");
    }
}

#[test]
fn w8_an_overload_in_the_middle_of_a_stream_is_tried_again() {
    for wire in Wire::ALL {
        let fault = json!({ "error_after": 1, "type": "overloaded_error", "message": "Overloaded" });
        let case = Case::new([with(count(), "fault", fault), submit()]);
        let _ = case.run(wire, &[]).code(0);
        let journal = case.journal();
        let failed = bodies(&journal, "model.failed");
        assert_eq!((failed.len(), &failed[0]["class"]), (1, &json!("overloaded")), "{wire:?}");
        assert_eq!(case.file("count.txt").as_deref(), Some("run\n"));
    }
}

#[test]
fn calls_of_an_answer_that_was_cut_off_are_not_run() {
    for wire in Wire::ALL {
        let cut = with(together(&[write("b.txt", "half"), count()]), "stop", "length");
        let case = Case::new([cut, with(json!({ "say": "I go on and" }), "stop", "length"), submit()]);
        let _ = case.run(wire, &[]).code(0);
        assert_eq!((case.file("b.txt"), case.file("count.txt")), (None, None), "{wire:?}");
        let journal = case.journal();
        assert_eq!(
            bodies(&journal, "call.invalid").iter().filter(|call| call["why"] == "cut_off").count(),
            2
        );
        assert!(told(&case.model).iter().all(|text| text.contains("not run")));
        assert_calls_are_answered(&case.model);
        assert_eq!(bodies(&journal, "run.submitted").len(), 1, "half a sentence is no submission");
        assert_eq!(bodies(&journal, "run.submitted")[0]["via"], "tool");
    }
}

#[test]
fn calls_of_an_answer_that_the_vendors_filter_stopped_are_not_run() {
    for wire in [Wire::OpenAi, Wire::Anthropic, Wire::Gemini] {
        let refused = with(together(&[write("b.txt", "half"), count()]), "stop", "refused");
        let case = Case::new([refused, submit()]);
        let _ = case.run(wire, &[]).code(0);
        assert_eq!((case.file("b.txt"), case.file("count.txt")), (None, None), "{wire:?}");
        let journal = case.journal();
        assert_eq!(bodies(&journal, "model.answered")[0]["stop"], "refused", "{wire:?}");
        assert_eq!(bodies(&journal, "call.invalid").len(), 2, "{wire:?}");
        assert_calls_are_answered(&case.model);
    }
}

#[test]
fn answers_that_hold_nothing_end_in_10() {
    for wire in Wire::ALL {
        let case = Case::new([with(json!({ "say": "" }), "repeat", 50)]);
        let ran = case.run(wire, &[]).code(10);
        assert_eq!(ran.last()["outcome"], "stalled");
        assert!(case.model.requests().len() < 10, "{wire:?}");
        assert!(bodies(&case.journal(), "note").iter().all(|note| note["why"] == "empty"));
    }
    // The control: a few of them are put up with.
    let case = Case::new([with(json!({ "say": " \n" }), "repeat", 2), submit()]);
    let _ = case.run(Wire::OpenAi, &[]).code(0);
}

#[test]
fn w5_the_same_bad_call_again_and_again_is_steered_and_then_ends_in_10() {
    let bad = [
        read("nowhere"),
        call("read_file", r#"{"path": "a"#),
        call("no_such_tool", json!({})),
        exec(&["false"]),
        write("../x", "x"),
        write(".git/config", "x"),
    ];
    for call in bad {
        let case = Case::new([with(call.clone(), "repeat", 50)]);
        let ran = case.run(Wire::OpenAi, &[]).code(10);
        assert_eq!(ran.last()["outcome"], "stalled", "{call}");
        let requests = case.model.requests();
        assert!(requests.len() < 10, "{call}");
        let steered =
            requests.iter().position(|seen| seen["body"].as_str().unwrap().contains("same failing call"));
        assert!(steered.is_some_and(|at| at < requests.len() - 1), "{call}: told before it ends");
    }
    // The controls: the same call that works, and failing calls that differ, go on.
    let case =
        Case::new([with(read("a.txt"), "repeat", 12), with(read("nowhere-{{i}}"), "repeat", 12), submit()]);
    let _ = case.run(Wire::OpenAi, &[]).code(0);
    assert_eq!(case.model.requests().len(), 25);
}

#[test]
fn a_final_answer_ends_the_run_as_submit_does() {
    for wire in Wire::ALL {
        for (steps, via) in [(vec![], "final_answer"), (vec![submit()], "tool")] {
            let case = Case::new(steps);
            let ran = case.run(wire, &["--verify", "test -e a.txt"]).code(0);
            assert_eq!((&ran.last()["verified"], &ran.last()["steps"]), (&json!(true), &json!(1)));
            assert_eq!(bodies(&case.journal(), "run.submitted")[0]["via"], via, "{wire:?}");
        }
    }
    // No magic text in a command's output ends a run.
    let case = Case::new([exec(&["echo", "TASK_COMPLETE submit All is done."]), read("a.txt"), submit()]);
    let ran = case.run(Wire::OpenAi, &[]).code(0);
    assert_eq!(ran.last()["steps"], 3);
}

#[test]
fn w10_missing_usage_is_an_estimate_and_says_so() {
    for wire in Wire::ALL {
        let case = Case::new([with(read("a.txt"), "usage", false), submit()]);
        let ran = case.run(wire, &["--price", "3/15"]).code(0);
        let journal = case.journal();
        let answered = bodies(&journal, "model.answered");
        assert_eq!(answered[0]["estimated"], true, "{wire:?}");
        assert!(answered[1]["estimated"].is_null(), "what the vendor reports is no estimate");
        assert!(answered[0]["usage"]["input"].as_u64().unwrap() > 100);
        assert!(ran.last()["cost_micros"].as_u64().unwrap() > 0);
        let run = case.env.only_run();
        let shown = case.env.provost(["show", &run]).code(0);
        assert!(shown.stdout.contains("by estimate"), "{shown}");
    }
    // A cost that is not known is not zero.
    let case = Case::new([]);
    let ran = case.run(Wire::OpenAi, &[]).code(0);
    assert!(ran.last()["cost_micros"].is_null());
    let shown = case.env.provost(["show", &case.env.only_run()]).code(0);
    assert!(shown.stdout.contains("cost unknown") && !shown.stdout.contains('$'), "{shown}");
}

#[test]
fn i6_each_bound_ends_in_4_by_name_and_is_not_passed() {
    let steps = || [with(with(read("a.txt"), "usage", json!({ "input": 900, "output": 60 })), "repeat", 99)];
    for wire in Wire::ALL {
        for (bound, args, most) in [
            ("steps", vec!["--max-steps", "3"], 3),
            ("tokens", vec!["--max-tokens", "9000"], 9_000),
            ("cost", vec!["--max-cost", "0.03", "--price", "3/15"], 30_000),
        ] {
            let case = Case::new(steps());
            let ran = case.run(wire, &args).code(4);
            let last = ran.last();
            let journal = case.journal();
            let finished = bodies(&journal, "run.finished");
            assert_eq!(finished[0]["outcome"], json!({ "is": "budget_spent", "bound": bound }));
            let key = if bound == "cost" { "cost_micros" } else { bound };
            assert!(last[key].as_u64().unwrap() <= most, "{wire:?} {bound}: {last}");
            assert!(last["steps"].as_u64().unwrap() >= 1, "something was done");
            // No request asks for more than is left.
            let mut used = 0;
            for (request, answered) in case.model.requests().iter().zip(bodies(&journal, "model.answered")) {
                let asked = limit(&body(request)).unwrap();
                assert!(
                    bound != "tokens" || used + asked <= most,
                    "{wire:?}: asked for {asked} after {used}"
                );
                used += answered["usage"]["input"].as_u64().unwrap()
                    + answered["usage"]["output"].as_u64().unwrap();
            }
        }
    }
    // Nothing is asked of the model when the first request does not fit.
    let case = Case::new(steps());
    let ran = case.run(Wire::OpenAi, &["--max-tokens", "100"]).code(4);
    assert_eq!((&ran.last()["tokens"], case.model.requests().len()), (&json!(0), 0));
    let shown = case.env.provost(["show", &ran.run()]).code(0);
    assert!(
        shown.stdout.contains("the next call needs ") && shown.stdout.contains(", and 100 is left"),
        "{shown}"
    );
}

#[test]
fn i6_time_ends_in_4_whatever_it_is_spent_on() {
    let silent = |fault: Value| with(json!({ "say": "Late." }), "fault", fault);
    let spent_on = [
        exec(&["sleep", "600"]),
        silent(json!({ "latency_ms": 600_000 })),
        silent(json!({ "stall_ms": 600_000, "times": 99 })),
        with(sh("sleep 0.2; exit {{i}}"), "repeat", 99),
    ];
    for step in spent_on {
        let case = Case::new([step.clone()]);
        let _ = case.run(Wire::OpenAi, &["--timeout", "1500ms"]).code(4);
        let journal = case.journal();
        let finished = bodies(&journal, "run.finished");
        assert_eq!(finished[0]["outcome"]["bound"], "time", "{step}");
        case.env.assert_store_intact();
        drop(case.model);
        crate::support::eventually("the command is gone", || {
            crate::support::processes_at(&case.repo.path).is_empty()
        });
    }
}

#[test]
fn a_gate_that_never_passes_ends_in_1_and_its_output_reaches_the_model() {
    let case = Case::new([write("b.txt", "two\n")]);
    fs::write(case.repo.path.join("check.sh"), "echo reason-$((6 * 7)); exit 1\n").unwrap();
    let ran = case.run(Wire::OpenAi, &["--verify", "sh check.sh"]).code(1);
    assert_eq!((&ran.last()["outcome"], &ran.last()["verified"]), (&json!("gate_failed"), &json!(false)));
    let journal = case.journal();
    let judged = bodies(&journal, "gate.judged");
    assert_eq!(judged.len(), 3);
    assert!(judged.iter().all(|event| event["verdict"] == "failed"));
    let requests = case.model.requests();
    assert_eq!(requests.len(), 4, "one step and three submissions");
    assert!(requests[2]["body"].as_str().unwrap().contains("reason-42"));
    assert_eq!(case.file("b.txt").as_deref(), Some("two\n"), "the work is not lost");
}

#[test]
fn a_gate_that_passes_at_the_second_submission_verifies() {
    let say = json!({ "say": "Done, I think." });
    let case = Case::new([say, write("b.txt", "two\n"), submit()]);
    let ran = case.run(Wire::OpenAi, &["--verify", "test -e b.txt"]).code(0);
    assert_eq!(ran.last()["verified"], true);
    let journal = case.journal();
    let verdicts: Vec<_> =
        bodies(&journal, "gate.judged").iter().map(|event| text(&event["verdict"])).collect();
    assert_eq!(verdicts, ["failed", "passed"]);
    let judged = bodies(&journal, "gate.judged");
    let finished = bodies(&journal, "run.finished");
    assert_eq!(judged[1]["tree"], finished[0]["tree"], "the tree that it ends with");
}

#[test]
fn v3_a_gate_that_the_policy_denies_ends_in_3() {
    let case = Case::new([]);
    let ran = case.run(Wire::OpenAi, &["--verify", "test -e a.txt", "--deny", "exec test"]).code(3);
    let ran =
        ran.says("the policy does not allow the verification `test -e a.txt`: deny: rule `deny exec test`");
    assert_eq!(ran.stdout, "");
    // Found at once: nothing was asked of the model, and there is no run.
    assert!(case.model.requests().is_empty());
    assert!(case.env.runs().is_empty());
    // The control, and: what policy only asks about is answered by the contract's order.
    for policy in ["workspace", "strict"] {
        let case = Case::new([]);
        let _ = case.run(Wire::OpenAi, &["--verify", "test -e a.txt", "--policy", policy]).code(0);
    }
}

#[test]
fn a_run_without_a_gate_says_that_nothing_verified_it() {
    let case = Case::new([]);
    let args = case.env.run_args(&case.repo.path, &case.model, &[]);
    let ran = case.env.provost(args.iter().filter(|arg| *arg != "--json")).code(0);
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.contains("nothing verified it"), "{last}");
    let ran = case.env.run(&case.repo.path, &case.model, &[]).code(0);
    assert_eq!(ran.last()["verified"], false);
    // The control.
    let ran = case
        .env
        .provost(
            args.iter().filter(|arg| *arg != "--json").chain(&["--verify".into(), "test -e a.txt".into()]),
        )
        .code(0);
    assert!(ran.stdout.lines().last().unwrap().contains("verified on the tree"), "{ran}");
}
