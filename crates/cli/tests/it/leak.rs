//! I8: no key and no credential of the host reaches a contained process, a model, an event, a bundle or the screen.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Running, TestEnvironment, files_beneath, files_with, finish, text};

const KEY: &str = "sk-canary-4e81-key";
const TOKEN: &str = "canary-b02f-token";

fn shell(line: &str) -> Value {
    json!({ "call": { "name": "exec", "arguments": { "argv": ["sh", "-c", line] } } })
}

/// Commands that print all of their environment, and all that they can see of anybody's.
fn script() -> Value {
    json!({ "steps": [
        shell("env; echo end-of-env"),
        shell("cat /proc/*/environ /proc/*/cmdline /proc/self/environ 2>/dev/null | tr '\\0' '\\n'; echo end-of-proc"),
        shell("cat \"$HOME\"/* /root/* ../home/* 2>/dev/null; ls -la .. 2>&1; echo end-of-home"),
        { "call": { "name": "submit", "arguments": { "summary": "looked around" } } },
    ] })
}

/// Does the whole with credentials in the environment, as whoever `disguise` makes the driver run as.
fn assert_nothing_leaks(env: &TestEnvironment, disguise: impl Fn(Command) -> Command) {
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    for path in [env.at("repository"), env.at("home"), env.at("state"), env.at("config"), env.at("tmp")] {
        give_away(env, &path);
    }
    let model = env.rehearse(&script());
    let mut command = env.provost_command(env.run_args(&repo.path, &model, &["--export", "state/bundle"]));
    command.env("OPENAI_API_KEY", KEY).env("FOO_TOKEN", TOKEN).env("SSH_AUTH_SOCK", format!("/tmp/{TOKEN}"));
    let ran = finish(disguise(command)).code(0);

    // Control: the commands ran and what they printed reached the model; so did an innocent part of the environment.
    let requests = fs::read_to_string(model.log()).unwrap();
    for end in ["end-of-env", "end-of-proc", "end-of-home", "LANG=C.UTF-8"] {
        assert!(requests.contains(end), "{end}: {requests}");
    }
    // Control: the key was used, in the one header that carries it, which the rehearsal does not write down.
    assert!(requests.contains("authorization") && requests.contains("[redacted]"), "{requests}");

    for canary in [KEY, TOKEN] {
        assert_eq!(files_with(model.log(), canary), Vec::<PathBuf>::new());
        assert_eq!(files_with(env.root(), canary), Vec::<PathBuf>::new(), "store, spool, bundle, workspace");
        assert!(!ran.stdout.contains(canary) && !ran.stderr.contains(canary), "{ran}");
    }
    assert!(files_beneath(env.root()).contains(&env.store()));
    assert!(env.at("state/bundle/result.dsse.json").is_file());

    let read = |args: &[&str]| finish(disguise(env.provost_command(args))).code(0);
    let run = text(&ran.last()["run"]);
    for args in [["show", &run].as_slice(), &["log", &run], &["log", &run, "--json"]] {
        let said = read(args);
        assert!(!said.stdout.contains(KEY) && !said.stdout.contains(TOKEN), "{said}");
    }
}

/// Lets the ordinary user have what the test made, if the test is root's.
fn give_away(env: &TestEnvironment, path: &std::path::Path) {
    if rustix::process::getuid().is_root() && env.at("ordinary").exists() {
        let mut chown = Command::new("chown");
        chown.args(["-R", "1000:1000"]).arg(path);
        let _ = finish(chown).code(0);
    }
}

#[test]
fn i8_credentials_of_the_environment_reach_nothing() {
    assert_nothing_leaks(&TestEnvironment::new(), |command| command);
}

#[test]
fn i8_nor_do_they_for_an_ordinary_user() {
    if !rustix::process::getuid().is_root() {
        // Then the test above is that already.
        return;
    }
    let env = TestEnvironment::new();
    fs::set_permissions(env.root(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where it is built an ordinary user may not read it.
    let binary = env.at("ordinary");
    fs::copy(env!("CARGO_BIN_EXE_provost"), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    assert_nothing_leaks(&env, |original| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=1000",
            "--regid=1000",
            "--clear-groups",
            "--bounding-set=-all",
            "--no-new-privs",
        ]);
        command.arg("--").arg(&binary).args(original.get_args()).env_clear().current_dir(env.root());
        for (name, value) in original.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        // Toolchains of root's are not an ordinary user's.
        command
            .env_remove("CARGO_HOME")
            .env_remove("RUSTUP_HOME")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    });
    // It ran as who it should have.
    assert_eq!(fs::metadata(env.store()).unwrap().uid(), 1000);
}

/// A process of the same user, with a credential in its environment, whose number the command knows.
#[test]
fn i8_a_command_cannot_look_into_other_processes() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&json!({ "steps": [
        shell("cat pid.txt; cat \"/proc/$(cat pid.txt)/environ\" \"/proc/$(cat pid.txt)/cmdline\"; true"),
    ], "final": "done" }));
    let mut command = env.provost_command(env.run_args(&repo.path, &model, &[]));
    command.env("OPENAI_API_KEY", KEY);
    let witness = Running::start({
        let mut sleep = env.command("sleep");
        sleep.arg("900").env("FOO_TOKEN", TOKEN);
        sleep
    });
    let environ = fs::read(format!("/proc/{}/environ", witness.pid())).unwrap();
    assert!(crate::support::contains(&environ, TOKEN.as_bytes()), "control: from outside it can be read");
    repo.write("pid.txt", format!("{}\n", witness.pid()));
    let _ = finish(command).code(0);
    let requests = fs::read_to_string(model.log()).unwrap();
    assert!(requests.contains(&witness.pid().to_string()), "the command ran");
    for canary in [KEY, TOKEN] {
        assert_eq!(files_with(&env.at("state"), canary), Vec::<PathBuf>::new());
        assert!(!requests.contains(canary), "{requests}");
    }
}

#[test]
fn i8_a_key_in_the_base_url_is_not_written_down() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let dir = repo.path.display().to_string();
    let url = format!("http://user:{KEY}@127.0.0.1:9/v1");
    let ran = env.provost(["run", "x", "-C", &dir, "--model", "m", "--base-url", &url, "--json"]).code(2);
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{ran}");
    assert_eq!(files_with(env.root(), KEY), Vec::<PathBuf>::new());
}
