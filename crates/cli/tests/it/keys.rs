//! Keys that are in no variable: the user's own file says where each is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use crate::script::{script, sh, submit};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, files_with, finish};

const KEY: &str = "sk-canary-77ab-key";

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script([sh("echo two > a.txt"), submit(), submit(), submit(), submit()]));
        Self { env, repo, model }
    }

    fn program(&self, folder: PathBuf, script: &str) -> String {
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("give");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program.display().to_string()
    }

    fn says(&self, keys: &str) {
        let folder = self.env.at("config/provost");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("keys.toml"), keys).unwrap();
    }

    fn run(&self) -> Ran {
        let args = self.env.run_args(&self.repo.path, &self.model, &["--key-env", "SOME_KEY"]);
        finish(self.env.provost_command(args))
    }
}

#[test]
fn i8_a_key_comes_from_a_program_or_a_file_and_is_nowhere_else() {
    let case = Case::new();
    let bin = case.env.root().parent().unwrap().join(format!("bin-of-{}", std::process::id()));
    // The key is made of two parts, so that finding it whole says that somebody wrote it down.
    let (first, rest) = KEY.split_at(9);
    let program = case.program(bin.clone(), &format!("[ \"$1\" = key ] && echo ' '{first}{rest:?}"));
    // The control.
    let _ = case.run().code(2).says("`SOME_KEY` holds no key");
    case.says(&format!("[SOME_KEY]\ncommand = [{program:?}, \"key\"]\n"));
    let ran = case.run().code(0);
    let requests = fs::read_to_string(case.model.log()).unwrap();
    assert!(requests.contains("authorization") && requests.contains("[redacted]"), "{requests}");
    assert_eq!(files_with(case.model.log(), KEY), Vec::<PathBuf>::new());
    assert_eq!(files_with(case.env.root(), KEY), Vec::<PathBuf>::new());
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{ran}");

    let file = bin.join("key");
    fs::write(&file, format!("{KEY}\n")).unwrap();
    case.says(&format!("[SOME_KEY]\nfile = {file:?}\n"));
    let _ = case.run().code(0);
    // What the environment has goes before.
    case.says("[SOME_KEY]\nfile = \"/nowhere\"\n");
    let args = case.env.run_args(&case.repo.path, &case.model, &["--key-env", "SOME_KEY"]);
    let mut command = case.env.provost_command(args);
    command.env("SOME_KEY", KEY);
    let _ = finish(command).code(0);
    fs::remove_dir_all(bin).unwrap();
}

#[test]
fn i8_a_key_that_cannot_be_had_is_said_without_it() {
    let case = Case::new();
    let at = |script: &str| {
        let program = case.program(case.env.at("bin"), script);
        case.says(&format!("[SOME_KEY]\ncommand = [{program:?}]\n"));
        case.run().code(2)
    };
    let refused = at(&format!("echo {KEY}; exit 3"));
    assert!(refused.stderr.contains("give` ended with 3") && !refused.stderr.contains(KEY), "{refused}");
    let refused = at(&format!("echo unlocked; echo {KEY}"));
    assert!(refused.stderr.contains("more than one word") && !refused.stderr.contains(KEY), "{refused}");
    let _ = at("true").says("there is none");
    case.says(&format!("SOME_KEY = {KEY:?}\n"));
    let refused = case.run().code(2);
    assert!(!refused.stderr.contains(KEY), "{refused}");
    case.says("[SOME_KEY]\ncommand = [\"no-such-program\"]\n");
    let _ = case.run().code(2).says("no-such-program");
    // Nothing of the workspace is run with the user's rights, or read.
    let inside = case.program(case.repo.path.join("bin"), &format!("touch ran; echo {KEY}"));
    case.says(&format!("[SOME_KEY]\ncommand = [{inside:?}]\n"));
    let _ = case.run().code(2).says("lies in the workspace");
    case.says(&format!("[SOME_KEY]\nfile = {inside:?}\n"));
    let _ = case.run().code(2).says("lies in the workspace");
    assert!(case.env.runs().is_empty(), "{}", json!(case.env.runs()));
}
