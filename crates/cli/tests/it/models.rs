//! What a provider can run: asked of it where that can be, and of the table otherwise.

use serde_json::{Value, json};

use crate::script::{Wire, script};
use crate::support::TestEnvironment;

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["model"].as_str()).collect()
}

#[test]
fn without_a_key_the_table_tells_and_says_that_nobody_was_asked() {
    let env = TestEnvironment::new();
    let ran = env.provost(["models", "--provider", "anthropic", "opus-4-5", "--json"]).code(0);
    let rows = ran.json();
    assert_eq!(names(&rows), ["claude-opus-4-5"]);
    assert_eq!((&rows[0]["asked"], &rows[0]["window"]), (&json!(false), &json!(200_000)));
    assert_eq!(rows[0]["price"]["output"], 25_000_000);
    let ran = env.provost(["models", "opus-4-5", "--provider", "anthropic"]).code(0);
    assert!(
        ran.stderr.contains("`anthropic` was not asked") && ran.stderr.contains("ANTHROPIC_API_KEY"),
        "{ran}"
    );
    assert!(ran.stdout.contains("claude-opus-4-5  200,000"), "{ran}");
    // Without a provider all of them, and nobody is asked either.
    let ran = env.provost(["models", "OPUS-4-5", "--json"]).code(0);
    let providers: Vec<_> = ran.json().iter().map(|row| row["provider"].clone()).collect();
    assert!(providers.contains(&json!("anthropic")) && providers.contains(&json!("azure")), "{providers:?}");
    assert!(env.provost(["models"]).code(0).stderr.contains("nobody was asked"));
    let ran = env.provost(["models", "--provider", "antropic"]).code(2);
    assert!(ran.stderr.contains("did you mean `anthropic`?"), "{ran}");
}

#[test]
fn an_endpoint_is_asked_on_every_wire() {
    let env = TestEnvironment::new();
    let model = env.rehearse(&script([]));
    for wire in Wire::ALL {
        let ran = env
            .provost(["models", "--base-url", wire.url(&model), "--wire", wire.option(), "--json"])
            .code(0);
        let rows = ran.json();
        assert_eq!((names(&rows), &rows[0]["asked"]), (vec!["rehearsal"], &json!(true)), "{wire:?}");
        assert!(
            rows[0]["window"].is_null() && rows[0]["price"].is_null(),
            "what nobody says is unknown: {ran}"
        );
    }
    let ran = env.provost(["models", "--base-url", Wire::OpenAi.url(&model)]).code(0);
    assert!(ran.stdout.contains("rehearsal  unknown  unknown   unknown"), "{ran}");
    // What the user says of it is shown with it.
    let file = env.at("prices.toml");
    let text = "[[model]]\nname = \"rehearsal\"\ninput = 0\noutput = 0\nwindow = 8192\n";
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let ran = env.provost(["models", "--base-url", Wire::OpenAi.url(&model), "--prices", &file]).code(0);
    assert!(ran.stdout.contains("rehearsal   8,192  unknown       0/0"), "{ran}");
    // What only the file has is listed too, for its provider or for wherever it is asked.
    let text = "[[model]]\nprovider = \"groq\"\nname = \"mine-1\"\ninput = 1\noutput = 2\n\
                [[model]]\nname = \"mine-2*\"\nwindow = 8192\n";
    std::fs::write(&file, text).unwrap();
    let rows = env.provost(["models", "mine-", "--prices", &file, "--json"]).code(0).json();
    assert_eq!(names(&rows), ["mine-1", "mine-2*"]);
    assert_eq!((&rows[0]["provider"], &rows[1]["provider"]), (&json!("groq"), &Value::Null));
    let rows =
        env.provost(["models", "mine-", "--provider", "groq", "--prices", &file, "--json"]).code(0).json();
    assert_eq!(names(&rows), ["mine-1"]);
    // Somebody who does not answer, and somebody who wants a key.
    let ran = env.provost(["models", "--base-url", "http://127.0.0.1:1/v1"]).code(6);
    assert!(ran.stderr.contains("was asked what it offers: transport: cannot connect"), "{ran}");
}
