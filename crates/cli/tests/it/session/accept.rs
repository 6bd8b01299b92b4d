//! Who receives a result: with Provost, which makes a branch and touches nothing else, and with git alone.

use std::fs;
use std::path::Path;

use super::Governed;
use crate::script::{read, script, sh, submit, write};
use crate::support::{LIB_RS, Ran, Repo, Running, eventually, finish, text};

/// A closed session that changed, made, removed and linked files and made one executable; its bundle.
fn received() -> (Governed, std::path::PathBuf) {
    let mended = LIB_RS.replace("left - right", "left + right");
    let it = Governed::playing(&script([
        read("src/lib.rs"),
        write("src/lib.rs", &mended),
        sh(
            "printf '\\000\\001binary' > data.bin; printf 'no newline' > 'a name'; printf 'a\\r\\nb\\r\\n' > crlf.txt",
        ),
        sh("echo '#!/bin/sh' > tool; chmod +x tool; ln -s tool link; rm old.txt"),
        submit(),
    ]));
    it.package.repo.write("package/old.txt", "old\n");
    it.package.repo.commit();
    for (name, value) in [("user.name", "Recipient"), ("user.email", "recipient@example.com")] {
        it.package.repo.git(&["config", name, value]);
    }
    let bundle = it.env.at("bundle");
    let _ = it.own(&["--allow-dangerous", "binaries", "-o", &bundle.display().to_string()]).code(0);
    (it, bundle)
}

/// What the result's statement says that the scope's tree has become, by git's own id.
fn stated_tree(it: &Governed, bundle: &Path) -> String {
    let mut python = it.env.command("python3");
    let script = "import base64,json,sys\n\
                  said = json.loads(base64.b64decode(json.load(open(sys.argv[1]))['payload']))\n\
                  print(*[of['digest']['gitTree'] for of in said['subject'] if of['name'] == 'tree'])";
    python.args(["-c", script]).arg(bundle.join("result.dsse.json"));
    finish(python).code(0).stdout.trim().to_owned()
}

/// Has git apply a patch to a checkout of the commit; the tree of the scope afterwards.
fn applied(it: &Governed, name: &str, patch: &Path) -> Result<String, Ran> {
    let clone = it.package.repo.clone_to(name);
    let patch = patch.display().to_string();
    for more in [&["--check"][..], &["--index"]] {
        let mut args = vec!["apply"];
        args.extend(more);
        args.push(&patch);
        let ran = finish(clone.command(&args));
        if ran.code != 0 {
            return Err(ran);
        }
    }
    Ok(tree_of(&clone))
}

fn tree_of(repo: &Repo) -> String {
    let whole = repo.git(&["write-tree"]);
    repo.git(&["rev-parse", &format!("{}:package", whole.trim())]).trim().to_owned()
}

#[test]
fn git_alone_comes_to_the_tree_that_was_signed() {
    let (it, bundle) = received();
    let patch = bundle.join("changes.patch");
    let signed = stated_tree(&it, &bundle);
    assert_eq!(applied(&it, "clean", &patch).unwrap(), signed);
    // What is changed in it comes to something else, or to nothing.
    let text = fs::read_to_string(&patch).unwrap();
    let other = it.env.at("other.patch");
    fs::write(&other, text.replace("+    left + right", "+    left * right")).unwrap();
    assert_ne!(applied(&it, "other", &other).unwrap(), signed);
    fs::write(&other, text.replace("-    left - right", "-    left / right")).unwrap();
    assert_ne!(applied(&it, "wrong", &other).unwrap_err().code, 0);
}

/// Everything of a repository that accepting must leave alone: HEAD, index, files, what is dirty.
fn untouched(repo: &Repo) -> [String; 4] {
    [
        repo.head(),
        repo.git(&["symbolic-ref", "HEAD"]),
        repo.git(&["ls-files", "--stage"]),
        repo.git(&["diff", "--no-ext-diff"]),
    ]
}

fn accept(it: &Governed, session: &str, branch: &str) -> Running {
    let path = it.package.repo.path.display().to_string();
    it.env.start(["session", "accept", session, "--repo", &path, "--branch", branch])
}

#[test]
fn of_those_who_accept_at_once_one_makes_the_branch_and_all_leave_the_work_tree_alone() {
    let (it, _) = received();
    let session = it.only();
    let repo = &it.package.repo;
    let base = repo.head();
    // A recipient who works: HEAD has moved, the index and the very file that the result changes are dirty.
    repo.write("package/src/lib.rs", "// mine\n");
    repo.git(&["commit", "-q", "-am", "Mine"]);
    repo.write("package/src/lib.rs", "// mine, and not committed\n");
    repo.write("staged.txt", "staged\n");
    repo.git(&["add", "staged.txt"]);
    let before = untouched(repo);

    let racing: Vec<Running> = (0..4).map(|_| accept(&it, &session, "mended")).collect();
    let mut codes: Vec<i32> = racing.into_iter().map(|one| one.wait().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 2, 2, 2], "one makes the branch, the others are told that it is there");
    assert_eq!(untouched(repo), before);
    assert_eq!(
        repo.git(&["rev-parse", "mended^"]).trim(),
        base,
        "its parent is the commit that was worked on"
    );
    let branches = repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches.split_whitespace().collect::<Vec<_>>(), ["refs/heads/main", "refs/heads/mended"]);
    assert_eq!(tree_in(repo, "mended"), stated_tree(&it, &it.folder(&session).join("result")));
}

fn tree_in(repo: &Repo, branch: &str) -> String {
    repo.git(&["rev-parse", &format!("{branch}:package")]).trim().to_owned()
}

#[test]
fn a_bundle_that_is_exchanged_after_it_was_read_is_not_what_is_accepted() {
    let (it, bundle) = received();
    let repo = &it.package.repo;
    let good = stated_tree(&it, &bundle);
    let path = repo.path.display().to_string();
    let (dir, trust) =
        (bundle.display().to_string(), it.env.at("config/provost/trust").display().to_string());
    let args =
        ["session", "accept", &dir, "--repo", &path, "--branch", "mended", "--trust", &trust, "--json"];
    let mut accepting = it.env.start(args);
    // It writes its own copy once it has read all of it.
    let has_read = || {
        let mut made = fs::read_dir(it.env.at("tmp")).unwrap().flatten();
        made.any(|entry| {
            entry.file_name().to_string_lossy().starts_with("provost-verify-")
                && entry.path().join("bundle").is_dir()
        })
    };
    eventually("it has read the bundle", || has_read() || accepting.is_over());
    let away = it.env.at("away");
    fs::rename(&bundle, &away).unwrap();
    fs::create_dir(&bundle).unwrap();
    fs::write(bundle.join("changes.patch"), "other").unwrap();
    let accepted = accepting.wait().code(0).last();
    assert_eq!(text(&accepted["branch"]), "mended");
    assert_eq!(tree_in(repo, "mended"), good);
    // The control: what lies there now is no bundle.
    let _ = it.session("accept", &[&dir, "--repo", &path, "--branch", "other", "--trust", &trust]).code(8);
}
