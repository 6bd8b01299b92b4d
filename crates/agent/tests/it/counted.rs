//! A gate whose tests are counted: none may be missing that there were at the start.

use provost_core::contract::{BASE_GATE, Contract, Counted, GATE, Gate};
use provost_core::event::{Body, GateVerdict};
use provost_core::id::RunId;
use provost_core::policy::{Policy, Preset};
use provost_core::state::RunState;
use provost_core::tests_ran::TestsRan;
use provost_journal::Store as _;
use provost_model::Answer;
use serde_json::json;

use crate::support::{Bench, calls};

/// Prints what cargo prints of the tests that the file `tests` names, one a line, and fails where one is `bad`.
const RUNNER: &str = "good=$(grep -c good tests); bad=$(grep -c bad tests); \
                      echo \"test result: so. $good passed; $bad failed; 0 ignored\"; test $bad = 0";

fn gate(line: &str, counted: Counted) -> Gate {
    Gate { counted, attempts: 1, ..Gate::command(["sh", "-c", line].map(str::to_owned).to_vec()) }
}

fn contract(gate: Gate) -> Contract {
    Contract::new("make it so").policy(Policy::preset(Preset::Workspace)).gate(gate)
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line] }))
}

async fn state(bench: &Bench, run: &RunId) -> RunState {
    RunState::fold(run.clone(), &bench.store.events(run, 0).await.unwrap()).unwrap()
}

/// The gate's newest verdict after the agent did this, and what is said of its tests.
async fn said(runner: &str, counted: Counted, does: &str) -> (GateVerdict, Option<String>, u8) {
    let bench = Bench::new(&[("tests", "good\nbad\n")]);
    let runtime = bench.runtime(vec![shell(does)]);
    let (run, ending) = bench.start(&runtime, contract(gate(runner, counted))).await.unwrap();
    let state = state(&bench, &run).await;
    let tests = state.gate_tests().map(|compared| compared.to_string());
    (state.last_gate().unwrap().verdict, tests, ending.exit_code())
}

#[tokio::test]
async fn a_test_that_is_gone_is_missed() {
    let one = Some("1 test ran, the base had 2".to_owned());
    let two = Some("2 tests ran, the base had 2".to_owned());
    let counted = Counted::AgainstBase;
    assert_eq!(said(RUNNER, counted, "echo good > tests").await, (GateVerdict::Failed, one, 1));
    let mended = said(RUNNER, counted, "printf 'good\\ngood\\n' > tests").await;
    assert_eq!(mended, (GateVerdict::Passed, two, 0));
    let more = said(RUNNER, counted, "printf 'good\\ngood\\ngood\\n' > tests").await;
    assert_eq!((more.0, more.2), (GateVerdict::Passed, 0));
    // The control.
    assert_eq!(said(RUNNER, Counted::Not, "echo good > tests").await, (GateVerdict::Passed, None, 0));
}

#[tokio::test]
async fn a_number_that_is_gone_fails_and_one_that_nobody_ever_knew_does_not() {
    let silenced = format!("if test -e quiet; then true; else {RUNNER}; fi");
    let gone = said(&silenced, Counted::AgainstBase, "touch quiet").await;
    let words = "the number of tests is not known, the base had 2".to_owned();
    assert_eq!(gone, (GateVerdict::Failed, Some(words), 1));
    let never = said("! grep -q bad tests", Counted::AgainstBase, "echo good > tests").await;
    let words = "the number of tests is not known; that of the base is not known".to_owned();
    assert_eq!(never, (GateVerdict::Passed, Some(words), 0));
}

#[tokio::test]
async fn the_base_is_run_once_before_the_model_is_asked_and_counted_whole() {
    // More than is kept of a command's output, before what counts.
    let line = format!(
        "head -c 200000 /dev/zero | tr '\\0' '\\n'; {RUNNER}; head -c 200000 /dev/zero | tr '\\0' '\\n'; ! grep -q bad tests"
    );
    let bench = Bench::new(&[("tests", "good\nbad\n")]);
    let runtime = bench.runtime(vec![shell("echo good > tests"), Answer::text("done")]);
    let mut gate = gate(&line, Counted::AgainstBase);
    gate.attempts = 2;
    let (run, ending) = bench.start(&runtime, contract(gate)).await.unwrap();
    assert_eq!(ending.exit_code(), 1);
    let bodies = bench.bodies(&run).await;
    let base = bodies.iter().position(|body| matches!(body, Body::ActDecided(act) if act.tool == BASE_GATE));
    let asked = bodies.iter().position(|body| matches!(body, Body::ModelAnswered(_)));
    assert!(base.unwrap() < asked.unwrap());
    let of = |tool: &str| {
        bodies.iter().filter(|body| matches!(body, Body::ActDecided(act) if act.tool == tool)).count()
    };
    assert_eq!((of(BASE_GATE), of(GATE)), (1, 2));
    let tests = bodies.iter().find_map(|body| match body {
        Body::ActFinished(end) => end.command.as_ref().map(|command| command.tests),
        _ => None,
    });
    assert_eq!(tests, Some(Some(TestsRan { passed: 1, failed: 1, ignored: 0 })));
    let told = bench.told(&run, 0).await;
    assert!(told.len() < 40_000, "what is shown of it is what is shown of any command: {}", told.len());
    // The agent is told.
    let mut notes = Vec::new();
    for body in &bodies {
        if let Body::Note(note) = body {
            let bytes = bench.store.blob(&run, note.text).await.unwrap().unwrap();
            notes.push(String::from_utf8(bytes).unwrap());
        }
    }
    assert!(notes[0].contains("Tests are missing: 1 test ran, the base had 2."), "{notes:?}");
}
