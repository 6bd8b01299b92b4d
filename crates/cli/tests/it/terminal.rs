//! A person at a terminal: what the prompt shows and takes, Ctrl-C, a terminal that goes away.

use std::fs;

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::script::{call, exec, script, sh, submit, write};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, bodies, eventually, finish, text};

/// Runs a command in a terminal of its own. Its first argument is what is said there: pairs of a text to wait for and
/// what is typed then. Its output is what stood on the terminal, its exit code the command's. What hangs is ended.
pub(crate) const DRIVER: &str = r#"
import json, os, pty, select, signal, sys, time

talk, command = json.loads(sys.argv[1]), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
seen, deadline = b"", time.monotonic() + 60

def more():
    global seen
    if time.monotonic() > deadline:
        os.kill(child, signal.SIGKILL)
        sys.stdout.buffer.write(seen)
        sys.exit("it did not end")
    if select.select([terminal], [], [], 1)[0]:
        try:
            got = os.read(terminal, 65536)
        except OSError:  # nobody holds the other side any more
            return False
        seen += got
        return bool(got)
    return True

start = 0
for wanted, typed in talk:
    while (at := seen.find(wanted.encode(), start)) < 0 and more():
        pass
    if at < 0:
        break
    start = at + len(wanted.encode())
    os.write(terminal, typed.encode())
while more():
    pass
_, status = os.waitpid(child, 0)
sys.stdout.buffer.write(seen)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(status))
"#;

const PROMPT: &str = "allow? [y]es / [n]o / [l]ater: ";

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new(steps: impl IntoIterator<Item = Value>) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\ntwo\nthree\n"), ("sub/b.txt", "b\n")]);
        let model = env.rehearse(&script(steps.into_iter().chain([submit()])));
        Self { env, repo, model }
    }

    fn args(&self, more: &[&str]) -> Vec<String> {
        let mut args = self.env.run_args(&self.repo.path, &self.model, more);
        args.retain(|arg| arg != "--json");
        args
    }

    /// `provost run` at a terminal, where this is said.
    fn talk(&self, talk: &[(&str, &str)], more: &[&str]) -> Ran {
        let mut command = self.env.command("python3");
        command.args(["-c", DRIVER, &json!(talk).to_string(), env!("CARGO_BIN_EXE_provost")]);
        command.args(self.args(more));
        finish(command)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.repo.path.join(name)).unwrap_or_default()
    }
}

/// What stood on the terminal, line by line, without what was drawn over.
fn shown(ran: &Ran) -> String {
    let text = ran.stdout.replace("\r\n", "\n");
    text.split('\n')
        .map(|line| line.rsplit("\x1b[2K").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn ctrl_c_at_the_prompt_ends_the_run_at_once_and_it_can_be_resumed() {
    let case = Case::new([write("a.txt", "mine\n")]);
    let ran = case.talk(&[(PROMPT, "\x03")], &["--policy", "strict"]).code(130);
    let run = case.env.only_run();
    assert!(shown(&ran).contains(&format!("interrupted. `provost resume {run}` goes on from here")), "{ran}");
    assert_eq!(case.file("a.txt"), "one\ntwo\nthree\n");
    case.env.assert_no_processes_but(&case.model);
    let _ = case.env.provost(["resume", &run, "--approve", "0"]).code(0);
}

#[test]
fn a_word_that_is_none_is_asked_for_again() {
    let case = Case::new([write("new.txt", "x\n")]);
    let talk = [(PROMPT, "?\n"), (PROMPT, "perhaps\n"), (PROMPT, "\n"), (PROMPT, "YES\n")];
    let ran = case.talk(&talk, &["--policy", "strict"]).code(0);
    assert_eq!(shown(&ran).matches("  yes: it happens. no: it does not").count(), 3, "{ran}");
    let journal = case.env.journal(&case.env.only_run());
    let approved: Vec<String> =
        bodies(&journal, "act.approved").iter().map(|body| text(&body["by"])).collect();
    assert_eq!((approved, case.file("new.txt").as_str()), (vec!["terminal".to_owned()], "x\n"));
    // Later, and the end of the input, leave the act as it is.
    for typed in ["later\n", "\x04"] {
        let case = Case::new([write("new.txt", "x\n")]);
        let _ = case.talk(&[(PROMPT, typed)], &["--policy", "strict"]).code(5);
        assert_eq!(case.file("new.txt"), "");
    }
}

#[test]
fn the_prompt_shows_what_the_act_would_do() {
    let long = (1..=100).fold(String::new(), |text, n| text + &n.to_string() + "\n");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n--- a/sub/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n";
    let steps = [
        call(
            "edit_file",
            json!({ "path": "a.txt", "old": "two\n", "new": "two\u{1b}[2K and\u{202e} a half\n" }),
        ),
        call("edit_file", json!({ "path": "a.txt", "old": "no such text\n", "new": "text\n" })),
        write("new.txt", &format!("{}\n\tend\n", "x".repeat(250))),
        write("a.txt", &long),
        call("apply_patch", json!({ "patch": patch })),
        call("exec", json!({ "argv": ["sh", "-c", "echo hi; rm b.txt"], "cwd": "sub" })),
    ];
    let case = Case::new(steps);
    let talk = [(PROMPT, "n\n"); 6];
    let ran = case.talk(&talk, &["--policy", "strict"]).code(0);
    let shown = shown(&ran);
    let prompts: Vec<&str> = shown
        .split("\nact ")
        .skip(1)
        .map(|prompt| prompt.split("  (ask: ").next().unwrap_or_default())
        .collect();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"the program is `/[^`]*/sh`", "the program is `[BIN]/sh`");
    settings.bind(|| assert_snapshot!(prompts.join("\n")));
    assert_eq!(case.file("a.txt"), "one\ntwo\nthree\n", "nothing of it happened");
}

#[test]
fn what_is_under_way_is_cut_once() {
    let case = Case::new([sh(&format!("true {}", "long ".repeat(30)))]);
    let ran = case.talk(&[], &[]).code(0);
    assert!(ran.stdout.contains('…') && !ran.stdout.contains("… …"), "{ran}");
    // The control: a title that is whole goes on with a mark.
    let case = Case::new([exec(&["true"])]);
    let ran = case.talk(&[], &[]).code(0);
    assert!(ran.stdout.contains("exec true …"), "{ran}");
}

#[test]
fn a_terminal_that_goes_away_ends_the_run_like_ctrl_c() {
    let case = Case::new([sh("touch flag; sleep 900")]);
    let driver = case.env.start(case.args(&[]));
    eventually("the command runs", || case.repo.path.join("flag").exists());
    driver.signal(Signal::HUP);
    let ran = driver.wait().code(130);
    assert!(ran.stdout.contains("interrupted"), "{ran}");
    case.env.assert_no_processes_but(&case.model);
    // The control: under `nohup` it goes on.
    let case = Case::new([sh("touch flag; until test -e go; do sleep 0.01; done")]);
    let mut command = case.env.command("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_provost")])
        .args(case.args(&[]));
    let driver = crate::support::Running::start(command);
    eventually("the command runs", || case.repo.path.join("flag").exists());
    driver.signal(Signal::HUP);
    case.repo.write("go", "");
    let _ = driver.wait().code(0);
}
