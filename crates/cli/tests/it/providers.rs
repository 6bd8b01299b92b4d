//! Vendors and runtimes by name.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::script::{body, header, read, script, submit, with};
use crate::support::{TestEnvironment, finish, text};

const KEY: &str = "canary-key-4b1d9e";

#[test]
fn the_list_says_which_keys_are_set_and_no_key() {
    let env = TestEnvironment::new();
    let mut command = env.provost_command(["providers"]);
    command.env("GROQ_API_KEY", KEY).env("GOOGLE_API_KEY", KEY);
    let ran = finish(command).code(0);
    assert!(!ran.stdout.contains(KEY));
    assert_snapshot!(ran.stdout);

    let mut command = env.provost_command(["providers", "--json"]);
    command.env("GROQ_API_KEY", KEY).env("MISTRAL_API_KEY", "");
    let ran = finish(command).code(0);
    assert!(!ran.stdout.contains(KEY));
    let rows = ran.json();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(
        *row("groq"),
        json!({
            "name": "groq", "title": "Groq", "wire": "openai", "base_url": "https://api.groq.com/openai/v1",
            "key_vars": ["GROQ_API_KEY"], "key_set": true, "local": false, "tools": true,
        })
    );
    assert_eq!(row("mistral")["key_set"], false, "an empty variable holds no key");
    assert_eq!((&row("ollama")["local"], &row("azure")["base_url"]), (&json!(true), &json!(null)));
}

#[test]
fn a_name_that_is_none_and_a_key_that_is_not_there() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let dir = repo.path.display().to_string();
    let says = |more: &[&str]| {
        let mut args = vec!["run", "Mend it.", "-C", &dir, "--model", "m"];
        args.extend(more);
        env.provost(args).code(2).stderr
    };
    assert_snapshot!(
        [
            says(&["--provider", "gorq"]),
            says(&["--provider", "groq"]),
            says(&["--provider", "gemini"]),
            says(&["--provider", "azure"]),
            says(&["--provider", "mistral", "--base-url", "https://api.groq.com/openai/v1"]),
            says(&["--base-url", "https://api.groq.com/openai/v1"]),
            says(&["--provider", "vllm", "--base-url", "http://192.0.2.7:8000/v1"]),
        ]
        .join("\n")
    );
}

/// The row says the wire, the header of the key and the quirks; where to is said here.
#[test]
fn a_row_says_how_it_is_asked() {
    let rows = [
        ("openai", "OPENAI_API_KEY", "/chat/completions", "authorization", "/v1"),
        ("openai-responses", "OPENAI_API_KEY", "/responses", "authorization", "/v1"),
        ("mistral", "MISTRAL_API_KEY", "/chat/completions", "authorization", "/v1"),
        ("azure", "AZURE_OPENAI_API_KEY", "/chat/completions", "api-key", "/v1"),
        ("anthropic", "ANTHROPIC_API_KEY", "/v1/messages", "x-api-key", ""),
        ("gemini", "GEMINI_API_KEY", "/v1beta/models/rehearsal:streamGenerateContent", "x-goog-api-key", ""),
        ("ollama", "OLLAMA_API_KEY", "/api/chat", "authorization", ""),
        ("llamacpp", "LLAMA_API_KEY", "/chat/completions", "authorization", "/v1"),
    ];
    for (name, variable, path, key_header, base) in rows {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script([submit()]));
        let url = format!("{}{base}", model.bare_url());
        let dir = repo.path.display().to_string();
        let mut command = env.provost_command([
            "run",
            "Mend it.",
            "-C",
            &dir,
            "--model",
            "rehearsal",
            "--json",
            "--provider",
            name,
            "--base-url",
            &url,
        ]);
        command.env(variable, KEY).env("OPENAI_API_KEY", KEY);
        let ran = finish(command).code(0);
        assert!(!ran.stdout.contains(KEY));
        // One's own runtime is asked for the model's window before.
        let requests = model.requests();
        let asks = |request: &&serde_json::Value| !request["step"].is_null();
        let request = requests.iter().find(asks).unwrap();
        assert!(text(&request["path"]).ends_with(path), "{name}: {request}");
        assert_eq!(header(request, key_header).as_deref(), Some("[redacted]"), "{name}: {request}");
        let asks = text(&request["body"]).contains("stream_options");
        assert_eq!(asks, path == "/chat/completions" && name != "mistral", "{name}");
        assert!(!text(&request["path"]).contains(KEY));
    }
}

/// Requests of one run say that they belong together, in their vendor's way, by a word that says nothing else.
#[test]
fn requests_of_one_run_share_a_word_for_the_vendors_cache() {
    let word = |request: &Value, name: &str| match name {
        "prompt_cache_key" => body(request)[name].as_str().map(str::to_owned),
        header_name => header(request, header_name),
    };
    for (name, variable, place) in [
        ("openai", "OPENAI_API_KEY", Some("prompt_cache_key")),
        ("xai", "XAI_API_KEY", Some("x-grok-conv-id")),
        ("openrouter", "OPENROUTER_API_KEY", Some("x-session-id")),
        ("groq", "GROQ_API_KEY", None),
    ] {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script([read("a.txt"), submit()]));
        let dir = repo.path.display().to_string();
        let args =
            ["run", "Mend it.", "-C", &dir, "--model", "anthropic/rehearsal", "--json", "--provider", name];
        for _ in 0..2 {
            let mut command = env.provost_command(args.into_iter().chain(["--base-url", &model.base_url]));
            command.env(variable, KEY);
            let _ = finish(command).code(0);
        }
        let requests = model.requests();
        assert_eq!(requests.len(), 4);
        let words: Vec<_> = requests.iter().map(|asked| place.and_then(|place| word(asked, place))).collect();
        assert_eq!(words[0], words[1], "{name}: one run");
        assert_eq!(words[0].is_some(), place.is_some(), "{name}");
        assert!(place.is_none() || words[1] != words[2], "{name}: two runs");
        for run in env.runs() {
            assert!(!words.iter().flatten().any(|word| run.contains(word.as_str())), "{name}");
        }
        // Only where the vendor sells it, and for the models that have to be asked.
        assert_eq!(body(&requests[0]).get("cache_control").is_some(), name == "openrouter", "{name}");
    }
}

/// Whoever goes on with a run takes the key of the vendor that the run names, and no other's.
#[test]
fn i8_a_resumed_run_sends_the_key_of_its_own_vendor() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let refuses = with(submit(), "fault", json!({ "status": 402, "times": 1 }));
    let model = env.rehearse(&script([refuses]));
    let dir = repo.path.display().to_string();
    let args = ["run", "Mend it.", "-C", &dir, "--model", "m", "--json", "--provider", "groq"];
    let mut command = env.provost_command(args.into_iter().chain(["--base-url", &model.base_url]));
    command.env("GROQ_API_KEY", KEY);
    let _ = finish(command).code(6);
    // With another vendor's key alone nothing is sent; the server is this machine's and may need none.
    let mut command = env.provost_command(["resume", &env.only_run(), "--json"]);
    command.env("OPENAI_API_KEY", "another-canary-2f");
    let _ = finish(command).code(0);
    let requests = model.requests();
    let sent: Vec<_> = requests.iter().map(|request| header(request, "authorization")).collect();
    assert_eq!(sent, [Some("[redacted]".to_owned()), None]);
}

/// I8: a variable that is not called like one that holds a key is not sent to a vendor as one.
#[test]
fn i8_only_what_is_called_like_a_key_is_sent_as_one() {
    for (variable, code) in [("HOME", 2), ("PATH", 2), ("MY_SECRET", 2), ("my_key", 0), ("SOME_TOKEN", 0)] {
        let (env, repo, model) = crate::script::scene([crate::script::submit()]);
        let args = env.run_args(&repo.path, &model, &["--key-env", variable]);
        let mut command = env.provost_command(args);
        if variable != "HOME" && variable != "PATH" {
            command.env(variable, "canary-7d21");
        }
        let ran = crate::support::finish(command).code(code);
        assert_eq!(
            ran.stderr.contains("is not called like one that holds a key"),
            code == 2,
            "{variable}: {ran}"
        );
        assert_eq!(model.requests().len(), usize::from(code == 0), "{variable}");
    }
}
