//! What a session's change may touch.

use std::collections::BTreeSet;

use provost_core::event::{Body, Draft, WorkspaceDrifted};
use provost_core::session::Danger;
use provost_core::state::RunState;
use provost_evidence::bundle::BundleContent;
use provost_evidence::canonical::sha256;
use provost_evidence::replay::read_journal;
use provost_evidence::verify::{ClaimId, Code};

use super::scene::{Plan, Scene, assert_refused, assert_taken};
use crate::run::{Made, SCOPE, WithGate, git};

const FILE: &str = "100644";
const LINK: &str = "120000";

fn changing<'a>(before: &'a [(&'a str, &'a str, &'a [u8])], after: &'a [Made<'a>]) -> Plan<'a> {
    Plan { before, after, ..Plan::default() }
}

#[track_caller]
fn taken(before: &[(&str, &str, &[u8])], after: &[Made<'_>]) -> Scene {
    let scene = Scene::of(&changing(before, after));
    assert_taken(&scene.verify(&scene.bundle()));
    scene
}

#[track_caller]
fn refused(before: &[(&str, &str, &[u8])], after: &[Made<'_>], code: Code, claim: ClaimId, words: &str) {
    let scene = Scene::of(&changing(before, after));
    assert_refused(&scene.verify(&scene.bundle()), code, claim, words);
}

/// Attacks 2 and 3: links that lead out, by themselves or through others.
#[test]
fn a_link_that_leads_out_of_the_scope_is_refused() {
    let out = |before: &[(&str, &str, &[u8])], target: &[u8], words| {
        refused(before, &[("l", Some((LINK, target)))], Code::Scope, ClaimId::Scope, words);
    };
    taken(&[], &[("l", Some((LINK, b"src/lib.rs"))), ("src/l", Some((LINK, b"../README.md")))]);
    taken(&[("up", LINK, b"../outside.txt")], &[]);
    out(&[], b"../outside.txt", "leads to `../outside.txt`, which is outside of the scope");
    out(&[], b"/etc/passwd", "an absolute path");
    out(&[], b"/proc/self/root", "an absolute path");
    out(&[], b"src/../../x", "outside of the scope");
    out(&[], b"l", "in a circle");
    out(&[], b".git/hooks/post-checkout", "git's own folder");
    out(&[("up", LINK, b"..")], b"up/outside.txt", "outside of the scope");
    // A link of the base that stays inside until the change moves what it leads through.
    refused(
        &[("d/e/l", LINK, b"../x/../../README.md"), ("d/x/file", FILE, b"x\n"), ("top/file", FILE, b"x\n")],
        &[("d/x/file", None), ("d/x", Some((LINK, b"../top")))],
        Code::Scope,
        ClaimId::Scope,
        "the link `d/e/l`",
    );
}

/// Attacks 12 to 14: names that are not the same everywhere.
#[test]
fn names_that_are_not_the_same_everywhere_are_refused() {
    let text = Some((FILE, &b"x\n"[..]));
    taken(&[], &[("Über uns.md", text), ("src/日本語.rs", text)]);
    taken(&[("aux", FILE, b"old\n")], &[("aux", Some((FILE, b"new\n")))]);
    for (name, words) in [
        ("readme.md", "are one file where case"),
        ("SRC/new.rs", "are one file where case"),
        ("a.r\u{17f}", "where case does not count, `a.rs`"),
        ("con", "a device on Windows"),
        ("x.", "ends in a dot"),
        ("a:b", "no name on Windows"),
        ("a\u{200b}b", "U+200B"),
        ("a\u{202e}b", "U+202E"),
        ("a\u{1b}[2Jb", "U+001B"),
    ] {
        refused(&[], &[(name, text)], Code::Scope, ClaimId::Names, words);
    }
    refused(
        &[("caf\u{e9}", FILE, b"x\n")],
        &[("cafe\u{301}", text)],
        Code::Scope,
        ClaimId::Names,
        "Unicode's forms",
    );
}

/// Attack 16: kinds of files and modes.
#[test]
fn a_mode_that_no_file_of_a_session_has_is_refused() {
    let scene = taken(
        &[("tool", FILE, b"#!/bin/sh\n"), ("was", FILE, b"x\n")],
        &[("tool", Some(("100755", b"#!/bin/sh\n"))), ("was", Some((LINK, b"README.md")))],
    );
    let notes = scene.verify(&scene.bundle()).notes;
    assert!(notes.contains(&"`tool` had mode 100644 and has 100755".to_owned()), "{notes:?}");
    assert!(notes.contains(&"`was` was a file and is a symbolic link".to_owned()), "{notes:?}");

    for mode in ["104755", "160000", "100600", "\u{1b}[2J"] {
        let scene = Scene::new();
        let forged = scene.forge(|drafts| {
            for draft in drafts {
                if let Body::ActStarted(started) = &mut draft.body
                    && let provost_core::act::Intent::Write { changes } = &mut started.intent
                {
                    changes[0].after.as_mut().unwrap().mode = mode.to_owned();
                }
            }
        });
        let report = scene.verify(&scene.write(&forged));
        assert!(!report.ok());
        // A mode that events cannot have is found before it comes to the scope.
        assert!(matches!(report.report.code, Code::Scope | Code::Log | Code::Patch), "{report:#?}");
    }
}

/// Attacks 15 and 17: the patch is the change, whatever it is made to look like.
#[test]
fn a_patch_that_is_not_the_change_is_refused() {
    let scene = Scene::new();
    let good = String::from_utf8(scene.content.patch.clone()).unwrap();
    let header = "diff --git a/pkg/src/lib.rs b/pkg/src/lib.rs";
    assert!(good.contains(header));
    for (from, to) in [
        (header, "diff --git a/pkg/../../x b/pkg/../../x"),
        (header, "diff --git \"a/\\057etc/passwd\" \"b/\\057etc/passwd\""),
        ("+++ b/pkg/src/lib.rs", "+++ /dev/null"),
        ("deleted file mode", "rename from pkg/old.txt\nrename to .github/x\ndeleted file mode"),
        ("+    a + b", "+    a * b"),
        ("GIT binary patch\n", "GIT binary patch\nliteral 99999999999\n"),
    ] {
        assert!(good.contains(from), "{from}");
        let bad = good.replacen(from, to, 1).into_bytes();
        // By an outsider, and by whoever can sign it.
        let dir = scene.bundle();
        std::fs::write(dir.join("changes.patch"), &bad).unwrap();
        assert_refused(&scene.verify(&dir), Code::Patch, ClaimId::Files, "`changes.patch`");
        let mut content = scene.content.clone();
        content.statement.patch = sha256(&bad);
        content.patch = bad;
        let report = scene.verify(&scene.write(&content));
        assert_refused(&report, Code::Patch, ClaimId::Patch, "`changes.patch` differs at line");
    }
}

/// Attack 9: what git would ignore is in the patch all the same. Attack 10: attributes have no say in what the base is.
#[test]
fn ignored_files_and_attributes_change_nothing() {
    let scene = taken(
        &[(".gitattributes", FILE, b"*.md export-ignore\n*.rs export-subst -diff eol=crlf\n")],
        &[(".gitignore", Some((FILE, b"*.txt\n"))), ("needed.txt", Some((FILE, b"needed\n")))],
    );
    let patch = scene.run.home.path().join("changes.patch");
    std::fs::write(&patch, &scene.content.patch).unwrap();
    git(
        &scene.run.repo(),
        &["-c", "core.attributesFile=/dev/null", "apply", "--cached", patch.to_str().unwrap()],
    );
    let whole = git(&scene.run.repo(), &["write-tree"]);
    let scope = git(&scene.run.repo(), &["rev-parse", &format!("{whole}:{SCOPE}")]);
    assert_eq!(scope, scene.content.statement.tree.sha1);
}

/// The change of the scene `done`, told by a runner of a scene like it as work that somebody did beside the session: no
/// policy is asked about that.
fn told_as_drift(scene: &Scene, done: &Scene, path: &str) -> BundleContent {
    let (events, _) = read_journal(&done.content.journal).unwrap();
    let state = RunState::fold(done.run.id.clone(), &events).unwrap();
    let change = state.net_changes().values().find(|change| change.path.as_str() == path).unwrap();
    let tree = &done.content.statement.tree;
    let mut told = scene.forge(|drafts| {
        let body = Body::WorkspaceDrifted(WorkspaceDrifted { changes: vec![change.clone()] });
        drafts.insert(2, Draft { body, ..drafts[2].clone() });
        for draft in drafts {
            match &mut draft.body {
                Body::GateJudged(judged) => judged.tree = tree.clone(),
                Body::RunFinished(finished) => finished.tree = tree.clone(),
                _ => {}
            }
        }
    });
    told.patch = done.content.patch.clone();
    told.blobs = done.content.blobs.clone();
    let good = &done.content.statement;
    told.statement.patch = good.patch;
    told.statement.tree = tree.clone();
    told.statement.result.blobs = good.result.blobs.clone();
    told.statement.result.gate.as_mut().unwrap().tree = Some(tree.clone());
    told.statement.result.drifted.insert(change.path.clone());
    told
}

/// Attack 18: a protected file deleted. And work beside the run, which is told of an ordinary one and is no part of a
/// session.
#[test]
fn a_protected_file_that_is_deleted_is_refused() {
    let plan = |protected, after| Plan {
        before: &[("lock/run.sh", "100755", b"#!/bin/sh\nexit 0\n")],
        after,
        protected,
        ..Plan::default()
    };
    let open = Scene::of(&plan(&[], &[("lock/run.sh", None)]));
    assert_taken(&open.verify(&open.bundle()));
    let beside = Scene::of(&plan(&[], &[]));
    let report = beside.verify(&beside.write(&told_as_drift(&beside, &open, "lock/run.sh")));
    assert_refused(&report, Code::Log, ClaimId::Acts, "`lock/run.sh` also changed by no act");
    let protected = Scene::of(&plan(&["write lock/**"], &[]));
    let report = protected.verify(&protected.write(&told_as_drift(&protected, &open, "lock/run.sh")));
    assert_refused(&report, Code::Log, ClaimId::State, "a rule of the policy protects from all writing");
    // On some disks this is the same folder.
    let protected = Scene::of(&plan(&["write LOCK/**"], &[]));
    let report = protected.verify(&protected.write(&told_as_drift(&protected, &open, "lock/run.sh")));
    assert_refused(&report, Code::Scope, ClaimId::Scope, "`lock/run.sh` is protected");
}

fn judged(order: &mut provost_core::session::Authorization) {
    let path = "tests/sum.rs".to_owned().try_into().unwrap();
    order.request.judges.insert(path, sha256(b"#[test]\nfn adds() {}\n"));
}

fn judged_otherwise(order: &mut provost_core::session::Authorization) {
    let path = "tests/sum.rs".to_owned().try_into().unwrap();
    order.request.judges.insert(path, sha256(b"another"));
}

fn judged_by_none(order: &mut provost_core::session::Authorization) {
    order.request.judges.insert("tests/no.rs".to_owned().try_into().unwrap(), sha256(b""));
}

/// Attack 36: the files that judge.
#[test]
fn a_file_that_judges_is_as_it_was_authorized() {
    let before: &[(&str, &str, &[u8])] = &[("tests/sum.rs", FILE, b"#[test]\nfn adds() {}\n")];
    let scene = Scene::of(&Plan { before, order: judged, ..Plan::default() });
    assert_taken(&scene.verify(&scene.bundle()));
    let weaker = [("tests/sum.rs", Some((FILE, &b"#[test]\n#[ignore]\nfn adds() {}\n"[..])))];
    let gone = [("tests/sum.rs", None)];
    for after in [&weaker, &gone] {
        let scene = Scene::of(&Plan { before, after, order: judged, ..Plan::default() });
        let report = scene.verify(&scene.bundle());
        assert_refused(
            &report,
            Code::Scope,
            ClaimId::Judges,
            "`tests/sum.rs` judges the work, and the change",
        );
        // Without the repository too.
        let report = scene.verify_by(&scene.bundle(), |expected| expected.base = false);
        assert_refused(
            &report,
            Code::Scope,
            ClaimId::Judges,
            "`tests/sum.rs` judges the work, and the change",
        );
    }
    for (order, words) in [
        (judged_otherwise as fn(&mut _), "authorized is the SHA-256"),
        (judged_by_none, "your commit does not have it"),
    ] {
        let scene = Scene::of(&Plan { before, order, ..Plan::default() });
        assert_refused(&scene.verify(&scene.bundle()), Code::Scope, ClaimId::Judges, words);
    }
}

/// Attacks 8, 11, 13, 17 and 37: what runs or hides before it is read.
#[test]
fn a_dangerous_change_needs_a_word() {
    let text = Some((FILE, &b"x\n"[..]));
    for (name, made, kind) in [
        ("build.rs", text, Danger::BuildScripts),
        ("sub/Build.RS", text, Danger::BuildScripts),
        (".cargo/config.toml", text, Danger::CargoConfig),
        ("rust-toolchain.toml", text, Danger::Toolchain),
        ("Cargo.toml", text, Danger::Manifests),
        ("package.json", text, Danger::Manifests),
        ("Makefile", text, Danger::BuildFiles),
        ("conftest.py", text, Danger::TestConfig),
        (".github/workflows/ci.yml", text, Danger::Ci),
        (".gitattributes", Some((FILE, &b"* -diff filter=x\n"[..])), Danger::GitControl),
        (".vscode/tasks.json", text, Danger::Editors),
        ("src/hidden.rs", Some((FILE, "a\u{202e}b\n".as_bytes())), Danger::HiddenText),
        (
            "big",
            Some((FILE, &b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"[..])),
            Danger::LfsPointers,
        ),
    ] {
        let after = [(name, made)];
        let scene = Scene::of(&Plan { after: &after, ..Plan::default() });
        let dir = scene.bundle();
        let report = scene.verify(&dir);
        assert_refused(&report, Code::Danger, ClaimId::Danger, &format!("`--allow {kind}`"));
        // The recipient's word.
        let report = scene.verify_by(&dir, |expected| expected.allow = BTreeSet::from([kind]));
        assert_taken(&report);
        assert!(report.notes.iter().any(|note| note.contains("you allow it")), "{:?}", report.notes);
        // The authority's.
        let scene = Scene::of(&Plan {
            after: &after,
            order: |order| order.request.allowed = Danger::ALL.into_iter().collect(),
            ..Plan::default()
        });
        assert_taken(&scene.verify(&scene.bundle()));
    }
    // A program that nobody can read, where only other things are allowed.
    let elf = [("tool", Some(("100755", &b"\x7fELF\x02\x01\x01\0"[..])))];
    let scene = Scene::of(&Plan {
        after: &elf,
        order: |order| order.request.allowed = BTreeSet::new(),
        ..Plan::default()
    });
    let report = scene.verify(&scene.bundle());
    assert_refused(&report, Code::Danger, ClaimId::Danger, "`tool` is no text");
}

/// A gate that says nothing is no acceptance, and what it did not judge is none either.
#[test]
fn acceptance_is_of_this_very_tree() {
    let scene = Scene::of(&Plan { gate: WithGate::Failing, ..Plan::default() });
    let mut content = scene.content.clone();
    content.statement.result.verified = true;
    let report = scene.verify(&scene.write(&content));
    assert_refused(&report, Code::Log, ClaimId::State, "`verified` is true");
}
