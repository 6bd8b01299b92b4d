//! Where policy asks.

use provost_agent::{Always, Answer as Given, Ending, Interrupt, Says};
use provost_core::contract::Contract;
use provost_core::event::{Body, Verdict};
use provost_core::id::ActId;
use provost_core::outcome::Pause;
use serde_json::json;
use std::sync::Arc;

use crate::support::{Bench, calls};

#[tokio::test]
async fn a_contract_without_a_policy_is_strict_and_parks() {
    let bench = Bench::new(&[]);
    let write = || vec![calls("write_file", json!({ "path": "a.txt", "content": "x" }))];
    let runtime = bench.runtime(write());
    let (run, ending) = bench.start(&runtime, Contract::new("write")).await.unwrap();
    assert_eq!(ending.exit_code(), 5);
    let Ending::Paused(paused) = ending else { panic!("it paused") };
    assert_eq!((paused.why, paused.act), (Pause::Approval, Some(ActId(0))));
    assert!(!bench.path("a.txt").exists(), "nothing was written before the answer");

    let yes = [Given { act: ActId(0), says: Says::Verdict(Verdict::Approved) }];
    let ending = runtime.resume(&run, &yes, Interrupt::new().unwrap()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(bench.read("a.txt"), "x");

    // The control: an approver in process that says yes lets it through at once.
    let bench = Bench::new(&[]);
    let mut runtime = bench.runtime(write());
    runtime.approver = Arc::new(Always::APPROVE);
    let (run, ending) = bench.start(&runtime, Contract::new("write")).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert!(
        bench
            .bodies(&run)
            .await
            .iter()
            .any(|body| matches!(body, Body::ActApproved(word) if word.by == "--yes"))
    );
}

#[tokio::test]
async fn a_no_is_an_observation() {
    let bench = Bench::new(&[]);
    let runtime = bench.runtime(vec![calls("write_file", json!({ "path": "a.txt", "content": "x" }))]);
    let (run, _) = bench.start(&runtime, Contract::new("write")).await.unwrap();
    let no = [Given { act: ActId(0), says: Says::Verdict(Verdict::Denied) }];
    let ending = runtime.resume(&run, &no, Interrupt::new().unwrap()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert!(!bench.path("a.txt").exists());
    assert!(bench.told(&run, 0).await.contains("said no"));
}

#[tokio::test]
async fn a_word_on_an_act_that_does_not_wait_is_refused() {
    let bench = Bench::new(&[]);
    let runtime = bench.runtime(vec![calls("write_file", json!({ "path": "a.txt", "content": "x" }))]);
    let (run, _) = bench.start(&runtime, Contract::new("write")).await.unwrap();
    let wrong = [Given { act: ActId(7), says: Says::Verdict(Verdict::Approved) }];
    let error = runtime.resume(&run, &wrong, Interrupt::new().unwrap()).await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(!bench.path("a.txt").exists());
}
