//! What a hostile agent did to the runtime itself, each with what happens now.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Repo, TestEnvironment, bodies, eventually, finish, text};

fn call(name: &str, arguments: &Value) -> Value {
    json!({ "call": { "name": name, "arguments": arguments } })
}

fn shell(line: &str) -> Value {
    call("exec", &json!({ "argv": ["sh", "-c", line] }))
}

fn submit() -> Value {
    call("submit", &json!({ "summary": "done" }))
}

fn stage(files: &[(&str, &str)]) -> (TestEnvironment, Repo) {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", files);
    repo.commit();
    (env, repo)
}

#[test]
fn a_program_in_the_workspace_is_never_the_runtimes_own() {
    let (env, repo) = stage(&[("a.txt", "a\n"), (".gitignore", "/.venv/\n")]);
    let (pwned, bin) = (env.at("pwned"), repo.path.join(".venv/bin"));
    fs::create_dir_all(&bin).unwrap();
    let line = format!(
        "printf '#!/bin/sh\\necho pwned >> {}\\nexec /usr/bin/git \"$@\"\\n' > .venv/bin/git; chmod +x .venv/bin/git; echo b >> a.txt",
        pwned.display()
    );
    let model = env.rehearse(&json!({ "steps": [shell(&line), shell("echo c >> a.txt"), submit()] }));
    // By its name, relative, and behind a link elsewhere.
    std::os::unix::fs::symlink(&bin, env.at("alias")).unwrap();
    let host = std::env::var("PATH").unwrap();
    let path = format!("{}:.venv/bin::{}:{host}", bin.display(), env.at("alias").display());
    let args = env.run_args(
        &repo.path,
        &model,
        &["--verify", "true", "--export", &env.at("bundle").display().to_string()],
    );
    let mut command = env.provost_command(args);
    command.env("PATH", &path).current_dir(&repo.path);
    let _ = finish(command).code(0);
    assert!(!pwned.exists(), "the agent's git was run outside of the sandbox");
    // The control: it would have been found.
    let mut command = env.command("sh");
    command.args(["-c", "git --version"]).env("PATH", &path).current_dir(&repo.path);
    let _ = finish(command).code(0);
    assert!(pwned.exists());
}

#[test]
fn what_the_agent_puts_on_the_path_of_the_workspace_verifies_nothing() {
    let (env, repo) = stage(&[("test.sh", ".venv/bin/check\n"), (".gitignore", "/.venv/\n")]);
    let bin = repo.path.join(".venv/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("check"), "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(bin.join("check"), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = env.at("elsewhere");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("note.txt"), "treasure\n").unwrap();
    let line = format!("echo 'exit 0' > .venv/bin/check; ln -s {}/note.txt .venv/bin/z", secret.display());
    let peek = format!("cat {}/note.txt", secret.display());
    let model = env.rehearse(&json!({ "steps": [shell(&line), shell(&peek), submit()] }));
    let args = env.run_args(&repo.path, &model, &["--verify", "sh test.sh"]);
    let mut command = env.provost_command(args);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let ran = finish(command).code(1);
    assert_eq!(ran.last()["verified"], false);
    let asked: String = model.requests().iter().map(|request| text(&request["body"])).collect();
    assert!(!asked.contains("treasure"), "a link in the workspace showed a folder of the host");
}

#[test]
fn a_folder_that_becomes_a_link_ends_no_run() {
    let (env, repo) = stage(&[("d/f.txt", "f\n"), ("other/f.txt", "g\n")]);
    let model = env.rehearse(&json!({ "steps": [shell("rm -rf d && ln -s other d"), submit()] }));
    let more = ["--verify", "test -L d", "--export", &env.at("bundle").display().to_string()];
    let ran = env.run(&repo.path, &model, &more).code(0);
    let changed = bodies(&env.journal(&ran.run()), "act.finished")[0]["changes"].to_string();
    assert!(changed.contains("d/f.txt") && changed.contains("120000"), "{changed}");
}

#[test]
fn what_is_planted_is_removed_however_it_is_buried() {
    let deep = "cd src; for i in $(seq 20); do n=$(printf %0250d $i); mkdir $n; cd $n; done; mkdir .git";
    let many = "cd src; for i in $(seq 200); do mkdir d; cd d; done; mkdir .git";
    let closed = "mkdir -p e/.git/x; touch e/.git/x/config; chmod 000 e/.git/x e/.git e";
    let bare = "mkdir -p src/b/objects src/b/refs; echo 'ref: refs/heads/x' > src/b/HEAD; echo '*' > src/b/.gitignore";
    let alias = "mkdir -p src/.GIT/hooks 'src/git~1'";
    let link = "mkdir v; echo {} > v/tasks.json; ln -s v .vscode";
    for line in [deep, many, closed, bare, alias, link] {
        let (env, repo) = stage(&[("src/a.txt", "a\n")]);
        let line = format!("mkdir .cargo; echo evil > .cargo/config.toml; {line}; true");
        let model = env.rehearse(&json!({ "steps": [shell(&line), submit()] }));
        let more = ["--verify", "true", "--export", &env.at("bundle").display().to_string()];
        let ran = env.run(&repo.path, &model, &more).code(0);
        let acts = env.journal(&ran.run());
        let undone = bodies(&acts, "act.finished")[0]["reverted"].as_array().cloned().unwrap_or_default();
        assert!(undone.len() >= 2, "{line}: {undone:?}");
        assert!(!repo.path.join(".cargo").join("config.toml").exists(), "{line}");
        for name in ["src/b", "src/.GIT", "src/git~1", ".vscode", "e/.git"] {
            assert!(fs::symlink_metadata(repo.path.join(name)).is_err(), "{name} stands after: {line}");
        }
        let found = crate::support::files_beneath(&repo.path.join("src"));
        assert!(found.len() < 20, "{line}");
    }
}

/// By a `commondir` beside a `HEAD` git takes any folder for one of its own, and runs what the configuration there names.
#[test]
fn a_folder_that_git_would_take_for_its_own_is_not_left() {
    let plant = |marker: &std::path::Path| {
        let config = format!(
            "[core]\\n\\trepositoryformatversion = 1\\n\\tfsmonitor = touch {}; false\\n[extensions]\\n\\tworktreeConfig = true\\n",
            marker.display()
        );
        format!(
            "mkdir -p v c/objects c/refs; echo 'ref: refs/heads/main' > v/HEAD; echo ../c > v/commondir; \
             printf '{config}' > c/config; printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n' > v/config.worktree"
        )
    };
    let status = |env: &TestEnvironment, folder: &std::path::Path| {
        let mut git = env.command("git");
        git.args(["-c", "safe.directory=*", "status"]).current_dir(folder);
        let _ = finish(git);
    };
    for mode in ["direct", "staged"] {
        let (env, repo) = stage(&[("a.txt", "a\n")]);
        let marker = env.at("marker");
        let model = env.rehearse(&json!({ "steps": [shell(&plant(&marker)), submit()] }));
        let _ = env.run(&repo.path, &model, &["--workspace-mode", mode]).code(0);
        assert!(repo.path.join("v").is_dir() && repo.path.join("c/config").is_file(), "{mode}");
        assert!(!repo.path.join("v/HEAD").exists() && !repo.path.join("v/commondir").exists(), "{mode}");
        status(&env, &repo.path.join("v"));
        assert!(!marker.exists(), "{mode}: git ran what was planted");

        // The control: it would have.
        let mut uncontained = env.command("sh");
        uncontained.args(["-c", &plant(&marker)]).current_dir(&repo.path);
        let _ = finish(uncontained).code(0);
        status(&env, &repo.path.join("v"));
        assert!(marker.exists(), "{mode}");
    }
    // Nor by the tools that write files.
    let (env, repo) = stage(&[("a.txt", "a\n")]);
    let write = |path: &str| call("write_file", &json!({ "path": path, "content": "x\n" }));
    let steps = ["b/HEAD", "v/commondir", "v/config.worktree", "b/objects/x", "HEAD"].map(write);
    let model = env.rehearse(&json!({ "steps": steps.into_iter().chain([submit()]).collect::<Vec<_>>() }));
    let _ = env.run(&repo.path, &model, &[]).code(0);
    let written = ["b/HEAD", "v/commondir", "v/config.worktree", "b/objects/x", "HEAD"]
        .map(|path| repo.path.join(path).exists());
    assert_eq!(written, [false, false, false, true, false]);
}

#[test]
fn what_the_person_makes_meanwhile_is_left_alone() {
    let (env, repo) = stage(&[("a.txt", "a\n"), (".gitignore", "/ignored/\n")]);
    repo.write("ignored/x", "");
    let deep = repo.path.join("ignored").join("d/".repeat(80));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("kept"), "mine\n").unwrap();
    let model = env.rehearse(&json!({ "steps": [
        call("write_file", &json!({ "path": "b.txt", "content": "b\n" })),
        shell("echo c > c.txt"),
        submit(),
    ] }));
    let run = env.run(&repo.path, &model, &["--policy", "strict"]).code(5).run();
    repo.write("ignored/.git/HEAD", "mine\n");
    repo.write("ignored/.cargo/config.toml", "mine\n");
    let _ = env.provost(["resume", &run, "--base-url", &model.base_url, "--yes"]).code(0);
    assert_eq!(fs::read_to_string(repo.path.join("ignored/.git/HEAD")).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(repo.path.join("ignored/.cargo/config.toml")).unwrap(), "mine\n");
    assert!(deep.join("kept").exists());
}

#[test]
fn two_runs_in_one_tree_are_refused() {
    let (env, repo) = stage(&[("sub/a.txt", "a\n"), ("b.txt", "b\n")]);
    let slow = env.rehearse(&json!({ "steps": [shell("touch begun; sleep 900"), submit()] }));
    let quick = env.rehearse(&json!({ "steps": [submit()] }));
    for (first, second) in [("", "sub"), ("sub", "")] {
        let running = env.start(env.run_args(&repo.path.join(first), &slow, &[]));
        let begun = repo.path.join(first).join("begun");
        eventually("the first run works", || begun.exists());
        let _ = env.run(&repo.path.join(second), &quick, &[]).code(7).says("another run works in");
        let _ = running.kill();
        eventually("its command is gone", || !env.processes().iter().any(|line| line.contains("sleep 900")));
        fs::remove_file(begun).unwrap();
        // The control.
        let _ = env.run(&repo.path.join(second), &quick, &[]).code(0);
    }
}

#[test]
fn nothing_of_the_runtimes_own_lies_where_the_agent_works() {
    let (env, repo) = stage(&[("a.txt", "a\n")]);
    let model = env.rehearse(&json!({ "steps": [submit()] }));
    std::os::unix::fs::symlink(&repo.path, env.at("alias")).unwrap();
    for (option, place) in
        [("--export", "repository/evidence"), ("--export", "alias/x/y"), ("--store", "repository/s.db")]
    {
        let place = env.at(place).display().to_string();
        let _ = env.run(&repo.path, &model, &[option, &place]).code(2).says("choose a place outside");
    }
    let place = env.at("beside").display().to_string();
    let _ = env.run(&repo.path, &model, &["--export", &place]).code(0);
}
