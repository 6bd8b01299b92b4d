//! Prices: those that come with the program, the user's own, what a run is bounded by, and what runs came to.

use std::fs;

use serde_json::{Value, json};

use crate::script::{read, scene, submit, with};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, bodies};

const USED: [u64; 2] = [1_000, 200];

/// A model that reads a file and submits, and says what that took.
struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new() -> Self {
        let usage = json!({ "input": USED[0], "output": USED[1] });
        let (env, repo, model) =
            scene([with(read("a.txt"), "usage", usage.clone()), with(submit(), "usage", usage)]);
        Self { env, repo, model }
    }

    /// `provost run` as if `provider` were here; the last of `--model` counts.
    fn run(&self, provider: &str, model: &str, more: &[&str]) -> Ran {
        let mut args = self.env.run_args(&self.repo.path, &self.model, more);
        let at = args.iter().position(|arg| arg == "rehearsal").unwrap();
        args[at] = model.to_owned();
        args.extend(["--provider", provider].map(str::to_owned));
        self.env.provost(args)
    }

    fn prices(&self, text: &str) -> String {
        let file = self.env.at("prices.toml");
        fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    fn created(&self, ran: &Ran) -> Value {
        bodies(&self.env.journal(&ran.run()), "run.created")[0].clone()
    }
}

#[test]
fn a_money_budget_needs_no_price_where_the_table_has_one() {
    let case = Case::new();
    let ran = case.run("openai", "gpt-4o", &["--max-cost", "1"]).code(0);
    // $2.50 and $10 a million tokens, as this vendor publishes it.
    assert_eq!(ran.last()["cost_micros"], 2 * (2_500 + 2_000));
    let created = case.created(&ran);
    assert_eq!(
        (&created["price"]["input"], &created["model"]["provider"]),
        (&json!(2_500_000), &json!("openai"))
    );
    let as_of = created["price"]["from"]["table"]["as_of"].as_str().unwrap().to_owned();
    assert!(as_of.starts_with("20"), "{as_of}");
    let shown = case.env.provost(["show", &ran.run()]).code(0);
    let price =
        format!("price: $2.5 in, $10 out, $1.25 read from the cache per million tokens (table {as_of})");
    assert!(shown.stdout.contains(&price), "{shown}");
    // It is the run's from then on, and the bound holds.
    let bounded = case.run("openai", "gpt-4o", &["--max-cost", "0.004"]).code(4);
    assert_eq!(bodies(&case.env.journal(&bounded.run()), "run.finished")[0]["outcome"]["bound"], "cost");
}

#[test]
fn w10_a_money_budget_without_a_price_is_refused_before_the_run() {
    let case = Case::new();
    for (provider, hint) in
        [("openai", "`a-model-of-tomorrow` at `openai`"), ("ollama-openai", "at `ollama-openai`")]
    {
        let ran = case.run(provider, "a-model-of-tomorrow", &["--max-cost", "1"]).code(2);
        assert!(ran.stderr.contains(hint) && ran.stderr.contains("hint: give --price IN/OUT"), "{ran}");
    }
    let ran = case.env.run(&case.repo.path, &case.model, &["--max-cost", "1"]).code(2);
    assert!(ran.stderr.contains("no provider's") && ran.stderr.contains("or name its --provider"), "{ran}");
    assert_eq!(case.model.requests().len(), 0);
    // Without the bound it runs, and what it cost is unknown.
    let ran = case.run("openai", "a-model-of-tomorrow", &[]).code(0);
    assert!(ran.last()["cost_micros"].is_null());
}

#[test]
fn the_users_prices_go_before_the_table_and_the_option_before_both() {
    let case = Case::new();
    let text = "as_of = \"2026-12-01\"\n[[model]]\nname = \"gpt-4o\"\ninput = 1\noutput = 2\n\
                [[model]]\nprovider = \"ollama-openai\"\nname = \"*\"\ninput = 0\noutput = 0\n";
    let file = case.prices(text);
    let cost = |ran: &Ran| ran.last()["cost_micros"].clone();
    let ran = case.run("openai", "gpt-4o", &["--prices", &file]).code(0);
    assert_eq!(
        (cost(&ran), &case.created(&ran)["price"]["from"]),
        (json!(2_800), &json!({ "file": { "as_of": "2026-12-01" } }))
    );
    let ran = case.run("openai", "gpt-4o", &["--prices", &file, "--price", "3/15"]).code(0);
    assert_eq!((cost(&ran), &case.created(&ran)["price"]["from"]), (json!(12_000), &json!("given")));
    // One's own runtime costs nothing where the user says so, and not because it is one's own.
    let ran = case.run("ollama-openai", "gpt-oss:20b", &["--prices", &file, "--max-cost", "0.01"]).code(0);
    assert_eq!(cost(&ran), 0);
    assert!(cost(&case.run("ollama-openai", "gpt-oss:20b", &[]).code(0)).is_null());
    // The usual place needs no option.
    fs::create_dir_all(case.env.at("config/provost")).unwrap();
    fs::write(case.env.at("config/provost/prices.toml"), text).unwrap();
    assert_eq!(cost(&case.run("openai", "gpt-4o", &[]).code(0)), 2_800);
    // What is wrong with a file is said with its name, and a file in the workspace is the agent's.
    let bad = case.prices("[[model]]\nname = \"gpt-4o\"\ninput = 1\n");
    let ran = case.run("openai", "gpt-4o", &["--prices", &bad]).code(2);
    assert!(ran.stderr.contains("prices.toml: model `gpt-4o`: a price has both"), "{ran}");
    case.repo.write("prices.toml", text);
    let inside = case.repo.path.join("prices.toml").display().to_string();
    let ran = case.run("openai", "gpt-4o", &["--prices", &inside]).code(2);
    assert!(ran.stderr.contains("lies in the workspace"), "{ran}");
    let ran = case.run("openai", "gpt-4o", &["--prices", "nowhere.toml"]).code(2);
    assert!(ran.stderr.contains("nowhere.toml: No such file"), "{ran}");
}

#[test]
fn what_runs_came_to_by_model_provider_and_day() {
    let case = Case::new();
    let first = case.run("openai", "gpt-4o", &[]).code(0).run();
    let _ = case.run("openai", "gpt-4o", &["--price", "100/100"]).code(0);
    let _ = case.run("openai", "a-model-of-tomorrow", &[]).code(0);
    let _ = case.env.run(&case.repo.path, &case.model, &[]).code(0);
    let sums = |args: &[&str]| case.env.provost([&["cost", "--json"], args].concat()).code(0).json();
    let of = |row: &Value| (row["calls"].clone(), row["cost_micros"].clone(), row["unpriced"].clone());

    let rows = sums(&[]);
    let names: Vec<_> = rows.iter().map(|row| row["model"].clone()).collect();
    assert_eq!(names, [json!("a-model-of-tomorrow"), json!("gpt-4o"), json!("rehearsal"), Value::Null]);
    assert_eq!(of(&rows[0]), (json!(2), Value::Null, json!(2)), "unknown, not zero");
    assert_eq!(of(&rows[1]), (json!(4), json!(9_000 + 240_000), json!(0)), "each at its own run's price");
    assert_eq!(of(&rows[3]), (json!(8), json!(249_000), json!(4)));
    assert_eq!(
        rows[3]["usage"],
        json!({ "input": 8_000, "output": 1_600, "cache_read": 0, "cache_write": 0, "reasoning": 0 })
    );
    assert!(rows[1]["latency_ms"].is_u64());

    // At the prices of now the one that was given is none of them.
    assert_eq!(of(&sums(&["--today"])[1]), (json!(4), json!(18_000), json!(0)));
    let file = case.prices("[[model]]\nname = \"*\"\ninput = 1\noutput = 1\n");
    assert_eq!(of(&sums(&["--prices", &file])[3]), (json!(8), json!(9_600), json!(0)));

    // The ledger of a run says the same.
    let one = sums(&[&first]);
    assert_eq!((one.len(), &one[0]["cost_micros"]), (2, &case.env.show(&first)["cost_micros"]));

    let rows = sums(&["--by", "provider,model,day,agent,run"]);
    assert_eq!(
        (rows.len(), &rows[0]["provider"], &rows[0]["agent"]),
        (5, &json!(case.model.base_url), &json!("0"))
    );
    assert_eq!(rows[1]["day"].as_str().unwrap().len(), 10);
    assert_eq!(of(&sums(&["--since", "2100-01-01"])[0]), (json!(0), json!(0), json!(0)));
    assert_eq!(sums(&["--since", "2026-01-01"]).len(), 4);

    let shown = case.env.provost(["cost", "--by", "provider,model"]).code(0);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(&case.model.base_url, "[MODEL URL            ]");
    settings.add_filter(r" +(\d+ ms|\d+\.\d s|-)( +(\d+ ms|\d+\.\d s|-))?\n", " [TIMES]\n");
    settings.add_filter(r"LATENCY +TTFT", "LATENCY TTFT");
    settings.bind(|| insta::assert_snapshot!(shown.stdout));
}

/// What a fork begins with was paid in the run that it was forked from.
#[test]
fn nothing_is_charged_twice_for_a_fork() {
    let case = Case::new();
    let run = case.run("openai", "gpt-4o", &[]).code(0).run();
    let out = case.env.at("fork").display().to_string();
    let forked = case.env.provost(["fork", &run, "--step", "1", "--to", &out, "--json"]);
    let _ = forked.code(0);
    let total = case.env.provost(["cost", "--json"]).code(0).last();
    assert_eq!((&total["calls"], &total["inherited_calls"]), (&json!(2), &json!(1)));
}

/// Whatever breaks off, and however often, is paid from the one ledger.
#[test]
fn i6_broken_answers_do_not_pass_a_bound_on_money() {
    let step = with(
        with(read("a.txt"), "say", "a long answer ".repeat(400)),
        "fault",
        json!({ "drop_after": 5, "times": 99 }),
    );
    let (env, repo, model) = scene([step]);
    let ran = env.run(&repo.path, &model, &["--price", "3/15", "--max-cost", "0.02"]);
    let run = ran.run();
    let failed = env.journal(&run);
    let failed = bodies(&failed, "model.failed");
    assert!(!failed.is_empty() && failed.iter().all(|body| body["estimated"] == true), "{failed:?}");
    let spent = env.show(&run)["cost_micros"].as_u64().unwrap();
    assert!((1..=20_000).contains(&spent) && [4, 6].contains(&ran.code), "{spent}: {ran}");
    let shown = env.provost(["cost", &run]).code(0);
    assert!(
        shown.stdout.contains("gave no answer and cost something") && shown.stdout.contains("by estimate"),
        "{shown}"
    );
}

#[test]
fn a_vendors_limits_are_shown_as_it_last_said_them() {
    let headers = json!({
        "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms",
        "x-ratelimit-mood": "grim",
    });
    let fault = json!({ "status": 429, "headers": headers });
    let (env, repo, model) = scene([with(read("a.txt"), "fault", fault)]);
    let run = env.run(&repo.path, &model, &["--pace", "1m"]).code(0).run();
    let line = "limits: 0 of 60 requests (full again in 20 ms), more that is not understood left at ";
    for command in ["show", "status"] {
        let shown = env.provost([command, &run]).code(0);
        assert!(shown.stdout.contains(line), "{shown}");
        let said = env.provost([command, &run, "--json"]).code(0).last();
        assert_eq!(said["rate_limits"]["said"]["windows"][0]["remaining"], 0);
    }
    // The control.
    let (env, repo, model) = scene([read("a.txt")]);
    let run = env.run(&repo.path, &model, &[]).code(0).run();
    assert!(!env.provost(["show", &run]).code(0).stdout.contains("limits:"));
}

#[test]
fn a_prompt_beyond_the_window_of_the_users_file_is_not_sent() {
    let case = Case::new();
    let file = case.prices("[[model]]\nname = \"tiny\"\nwindow = 60\nmax_output = 512\n[[model]]\nname = \"wide\"\nwindow = 400000\nmax_output = 512\n");
    let ran = case.run("openai", "tiny", &["--prices", &file]).code(6);
    assert_eq!(case.model.requests().len(), 0);
    let journal = case.env.journal(&ran.run());
    assert_eq!(bodies(&journal, "model.failed")[0]["class"], "context_overflow");
    let ran = case.run("openai", "wide", &["--prices", &file]).code(0);
    let created = case.created(&ran);
    assert_eq!(
        (&created["model"]["window"], &created["limits"]["answer_tokens"]),
        (&json!(400_000), &json!(512))
    );
}
