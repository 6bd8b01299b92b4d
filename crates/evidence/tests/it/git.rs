//! Reading repositories that are hostile, odd, or of the other object format.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use provost_core::path::RelPath;
use provost_evidence::git::{GitError, Repository, is_git_folder_name};
use provost_evidence::tree::{BlobOid, TreeEntry, hex, tree_digest};

use crate::git_repo::{Format, Repo};

fn rel(path: &str) -> RelPath {
    RelPath::parse(path).expect("path")
}

/// Mode and content by name.
type Files = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

/// All files beneath a folder: name, mode, content.
fn on_disk(root: &Path) -> Files {
    fn walk(root: &Path, at: &Path, found: &mut Files) {
        for entry in fs::read_dir(at).expect("lists") {
            let path = entry.expect("entry").path();
            let meta = fs::symlink_metadata(&path).expect("meta");
            let name = path.strip_prefix(root).expect("inside").as_os_str().as_bytes().to_vec();
            if meta.is_dir() {
                walk(root, &path, found);
            } else if meta.is_symlink() {
                let target = fs::read_link(&path).expect("link");
                found.insert(name, (0o120_000, target.as_os_str().as_bytes().to_vec()));
            } else {
                found.insert(name, (meta.permissions().mode() & 0o111, fs::read(&path).expect("reads")));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

fn export(repo: &Repo, commit: &str, scope: &str) -> Result<Files, GitError> {
    let out = tempfile::tempdir().expect("temp");
    let into = out.path().join("new");
    let result = Repository::discover(repo.path())?.export(commit, &rel(scope), &into);
    match result {
        Ok(_) => Ok(on_disk(&into)),
        Err(error) => {
            assert!(!into.exists(), "nothing is written before all was checked");
            Err(error)
        }
    }
}

#[test]
fn an_export_holds_the_commit_and_nothing_else_in_both_formats() {
    for format in [Format::Sha1, Format::Sha256] {
        let repo = Repo::new(format);
        repo.write("pkg/src/a.rs", "committed\r\n");
        repo.write("pkg/run.sh", "#!/bin/sh\n");
        fs::set_permissions(repo.join("pkg/run.sh"), fs::Permissions::from_mode(0o755)).expect("chmod");
        symlink("src/../run.sh", repo.join("pkg/link")).expect("links");
        let odd = repo.path().join("pkg").join(std::ffi::OsStr::from_bytes(b"b\xff \"c\"\n"));
        fs::write(&odd, b"odd").expect("writes");
        repo.write("other/secret", "not in scope");
        let commit = repo.commit();
        repo.write("pkg/src/a.rs", "dirty");
        repo.write("pkg/untracked", "untracked");
        fs::remove_file(&odd).expect("removes");

        let opened = Repository::discover(&repo.join("pkg/src")).expect("found");
        assert_eq!(opened.head().expect("head"), Some(commit.clone()));
        assert_eq!(opened.resolve("main").expect("resolves"), commit);
        assert_eq!(opened.resolve(&commit[..8]).expect("resolves"), commit);
        assert!(matches!(opened.resolve("--all"), Err(GitError::NoCommit(_))));
        assert!(matches!(opened.resolve("nothing"), Err(GitError::NoCommit(_))));
        assert_eq!(opened.prefix(&repo.join("pkg/src")).expect("prefix"), rel("pkg/src"));
        assert_eq!(opened.prefix(repo.path()).expect("prefix"), RelPath::root());

        let found = export(&repo, &commit, "pkg").expect("exports");
        let expected = BTreeMap::from([
            (b"b\xff \"c\"\n".to_vec(), (0, b"odd".to_vec())),
            (b"link".to_vec(), (0o120_000, b"src/../run.sh".to_vec())),
            (b"run.sh".to_vec(), (0o111, b"#!/bin/sh\n".to_vec())),
            (b"src/a.rs".to_vec(), (0, b"committed\r\n".to_vec())),
        ]);
        assert_eq!(found, expected);

        let tree = opened.commit_entries(&commit, &rel("pkg")).expect("lists");
        let entries: Vec<_> = tree
            .entries
            .iter()
            .map(|entry| {
                let content = &expected[&entry.path.to_bytes()].1;
                assert_eq!(entry.size, content.len() as u64);
                TreeEntry { path: entry.path.clone(), mode: entry.mode, oid: BlobOid::of(content) }
            })
            .collect();
        let digest = tree_digest(&entries).expect("a tree");
        let id = if format == Format::Sha1 { digest.sha1 } else { digest.sha256.to_string() };
        assert_eq!(id, tree.tree);
        assert_eq!(repo.git(&["rev-parse", "HEAD:pkg"]).trim(), tree.tree);
        let tracked = opened.tracked(&repo.join("pkg")).expect("lists");
        assert_eq!(tracked, tree.entries.iter().map(|entry| entry.path.clone()).collect::<Vec<_>>());
        assert!(matches!(
            opened.commit_entries(&commit, &rel("pkg/run.sh")),
            Err(GitError::NoFolder { scope, .. }) if scope == rel("pkg/run.sh")
        ));
        assert!(matches!(opened.commit_entries(&commit, &rel("nowhere")), Err(GitError::NoFolder { .. })));
    }
}

#[test]
fn a_repository_is_found_from_below_and_in_folders_of_odd_names() {
    let repo = Repo::new(Format::Sha256);
    for name in [".", "plain", "two words", "a\nline end", "a\n", "-x\n\n--y"] {
        let root = repo.join(name);
        let below = root.join("src\n").join("deep");
        std::fs::create_dir_all(&below).unwrap();
        if name != "." {
            repo.git(&["init", "-q", "--object-format=sha1", "--", &root.to_string_lossy()]);
        }
        let found = Repository::discover(&below).unwrap();
        assert_eq!(found.root(), root.canonicalize().unwrap(), "{name:?}");
        let exclude = &found.exclude_files(None).unwrap()[0];
        assert_eq!(
            exclude.canonicalize().unwrap(),
            root.canonicalize().unwrap().join(".git/info/exclude"),
            "{name:?}"
        );
    }
}

#[test]
fn folders_without_a_repository_or_a_work_tree_are_named() {
    let folder = tempfile::tempdir().expect("temp");
    assert!(matches!(Repository::discover(folder.path()), Err(GitError::NotARepository(_))));
    assert!(matches!(Repository::discover(&folder.path().join("none")), Err(GitError::Io { .. })));
    let repo = Repo::new(Format::Sha1);
    assert!(matches!(Repository::discover(&repo.join(".git")), Err(GitError::Bare(_))));
    assert_eq!(Repository::discover(repo.path()).expect("found").head().expect("unborn"), None);
    repo.git(&["init", "-q", "--bare", "bare.git"]);
    assert!(matches!(Repository::discover(&repo.join("bare.git")), Err(GitError::Bare(_))));
}

/// Everything in a repository that git can be made to run, each leaving a marker. Plain git is the control: the
/// markers do come.
#[test]
fn a_hostile_repository_runs_nothing() {
    let repo = Repo::new(Format::Sha1);
    repo.write("f.txt", "plain\n");
    let plain = repo.commit();
    let marks = tempfile::tempdir().expect("temp");
    let mark = |name: &str| format!("touch {}; cat", marks.path().join(name).display());
    let script = |name: &str| {
        let path = repo.join(format!(".git/{name}.sh"));
        fs::write(&path, format!("#!/bin/sh\n{}\n", mark(name))).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        path.display().to_string()
    };
    fs::write(repo.join(".git/info/attributes"), "* filter=evil diff=evil\n").expect("writes");
    fs::create_dir_all(repo.join("hooks-here")).expect("folder");
    for hook in ["post-checkout", "post-index-change", "pre-commit", "reference-transaction"] {
        fs::copy(script("hook"), repo.join(format!("hooks-here/{hook}"))).expect("copies");
    }
    for (key, value) in [
        ("core.fsmonitor", script("fsmonitor")),
        ("core.hooksPath", repo.join("hooks-here").display().to_string()),
        ("filter.evil.clean", mark("clean")),
        ("filter.evil.smudge", mark("smudge")),
        ("diff.evil.textconv", script("textconv")),
        ("core.pager", mark("pager")),
        ("core.sshCommand", mark("ssh")),
        ("alias.ls-tree", format!("!{}", mark("alias"))),
    ] {
        repo.git(&["config", key, &value]);
    }
    // A replacement for the blob that was committed.
    let blob = repo.git(&["rev-parse", &format!("{plain}:f.txt")]).trim().to_owned();
    let other =
        repo.git_with(&["hash-object", "-w", "--no-filters", "--stdin"], b"replaced\n").trim().to_owned();
    repo.git(&["replace", &blob, &other]);
    let seen = || -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(marks.path())
            .expect("lists")
            .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        for name in &names {
            fs::remove_file(marks.path().join(name)).expect("removes");
        }
        names
    };
    seen();

    let opened = Repository::discover(repo.path()).expect("found");
    let found = export(&repo, &opened.resolve("main").expect("resolves"), ".").expect("exports");
    assert_eq!(found[&b"f.txt"[..]].1, b"plain\n");
    assert_eq!(opened.tracked(repo.path()).expect("lists"), [rel("f.txt")]);
    assert_eq!(opened.missing(&[blob.clone(), "0".repeat(40)]).expect("asks"), ["0".repeat(40)]);
    assert_eq!(seen(), Vec::<String>::new());

    // The control: the same repository under plain git.
    assert_eq!(repo.git(&["cat-file", "-p", &blob]), "replaced\n");
    repo.write("f.txt", "changed\n");
    repo.try_with(&["status"], b"");
    repo.try_with(&["diff"], b"");
    repo.try_with(&["checkout", "--", "f.txt"], b"");
    repo.try_with(&["checkout", "-q", "-b", "side"], b"");
    assert_eq!(seen(), ["clean", "fsmonitor", "hook", "smudge", "textconv"]);
}

/// A partial clone fetches what it lacks, by a command that the repository names.
#[test]
fn a_missing_object_is_named_and_not_fetched() {
    let repo = Repo::new(Format::Sha1);
    repo.write("f.txt", "plain\n");
    let commit = repo.commit();
    let marks = tempfile::tempdir().expect("temp");
    let marker = marks.path().join("fetched");
    let blob = repo.git(&["rev-parse", "HEAD:f.txt"]).trim().to_owned();
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::touch {}", marker.display())),
        ("protocol.ext.allow", "always"),
    ] {
        repo.git(&["config", key, value]);
    }
    fs::remove_file(repo.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).expect("removes");
    let error = export(&repo, &commit, ".").expect_err("missing");
    assert!(error.to_string().contains(&blob), "{error}");
    assert!(!marker.exists());
    // The control.
    repo.try_with(&["cat-file", "-p", &blob], b"");
    assert!(marker.exists());
}

/// Trees that no git would write, made by hand.
#[test]
fn forged_names_links_and_submodules_are_refused_by_name() {
    let repo = Repo::new(Format::Sha1);
    repo.write("f", "x");
    repo.commit();
    let blob = |content: &[u8]| repo.git_with(&["hash-object", "-w", "--stdin"], content).trim().to_owned();
    let x = blob(b"x");
    let commit_of = |entries: &[(&str, &[u8], &str)]| {
        let mut raw = Vec::new();
        for (mode, name, oid) in entries {
            raw.extend_from_slice(format!("{mode} ").as_bytes());
            raw.extend_from_slice(name);
            raw.push(0);
            raw.extend((0..20).map(|at| u8::from_str_radix(&oid[at * 2..at * 2 + 2], 16).expect("hex")));
        }
        let tree = repo.git_with(&["hash-object", "-w", "--literally", "-t", "tree", "--stdin"], &raw);
        repo.git(&["commit-tree", "-m", "c", tree.trim()]).trim().to_owned()
    };
    for name in [
        &b".git"[..],
        b".GIT",
        b"git~1",
        b".git ",
        b".g\xe2\x80\x8cit",
        b".git::$INDEX_ALLOCATION",
        b"a\\.git\\b",
    ] {
        assert!(is_git_folder_name(name));
        let error = export(&repo, &commit_of(&[("100644", name, &x)]), ".").expect_err("refused");
        assert!(matches!(error, GitError::BadName(_)), "{error}");
    }
    for name in [&b".."[..], b".", b"a/../../b", b"/etc/x"] {
        assert!(export(&repo, &commit_of(&[("100644", name, &x)]), ".").is_err());
    }
    for target in [&b"/etc/passwd"[..], b"../x", b"a/../../x", b""] {
        let commit = commit_of(&[("120000", b"link", &blob(target))]);
        let error = export(&repo, &commit, ".").expect_err("refused");
        assert!(matches!(&error, GitError::LinkOut { path, .. } if *path == rel("link")), "{error}");
    }
    // Each is inside by its text; together they lead out: `hop/..` is where `d/e/up` leads, and up from there.
    repo.git(&["rm", "-rq", "--cached", "."]);
    fs::create_dir_all(repo.join("d/e")).expect("folders");
    symlink("../..", repo.join("d/e/up")).expect("links");
    symlink("d/e/up/../..", repo.join("hop")).expect("links");
    let error = export(&repo, &repo.commit(), ".").expect_err("refused");
    assert!(matches!(&error, GitError::LinkOut { path, .. } if *path == rel("hop")), "{error}");

    let commit = commit_of(&[("100644", b"f", &x), ("160000", b"sub", &"1".repeat(40))]);
    assert!(matches!(export(&repo, &commit, "."), Err(GitError::Submodule(path)) if path == rel("sub")));
    // A mode of git's first months: `ls-tree` shows another, which is not what the tree's id says.
    assert!(matches!(export(&repo, &commit_of(&[("100664", b"f", &x)]), "."), Err(GitError::OddTree(_))));
    assert!(export(&repo, &commit_of(&[("100644", b"f", &x), ("120000", b"f", &x)]), ".").is_err());
}

#[test]
fn content_under_a_wrong_id_is_found() {
    let repo = Repo::new(Format::Sha1);
    repo.write("f", "right");
    let commit = repo.commit();
    let right = hex(&BlobOid::of(b"right").sha1);
    let wrong = repo.git_with(&["hash-object", "-w", "--stdin"], b"wrong").trim().to_owned();
    let file = |oid: &str| repo.join(format!(".git/objects/{}/{}", &oid[..2], &oid[2..]));
    fs::set_permissions(file(&right), fs::Permissions::from_mode(0o644)).expect("chmod");
    fs::copy(file(&wrong), file(&right)).expect("swaps");
    let out = tempfile::tempdir().expect("temp");
    let error = Repository::discover(repo.path())
        .and_then(|opened| opened.export(&commit, &rel("."), &out.path().join("new")))
        .expect_err("found");
    assert!(matches!(&error, GitError::Altered(oid) if *oid == right), "{error}");
}

/// More than any pipe holds, in both directions.
#[test]
fn many_and_large_blobs_pass_without_a_deadlock() {
    let repo = Repo::new(Format::Sha1);
    repo.write("large", vec![b'x'; 3 << 20]);
    repo.commit();
    let large = hex(&BlobOid::of(&vec![b'x'; 3 << 20]).sha1);
    let opened = Repository::discover(repo.path()).expect("found");
    let mut bytes = 0;
    opened
        .each_blob(&vec![large.clone(); 60], |_, content| {
            bytes += content.len();
            Ok(())
        })
        .expect("reads");
    assert_eq!(bytes, 60 * (3 << 20));
    assert!(opened.missing(&vec![large.clone(); 20_000]).expect("asks").is_empty());
    // An end in the middle leaves no process behind.
    let stopped = opened.each_blob(&vec![large; 60], |_, _| Err(GitError::NoGit));
    assert!(matches!(stopped, Err(GitError::NoGit)));
}

#[test]
fn a_repository_of_somebody_else_is_read() {
    if !rustix_is_root() {
        println!("not run: only root can give files away");
        return;
    }
    let repo = Repo::new(Format::Sha1);
    repo.write("f", "x");
    let commit = repo.commit();
    let chown = std::process::Command::new("chown").args(["-R", "nobody"]).arg(repo.path()).status();
    assert!(chown.expect("runs").success());
    assert!(!repo.try_with(&["log"], b"").status.success(), "the control: plain git refuses");
    assert_eq!(export(&repo, &commit, ".").expect("exports").len(), 1);
}

fn rustix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}
