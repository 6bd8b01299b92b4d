//! Lines for a shell, and what is decided on them.

use std::sync::LazyLock;

use provost_core::act::Access;
use provost_core::containment::Rung;
use provost_core::policy::{Containment, Default, Effect, Layer, Policy, Preset};
use serde_json::json;

use crate::world::world;

/// Allows everything but `rm` and `git push`.
static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let rules = ["exec rm", "exec git push"];
    let deny = |layer: Layer, rule: &&str| layer.rule(Effect::Deny, rule).expect("a rule");
    let mut layer = rules.iter().fold(Layer::named("it"), deny);
    layer.defaults = Access::ALL.into_iter().map(|access| (access, Default::Allow)).collect();
    Policy {
        layers: vec![layer],
        containment: Containment::Strongest,
        at_least: Rung::R0,
        caps: provost_core::caps::Caps::default(),
        ..Policy::preset(Preset::Workspace)
    }
});

fn decided(line: &str) -> Option<Effect> {
    world(|world| {
        let tool = world.registry.get("shell").expect("the tool");
        let touches = world.in_context(|ctx| tool.touches(&json!({ "line": line }), ctx)).ok()?;
        assert!(touches.len() <= provost_core::event::MOST_TOUCHES);
        Some(POLICY.decide(&touches, Rung::R3).effect)
    })
}

/// Ways of writing a word without changing what it is; the next byte chooses.
fn quoted(word: &str, how: u8) -> String {
    let at = word.len() / 2;
    match how % 6 {
        0 => word.to_owned(),
        1 => format!("'{word}'"),
        2 => format!("\"{word}\""),
        3 => format!("{}''{}", &word[..at], &word[at..]),
        4 => word.chars().flat_map(|c| ['\\', c]).collect(),
        _ => format!("$'{}'", word.bytes().map(|byte| format!("\\{byte:03o}")).collect::<String>()),
    }
}

/// Ways of putting a line into another that runs it.
fn nested(line: &str, how: u8) -> String {
    match how % 12 {
        0 => line.to_owned(),
        1 => format!("ls; {line}"),
        2 => format!("({line})"),
        3 => format!("{{ {line}; }}"),
        4 => format!("echo \"$({line})\""),
        5 => format!("cat <({line})"),
        6 => format!("if ls; then {line}; fi"),
        7 => format!("for i in a; do {line}; done"),
        8 => format!("f() {{ {line}; }}; f"),
        9 => format!("bash -c '{}'", line.replace('\'', "'\\''")),
        10 => format!("ls | {line}"),
        _ => format!("x=${{y:-$({line})}}"),
    }
}

/// Any line is decided on or refused. And a line that does what the policy denies is not allowed, however the input's
/// bytes quote and nest it.
pub fn shell(data: &[u8]) {
    if let Ok(line) = std::str::from_utf8(data) {
        let _ = decided(line);
    }
    let mut bytes = data.iter().copied();
    let mut next = || bytes.next().unwrap_or_default();
    let words: &[&str] = if next() % 2 == 0 { &["rm", "-rf", "x"] } else { &["git", "push", "-f"] };
    let quoted: Vec<String> = words.iter().map(|word| quoted(word, next())).collect();
    let mut line = quoted.join(" ");
    for _ in 0..next() % 4 {
        line = nested(&line, next());
    }
    assert_ne!(decided(&line), Some(Effect::Allow), "{line}");
}
