//! Its environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use proptest::prelude::*;
use provost_model::agent_runtime::environment::{Asked, BadVariable, NAMES, Settings, read};

fn variables(extra: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    let base =
        [("AGENT_TASK", "fix it"), ("AGENT_ALLOWED", "cargo, git,,cargo"), ("AGENT_VERIFY", "cargo test")];
    let mut all: BTreeMap<OsString, OsString> = base.map(|(name, value)| (name.into(), value.into())).into();
    all.extend(extra.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
    all
}

fn good(extra: &[(&str, &str)]) -> Settings {
    read(&variables(extra)).unwrap()
}

/// The one thing that is wrong.
fn bad(extra: &[(&str, &str)]) -> BadVariable {
    let mut all = read(&variables(extra)).unwrap_err().0;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn the_defaults_are_the_known_ones() {
    let settings = good(&[("PATH", "/bin"), ("AGY_BIN", ""), ("AGENT_FAKE_PROVIDER", "")]);
    assert_eq!(settings.task, "fix it");
    assert_eq!(settings.allowed, ["cargo", "git"]);
    assert_eq!(settings.verify, [argv(&["cargo", "test"])]);
    assert_eq!((settings.max_steps, settings.timeout), (8, Duration::from_mins(2)));
    assert_eq!((settings.max_observation_bytes, settings.max_output_bytes), (16_384, 65_536));
    assert_eq!(
        settings.asked,
        Asked::Agy { program: "agy".into(), model: "gemini-3.8-flash-low".to_owned() }
    );
    assert_eq!((settings.work_dir, settings.unknown), (None, Vec::new()));
}

#[test]
fn each_variable_counts_and_a_script_stands_before_agy() {
    let settings = good(&[
        ("AGENT_MAX_STEPS", "6"),
        ("AGENT_TIMEOUT_SECS", " 2 "),
        ("AGENT_MAX_OBSERVATION_BYTES", "1"),
        ("AGENT_MAX_OUTPUT_BYTES", "99"),
        ("AGY_WORK_DIR", "/w"),
        ("AGY_MODEL", "m"),
        ("AGY_BIN", "./agy"),
        ("AGENT_VERFIY", "x"),
    ]);
    assert_eq!((settings.max_steps, settings.timeout), (6, Duration::from_secs(2)));
    assert_eq!((settings.max_observation_bytes, settings.max_output_bytes), (1, 99));
    assert_eq!(settings.asked, Asked::Agy { program: "./agy".into(), model: "m".to_owned() });
    assert_eq!(settings.work_dir.unwrap().to_str(), Some("/w"));
    assert_eq!(settings.unknown, ["AGENT_VERFIY"]);
    let script = good(&[("AGENT_FAKE_PROVIDER", "./fake.sh"), ("AGY_BIN", "agy")]);
    assert_eq!(script.asked, Asked::Script { program: "./fake.sh".into() });
}

#[test]
fn verification_commands_have_three_forms() {
    for (text, commands) in [
        ("cargo test --locked", vec![argv(&["cargo", "test", "--locked"])]),
        (
            " cargo test ; git diff --check;",
            vec![argv(&["cargo", "test"]), argv(&["git", "diff", "--check"])],
        ),
        // Without quotes every character stands for itself, as it always did.
        (r"git grep \d #x", vec![argv(&["git", "grep", r"\d", "#x"])]),
        (
            r#"git grep 'a; b' ; cargo "te st""#,
            vec![argv(&["git", "grep", "a; b"]), argv(&["cargo", "te st"])],
        ),
        (
            r#"[["cargo","test","a b"],["git","status"]]"#,
            vec![argv(&["cargo", "test", "a b"]), argv(&["git", "status"])],
        ),
    ] {
        assert_eq!(good(&[("AGENT_VERIFY", text)]).verify, commands, "{text}");
    }
}

/// A20: the form that the peer's own read-me gives.
#[test]
fn a_command_taken_apart_by_semicolons_is_explained() {
    let told = bad(&[("AGENT_VERIFY", "cargo;test;--locked")]);
    assert!(told.problem.starts_with("is 3 commands, `cargo`, `test`, `--locked`"), "{told}");
    assert!(told.hint.starts_with("write AGENT_VERIFY=\"cargo test --locked\""), "{told}");
    let told = bad(&[("AGENT_VERIFY", "cargo;test")]);
    assert!(told.hint.contains("\"cargo test\""), "{told}");
    let told = bad(&[("AGENT_VERIFY", "cargo test;--locked; git status")]);
    assert!(told.hint.contains("\"cargo test --locked; git status\""), "{told}");
    // `test` is a program too; whoever allows it means it.
    let both = good(&[("AGENT_VERIFY", "cargo;test"), ("AGENT_ALLOWED", "cargo,test")]);
    assert_eq!(both.verify, [argv(&["cargo"]), argv(&["test"])]);
}

#[test]
fn what_is_wrong_names_variable_value_and_remedy() {
    for (name, value, problem, hint) in [
        ("AGENT_TASK", " \n", "is blank", "say in it"),
        ("AGENT_VERIFY", " ", "is empty", "AGENT_VERIFY=\"cargo test --locked\""),
        ("AGENT_VERIFY", ";;", "no command", "cargo test"),
        (
            "AGENT_VERIFY",
            "make check",
            "`make` is not in AGENT_ALLOWED (cargo,git)",
            "AGENT_ALLOWED=cargo,git,make",
        ),
        ("AGENT_VERIFY", "/usr/bin/cargo test", "is a path", "bare name"),
        ("AGENT_VERIFY", "cargo test && git diff", "`&&`", "put `;` between"),
        ("AGENT_VERIFY", "cargo 'test", "quote", "close"),
        ("AGENT_VERIFY", r#"["cargo","test"]"#, "list of words", r#"'[["cargo","test"]]'"#),
        ("AGENT_VERIFY", "[[]]", "empty list", "list of lists"),
        ("AGENT_VERIFY", "[1]", "begins like JSON", "list of lists"),
        ("AGENT_ALLOWED", "cargo,/bin/sh", "path `/bin/sh`", "`sh`"),
        ("AGENT_ALLOWED", "cargo,git diff", "several words", "comma"),
        ("AGENT_MAX_STEPS", "0", "not such a number", "from 1 to 4294967295"),
        ("AGENT_TIMEOUT_SECS", "2m", "not such a number", "leave it out for 120"),
        ("AGENT_MAX_OUTPUT_BYTES", "-1", "not such a number", "65536"),
    ] {
        let told = bad(&[(name, value)]);
        assert!(told.name == name && told.problem.contains(problem) && told.hint.contains(hint), "{told}");
        assert!(told.holds.is_some());
    }
}

#[test]
fn everything_wrong_is_told_at_once() {
    let told = read(&BTreeMap::new()).unwrap_err();
    let names: Vec<&str> = told.0.iter().map(|bad| bad.name).collect();
    assert_eq!(names, ["AGENT_TASK", "AGENT_ALLOWED", "AGENT_VERIFY"]);
    assert_eq!(told.to_string().lines().count(), 3);
    let mut odd = variables(&[("AGENT_MAX_STEPS", "\u{1b}[2J")]);
    odd.insert("AGENT_TASK".into(), OsString::from_vec(vec![0xff, b'x']));
    let told = read(&odd).unwrap_err();
    assert!(told.0[0].problem.contains("UTF-8"), "{told}");
    assert!(!told.to_string().contains('\u{1b}'), "no escape sequence reaches a terminal");
    let told = bad(&[("AGENT_VERIFY", "'\u{1b}[2J\n'")]);
    assert!(!told.to_string().contains(['\u{1b}', '\n']), "{told:?}");
}

proptest! {
    #[test]
    fn any_values_give_settings_that_hold_or_words(
        values in prop::collection::vec((0..NAMES.len(), "[ -~\n\u{1b}é;'\"\\[\\],]{0,20}"), 0..8),
    ) {
        let mut all = variables(&[]);
        all.extend(values.iter().map(|(name, value)| (OsString::from(NAMES[*name]), OsString::from(value))));
        match read(&all) {
            Ok(settings) => {
                prop_assert!(!settings.task.trim().is_empty() && !settings.verify.is_empty());
                prop_assert!(settings.max_steps > 0 && !settings.timeout.is_zero());
                for command in &settings.verify {
                    prop_assert!(settings.allowed.contains(&command[0]));
                }
            }
            Err(told) => {
                prop_assert!(!told.0.is_empty());
                prop_assert_eq!(told.to_string().lines().count(), told.0.len(), "a line each: {}", told);
            }
        }
    }
}
