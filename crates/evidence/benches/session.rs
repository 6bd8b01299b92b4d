//! What verifying a long session costs: `cargo bench -p provost-evidence --bench session`, or `-- 10000` for a shorter one.
//!
//! A session of 100,000 events is sealed into a bundle, and a process of its own verifies that against a repository, as
//! its recipient does. Time is that of the verification alone, memory the most that the process ever held. It asserts no
//! duration.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

#[path = "../tests/it/run.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod run;
#[path = "../tests/it/recipient/scene.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod scene;
#[path = "../tests/it/session.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod session;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use provost_core::act::{ActEnd, Recovery, Touch};
use provost_core::event::{Body, CallRef, Draft};
use provost_core::id::{ActId, StepId};
use provost_core::state::invocation_id;
use run::Run;
use scene::{Plan, Scene, created};

/// Tells the process of its own what to verify.
const VERIFY: &str = "PROVOST_BENCH_VERIFY";

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let events: u32 = args.next().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    // The scene is the same each time it is made, so the verifier makes its own repository and expectation.
    if let Some(dir) = std::env::var_os(VERIFY) {
        return verify(Path::new(&dir));
    }
    let scene = long(events);
    let dir = scene.bundle();
    let size = std::fs::metadata(dir.join("journal.jsonl")).unwrap().len();
    println!(
        "## A session of {} events, {} MB of journal (aim: 2 s, 200 MB)\n",
        scene.run.drafts.len(),
        size >> 20
    );
    println!("| seconds | most memory |\n| --- | --- |");
    for _ in 0..5 {
        let me = std::env::current_exe().unwrap();
        let done = Command::new(me).arg(events.to_string()).env(VERIFY, &dir).status().unwrap();
        assert!(done.success());
    }
}

/// Verifies, in a process that has made no journal.
fn verify(dir: &Path) {
    let short = Scene::of(&Plan { order: lift, run: unbounded, ..Plan::default() });
    let begun = Instant::now();
    let report = short.verify(dir);
    let took = begun.elapsed();
    assert!(report.ok(), "{:?}", report.report.first_lack());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    println!("| {:.2} | {most} |", took.as_secs_f64());
}

/// The order says nothing of how many steps there may be.
fn lift(order: &mut provost_core::session::Authorization) {
    order.request.budget.steps = None;
}

/// The usual session, and before it as many reads as make so many events.
fn long(events: u32) -> Scene {
    let mut scene = Scene::of(&Plan { order: lift, run: unbounded, ..Plan::default() });
    let reads = events.saturating_sub(scene.run.drafts.len() as u32) / 3;
    stretch(&mut scene.run, reads);
    scene.content = scene.run.content();
    scene
}

fn unbounded(run: &mut Run) {
    created(&mut run.drafts[0]).budget.steps = None;
}

/// Puts reads between the beginning and the rest, whose steps and acts move up.
fn stretch(run: &mut Run, reads: u32) {
    let rest = run.drafts.split_off(2);
    let policy = created(&mut run.drafts[0]).policy.clone();
    let at_ms = run.drafts[1].at_ms;
    let one = |kind: &str| rest.iter().find(|draft| draft.body.kind() == kind).unwrap().body.clone();
    let (answered, decided, finished) = (one("model.answered"), one("act.decided"), one("act.finished"));
    let touches = vec![Touch::Read { path: "src/lib.rs".to_owned().try_into().unwrap() }];
    let decision = policy.decide(&touches, provost_core::containment::Rung::R2);
    for number in 0..reads {
        let (step, act) = (StepId(number), ActId(number));
        let mut push = |body| {
            run.drafts.push(Draft { at_ms, agent: provost_core::id::AgentId(0), body });
        };
        let (
            Body::ModelAnswered(mut answered),
            Body::ActDecided(mut decided),
            Body::ActFinished(mut finished),
        ) = (answered.clone(), decided.clone(), finished.clone())
        else {
            panic!("other events");
        };
        answered.step = step;
        answered.invocation = invocation_id(&run.id, step);
        answered.calls = 1;
        push(Body::ModelAnswered(answered));
        decided.act = act;
        decided.call = Some(CallRef { step, index: 0 });
        decided.touches = touches.clone();
        decided.decision = decision.clone();
        decided.recovery = Recovery::Replayable;
        push(Body::ActDecided(decided));
        finished.act = act;
        finished.end = ActEnd::Done;
        finished.changes = Vec::new();
        finished.command = None;
        push(Body::ActFinished(finished));
    }
    for mut draft in rest {
        match &mut draft.body {
            Body::ModelAnswered(body) => {
                body.step.0 += reads;
                body.invocation = invocation_id(&run.id, body.step);
            }
            Body::ActDecided(body) => {
                body.act.0 += reads;
                if let Some(call) = &mut body.call {
                    call.step.0 += reads;
                }
            }
            Body::ActStarted(body) => body.act.0 += reads,
            Body::ActFinished(body) => body.act.0 += reads,
            Body::Submitted(body) => body.step.0 += reads,
            Body::GateJudged(body) => body.act.0 += reads,
            _ => {}
        }
        run.drafts.push(draft);
    }
}
