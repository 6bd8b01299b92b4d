//! Where a session's files come from: the commit's objects, and nothing else of a repository, whatever it holds.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Governed, call};
use crate::support::{Ran, files_with, finish};

impl Governed {
    /// What a recipient says to a bundle of the commit.
    pub(super) fn verify(&self, bundle: &Path, commit: &str, more: &[&str]) -> Ran {
        let path = |path: &Path| path.display().to_string();
        let (bundle, repo, task) = (path(bundle), path(&self.package.repo.path), path(&self.task));
        let trust = path(&self.env.at("config/provost/trust"));
        let mut args = vec!["verify", &bundle, "--repo", &repo, "--rev", commit, "--scope", "package/"];
        args.extend(["--task", &task, "--trust", &trust]);
        args.extend(more);
        self.env.provost(args)
    }
}

#[test]
fn what_is_not_committed_is_nowhere_to_be_found() {
    let it = Governed::new();
    let repo = &it.package.repo;
    repo.write(".gitignore", "*.secret\n");
    let commit = repo.commit();
    repo.write("package/stashed.txt", "canary-stashed");
    repo.git(&["stash", "-q", "--include-untracked"]);
    repo.write("package/staged.txt", "canary-staged");
    repo.git(&["add", "package/staged.txt"]);
    repo.write("package/src/lib.rs", "// canary-dirty\npub fn add() {}\n");
    repo.write("package/untracked.txt", "canary-untracked");
    repo.write("package/key.secret", "canary-ignored");
    let bundle = it.env.at("bundle");
    let _ = it.own(&["-o", &bundle.display().to_string()]).code(0);
    let mine = |path: &PathBuf| !path.starts_with(&repo.path);
    for canary in ["stashed", "staged", "dirty", "untracked", "ignored"] {
        let found: Vec<_> =
            files_with(it.env.root(), &format!("canary-{canary}")).into_iter().filter(mine).collect();
        assert!(found.is_empty(), "{canary}: {found:?}");
    }
    // The control: what is committed is there, in the session's workspace and in what its model was sent.
    assert!(files_with(&it.folder(&it.only()), "left + right").iter().any(|path| path.ends_with("lib.rs")));
    let _ = it.verify(&bundle, &commit, &[]).code(0);
}

/// Programs that a repository names, each of which leaves a mark when it runs.
struct Traps {
    marks: PathBuf,
}

impl Traps {
    /// Set in every place that git runs something from.
    fn set(it: &Governed) -> Self {
        let repo = &it.package.repo;
        let marks = it.env.at("marks");
        fs::create_dir(&marks).unwrap();
        let trap = |name: &str| {
            let path = it.env.at(format!("trap-{name}"));
            let line = format!("#!/bin/sh\ntouch '{}'\nexec cat\n", marks.join(name).display());
            fs::write(&path, line).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path.display().to_string()
        };
        let configure = |key: &str, value: &str| drop(repo.git(&["config", key, value]));
        for hook in [
            "post-checkout",
            "pre-commit",
            "commit-msg",
            "post-commit",
            "reference-transaction",
            "post-index-change",
        ] {
            fs::copy(trap(hook), repo.path.join(".git/hooks").join(hook)).unwrap();
        }
        configure("core.fsmonitor", &trap("fsmonitor"));
        configure("core.sshCommand", &trap("ssh"));
        configure("core.pager", &trap("pager"));
        configure("core.editor", &trap("editor"));
        configure("diff.external", &trap("diff"));
        configure("diff.mark.textconv", &trap("textconv"));
        configure("commit.gpgSign", "true");
        configure("gpg.program", &trap("gpg"));
        configure("credential.helper", &trap("credential"));
        for filter in ["clean", "smudge"] {
            configure(&format!("filter.mark.{filter}"), &trap(filter));
        }
        configure("filter.mark.required", "true");
        for alias in ["cat-file", "commit-tree", "update-ref", "rev-parse"] {
            configure(&format!("alias.{alias}"), &format!("!{}", trap("alias")));
        }
        // What is missing would be asked for by running a program.
        configure("protocol.ext.allow", "always");
        configure("remote.origin.url", &format!("ext::{}", trap("remote")));
        configure("remote.origin.promisor", "true");
        Self { marks }
    }

    fn sprung(&self) -> Vec<String> {
        let found = fs::read_dir(&self.marks).unwrap();
        let mut names: Vec<_> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn nothing_that_a_repository_names_is_run_and_nothing_is_replaced() {
    let it = Governed::new();
    let repo = &it.package.repo;
    repo.write(".gitattributes", "*.rs filter=mark diff=mark\n");
    let commit = repo.commit();
    repo.write("other.rs", "canary-replaced\n");
    let (old, new) = (
        repo.git(&["rev-parse", "HEAD:package/src/lib.rs"]).trim().to_owned(),
        repo.git(&["hash-object", "-w", "--no-filters", "other.rs"]).trim().to_owned(),
    );
    repo.git(&["replace", &old, &new]);
    repo.git(&["config", "user.name", "Recipient"]);
    repo.git(&["config", "user.email", "recipient@example.com"]);
    let traps = Traps::set(&it);
    let bundle = it.env.at("bundle");
    let _ = it.own(&["-o", &bundle.display().to_string()]).code(0);
    let _ = it.verify(&bundle, &commit, &["--replay", "--test"]).code(0);
    let path = repo.path.display().to_string();
    let _ = it.session("accept", &[&it.only(), "--repo", &path, "--branch", "mended"]).code(0);
    assert_eq!(traps.sprung(), [""; 0]);
    let patch = fs::read_to_string(bundle.join("changes.patch")).unwrap();
    assert!(patch.contains("-    left - right") && !patch.contains("canary"), "{patch}");
    // The control: git by itself runs them, and shows what was put in place.
    assert!(
        repo.git(&["show", "--no-ext-diff", "--no-textconv", "HEAD:package/src/lib.rs"]).contains("canary")
    );
    repo.write("package/src/lib.rs", "changed\n");
    let _ = finish(repo.command(&["commit", "-q", "-a", "-m", "x"]));
    let _ = finish(repo.command(&["update-ref", "refs/heads/other", &commit]));
    let sprung = traps.sprung();
    for name in ["clean", "fsmonitor", "pre-commit", "reference-transaction"] {
        assert!(sprung.iter().any(|found| found == name), "{name}: {sprung:?}");
    }
}

#[test]
fn a_submodule_within_the_scope_is_refused_and_one_outside_of_it_stays_as_it_is() {
    let it = Governed::new();
    let repo = &it.package.repo;
    let commit = repo.commit();
    let add = |path: &str| {
        repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
        repo.git(&["commit", "-q", "-m", "A submodule"]);
    };
    add("package/sub");
    assert_refused(&it, "`sub` is a submodule");
    repo.git(&["reset", "-q", "--hard", &commit]);
    add("elsewhere");
    let bundle = it.env.at("bundle");
    let _ = it.own(&["-o", &bundle.display().to_string()]).code(0);
    let _ = it.verify(&bundle, &repo.head(), &[]).code(0);
}

#[test]
fn a_repository_within_the_workspace_does_not_come_out_of_it() {
    let it = Governed::playing(&json!({ "steps": [
        call("exec", &json!({ "argv": ["sh", "-c",
            "git init -q sub && cd sub && git -c user.name=n -c user.email=e commit -q --allow-empty -m x && echo in > file"] })),
        call("read_file", &json!({ "path": "src/lib.rs" })),
        call("edit_file", &json!({ "path": "src/lib.rs", "old": "left - right", "new": "left + right" })),
        call("submit", &json!({ "summary": "mended" })),
    ] }));
    let commit = it.package.repo.commit();
    let bundle = it.env.at("bundle");
    let _ = it.own(&["-o", &bundle.display().to_string()]).code(0);
    let patch = fs::read_to_string(bundle.join("changes.patch")).unwrap();
    assert!(
        patch.contains("left + right") && !patch.contains(".git") && !patch.contains("160000"),
        "{patch}"
    );
    let _ = it.verify(&bundle, &commit, &[]).code(0);
}

#[test]
fn what_git_keeps_elsewhere_is_not_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let it = Governed::new();
    let repo = &it.package.repo;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b\
                   1258daaa5e2ca24d17e2393\nsize 12345\n";
    repo.write("package/.lfsconfig", format!("[lfs]\n\turl = {url}\n"));
    repo.write(".lfsconfig", format!("[lfs]\n\turl = {url}\n"));
    repo.write("package/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    repo.write("package/large.bin", pointer);
    let commit = repo.commit();
    let bundle = it.env.at("bundle");
    let _ = it.own(&["-o", &bundle.display().to_string()]).code(0);
    let _ = it.verify(&bundle, &commit, &["--replay", "--test"]).code(0);
    let workspace = it.folder(&it.only()).join("workspace");
    assert_eq!(fs::read_to_string(workspace.join("large.bin")).unwrap(), pointer);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody dialled");
}

/// Refused before anybody is asked to sign it, and nothing of it stays.
fn assert_refused(it: &Governed, words: &str) {
    let _ = it.own(&[]).code(2).says(words);
    assert_eq!(it.requests(), 0);
    assert_eq!(it.session("status", &["--json"]).code(0).json().len(), 0);
}

#[test]
fn a_commit_whose_files_cannot_all_be_written_is_no_source() {
    let it = Governed::new();
    let repo = &it.package.repo;
    let commit = repo.commit();
    for (name, target) in
        [("up", "../README.md"), ("key", "../session.key"), ("far", "/etc/passwd"), ("odd", "src/../../x")]
    {
        symlink(target, repo.path.join("package").join(name)).unwrap();
        repo.commit();
        assert_refused(&it, &format!("the symbolic link `{name}` leads out"));
        repo.git(&["reset", "-q", "--hard", &commit]);
    }
    // Git's own folder by another name, which git does not add but takes from others.
    let blob = repo.git(&["rev-parse", "HEAD:README.md"]).trim().to_owned();
    let tree = |lines: &str| {
        let list = it.env.at("tree");
        fs::write(&list, lines).unwrap();
        let mut command = repo.command(&["mktree"]);
        command.stdin(fs::File::open(&list).unwrap());
        finish(command).code(0).stdout.trim().to_owned()
    };
    for name in [".GIT", "git~1", ".git\u{200c}"] {
        let inner = tree(&format!("100644 blob {blob}\tconfig\n"));
        let package = repo.git(&["ls-tree", "HEAD:package"]);
        let package = tree(&format!("{package}040000 tree {inner}\t{name}\n"));
        let root = tree(&format!("040000 tree {package}\tpackage\n"));
        let made = repo.git(&["commit-tree", "-m", "A commit", &root]);
        repo.git(&["update-ref", "HEAD", made.trim()]);
        assert_refused(&it, "can be taken for, `.git`");
        repo.git(&["reset", "-q", "--hard", &commit]);
    }
    // The controls: a link that stays inside, and names that only look alike.
    symlink("src/lib.rs", repo.path.join("package/inside")).unwrap();
    repo.write("package/.github/README", "a\n");
    repo.write("package/.github/readme", "b\n");
    let commit = repo.commit();
    let bundle = it.env.at("bundle");
    let _ = it.own(&["-o", &bundle.display().to_string()]).code(0);
    let _ = it.verify(&bundle, &commit, &[]).code(0);
}
