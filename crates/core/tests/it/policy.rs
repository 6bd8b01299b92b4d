//! Policy: the matching that the docs of `policy::Pattern` promise, the order of effects across layers, the presets,
//! and what a policy file that cannot be read says.

use std::fmt::Write as _;

use proptest::prelude::*;
use provost_core::act::{Access, Touch};
use provost_core::caps::Caps;
use provost_core::containment::Rung;
use provost_core::path::RelPath;
use provost_core::policy::{BadRule, Default, Effect, GitAccess, Layer, Ordered, Policy, Preset, Rule};

use crate::cases;

/// A touch as it is written in these tables: `exec` words are split at spaces, `@` names the resolved program.
fn touch(text: &str) -> Touch {
    let (access, rest) = text.split_once(' ').unwrap();
    match access {
        "read" => Touch::Read { path: RelPath::parse(rest).unwrap() },
        "write" => Touch::Write { path: RelPath::parse(rest).unwrap() },
        "exec" => {
            let (line, program) = match rest.split_once(" @") {
                Some((line, program)) => (line, Some(program.to_owned())),
                None => (rest, None),
            };
            Touch::Exec { argv: line.split(' ').map(str::to_owned).collect(), program }
        }
        "net" => {
            let (host, port) = rest.rsplit_once(':').unwrap();
            Touch::Net { host: host.to_owned(), port: port.parse().unwrap() }
        }
        "call" => Touch::Call { tool: rest.to_owned() },
        _ => Touch::Spawn { agent: rest.to_owned() },
    }
}

/// Whether one rule decides on a touch. Everything else is set to what the rule does not say.
fn hits(effect: Effect, rule: &str, of: &Touch) -> bool {
    let mut layer = Layer::named("test").rule(effect, rule).unwrap();
    let other = if effect == Effect::Allow { Default::Deny } else { Default::Allow };
    layer.defaults = Access::ALL.into_iter().map(|access| (access, other)).collect();
    let mut policy = Policy::preset(Preset::FullAccess);
    policy.layers = vec![layer];
    policy.decide(std::slice::from_ref(of), Rung::R3).effect == effect
}

#[track_caller]
fn matches(effect: Effect, rule: &str, yes: &[&str], no: &[&str]) {
    for text in yes {
        assert!(hits(effect, rule, &touch(text)), "`{effect} {rule}` should hold for `{text}`");
    }
    for text in no {
        assert!(!hits(effect, rule, &touch(text)), "`{effect} {rule}` should not hold for `{text}`");
    }
}

const ALLOW: Effect = Effect::Allow;
const ASK: Effect = Effect::Ask;
const DENY: Effect = Effect::Deny;

#[test]
fn an_allow_of_a_command_takes_more_arguments_only_behind_a_star() {
    matches(
        ALLOW,
        "exec cargo test",
        &["exec cargo test"],
        &["exec cargo test --offline", "exec cargo", "exec cargo build", "exec /usr/bin/cargo test"],
    );
    matches(
        ALLOW,
        "exec cargo test*",
        &["exec cargo test", "exec cargo test --offline -p x", "exec cargo test-all"],
        &["exec cargo", "exec cargo build", "exec xcargo test"],
    );
    matches(ALLOW, "exec cargo *", &["exec cargo", "exec cargo build --release"], &["exec cargo-evil x"]);
    matches(
        ALLOW,
        "exec cargo test * --quiet",
        &["exec cargo test x --quiet"],
        &["exec cargo test --quiet", "exec cargo test x --quiet y"],
    );
    matches(ALLOW, "exec *", &["exec rm -rf x", "exec /bin/x"], &[]);
    // The program that the name was resolved to does not open an allow rule, and another path is another program.
    matches(ALLOW, "exec cat*", &["exec cat f @/bin/cat"], &["exec ./cat f @./cat", "exec x f @/bin/cat"]);
}

#[test]
fn a_star_that_is_quoted_for_the_glob_is_a_character() {
    let echo = |word: &str| Touch::Exec { argv: vec!["echo".to_owned(), word.to_owned()], program: None };
    for rule in [r"exec echo '\*'", r"exec echo \\*"] {
        assert!(hits(ALLOW, rule, &echo("*")), "{rule}");
        assert!(!hits(ALLOW, rule, &echo("x")), "{rule}");
        assert!(!hits(ALLOW, rule, &touch("exec echo * more")), "`{rule}` has no `*` that is open");
    }
    assert!(
        hits(ALLOW, r"exec echo '\\*'", &touch(r"exec echo \x more")),
        "an escaped backslash, and an open `*`"
    );
}

#[test]
fn a_glob_of_an_allow_rule_is_not_left_through_dot_dot() {
    matches(
        ALLOW,
        "exec ./bin/*",
        &["exec ./bin/x", "exec ./bin/x -v"],
        &["exec ./bin/../evil", "exec ./bin/a/../../x"],
    );
    matches(ALLOW, "exec ../tools/*", &["exec ../tools/x"], &[]);
    matches(DENY, "exec ./bin/*", &["exec ./bin/../evil"], &[]);
}

#[test]
fn quotes_in_a_command_rule_group_words() {
    let argv = |words: &[&str]| Touch::Exec {
        argv: words.iter().map(|&word| word.to_owned()).collect(),
        program: None,
    };
    assert!(hits(ALLOW, "exec sh -c 'make all'", &argv(&["sh", "-c", "make all"])));
    assert!(!hits(ALLOW, "exec sh -c 'make all'", &argv(&["sh", "-c", "make", "all"])));
    assert!(hits(ALLOW, r#"exec "my tool" x"#, &argv(&["my tool", "x"])));
    assert!(hits(DENY, "exec sh -c '*rm*'", &argv(&["sh", "-c", "ls\n rm f"])), "`*` crosses lines");
    let open: Result<Layer, BadRule> = Layer::named("x").rule(ALLOW, "exec sh -c 'make");
    assert_eq!(open.unwrap_err(), BadRule::Quote("exec sh -c 'make".to_owned()));
}

#[test]
fn a_deny_finds_its_program_by_base_name_and_by_what_it_resolves_to() {
    for effect in [DENY, ASK] {
        matches(
            effect,
            "exec rm",
            &[
                "exec rm -rf x",
                "exec rm",
                "exec /bin/rm x",
                "exec ./rm x",
                "exec ../../bin/rm x",
                "exec del x @/usr/bin/rm",
            ],
            &["exec rmdir x", "exec ls rm"],
        );
        matches(
            effect,
            "exec git push",
            &["exec git push", "exec git push origin", "exec /usr/bin/git push -f"],
            &["exec git pull", "exec git"],
        );
        matches(
            effect,
            "exec git push *",
            &["exec git push", "exec git push origin main"],
            &["exec git pull"],
        );
        matches(
            effect,
            "exec /bin/rm",
            &["exec /bin/rm x", "exec rm x @/bin/rm"],
            &["exec rm x @/usr/bin/rm"],
        );
    }
    assert!(
        hits(DENY, "exec *", &Touch::Exec { argv: vec![], program: None }),
        "no command is a command too"
    );
    assert!(!hits(ALLOW, "exec *", &Touch::Exec { argv: vec![], program: None }));
}

/// P2: a name in an allow rule is the name as it is called, so that a `./cat` of the workspace is not `cat`. Whether the
/// folder in which `cat` was found is one that the agent can write to, the matcher cannot know: commands get a `PATH` of
/// system folders from the sandbox, which mounts them read-only.
#[test]
fn p2_a_program_of_the_workspace_is_not_the_one_that_is_allowed() {
    let policy = Policy::preset(Preset::Strict).with(Layer::named("mine").rule(ALLOW, "exec cat*").unwrap());
    let effect = |text: &str| policy.decide(&[touch(text)], Rung::R3).effect;
    assert_eq!(effect("exec cat f @/usr/bin/cat"), ALLOW);
    for text in ["exec ./cat f", "exec bin/cat f", "exec /srv/space/cat f", "exec ../cat f"] {
        assert_eq!(effect(text), ASK, "{text}");
    }
}

/// P5 and P6: the same deed under another spelling. One touch is an argument vector: a rule holds where the words stand at
/// their places, and finds the program under another path. That `git -C . push` pushes and `env` runs what follows it is
/// read off the vector before it is put before the policy (see `started`), as further touches. What no vector tells (a
/// script, Python) is what containment holds back, whoever does it: deny `net`, protect paths.
#[test]
fn p5_what_one_touch_holds_and_what_is_left_to_others() {
    let held = ["exec git push", "exec git push --force", "exec /usr/bin/git push", "exec ./git push"];
    let left = [
        "exec git -C . push",
        "exec git -c a.b=c push",
        "exec env git push",
        "exec A=1 git push",
        "exec sh -c git_push",
        "exec busybox git push",
    ];
    matches(DENY, "exec git push", &held, &left);
    // Whoever wants no git at all says so, and a wrapper that is not wanted is a rule of its own.
    matches(DENY, "exec git", &["exec git -C . push", "exec git -c a.b=c push"], &["exec env git push"]);
    // And under the presets none of the rest has a network.
    for preset in [Preset::Workspace, Preset::ReadOnly] {
        let decision = Policy::preset(preset).decide(&[touch("net github.com:443")], Rung::R3);
        assert_eq!(decision.effect, DENY);
    }
}

#[test]
fn folders_cover_what_is_beneath_them() {
    for rule in ["write dir/", "write dir/**", "write ./dir/", "write dir//", "write ././dir/**"] {
        for effect in [ALLOW, ASK, DENY] {
            matches(
                effect,
                rule,
                &["write dir", "write dir/a", "write dir/a/b.c"],
                &["write dirt", "write a/dir", "read dir"],
            );
        }
    }
    // Without the slash it is a name: a deny holds for the folder of that name, an allow for the name alone.
    matches(DENY, "write dir", &["write dir", "write dir/a/b"], &["write dirt/a"]);
    matches(ALLOW, "write dir", &["write dir"], &["write dir/a"]);
    matches(DENY, "write src/*", &["write src/a", "write src/a/b"], &["write src"]);
    matches(ALLOW, "write src/*", &["write src/a"], &["write src/a/b", "write src"]);
    matches(ALLOW, "write src/**", &["write src", "write src/a/b"], &["write a/src/b"]);
    matches(
        ALLOW,
        "write **/tests/**",
        &["write tests/a", "write a/b/tests", "write a/tests/b/c"],
        &["write atests/b"],
    );
    matches(ALLOW, "write **/*.rs", &["write a.rs", "write a/b.rs"], &["write a.rs/b"]);
    matches(ALLOW, "write *.rs", &["write a.rs"], &["write a/b.rs"]);
    for everything in ["write *", "write **", "write **/*", "write ./"] {
        matches(ALLOW, everything, &["write .", "write a", "write a/b", "write .hidden/x"], &["read a"]);
    }
    // The workspace itself is a folder like any other.
    matches(DENY, "write .", &["write .", "write a", "write a/b"], &[]);
    matches(ALLOW, "write .", &["write ."], &["write a"]);
}

#[test]
fn classes_and_alternatives() {
    matches(ALLOW, "write src/[a-c]*.rs", &["write src/b1.rs"], &["write src/d.rs", "write src/b/x.rs"]);
    matches(ALLOW, "write src/[!a]", &["write src/b"], &["write src/a", "write src/bb"]);
    matches(ALLOW, "write {src,tests}/**", &["write src/a", "write tests/a/b"], &["write docs/a"]);
    matches(ALLOW, "write *.{md,txt}", &["write a.md", "write b.txt"], &["write a.rs", "write d/a.md"]);
    matches(ALLOW, "write a?c", &["write abc"], &["write ac", "write a/c", "write abbc"]);
    matches(ALLOW, r"write a\[1\]", &["write a[1]"], &["write a1"]);
    matches(
        ALLOW,
        "exec {cargo,make} [bt]*",
        &["exec cargo build -q", "exec make test"],
        &["exec cargo run"],
    );
    matches(ALLOW, "write {é,ö}/*", &["write é/a"], &["write e/a"]);
    matches(DENY, "write []a]", &["write a", "write ]"], &["write b"]);
}

/// A rule that can never match protects nothing: it is refused where it is written.
#[test]
fn i9_rules_that_could_not_match_are_refused() {
    let why = |rule: &str| rule.parse::<provost_core::policy::Pattern>().unwrap_err().to_string();
    let long = format!("write {}", "a".repeat(5000));
    let rules = [
        "",
        "wriet src",
        "write",
        "exec   ",
        "exec # nothing",
        "write [a",
        "write a{b",
        "exec a[b-a]",
        "write /etc/passwd",
        "write /**",
        "read ../x",
        "read a/../b",
        "net :443",
        "net example.org:",
        "net example.org:https",
        "net example.org:70000",
        "net example.org:0443",
        "net https://example.org:443",
        "net user@example.org",
        "write [äö]x",
        "exec [ -f x ]",
        &long,
    ];
    let mut out = String::new();
    for rule in rules {
        let shown: String = rule.chars().take(40).collect();
        writeln!(out, "{shown:?}\n    {}", why(rule)).unwrap();
    }
    insta::assert_snapshot!("bad_rules", out);
}

#[test]
fn hosts() {
    matches(
        DENY,
        "net example.org",
        &["net example.org:1", "net EXAMPLE.org:443", "net example.org.:80"],
        &["net sub.example.org:1", "net example.org.evil:1"],
    );
    matches(
        ALLOW,
        "net *.Example.org:443",
        &["net a.example.org:443", "net a.b.example.org:443"],
        &["net a.example.org:80", "net example.org:443"],
    );
    matches(ALLOW, "net *:443", &["net a:443"], &["net a:80"]);
    matches(ALLOW, "net localhost:80*", &["net localhost:80", "net localhost:8080"], &["net localhost:443"]);
    matches(DENY, "net ::1", &["net ::1:80", "net [::1]:443"], &["net ::2:80"]);
    matches(DENY, "net [::1]:443", &["net ::1:443", "net [::1]:443"], &["net ::1:80"]);
    matches(DENY, "net [fe80::*]", &["net fe80::1:22"], &["net fd00::1:22"]);
    matches(DENY, "net 10.*", &["net 10.0.0.1:22"], &["net 110.0.0.1:22"]);
    matches(ALLOW, "net [ab].example.org:443", &["net a.example.org:443"], &["net c.example.org:443"]);
    matches(ALLOW, "net *", &["net a.b:1", "net ::1:1"], &[]);
}

#[test]
fn tools_and_agents() {
    for (rule, instead) in [
        ("notes__add", "notes.add"),
        ("notes__*", "notes.*"),
        ("notes", "notes"),
        ("notes*__add", "notes*.add"),
    ] {
        let why = format!("call {rule}").parse::<provost_core::policy::Pattern>().unwrap_err().to_string();
        assert!(why.contains(&format!("perhaps `call {instead}`")), "{why}");
    }
    matches(DENY, "call notes*", &["call notes.add"], &["call other.add"]);
    matches(ALLOW, "call github.*", &["call github.list"], &["call gitlab.list", "spawn github.x"]);
    matches(DENY, "spawn *", &["spawn helper"], &["call helper"]);
}

/// Names that are no UTF-8 are matched in their escaped form.
#[test]
fn names_that_are_not_utf8_are_decided_on_too() {
    let file = |raw: &[u8]| Touch::Write { path: RelPath::from_bytes(raw).unwrap() };
    assert!(hits(DENY, "write secret/", &file(b"secret/caf\xe9")));
    assert!(hits(DENY, "write sec*", &file(b"sec\xff\xfe/x")));
    assert!(hits(ALLOW, "write **/*.txt", &file(b"d\x80/caf\xe9.txt")));
    assert!(hits(DENY, r"write caf\\xe9", &file(b"caf\xe9")), "spelled in a glob, a backslash is doubled");
    assert!(!hits(DENY, r"write caf\\xe9", &file("café".as_bytes())));
    // A name that merely looks like an escape is another name.
    assert!(!hits(DENY, r"write caf\\xe9", &file(br"caf\xe9")));
    assert!(hits(DENY, r"write caf\\\\xe9", &file(br"caf\xe9")));
}

/// D13: allowing one sub-command is enough where every other command is denied.
#[test]
fn d13_an_allow_alone_suffices_under_a_default_of_deny() {
    let policy =
        Policy::from_toml("allow = [\"exec cargo test*\"]\n[default]\nexec = \"deny\"\n", "p.toml").unwrap();
    let decide = |text: &str| policy.decide(&[touch(text)], Rung::R3);
    assert_eq!(decide("exec cargo test --offline").effect, ALLOW);
    let refused = decide("exec cargo publish");
    assert_eq!(refused.effect, DENY);
    assert_eq!(refused.to_string(), "deny: rule `default exec = deny` of layer `policy file` (p.toml)");
    assert_eq!(decide("exec sh -c cargo").effect, DENY);
}

#[test]
fn the_strictest_touch_decides_and_is_named() {
    let policy =
        Policy::preset(Preset::Workspace).with(Layer::named("mine").rule(ASK, "write docs/").unwrap());
    let touches = ["read a", "write docs/x", "write src/a", "write .git/config", "write docs/y"].map(touch);
    let decision = policy.decide(&touches, Rung::R3);
    assert_eq!((decision.effect, decision.touch), (DENY, 3));
    assert_eq!(decision.rule, "deny write **/.git");
    let decision = policy.decide(&touches[..3], Rung::R3);
    assert_eq!((decision.effect, decision.touch, &*decision.layer), (ASK, 1, "mine"));
    assert_eq!(policy.decide(&[], Rung::R0).effect, ALLOW);
}

/// The contract orders its own gate: what policy would ask about is answered, what it denies is not.
#[test]
fn an_order_answers_a_question_and_does_not_lift_a_denial() {
    let gate = [touch("exec check all")];
    for rung in [Rung::R0, Rung::R3] {
        let strict = Policy::preset(Preset::Strict);
        assert_eq!(strict.decide(&gate, rung).effect, ASK);
        assert_eq!(strict.decide_ordered(&gate, rung, Ordered::Gate).effect, ALLOW);
        let denied = strict.with(Layer::named("mine").rule(DENY, "exec check").unwrap());
        assert_eq!(denied.decide_ordered(&gate, rung, Ordered::Gate).effect, DENY);
    }
}

#[test]
fn whether_nothing_may_be_written() {
    assert!(Policy::preset(Preset::ReadOnly).forbids_all_writes());
    let some = Layer::named("mine").rule(ASK, "write docs/").unwrap();
    assert!(!Policy::preset(Preset::ReadOnly).with(some).forbids_all_writes());
    assert!(!Policy::preset(Preset::Workspace).forbids_all_writes());
    assert!(!Policy::preset(Preset::Strict).forbids_all_writes());
}

#[test]
fn presets() {
    let touches = [
        "read src/lib.rs",
        "read .",
        "read .env",
        "read a/.env.local",
        "read id_rsa.pub",
        "read k/server.pem",
        "read .ssh/config",
        "read .git/config",
        "write src/lib.rs",
        "write .git/hooks/pre-commit",
        "write sub/.git",
        "write .gitignore",
        "write .gitmodules",
        "write .cargo/config.toml",
        "write a/.cargo/config",
        "write .provost/state",
        "write x/provost.toml",
        "write .env",
        "exec cargo test",
        "exec rm -rf /",
        "net example.org:443",
        "call mail",
        "spawn helper",
    ];
    let mut out = String::new();
    for preset in Preset::ALL {
        let policy = Policy::preset(preset);
        writeln!(out, "{preset}: {:?}, at least {}", policy.containment, policy.at_least).unwrap();
        for text in touches {
            let effects = [Rung::R0, Rung::R1, Rung::R2, Rung::R3]
                .map(|rung| policy.decide(&[touch(text)], rung).effect.to_string());
            let by = policy.decide(&[touch(text)], Rung::R3);
            writeln!(out, "  {text:<28} {:<24} {} ({})", effects.join(" "), by.rule, by.layer).unwrap();
        }
    }
    insta::assert_snapshot!("presets", out);
}

#[test]
fn i9_a_policy_file_that_cannot_be_read_says_where_and_why() {
    let files = [
        "allow = [\"exec cargo test*\"]\nalow = []\n",
        "preset = \"workspace\"\nallow = [\n  \"exec cargo test*\",\n  \"cargo build\",\n]\n",
        "preset = \"workspce\"\n",
        "deny = \"exec rm\"\n",
        "at_least = \"R9\"\n",
        "[default]\nexec = \"maybe\"\n",
        "[default]\nexecute = \"ask\"\n",
        "containment = \"strong\"\n",
        "allow = [\n",
        "ask = [\"exec sh 'x\"]\n",
        "deny = [\"write [a\"]\n",
        "deny = [\"read /etc/\"]\n",
    ];
    let mut out = String::new();
    for file in files {
        let error = Policy::from_toml(file, "provost.toml").unwrap_err();
        writeln!(out, "{}\n--\n{error}\n========", file.trim_end()).unwrap();
    }
    insta::assert_snapshot!("bad_files", out);
}

#[test]
fn a_policy_file_builds_on_its_preset() {
    let text =
        "preset = \"read-only\"\nat_least = \"R2\"\ncontainment = \"limits_only\"\nask = [\"write docs/\"]\n";
    let policy = Policy::from_toml(text, "p.toml").unwrap();
    assert_eq!((policy.at_least, policy.layers.len()), (Rung::R2, 4));
    let decision = policy.decide(&[touch("write docs/a")], Rung::R3);
    assert_eq!((decision.effect, decision.source.as_deref()), (ASK, Some("p.toml")));
    let empty = Policy::from_toml("", "p.toml").unwrap();
    assert_eq!(empty.decide(&[touch("exec x")], Rung::R3).effect, ASK, "without a preset it is strict");
}

const RULES: [&str; 16] = [
    "read *",
    "read src/",
    "write *",
    "write src/**",
    "write src/a",
    "write *.md",
    "exec *",
    "exec rm",
    "exec make*",
    "exec make",
    "exec git push",
    "net *",
    "net example.org:443",
    "call *",
    "spawn *",
    "write [a-m]*",
];
const TOUCHES: [&str; 14] = [
    "read src/a",
    "read README.md",
    "write src/a",
    "write README.md",
    "write z",
    "exec make all",
    "exec make",
    "exec rm x",
    "exec /bin/rm x",
    "exec git push",
    "net example.org:443",
    "net a:1",
    "call mail",
    "spawn b",
];

fn rules(effects: &'static [Effect]) -> impl Strategy<Value = Vec<Rule>> {
    let rule = (prop::sample::select(effects), prop::sample::select(&RULES[..]));
    prop::collection::vec(
        rule.prop_map(|(effect, text)| Rule { effect, pattern: text.parse().unwrap() }),
        0..5,
    )
}

fn layers(effects: &'static [Effect]) -> impl Strategy<Value = Layer> {
    let default = prop::sample::select(vec![Default::Allow, Default::Contained, Default::Ask, Default::Deny]);
    let defaults = prop::collection::btree_map(prop::sample::select(&Access::ALL[..]), default, 0..3);
    (rules(effects), defaults).prop_map(|(rules, defaults)| {
        let mut layer = Layer::named("made");
        (layer.rules, layer.defaults) = (rules, defaults);
        layer
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let layers = prop::collection::vec(layers(&[ALLOW, ASK, DENY]), 0..4);
    (prop::sample::select(&Preset::ALL[..]), layers)
        .prop_map(|(preset, more)| more.into_iter().fold(Policy::preset(preset), Policy::with))
}

fn acts() -> impl Strategy<Value = Vec<Touch>> {
    prop::collection::vec(prop::sample::select(&TOUCHES[..]).prop_map(touch), 0..4)
}

fn rungs() -> impl Strategy<Value = Rung> {
    prop::sample::select(vec![Rung::R0, Rung::R1, Rung::R2, Rung::R3])
}

fn without_defaults(mut rules: Layer) -> Layer {
    rules.defaults.clear();
    rules
}

proptest! {
    #![proptest_config(cases(150))]

    /// The docs in one line: deny beats ask beats allow across all layers; no match is the last default set.
    #[test]
    fn deny_beats_ask_beats_allow_across_all_layers(policy in policies(), act in acts(), rung in rungs()) {
        // What a command starts may be covered by the command's own allowance: that has a test of its own.
        let first = act.first().filter(|touch| touch.access() == Access::Exec);
        let covers = first.is_some_and(|touch| policy.decide(std::slice::from_ref(touch), rung).effect == ALLOW);
        prop_assume!(act.len() < 2 || !covers);
        let mut strictest = ALLOW;
        for touch in &act {
            let decides = |effect| policy.layers.iter().flat_map(|layer| &layer.rules).any(|rule| {
                rule.effect == effect && hits(effect, rule.pattern.as_str(), touch)
            });
            let default = policy.layers.iter().rev().find_map(|layer| layer.defaults.get(&touch.access()));
            let effect = match default {
                _ if decides(DENY) => DENY,
                _ if decides(ASK) => ASK,
                _ if decides(ALLOW) => ALLOW,
                Some(Default::Allow) => ALLOW,
                Some(Default::Contained) if rung >= Rung::R2 => ALLOW,
                Some(Default::Contained | Default::Ask) | None => ASK,
                Some(Default::Deny) => DENY,
            };
            strictest = strictest.max(effect);
        }
        let decision = policy.decide(&act, rung);
        prop_assert_eq!(decision.effect, strictest);
        prop_assert!(act.is_empty() || (decision.touch as usize) < act.len());
    }

    #[test]
    fn the_order_of_layers_and_rules_means_nothing_to_rules(
        policy in policies(), act in acts(), rung in rungs(), turn in any::<prop::sample::Index>(),
    ) {
        // Defaults do have an order, so they stay where they are: rules move among the layers.
        let mut rules: Vec<Rule> = policy.layers.iter().flat_map(|layer| layer.rules.clone()).collect();
        if !rules.is_empty() {
            let by = turn.index(rules.len());
            rules.rotate_left(by);
        }
        rules.reverse();
        let mut moved = policy.clone();
        for layer in &mut moved.layers {
            layer.rules.clear();
        }
        let last = moved.layers.len() - 1;
        moved.layers[last].rules = rules;
        prop_assert_eq!(moved.decide(&act, rung).effect, policy.decide(&act, rung).effect);
    }

    /// I5: whoever may add only denials can only narrow.
    #[test]
    fn i5_adding_denials_never_widens(
        policy in policies(), layer in layers(&[DENY]), act in acts(), rung in rungs(),
    ) {
        let before = policy.decide(&act, rung).effect;
        let ordered = policy.decide_ordered(&act, rung, Ordered::Gate).effect;
        let narrowed = policy.with(without_defaults(layer));
        prop_assert!(narrowed.decide(&act, rung).effect >= before);
        prop_assert!(narrowed.decide_ordered(&act, rung, Ordered::Gate).effect >= ordered);
    }

    /// An ask rule never allows, and never lifts what a rule denies. It does speak before a default of deny, as an allow
    /// rule does: so a layer that may only narrow (a workspace's own file) must not bring one. See the test below.
    #[test]
    fn i5_adding_questions_widens_nothing_but_a_default_of_deny(
        policy in policies(), layer in layers(&[ASK, DENY]), act in acts(), rung in rungs(),
    ) {
        let before = policy.decide(&act, rung);
        let after = policy.clone().with(without_defaults(layer)).decide(&act, rung);
        prop_assert!(after.effect >= before.effect.min(ASK));
        if after.effect < before.effect {
            prop_assert!(before.rule.starts_with("default ") && before.rule.ends_with(" = deny"), "{}", before);
        }
    }

    #[test]
    fn stronger_containment_never_narrows(policy in policies(), act in acts()) {
        let effects = [Rung::R0, Rung::R1, Rung::R2, Rung::R3].map(|rung| policy.decide(&act, rung).effect);
        prop_assert!(effects.is_sorted_by(|weaker, stronger| weaker >= stronger), "{:?}", effects);
    }

    /// In the journal a policy is JSON: what is read back decides the same, with the same words.
    #[test]
    fn i3_a_policy_from_json_decides_the_same(policy in policies(), act in acts(), rung in rungs()) {
        let json = serde_json::to_string(&policy).unwrap();
        let read: Policy = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&read, &policy);
        prop_assert_eq!(read.decide(&act, rung), policy.decide(&act, rung));
    }

    #[test]
    fn i9_any_text_is_a_rule_or_a_named_error(text in "(read|write|exec|net|call|spawn)? ?[a-z*?\\[\\]{}!,/.:'\"\\\\# äé-]{0,16}") {
        if let Ok(pattern) = text.parse::<provost_core::policy::Pattern>() {
            let again: provost_core::policy::Pattern = pattern.as_str().parse().unwrap();
            prop_assert_eq!(again.as_str(), pattern.as_str());
            prop_assert_eq!(pattern.as_str(), format!("{} {}", pattern.access(), pattern.target()));
            // Looking for a match must not panic either.
            for touch in TOUCHES.map(touch) {
                hits(DENY, pattern.as_str(), &touch);
            }
        }
    }
}

/// Written down so that nobody builds on the contrary: see the property above.
#[test]
fn an_ask_rule_speaks_before_a_default_of_deny() {
    let closed = Policy::preset(Preset::ReadOnly);
    assert_eq!(closed.decide(&[touch("write a")], Rung::R3).effect, DENY);
    let asks = closed.with(Layer::named("mine").rule(ASK, "write a").unwrap());
    assert_eq!(asks.decide(&[touch("write a")], Rung::R3).effect, ASK);
}

#[test]
fn what_commands_may_do_to_git_is_said_and_its_rules_follow() {
    let of = |text: &str| Policy::from_toml(text, "provost.toml");
    let denies = |policy: &Policy, path: &str| policy.guards_writing(&RelPath::parse(path).unwrap());
    for (text, git, guarded) in [
        ("preset = \"workspace\"", GitAccess::None, true),
        ("preset = \"workspace\"\ngit = \"none\"", GitAccess::None, true),
        ("preset = \"workspace\"\ngit = \"commit\"", GitAccess::Commit, true),
        ("preset = \"workspace\"\ngit = \"full\"", GitAccess::Full, false),
        ("preset = \"full-access\"", GitAccess::Full, false),
        ("preset = \"full-access\"\ngit = \"commit\"", GitAccess::Commit, true),
        ("preset = \"full-access\"\ngit = \"none\"", GitAccess::None, true),
    ] {
        let policy = of(text).unwrap();
        assert_eq!(policy.git, git, "{text}");
        assert_eq!(policy.lets_commit(), git == GitAccess::Commit, "{text}");
        for path in [".git", ".git/config", "sub/.git/hooks/pre-commit"] {
            assert_eq!(denies(&policy, path), guarded, "{text}: {path}");
        }
    }
    // A rule of one's own stays, whatever is said of git; so do the other control files.
    let own = of("preset = \"workspace\"\ngit = \"full\"\ndeny = [\"write **/.git/**\"]").unwrap();
    assert!(denies(&own, ".git/config") && denies(&own, ".gitmodules"));
    // Where a commit could not go with its changes it is not promised.
    let staged = of("preset = \"workspace\"\ngit = \"commit\"\nworkspace = \"staged\"").unwrap_err();
    assert!(staged.to_string().starts_with("provost.toml:2: "), "{staged}");
    let read_only = of("preset = \"read-only\"\ngit = \"commit\"").unwrap();
    assert!(!read_only.lets_commit());
}

#[test]
fn caps_are_read_in_the_units_of_people() {
    let policy = Policy::from_toml("[caps]\nmemory_mib = 512\ncpu_seconds = 90\n", "p.toml").unwrap();
    let caps = Caps { memory_bytes: Some(512 << 20), cpu_ms: Some(90_000), ..Caps::default() };
    assert_eq!(policy.caps, caps);
    assert_eq!(Policy::from_toml("", "p.toml").unwrap().caps, Caps::default());
    // Old journals know none.
    let written = serde_json::to_value(Policy::preset(Preset::Workspace)).unwrap();
    assert_eq!(written.get("caps"), None);
    for bad in ["memory_mib = 0", "memory_mib = 9223372036854775807", "memory_mib = -1", "memory = 5"] {
        let error = Policy::from_toml(&format!("\n[caps]\n{bad}\n"), "p.toml").unwrap_err().to_string();
        assert!(error.starts_with("p.toml"), "{error}");
    }
}
