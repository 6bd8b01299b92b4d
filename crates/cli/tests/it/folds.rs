//! A run that outgrows its model's window, as people see it.

use std::fs;

use serde_json::json;

use crate::script::{read, script};
use crate::support::{TestEnvironment, bodies};

#[test]
fn a_long_run_folds_its_context_and_says_so() {
    let env = TestEnvironment::new();
    let page = "a line of some length, so that the file has a size\n".repeat(100);
    let repo = env.repository("repository", &[("page.txt", &page)]);
    let page = || read("page.txt");
    let summary = json!({ "say": "I read the page five times." });
    // The script is played by the number of answers that a request holds: from the beginning after a fold.
    let model = env.rehearse(&script([page(), page(), page(), page(), page(), summary]));
    let prices = env.at("prices.toml");
    fs::write(&prices, "[[model]]\nname = \"rehearsal\"\nwindow = 12000\n").unwrap();
    let more = ["--prices", prices.to_str().unwrap(), "--max-steps", "8"];
    let ran = env.run(&repo.path, &model, &more).code(4);
    let run = ran.run();
    let journal = env.journal(&run);
    let folded = bodies(&journal, "context.folded");
    assert_eq!(folded.len(), 1);
    assert_eq!((&folded[0]["by"], &folded[0]["window"]), (&json!("model"), &json!(12_000)));
    let asked = model.requests();
    assert!(asked[6]["body"].to_string().contains("I read the page five times."));
    assert!(!asked[6]["body"].to_string().contains("Your context is nearly full"));

    let log = env.provost(["log", &run]).code(0).stdout;
    let line = log.lines().find(|line| line.contains("context folded at")).unwrap();
    assert!(
        line.contains("of 12,000 tokens") && line.contains("the model's summary stands for it"),
        "{line}"
    );
}
