//! The demonstration and its evidence, as a recipient would check them from the command line.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Ran, Repo, TestEnvironment, files_with};

const CANARY: &str = "canary-7c1d-not-committed";

fn demo(env: &TestEnvironment, name: &str) -> PathBuf {
    let _ = env.provost(["demo", "--out", name]).code(0);
    env.at(name)
}

fn verify(env: &TestEnvironment, demo: &Path, bundle: &Path, key: &str) -> Ran {
    let (key, repo) = (demo.join("keys").join(key), demo.join("repository"));
    let args = [bundle.as_os_str(), "--key".as_ref(), key.as_os_str(), "--repo".as_ref(), repo.as_os_str()];
    env.provost(std::iter::once("verify".as_ref()).chain(args))
}

#[test]
fn the_demonstration_runs_twice_and_leaves_nothing_behind() {
    let env = TestEnvironment::new();
    for name in ["one", "two"] {
        let folder = demo(&env, name);
        let source = fs::read_to_string(folder.join("recipient/package/src/lib.rs")).unwrap();
        assert!(source.contains("left + right"), "{source}");
        let mut cargo = env.command("cargo");
        cargo.args(["test", "--offline"]).current_dir(folder.join("recipient/package"));
        let _ = crate::support::finish(cargo).code(0);

        // The control: the canary is where it was planted, so a search would find it.
        assert_eq!(
            files_with(&folder.join("repository"), CANARY),
            [folder.join("repository/package/notes.txt")]
        );
        for part in ["store", "bundle", "requests.ndjson", "workspace", "recipient"] {
            assert_eq!(files_with(&folder.join(part), CANARY), Vec::<PathBuf>::new());
        }
        let untouched = fs::read_to_string(folder.join("repository/package/src/lib.rs")).unwrap();
        assert!(untouched.contains("left - right"));
    }
    env.assert_no_processes();
}

#[test]
fn a_demonstration_for_programs_is_one_object_a_line() {
    let env = TestEnvironment::new();
    let ran = env.provost(["demo", "--out", "x", "--json"]).code(0);
    let lines = ran.json();
    assert!(lines.iter().all(|line| line["kind"].is_string()));
    let last = ran.last();
    assert_eq!(
        (&last["kind"], &last["outcome"], &last["exit_code"]),
        (&"demo.done".into(), &"done".into(), &0.into())
    );
    let tools: Vec<&str> = lines
        .iter()
        .filter(|line| line["kind"] == "act.decided")
        .map(|line| line["body"]["tool"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["exec", "read_file", "write_file", "edit_file", "exec", "submit", "gate"]);
}

#[test]
fn a_folder_that_is_not_empty_is_refused() {
    let env = TestEnvironment::new();
    fs::create_dir(env.at("full")).unwrap();
    fs::write(env.at("full/mine"), "mine").unwrap();
    let _ = env.provost(["demo", "--out", "full"]).code(2).says("not empty");
    assert_eq!(fs::read_to_string(env.at("full/mine")).unwrap(), "mine");
}

/// A change to a bundle and the claim that must not hold then.
type Tampering = (&'static str, &'static str, fn(&Path));

fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn journal_lines(bundle: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let path = bundle.join("journal.jsonl");
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

#[test]
fn i7_a_bundle_that_was_tampered_with_is_refused_with_its_own_reason() {
    let env = TestEnvironment::new();
    let folder = demo(&env, "d");
    // The control: untouched it verifies.
    let _ = verify(&env, &folder, &folder.join("bundle"), "runner.pub.pem").code(0);

    let tamperings: &[Tampering] = &[
        ("a byte of the patch", "files", |b| rewrite(&b.join("changes.patch"), |bytes| bytes[20] ^= 1)),
        ("a byte of the journal", "files", |b| rewrite(&b.join("journal.jsonl"), |bytes| bytes[200] ^= 1)),
        ("the last event dropped", "files", |b| journal_lines(b, |lines| drop(lines.pop()))),
        ("two events exchanged", "files", |b| journal_lines(b, |lines| lines.swap(3, 4))),
        ("a byte of the envelope", "signature", |b| {
            rewrite(&b.join("result.dsse.json"), |bytes| bytes[40] ^= 1)
        }),
        ("a byte of a blob", "blobs", |b| {
            let blob = fs::read_dir(b.join("blobs")).unwrap().next().unwrap().unwrap().path();
            rewrite(&blob, |bytes| bytes[5] ^= 1);
        }),
        ("a file that does not belong", "", |b| fs::write(b.join("extra"), "x").unwrap()),
    ];
    let mut reasons = Vec::new();
    for (number, (what, claim, tamper)) in tamperings.iter().enumerate() {
        let copy = env.at(format!("copy-{number}"));
        copy_tree(&folder.join("bundle"), &copy);
        tamper(&copy);
        let ran = verify(&env, &folder, &copy, "runner.pub.pem").code(8);
        let reason = ran.stdout.lines().last().unwrap_or_default().to_owned();
        assert!(reason.starts_with(&format!("NOT verified: {claim}")), "{what}: {ran}");
        reasons.push(reason);
    }
    let stranger = verify(&env, &folder, &folder.join("bundle"), "stranger.pub.pem").code(8);
    reasons.push(stranger.stdout.lines().last().unwrap_or_default().to_owned());
    let distinct: std::collections::BTreeSet<&String> = reasons.iter().collect();
    assert!(distinct.len() >= reasons.len() - 1, "each says what is wrong: {reasons:#?}");
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn another_commit_scope_or_repository_is_refused() {
    let env = TestEnvironment::new();
    let folder = demo(&env, "d");
    let bundle = folder.join("bundle");
    let key = folder.join("keys/runner.pub.pem");
    let check = |more: &[&str]| {
        let mut args = vec!["verify".to_owned(), bundle.display().to_string()];
        args.extend(["--key".to_owned(), key.display().to_string()]);
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        env.provost(args)
    };
    let repository = folder.join("repository").display().to_string();
    let ran = check(&["--repo", &repository, "--scope", "package/"]).code(0);
    let commit = ran.stdout.lines().find_map(|line| line.strip_prefix("began with commit ")).unwrap();
    let commit = commit.split(',').next().unwrap().to_owned();
    let _ = check(&["--repo", &repository, "--commit", &commit]).code(0);
    let _ = check(&["--repo", &repository, "--commit", &"0".repeat(40)]).code(8);
    let _ = check(&["--repo", &repository, "--scope", "other"]).code(8);

    let other: Repo = env.repository("other", &[("a", "b")]);
    let ran = check(&["--repo", &other.path.display().to_string()]).code(8);
    assert!(ran.stdout.contains("NOT verified: base"), "{ran}");
    let ran = check(&["--no-repo"]).code(0);
    assert!(ran.stdout.contains("not checked"), "{ran}");
}

#[test]
fn others_read_the_attestation_too() {
    let python = std::env::var_os("PROVOST_TEST_PYTHON")
        .expect("PROVOST_TEST_PYTHON names a Python with securesystemslib: run the tests by `./test`");
    let env = TestEnvironment::new();
    let folder = demo(&env, "d");
    let check = |key: &str| {
        let program = "import copy, json, sys\n\
            from cryptography.hazmat.primitives.serialization import load_pem_public_key\n\
            from securesystemslib.dsse import Envelope\n\
            from securesystemslib.signer import SSlibKey\n\
            envelope = Envelope.from_dict(copy.deepcopy(json.load(open(sys.argv[1]))))\n\
            key = SSlibKey.from_crypto(load_pem_public_key(open(sys.argv[2], 'rb').read()))\n\
            envelope.verify([key], 1)\n\
            print(envelope.payload.decode())";
        let mut command = env.command(&python);
        command.arg("-c").arg(program).arg(folder.join("bundle/result.dsse.json"));
        command.arg(folder.join("keys").join(key));
        crate::support::finish(command)
    };
    let statement: Value = serde_json::from_str(&check("runner.pub.pem").code(0).stdout).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_ne!(check("stranger.pub.pem").code, 0);

    // Plain git makes, of the recipient's commit and the patch, the tree that the statement names.
    let recipient = Repo::at(&folder.join("recipient"), env.root());
    let tree = recipient.git(&["write-tree"]).trim().to_owned();
    let scope = recipient.git(&["rev-parse", &format!("{tree}:package")]).trim().to_owned();
    let subjects = statement["subject"].as_array().unwrap();
    let named = subjects.iter().find(|subject| subject["name"] == "tree").unwrap();
    assert_eq!(named["digest"]["gitTree"], scope.as_str());
}
