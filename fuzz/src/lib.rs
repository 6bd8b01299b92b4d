//! Fuzz targets: one function for every parser of bytes that somebody else wrote (a model, a server, a workspace, a
//! bundle, a person's file). Each takes any bytes, must never panic by itself, and asserts what must hold of what it
//! parsed. `cargo fuzz` and the test `corpus` run the same functions.

mod egress;
mod evidence;
mod model;
mod session;
mod shell;
mod tools;
mod world;

use std::sync::LazyLock;

use provost_core::act::Touch;
use provost_core::caps::Caps;
use provost_core::containment::Rung;
use provost_core::event::Event;
use provost_core::path::RelPath;
use provost_core::tests_ran::TestsRan;
use provost_core::policy::{Containment, Effect, Layer, Pattern, Policy, Preset, Rule, WorkspaceMode};
use provost_evidence::canonical::to_canonical;

pub use egress::{client_hello, dns_query, http_head, socks};
pub use evidence::{bundle, dsse, journal, keys, statement};
pub use model::{anthropic, chat, events_log, gemini, ollama, responses, script, sse};
pub use session::{
    MESSAGE, NOW, asked, attestation, authorization, checkpoint, origin, ssh_agent, ssh_key, ssh_sig, trust,
};
pub use shell::shell;
pub use tools::{arguments, exit_record, patch};

/// An event: what is read and written again is the same event, and its canonical form is a fixed point.
pub fn event(data: &[u8]) {
    let Ok(event) = Event::from_json(data) else { return };
    let plain = serde_json::to_vec(&event).expect("an event is JSON");
    assert_eq!(Event::from_json(&plain).expect("what was written is read"), event);
    if let Ok(canonical) = to_canonical(&event) {
        let again = Event::from_json(&canonical).expect("what was written is read");
        assert_eq!(to_canonical(&again).expect("canonical"), canonical);
    }
}

/// What a runner of tests printed: what a line adds, it adds to whatever stands before it.
pub fn tests_ran(data: &[u8]) {
    let Some(once) = TestsRan::count(data) else { return };
    let doubled = |number: u64| number.saturating_mul(2);
    let TestsRan { passed, failed, ignored } = once;
    let twice = [data, b"\n", data].concat();
    let expected =
        TestsRan { passed: doubled(passed), failed: doubled(failed), ignored: doubled(ignored) };
    assert_eq!(TestsRan::count(&twice), Some(expected));
    assert!(once.ran() >= passed);
}

/// Things that a policy is asked about, made from the input's text.
fn touches(text: &str) -> Vec<Touch> {
    let mut touches = vec![
        Touch::Exec {
            argv: text.split(' ').map(str::to_owned).collect(),
            program: Some(format!("/usr/bin/{text}")),
        },
        Touch::Exec { argv: Vec::new(), program: None },
        Touch::Net { host: text.to_owned(), port: 443 },
        Touch::Call { tool: text.to_owned() },
        Touch::Spawn { agent: text.to_owned() },
    ];
    if let Ok(path) = RelPath::parse(text) {
        touches.extend([Touch::Read { path: path.clone() }, Touch::Write { path }]);
    }
    touches
}

/// Denies everything. Made once: a rule costs more than most inputs.
static DENYING: LazyLock<Layer> = LazyLock::new(|| {
    ["read *", "write *", "exec *", "net *", "call *", "spawn *"]
        .into_iter()
        .fold(Layer::named("deny"), |layer, rule| layer.rule(Effect::Deny, rule).expect("a rule"))
});

/// A policy file: what is read survives the journal's JSON, and no rule of a file outweighs a deny of another layer.
pub fn policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let policy = match Policy::from_toml(text, "its-name.toml") {
        Ok(policy) => policy,
        Err(error) => {
            assert!(error.to_string().contains("its-name.toml"), "an error names the file: {error}");
            return;
        }
    };
    let json = serde_json::to_vec(&policy).expect("a policy is JSON");
    assert_eq!(serde_json::from_slice::<Policy>(&json).expect("what was written is read"), policy);
    let denied = policy.clone().with(DENYING.clone());
    for touch in touches("src/a.rs").into_iter().chain(touches("cargo test --lib")) {
        let touch = [touch];
        for rung in [Rung::R0, Rung::R3] {
            let _ = policy.decide(&touch, rung);
            assert_eq!(denied.decide(&touch, rung).effect, Effect::Deny, "{touch:?}");
        }
    }
}

/// A rule (first line) held against something (second line): a rule has one spelling, and what it allows it also
/// denies where it stands as a deny.
pub fn pattern(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (rule, what) = text.split_once('\n').unwrap_or((text, "cargo test"));
    let Ok(pattern) = rule.parse::<Pattern>() else { return };
    assert_eq!(pattern.as_str().parse::<Pattern>().as_ref(), Ok(&pattern), "its own text is the rule");
    let with = |effect| {
        let mut layer = Layer::named("it");
        layer.rules.push(Rule { effect, pattern: pattern.clone() });
        Policy {
            layers: vec![layer],
            containment: Containment::Strongest,
            at_least: Rung::R0,
            require: std::collections::BTreeSet::new(),
            caps: Caps::default(),
            workspace: WorkspaceMode::Direct,
            image: None,
            ..Policy::preset(Preset::Workspace)
        }
    };
    let (allow, ask, deny) = (with(Effect::Allow), with(Effect::Ask), with(Effect::Deny));
    for touch in touches(what) {
        let touch = [touch];
        if allow.decide(&touch, Rung::R3).effect == Effect::Allow {
            assert_eq!(deny.decide(&touch, Rung::R3).effect, Effect::Deny, "{pattern} and {touch:?}");
            assert!(ask.decide(&touch, Rung::R3).rule.starts_with("ask "), "{pattern} and {touch:?}");
        }
    }
}

/// A path: beneath the root, one spelling, and the bytes come back.
pub fn rel_path(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(path) = RelPath::try_from(text.to_owned())
    {
        assert_eq!(path.as_str(), text, "the escaped form has one spelling");
    }
    let Ok(path) = RelPath::from_bytes(data) else { return };
    let raw = path.to_bytes();
    assert!(!raw.is_empty() && raw[0] != b'/' && !raw.contains(&0));
    if !path.is_root() {
        assert!(raw.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")));
    }
    assert_eq!(RelPath::from_bytes(&raw).as_ref(), Ok(&path));
    assert_eq!(RelPath::try_from(path.as_str().to_owned()).as_ref(), Ok(&path));
    for folder in path.ancestors() {
        assert!(RelPath::try_from(folder.to_owned()).is_ok(), "{folder:?} is a path");
    }
    let beneath = RelPath::parse("folder").and_then(|folder| folder.join(&raw));
    assert!(beneath.is_ok_and(|beneath| beneath.as_str().starts_with("folder")));
}
