//! What is durable when.

use provost_agent::Ending;
use provost_core::contract::Contract;
use provost_core::outcome::Outcome;
use provost_core::policy::{Policy, Preset};
use serde_json::json;

use crate::support::{Bench, Seen, calls};

fn contract() -> Contract {
    Contract::new("do it").policy(Policy::preset(Preset::Workspace))
}

#[tokio::test]
async fn i2_a_result_is_durable_before_the_model_sees_it() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let runtime = bench.runtime(vec![
        calls("read_file", json!({ "path": "a.txt" })),
        calls("edit_file", json!({ "path": "a.txt", "old": "one", "new": "two" })),
        calls("exec", json!({ "argv": ["true"] })),
    ]);
    let (_, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(bench.read("a.txt"), "two\n");

    let mut finished = 0;
    let mut asked = 0;
    for seen in bench.tape.all() {
        match seen {
            Seen::Durable("act.finished") => finished += 1,
            Seen::Asked { results } => {
                assert!(results <= finished, "shown {results} results of which {finished} were durable");
                asked += 1;
            }
            Seen::Durable(_) => {}
        }
    }
    assert_eq!((finished, asked), (3, 4));
}

#[tokio::test]
async fn a_reading_step_is_one_append_and_a_step_with_effects_two() {
    const STEPS: u64 = 20;
    let reads = |n: u64| vec![calls("read_file", json!({ "path": "a.txt" })); n as usize];
    let commands = |n: u64| vec![calls("exec", json!({ "argv": ["true"] })); n as usize];

    let mut appends = Vec::new();
    for answers in [Vec::new(), reads(STEPS), commands(STEPS)] {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let runtime = bench.runtime(answers);
        let before = bench.store.commits();
        let (_, ending) = bench.start(&runtime, contract()).await.unwrap();
        assert_eq!(ending.exit_code(), 0);
        appends.push(bench.store.commits() - before);
    }
    let [empty, reading, commanding] = appends[..] else { unreachable!("three runs") };
    assert_eq!(reading - empty, STEPS);
    assert_eq!(commanding - empty, 2 * STEPS);
}

#[tokio::test]
async fn a_run_that_is_over_is_not_driven_again() {
    let bench = Bench::new(&[]);
    let runtime = bench.runtime(Vec::new());
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    let seen = bench.tape.all().len();
    let again = runtime.resume(&run, &[], provost_agent::Interrupt::new().unwrap()).await.unwrap();
    assert!(matches!(again, Ending::Over(finished) if finished.outcome == Outcome::Done));
    assert_eq!(bench.tape.all().len(), seen, "nothing was asked and nothing recorded");
}

#[tokio::test]
async fn an_interrupted_run_goes_on_where_it_was() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let interrupt = provost_agent::Interrupt::new().unwrap();
    interrupt.request();
    let runtime = bench.runtime(vec![calls("read_file", json!({ "path": "a.txt" }))]);
    let order = provost_agent::Order {
        contract: contract(),
        workspace: bench.dir.path().join("workspace"),
        source: provost_core::contract::Source::Directory {
            commit: None,
            scope: provost_core::path::RelPath::root(),
        },
        repository: None,
    };
    let (run, ending) = runtime.start(order, interrupt).await.unwrap();
    assert_eq!(ending.exit_code(), 130);
    let ending = runtime.resume(&run, &[], provost_agent::Interrupt::new().unwrap()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
}
