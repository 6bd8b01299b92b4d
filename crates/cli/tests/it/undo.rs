//! Looking back and going back: `diff`, `rewind` and `fork`, from outside.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::script::{script, sh, submit, write};
use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, bodies, eventually, finish, text};

/// What lies at each path: mode and content; of a link its target.
type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// All files beneath `root` but git's own and what the repository ignores.
fn files(root: &Path) -> Files {
    fn look(root: &Path, below: &Path, found: &mut Files) {
        for entry in fs::read_dir(root.join(below)).unwrap() {
            let path = below.join(entry.unwrap().file_name());
            let whole = root.join(&path);
            let meta = fs::symlink_metadata(&whole).unwrap();
            if path == Path::new(".git") || path == Path::new("ignored") {
            } else if meta.is_dir() {
                // An empty folder counts too: none may be left behind.
                if fs::read_dir(&whole).unwrap().next().is_none() {
                    found.insert(path.clone(), (0, Vec::new()));
                }
                look(root, &path, found);
            } else if meta.is_symlink() {
                let target = fs::read_link(&whole).unwrap().into_os_string().into_encoded_bytes();
                found.insert(path, (0o120_000, target));
            } else {
                found.insert(path, (meta.permissions().mode() & 0o100, fs::read(whole).unwrap()));
            }
        }
    }
    let mut found = Files::new();
    look(root, Path::new(""), &mut found);
    found
}

/// A run that changes files in all ways, by commands and by tools, and then waits for a person's word.
struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
    run: String,
    /// The files at the start and after each step.
    states: Vec<Files>,
}

const STEPS: [&str; 3] = [
    "echo two > a.txt; rm gone.txt; mkdir -p made/deep; echo n > made/deep/new.txt; chmod +x run.sh; \
     ln -s a.txt link; printf '\\000\\001\\377' > bin.dat; echo i > ignored",
    "rm kind; mkdir kind; echo inner > kind/inner; rm -r folder; echo file > folder; echo three > a.txt",
    "rm link; echo no-link > link; rm -r made; echo four >> a.txt",
];

fn steps() -> Vec<Value> {
    let mut steps: Vec<Value> = STEPS.iter().map(|line| sh(line)).collect();
    steps.extend([write("asked/yes.txt", "asked\n"), submit()]);
    steps
}

impl Case {
    fn new() -> Self {
        Self::in_folder("")
    }

    /// The workspace is this folder of the repository.
    fn in_folder(folder: &str) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("README.md", "Read me.\n")]);
        let root = repo.path.join(folder);
        for (name, content) in [
            ("a.txt", "one\n"),
            ("gone.txt", "1\n2\n"),
            ("run.sh", "#!/bin/sh\n"),
            ("kind", "a file\n"),
            ("folder/one", "1\n"),
            ("folder/two", "2\n"),
            (".gitignore", "ignored\n"),
        ] {
            repo.write(&Path::new(folder).join(name).display().to_string(), content);
        }
        repo.commit();
        let model = env.rehearse(&script(steps()));
        let mut states = vec![files(&root)];
        // The states are those that the commands make where nobody records anything.
        let copy = repo.clone_to("states");
        for line in STEPS {
            let mut command = env.command("sh");
            command.args(["-c", line]).current_dir(copy.path.join(folder));
            assert_eq!(finish(command).code, 0);
            states.push(files(&copy.path.join(folder)));
        }
        let rules = env.at("rules.toml");
        fs::write(&rules, "preset = \"workspace\"\nask = [\"write asked/**\"]\n").unwrap();
        let run = env.run(&root, &model, &["--policy", &rules.display().to_string()]).code(5).run();
        let case = Self { env, repo, model, run, states };
        assert_eq!(files(&root), case.states[3]);
        case
    }

    fn workspace(&self) -> &Path {
        &self.repo.path
    }

    fn provost(&self, command: &str, more: &[&str]) -> Ran {
        self.env.provost([&[command, self.run.as_str()], more].concat())
    }

    fn resume(&self, run: &str) -> Ran {
        self.env.provost(["resume", run, "--json", "--base-url", &self.model.base_url, "--approve", "3"])
    }

    /// Takes the run to its end.
    fn end(&self) {
        let _ = self.resume(&self.run).code(0);
    }

    /// What the model was told last.
    fn told(&self) -> String {
        self.model.requests().last().unwrap().to_string()
    }

    fn settings(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(&self.env.root().display().to_string(), "[ROOT]");
        settings.add_filter(r"r[0-9a-f]{12}-[0-9a-f]{10}", "[RUN]");
        settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d", "[MOMENT]");
        settings.add_filter(r" +(\d+ ms|\d+\.\d s|\d+ min \d+ s)\b", " [TIME]");
        settings.add_filter(&self.model.base_url, "[MODEL]");
        settings.add_filter(r"[\d,]+ tokens in", "[N] tokens in");
        settings
    }
}

fn apply(repo: &Repo, patch: &str) {
    let file = repo.path.join(".git/the.patch");
    fs::write(&file, patch).unwrap();
    repo.git(&["apply", ".git/the.patch"]);
}

#[test]
fn diff_applied_to_a_fresh_clone_gives_the_tree() {
    let case = Case::new();
    let clone = case.repo.clone_to("clone");
    apply(&clone, &case.provost("diff", &[]).code(0).stdout);
    assert_eq!(files(&clone.path), case.states[3]);

    // Step by step it is the same; git has no word for all that a step may do in one patch of it.
    let clone = case.repo.clone_to("clone-by-steps");
    apply(&clone, &case.provost("diff", &["--step", "1"]).code(0).stdout);
    assert_eq!(files(&clone.path), case.states[1]);

    let kinds: Vec<(String, String)> = case
        .provost("diff", &["--step", "2", "--json"])
        .code(0)
        .json()
        .iter()
        .map(|line| (text(&line["path"]), text(&line["kind"])))
        .collect();
    let expected = [
        ("a.txt", "changed"),
        ("folder", "added"),
        ("folder/one", "deleted"),
        ("folder/two", "deleted"),
        ("kind", "deleted"),
        ("kind/inner", "added"),
    ];
    assert_eq!(kinds, expected.map(|(path, kind)| (path.to_owned(), kind.to_owned())));
    case.settings().bind(|| {
        assert_snapshot!("diff_of_a_step", case.provost("diff", &["--step", "2"]).code(0).stdout);
    });
    // A step that has begun and changed nothing yet, and one that has not.
    assert_eq!(case.provost("diff", &["--step", "4"]).code(0).stdout, "");
    let _ = case.provost("diff", &["--step", "5"]).code(2).says("the run has 4 steps: there is no step 5");
    let _ = case.provost("diff", &["--step", "0"]).code(2);
}

#[test]
fn diff_says_whose_work_it_shows_and_what_it_cannot() {
    let case = Case::new();
    case.repo.write("mine.txt", "mine\n");
    case.repo.write("large.bin", vec![7; 9 << 20]);
    case.end();
    let _ = case.provost("diff", &[]).code(8).says("`large.bin` is larger than 8 MiB");
    let lines = case.provost("diff", &["--json"]).code(0).json();
    let mine = lines.iter().find(|line| line["path"] == "mine.txt").unwrap();
    assert_eq!(mine["drifted"], true);
    let a = lines.iter().find(|line| line["path"] == "a.txt").unwrap();
    assert_eq!(a["drifted"], false);
    let step = case.provost("diff", &["--step", "1"]).code(0);
    assert!(step.stderr.is_empty(), "{step}");

    let _ = case.env.provost(["store", "archive", &case.run]).code(0);
    let gone = case.provost("diff", &[]).code(8).says("were dropped");
    assert_eq!(gone.stdout, "", "no half patch");
    let _ = case.provost("rewind", &[]).code(8).says("archived");
    let to = case.env.at("fork").display().to_string();
    let _ = case.provost("fork", &["--step", "1", "--to", &to]).code(8).says("archived");
    assert_eq!(case.provost("diff", &["--json"]).code(0).json(), lines);
}

#[test]
fn rewind_undoes_what_commands_did_step_by_step_and_back_again() {
    let case = Case::new();
    for step in [2, 0, 3, 1, 0] {
        let before = (files(case.workspace()), case.env.journal(&case.run));
        let dry = case.provost("rewind", &["--step", &step.to_string(), "--dry-run"]).code(0);
        assert!(dry.stdout.starts_with("diff --git "), "{dry}");
        assert_eq!((files(case.workspace()), case.env.journal(&case.run)), before);
        let ran = case.provost("rewind", &["--step", &step.to_string()]).code(0);
        assert_eq!(files(case.workspace()), case.states[step], "after step {step}\n{ran}");
    }
    assert_eq!(
        fs::read_to_string(case.workspace().join("ignored")).unwrap(),
        "i\n",
        "it is no part of the run"
    );
    let again = case.provost("rewind", &[]).code(0);
    assert!(again.stdout.starts_with("nothing to put back"), "{again}");

    // Only some of it, by a file's name or a folder's.
    let _ = case.provost("rewind", &["--step", "1", "--path", "made/", "--path", "run.sh"]).code(0);
    let (mut expected, later) = (case.states[0].clone(), &case.states[1]);
    for path in ["made/deep/new.txt", "run.sh"] {
        expected.insert(path.into(), later[Path::new(path)].clone());
    }
    assert_eq!(files(case.workspace()), expected);
    let _ = case.provost("rewind", &["--path", "README.md"]).code(2).says("changed nothing at `README.md`");
    let _ = case.provost("rewind", &["--path", "../x"]).code(2).says("--path");
    let _ = case.provost("rewind", &["--step", "9"]).code(2).says("there is no step 9");
    let objects = case.provost("rewind", &["--json"]).code(0).json();
    assert_eq!(objects.len(), 3);
    assert_eq!((&objects[2]["kind"], &objects[2]["files"]), (&json!("rewound"), &json!(2)));
    assert_eq!(files(case.workspace()), case.states[0]);
}

#[test]
fn a_file_with_somebodys_later_work_is_not_put_back() {
    let case = Case::new();
    case.repo.write("a.txt", "my own words\n");
    let before = files(case.workspace());
    let events = case.env.journal(&case.run).len();
    for more in [&[][..], &["--dry-run"], &["--path", "a.txt"]] {
        let ran = case.provost("rewind", more).code(2).says("`a.txt` is not as the run left it");
        assert!(ran.stderr.contains("nothing was put back"), "{ran}");
    }
    assert_eq!(
        (files(case.workspace()), case.env.journal(&case.run).len()),
        (before, events),
        "nothing happened"
    );
    // The controls: without that file, and once it is as the run left it.
    let _ = case.provost("rewind", &["--path", "run.sh"]).code(0);
    case.repo.write("a.txt", "three\nfour\n");
    let _ = case.provost("rewind", &[]).code(0);
    assert_eq!(files(case.workspace()), case.states[0]);

    // A file of somebody's where a folder of the run's stood.
    let _ = case.provost("rewind", &["--step", "3"]).code(0);
    case.repo.write("kind/theirs", "theirs\n");
    let _ = case.provost("rewind", &[]).code(2).says("`kind/theirs` stands there");
    assert_eq!(fs::read(case.workspace().join("kind/theirs")).unwrap(), b"theirs\n");
    fs::remove_file(case.workspace().join("kind/theirs")).unwrap();
    let _ = case.provost("rewind", &[]).code(0);
    assert_eq!(files(case.workspace()), case.states[0]);
}

#[test]
fn nothing_is_put_back_under_a_driver() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n"), (".gitignore", "flag\n")]);
    let slow = "echo two > a.txt; touch flag; while test -e flag; do sleep 0.01; done";
    let model = env.rehearse(&script([sh("echo zero > b.txt"), sh(slow), submit()]));
    let running = env.start(env.run_args(&repo.path, &model, &[]));
    eventually("the command runs", || repo.path.join("flag").exists());
    let run = env.only_run();
    for more in [&[][..], &["--dry-run"]] {
        let _ = env.provost([&["rewind", run.as_str()], more].concat()).code(7).says("is held by");
    }
    // A fork only reads; the step that is under way is not over, the one before it is.
    let to = env.at("fork").display().to_string();
    let _ = env.provost(["fork", &run, "--step", "2", "--to", &to]).code(2).says("step 2 is not over");
    let _ = env.provost(["fork", &run, "--step", "1", "--to", &to]).code(0);
    assert_eq!(fs::read_to_string(env.at("fork/a.txt")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(env.at("fork/b.txt")).unwrap(), "zero\n");
    fs::remove_file(repo.path.join("flag")).unwrap();
    let _ = running.wait().code(0);
    let _ = env.provost(["rewind", &run]).code(0);
    assert_eq!(fs::read_to_string(repo.path.join("a.txt")).unwrap(), "one\n");
    assert!(!repo.path.join("b.txt").exists());
}

#[test]
fn a_run_that_goes_on_after_a_rewind_tells_the_model() {
    let case = Case::new();
    let ran = case.provost("rewind", &["--step", "2"]).code(0);
    case.settings().bind(|| assert_snapshot!("rewind_for_a_person", ran.stdout));
    case.end();
    let told = case.told();
    assert!(told.contains("Put back: `a.txt`, `link`, `made/deep/new.txt`"), "{told}");
    let journal = case.env.journal(&case.run);
    assert_eq!(bodies(&journal, "workspace.drifted").len(), 0, "it is nobody's work");
    let notes: Vec<&Value> = bodies(&journal, "note");
    assert_eq!((notes.len(), &notes[0]["why"]), (1, &json!("rewound")));
    let log = case.provost("log", &[]).code(0).stdout;
    let line = log.lines().find(|line| line.contains("put back by")).unwrap();
    assert_eq!(line.trim(), "3 files put back by rewind, changed a.txt, link, added made/deep/new.txt");
    // What it came to is the second step and what was approved.
    let mut expected = case.states[2].clone();
    expected.insert("asked/yes.txt".into(), (0, b"asked\n".to_vec()));
    assert_eq!(files(case.workspace()), expected);
    let recipient = case.repo.clone_to("recipient").path.display().to_string();
    let (bundle, key) = (case.env.at("bundle").display().to_string(), case.env.public_key());
    let _ = case.provost("export", &["--out", &bundle]).code(0);
    let args = ["verify", &bundle, "--key", &key.display().to_string(), "--repo", &recipient];
    let ran = case.env.provost(args).code(0);
    assert!(ran.stdout.contains("holds   acts"), "{ran}");
}

#[test]
fn after_the_end_a_rewind_is_history_and_the_evidence_stays() {
    let case = Case::new();
    case.end();
    let before = case.env.at("before");
    let _ = case.provost("export", &["--out", &before.display().to_string()]).code(0);
    let diff = case.provost("diff", &[]).code(0).stdout;
    let ran = case.provost("rewind", &[]).code(0);
    assert!(ran.stdout.contains("what it came to, and its evidence, stay as they were"), "{ran}");
    assert_eq!(files(case.workspace()), case.states[0]);

    assert_eq!(case.provost("diff", &[]).code(0).says("put back since").stdout, diff);
    let show = case.provost("show", &[]).code(0).stdout;
    assert!(show.contains("put back since it ended: `a.txt`"), "{show}");
    let over = case.resume(&case.run).code(2);
    assert!(over.stderr.contains("does not wait"), "{over}");
    let _ = case.env.provost(["resume", &case.run, "--base-url", &case.model.base_url]).code(0);

    let after = case.env.at("after");
    let _ = case.provost("export", &["--out", &after.display().to_string()]).code(0);
    for name in ["changes.patch", "journal.jsonl", "result.dsse.json"] {
        assert_eq!(fs::read(before.join(name)).unwrap(), fs::read(after.join(name)).unwrap(), "{name}");
    }
    let key = case.env.public_key().display().to_string();
    let (after, repo) = (after.display().to_string(), case.workspace().display().to_string());
    let _ = case.env.provost(["verify", &after, "--key", &key, "--repo", &repo]).code(0);
    // And back: the end of step 4 is the end of the run.
    let _ = case.provost("rewind", &["--step", "5"]).code(0);
    assert!(files(case.workspace()).contains_key(Path::new("asked/yes.txt")));
}

#[test]
fn a_fork_has_the_files_of_its_step_and_its_parent_is_left_alone() {
    let case = Case::new();
    let store = |run: &str| case.env.provost(["log", run, "--json"]).code(0).stdout;
    let parent = store(&case.run);
    for step in 0..=3 {
        for (more, kind) in [(&[][..], "work tree"), (&["--no-worktree"], "plain folder")] {
            let to = case.env.at(format!("{kind}-{step}"));
            let named = to.display().to_string();
            let step_named = step.to_string();
            let args = [&["--step", &step_named, "--to", &named], more].concat();
            let ran = case.provost("fork", &args).code(0);
            assert!(ran.stdout.contains(kind), "{ran}");
            assert_eq!(files(&to), case.states[step], "{kind} of step {step}");
        }
    }
    assert_eq!((store(&case.run), files(case.workspace())), (parent, case.states[3].clone()));
    // In the work tree git sees what the run changed, and no more.
    let tree = Repo::at(&case.env.at("work tree-1"), case.env.root());
    assert_eq!(tree.head(), case.repo.head());
    let status = tree.git(&["status", "--porcelain"]);
    let expected = " M a.txt\n D gone.txt\n M run.sh\n?? bin.dat\n?? link\n?? made/\n";
    assert_eq!(status, expected);
    let start = Repo::at(&case.env.at("work tree-0"), case.env.root());
    assert_eq!(start.git(&["status", "--porcelain"]), "");

    let taken = case.env.at("plain folder-1").display().to_string();
    let _ = case.provost("fork", &["--step", "1", "--to", &taken]).code(2).says("is not empty");
    let inside = case.workspace().join("inside").display().to_string();
    let _ = case.provost("fork", &["--step", "1", "--to", &inside]).code(2).says("lies in the workspace");
    let to = case.env.at("another").display().to_string();
    let _ = case.provost("fork", &["--step", "4", "--to", &to]).code(2).says("step 4 is not over");
    let _ = case.provost("fork", &["--step", "1", "--to", &to, "--id", &case.run]).code(2);
    assert!(!Path::new(&to).exists(), "nothing is left of what was refused");
    let ran = case.provost("fork", &["--step", "1", "--to", &to, "--id", "by-name"]).code(0);
    case.settings().bind(|| {
        assert_snapshot!("fork_for_a_person", ran.stdout);
        let show = case.env.provost(["show", "by-name"]).code(0).stdout;
        assert_snapshot!("fork_shown", show);
    });
}

#[test]
fn a_fork_goes_on_to_its_end_and_its_evidence_verifies() {
    let case = Case::in_folder("package");
    let key = case.env.public_key().display().to_string();
    let recipient = case.repo.clone_to("recipient").path.display().to_string();
    let mut parent = case.run.clone();
    // A fork, and a fork of that.
    for (name, step) in [("first-fork", 1), ("second-fork", 2)] {
        let to = case.env.at(name);
        let named = to.display().to_string();
        let step_named = step.to_string();
        let args = ["fork", &parent, "--step", &step_named, "--to", &named, "--id", name];
        let _ = case.env.provost(args).code(0);
        assert_eq!(files(&to.join("package")), case.states[step]);
        assert!(to.join("README.md").exists(), "what lies around the workspace is there too");
        let _ = case.env.provost(["resume", name, "--base-url", &case.model.base_url]).code(5);
        assert_eq!(files(&to.join("package")), case.states[3]);
        let _ = case.resume(name).code(0);
        let bundle = case.env.at(format!("{name}-bundle")).display().to_string();
        let _ = case.env.provost(["export", name, "--out", &bundle]).code(0);
        let ran = case.env.provost(["verify", &bundle, "--key", &key, "--repo", &recipient]).code(0);
        assert!(ran.stdout.contains(&format!("forked from run {parent}: ")), "{ran}");
        let journal = case.env.journal(name);
        let created = bodies(&journal, "run.created")[0].clone();
        assert_eq!(text(&created["forked"]["run"]), parent);
        let asked: Vec<String> =
            bodies(&journal, "model.answered").iter().map(|body| text(&body["invocation"])).collect();
        assert_eq!(asked[0], format!("{}.0", case.run), "its own answers are the oldest's");
        assert_eq!(asked[asked.len() - 1], format!("{name}.4"));
        parent = name.to_owned();
    }
    // The parent goes on as if there were no fork.
    case.end();
    let request = case.told();
    assert!(request.contains("repository/package"), "the parent's model has the parent's folder");
}

#[test]
fn a_fork_does_with_what_is_in_no_commit_what_it_can() {
    let env = TestEnvironment::new();
    let folder = env.at("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("kept.txt"), "kept\n").unwrap();
    fs::write(folder.join("large.bin"), vec![3; 9 << 20]).unwrap();
    let model = env.rehearse(&script([sh("echo new > new.txt"), submit()]));
    let run = env.run(&folder, &model, &["--no-repo"]).code(0).run();
    let fork =
        |name: &str| env.provost(["fork", &run, "--step", "1", "--to", &env.at(name).display().to_string()]);
    let _ = fork("one").code(0);
    assert_eq!(files(&env.at("one")), files(&folder));
    fs::write(folder.join("kept.txt"), "other\n").unwrap();
    let _ = fork("two").code(0);
    assert_eq!(fs::read(env.at("two/kept.txt")).unwrap(), b"kept\n");
    fs::write(folder.join("large.bin"), vec![4; 9 << 20]).unwrap();
    let _ = fork("three").code(2).says("the content of `large.bin` is nowhere any more");
    assert!(!env.at("three").exists());
}

#[test]
fn a_terminal_is_shown_what_a_patch_holds_and_a_program_gets_it_as_it_is() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&script([sh("printf 'x\\033[2Jy\\n' > a.txt"), submit()]));
    let run = env.run(&repo.path, &model, &[]).code(0).run();
    let piped = env.provost(["diff", &run]).code(0).stdout;
    assert!(piped.contains("+x\u{1b}[2Jy\n"), "{piped}");
    let clone = repo.clone_to("clone");
    apply(&clone, &piped);
    assert_eq!(fs::read(clone.path.join("a.txt")).unwrap(), b"x\x1b[2Jy\n");

    let provost = env.provost_command(["diff", &run]);
    let mut command = env.command("python3");
    command.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]).arg(provost.get_program());
    command.args(provost.get_args());
    let shown = finish(command).code(0).stdout;
    assert!(shown.contains("+x\\u{1b}[2Jy"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
}
