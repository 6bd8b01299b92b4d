//! Where `fork` puts its files, what it leaves there when it fails, and whose content it finds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use provost::core::id::RunId;
use provost::journal::{Salt, SqliteStore, Store};
use serde_json::Value;

use crate::script::{script, sh, submit};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, text};

/// A run that is over, of a repository with `a.txt` and `package/b.txt`.
struct Case {
    env: TestEnvironment,
    repo: Repo,
    run: String,
    model: Rehearsal,
}

impl Case {
    fn new() -> Self {
        Self::in_folder("")
    }

    fn in_folder(folder: &str) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n"), ("package/b.txt", "two\n")]);
        let model = env.rehearse(&script([sh("echo new > new.txt"), submit()]));
        let run = env.run(&repo.path.join(folder), &model, &[]).code(0).run();
        Self { env, repo, run, model }
    }

    fn args(&self, to: &Path, more: &[&str]) -> Vec<String> {
        let to = to.display().to_string();
        [&["fork", &self.run, "--step", "1", "--to", &to], more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    fn fork(&self, to: &Path, more: &[&str]) -> Ran {
        self.env.provost(self.args(to, more))
    }

    fn work_trees(&self) -> String {
        self.repo.git(&["worktree", "list", "--porcelain"])
    }

    /// Makes every fork fail when its folder and its work tree are there: the content of `a.txt` has another id.
    fn damage(&self) {
        let object = |name: &str| {
            let id = self.repo.git(&["rev-parse", &format!("HEAD:{name}")]);
            self.repo.path.join(".git/objects").join(&id[..2]).join(id[2..].trim())
        };
        let (one, other) = (object("a.txt"), object("package/b.txt"));
        fs::remove_file(&one).unwrap();
        fs::copy(other, one).unwrap();
    }

    fn fails(&self, to: &Path, more: &[&str]) {
        let ran = self.fork(to, more);
        assert_ne!(ran.code, 0, "{ran}");
        let _ = ran.says("does not have that id");
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_fork_that_fails_leaves_all_as_it_was() {
    let case = Case::new();
    let elsewhere = case.env.at("elsewhere").display().to_string();
    case.repo.git(&["worktree", "add", "-q", "--detach", &elsewhere]);
    let before = case.work_trees();
    // As where its disk is not mounted.
    fs::rename(&elsewhere, case.env.at("unmounted")).unwrap();
    case.damage();
    let empty = case.env.at("empty");
    fs::create_dir(&empty).unwrap();
    for more in [&[][..], &["--no-worktree"]] {
        case.fails(&empty, more);
        assert!(is_empty(&empty), "it was there before");
        case.fails(&case.env.at("above/new"), more);
        assert!(!case.env.at("above").exists(), "it was made for the fork");
    }
    fs::rename(case.env.at("unmounted"), &elsewhere).unwrap();
    assert_eq!(
        case.work_trees().replace("prunable gitdir file points to non-existent location\n", ""),
        before
    );
    let other = Repo::at(Path::new(&elsewhere), case.env.root());
    assert_eq!(other.git(&["status", "--porcelain"]), "");
}

#[test]
fn files_that_appear_where_a_fork_is_made_are_not_its_to_delete() {
    let case = Case::new();
    case.damage();
    let mut written = 0;
    for (round, more) in [&[][..], &["--no-worktree"]].into_iter().cycle().take(8).enumerate() {
        let to = case.env.at(format!("to-{round}"));
        let mut running = case.env.start(case.args(&to, more));
        let theirs = to.join("theirs");
        let mut wrote = false;
        while !wrote && !running.is_over() {
            wrote = fs::write(&theirs, "theirs\n").is_ok();
        }
        assert_ne!(running.wait().code, 0);
        // The folder may be gone before it could be written to.
        if wrote {
            assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs\n");
            written += 1;
        }
    }
    assert!(written > 0, "no round had files of somebody else");
    assert_eq!(case.work_trees().matches("worktree ").count(), 1);
}

#[test]
fn of_forks_into_one_folder_one_is_made() {
    let case = Case::new();
    let empty = case.env.at("empty");
    fs::create_dir(&empty).unwrap();
    for (to, more) in [
        (case.env.at("tree"), &[][..]),
        (case.env.at("above/tree"), &[]),
        (case.env.at("plain"), &["--no-worktree"]),
        (empty, &["--no-worktree"]),
    ] {
        let all: Vec<_> = (0..6).map(|_| case.env.start(case.args(&to, more))).collect();
        let codes: Vec<i32> = all.into_iter().map(|running| running.wait().code).collect();
        assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
        for name in ["a.txt", "package/b.txt", "new.txt"] {
            assert!(to.join(name).exists(), "{name} of {}", to.display());
        }
    }
    assert_eq!(case.work_trees().matches("worktree ").count(), 3, "the repository's own and two");
    assert_eq!(case.env.runs().len(), 5);
}

#[test]
fn a_link_where_a_fork_is_to_be_is_not_followed_and_stays() {
    let case = Case::new();
    let target = case.env.at("target");
    fs::create_dir(&target).unwrap();
    let link = case.env.at("link");
    for to in ["nowhere", "target"] {
        symlink(to, &link).unwrap();
        for more in [&[][..], &["--no-worktree"]] {
            let _ = case.fork(&link, more).code(2).says("is a symbolic link");
            let _ = case.fork(&link.join(""), more).code(2).says("is a symbolic link");
        }
        assert_eq!(fs::read_link(&link).unwrap(), PathBuf::from(to));
        fs::remove_file(&link).unwrap();
    }
    assert!(is_empty(&target));
    assert!(!case.env.at("nowhere").exists());
    // Above the folder a link is as good as a folder.
    symlink("target", &link).unwrap();
    let _ = case.fork(&link.join("new"), &[]).code(0);
    assert!(target.join("new/new.txt").exists());
}

#[test]
fn no_fork_lies_in_what_is_its_parents() {
    let case = Case::in_folder("package");
    let tree = case.repo.path.display().to_string();
    for (to, why) in [
        (format!("{tree}/package/inside"), "lies in the workspace"),
        (format!("{tree}/other"), "lies in the repository"),
        (format!("{tree}/.git/evil"), "lies in the repository"),
        (format!("{tree}/.git/worktrees/evil"), "lies in the repository"),
        ("nonexist/../repository/package/inside".to_owned(), "has `..` after a folder"),
        ("nonexist/../repository/.git/hooks2".to_owned(), "has `..` after a folder"),
        ("tmp/../repository/package/inside".to_owned(), "lies in the workspace"),
    ] {
        for more in [&[][..], &["--no-worktree"]] {
            let _ = case.fork(Path::new(&to), more).code(2).says(why);
        }
        assert!(!case.env.at(&to).exists(), "{to}");
    }
    assert!(!case.env.at("nonexist").exists());
    let _ = case.fork(Path::new("tmp/../good"), &[]).code(0);
    assert!(case.env.at("good/package/new.txt").exists());

    // A work tree's git folder is the repository's.
    let linked = case.env.at("linked");
    case.repo.git(&["worktree", "add", "-q", "--detach", &linked.display().to_string()]);
    let run = case.env.run(&linked, &case.model, &[]).run();
    let case = Case { run, ..case };
    for to in [".git/evil", ".git/worktrees/linked/evil"] {
        let ran = case.fork(&case.repo.path.join(to), &["--no-worktree"]);
        let _ = ran.code(2).says("lies in the repository");
    }
}

#[test]
fn a_large_file_of_the_commit_is_found_there() {
    const SIZE: usize = 9_500_000;
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    for name in ["removed", "moved", "mode"] {
        repo.write(name, [name.as_bytes(), &vec![7; SIZE]].concat());
    }
    repo.commit();
    let model = env.rehearse(&script([
        sh("mv moved to"),
        sh("rm removed; chmod +x mode"),
        sh("rm to mode"),
        submit(),
    ]));
    let run = env.run(&repo.path, &model, &[]).code(0).run();
    for (step, names) in [("0", ["removed", "moved", "mode"]), ("1", ["removed", "to", "mode"])] {
        let to = env.at(step);
        let args = ["fork", &run, "--step", step, "--to", &to.display().to_string()];
        let _ = env.provost(args).code(0);
        for (name, begins) in names.into_iter().zip(["removed", "moved", "mode"]) {
            let found = fs::read(to.join(name)).unwrap();
            assert!(
                found.starts_with(begins.as_bytes()) && found.len() == begins.len() + SIZE,
                "{step}: {name}"
            );
        }
        let status = Repo::at(&to, env.root()).git(&["status", "--porcelain"]);
        assert_eq!(status, if step == "0" { "" } else { " D moved\n?? to\n" });
    }
    let to = env.at("2");
    let _ = env.provost(["fork", &run, "--step", "2", "--to", &to.display().to_string()]).code(0);
    assert_eq!(
        Repo::at(&to, env.root()).git(&["status", "--porcelain"]),
        " M mode\n D moved\n D removed\n?? to\n"
    );
}

/// What a fork left in the store that was killed before its events were there.
fn leave_reserved(case: &Case, name: &str, of: Option<&str>, generation: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(case.env.store()).unwrap();
        let salt = match of {
            Some(run) => store.salt(&run.parse::<RunId>().unwrap()).await.unwrap().unwrap(),
            None => Salt::new([7; 32]),
        };
        store.create_after(&name.parse().unwrap(), salt, generation, 1).await.unwrap();
    });
}

#[test]
fn the_name_of_a_fork_that_was_killed_can_be_had_again() {
    let case = Case::new();
    let (run, to) = (case.run.as_str(), case.env.at("to"));
    leave_reserved(&case, "was-killed", Some(run), 9);
    let _ = case.fork(&to, &["--id", "was-killed"]).code(0);
    let journal: Vec<Value> = case.env.journal("was-killed");
    assert_eq!(text(&journal[0]["body"]["forked"]["run"]), run);
    let again = case.env.at("again");
    let _ = case.fork(&again, &["--id", "was-killed"]).code(2).says("was-killed");
    // Another's name, and one that was taken for an earlier step than there were drivers.
    leave_reserved(&case, "not-its-own", None, 9);
    leave_reserved(&case, "too-early", Some(run), 0);
    for name in ["not-its-own", "too-early"] {
        let says = format!("provost store delete {name}");
        let _ = case.fork(&again, &["--id", name]).code(2).says(&says);
        assert!(!again.exists());
        let _ = case.env.provost(["store", "delete", name]).code(0);
        let _ = case.fork(&case.env.at(name), &["--id", name]).code(0);
    }
}

#[test]
fn a_fork_takes_no_others_entry_for_its_own() {
    let case = Case::new();
    let to = case.env.at("to");
    case.repo.git(&["worktree", "add", "-q", "--detach", &to.display().to_string()]);
    let before = case.work_trees();
    fs::rename(&to, case.env.at("unmounted")).unwrap();
    // Git says what can be done about it.
    let _ = case.fork(&to, &[]).says("already registered worktree");
    assert!(!to.exists());
    fs::rename(case.env.at("unmounted"), &to).unwrap();
    assert_eq!(case.work_trees(), before);
}
