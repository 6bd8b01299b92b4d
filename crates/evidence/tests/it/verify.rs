use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;

use provost_core::act::Intent;
use provost_core::contract::Source;
use provost_core::digest::Digest;
use provost_core::event::{ActStarted, Body, Draft};
use provost_core::policy::Effect;
use provost_evidence::bundle::BundleContent;
use provost_evidence::canonical::sha256;
use provost_evidence::dsse;
use provost_evidence::keys::SigningKey;
use provost_evidence::statement::Statement;
use provost_evidence::verify::{Base, ClaimId, Finding, Report, Require, verify};

use crate::run::{Run, WithGate, files_of, git};

/// The claim that failed and why; nothing that stands on it was checked.
#[track_caller]
fn refusal(report: &Report) -> (ClaimId, String) {
    assert!(!report.ok(), "{report:#?}");
    let (id, why) = report.first_failure().expect("a refusal names the claim that failed");
    assert!(!why.is_empty());
    (id, why.to_owned())
}

#[track_caller]
fn assert_refused(report: &Report, claim: ClaimId, words: &str) {
    let (id, why) = refusal(report);
    assert_eq!(id, claim, "{why}");
    assert!(why.contains(words), "`{why}` does not say `{words}`");
}

fn body(draft: &mut Draft) -> &mut Body {
    &mut draft.body
}

#[test]
fn an_honest_bundle_verifies() {
    let run = Run::new();
    let report = run.verify_in_repo(&run.bundle());
    for claim in &report.claims {
        assert_eq!(claim.finding, Finding::Held, "{}", claim.id);
    }
    assert!(report.ok());
    let order: Vec<ClaimId> = report.claims.iter().map(|claim| claim.id).collect();
    assert_eq!(order, ClaimId::ALL);
    assert_eq!(report.signed_by, Some(run.key.verifying_key().key_id().to_string()));
    let result = report.result.unwrap();
    assert_eq!((result.refusals, result.usage.input, result.cost_micros), (1, 200, Some(1_200)));
}

#[test]
fn the_patch_makes_the_commit_into_the_tree() {
    let run = Run::new();
    let content = run.content();
    let patch = run.home.path().join("changes.patch");
    std::fs::write(&patch, &content.patch).unwrap();
    git(&run.repo(), &["apply", "--index", patch.to_str().unwrap()]);
    let whole = git(&run.repo(), &["write-tree"]);
    let scope = git(&run.repo(), &["rev-parse", &format!("{whole}:{}", crate::run::SCOPE)]);
    assert_eq!(scope, content.statement.tree.sha1);
}

#[test]
fn without_a_repository_the_start_is_not_claimed() {
    let run = Run::new();
    let dir = run.bundle();
    let report = run.verify(&dir);
    assert!(report.ok());
    for claim in [ClaimId::Base, ClaimId::Tree] {
        assert!(matches!(report.finding(claim), Finding::NotChecked(why) if why.contains("no repository")));
    }
    let report = verify(&dir, &run.trusted(), None, Require::Repository);
    assert!(!report.ok());
    assert_eq!(report.first_failure(), None);
}

#[test]
fn a_run_without_a_passing_gate_says_so_and_is_no_less_proven() {
    for (gate, words) in [
        (WithGate::None, "ordered without a verification gate"),
        (WithGate::Failing, "the gate did not pass"),
    ] {
        let run = Run::with(gate);
        let report = run.verify_in_repo(&run.bundle());
        assert!(report.ok(), "{report:#?}");
        assert!(matches!(report.finding(ClaimId::Gate), Finding::NotChecked(why) if why.contains(words)));
        assert!(!report.result.unwrap().verified);
    }
}

// Whoever has no key: any byte of any file.

#[test]
fn i7_any_changed_byte_is_found() {
    let run = Run::new();
    let dir = run.bundle();
    for file in files_of(&dir) {
        let path = dir.join(&file);
        let good = std::fs::read(&path).unwrap();
        let name = file.to_str().unwrap().to_owned();
        let opened = std::fs::File::options().write(true).open(&path).unwrap();
        let stride = if name == "journal.jsonl" { 7 } else { 1 };
        for at in (0..good.len()).step_by(stride) {
            // In place: to write the file anew costs a wait for the disk on ext4.
            opened.write_all_at(&[good[at] ^ (1 << (at % 8))], at as u64).unwrap();
            let (claim, why) = refusal(&run.verify(&dir));
            let expected = match name.as_str() {
                "result.dsse.json" => ClaimId::Signature,
                "changes.patch" | "journal.jsonl" => ClaimId::Files,
                _ => ClaimId::Blobs,
            };
            assert_eq!(claim, expected, "{name} byte {at}: {why}");
            assert!(why.contains(&name), "{why}");
            opened.write_all_at(&good[at..=at], at as u64).unwrap();
        }
        for bad in [&good[..good.len() - 1], &[good.as_slice(), b"\n"].concat()] {
            std::fs::write(&path, bad).unwrap();
            refusal(&run.verify(&dir));
        }
        std::fs::write(&path, &good).unwrap();
    }
    assert!(run.verify(&dir).ok());
}

#[test]
fn a_bundle_signed_by_another_key_is_refused() {
    let run = Run::new();
    let dir = run.write_signed(&run.content(), &SigningKey::from_seed([2; 32]));
    let report = run.verify(&dir);
    assert_refused(&report, ClaimId::Signature, "trusted are");
    // Nothing else was looked at.
    assert_eq!(report.result, None);
    assert!(report.claims[1..].iter().all(|claim| matches!(claim.finding, Finding::NotChecked(_))));
}

#[test]
fn a_statement_of_another_type_is_refused() {
    let run = Run::new();
    let content = run.content();
    let payload = content.statement.to_json().unwrap();
    let put = |envelope: Vec<u8>| {
        let dir = run.bundle();
        std::fs::write(dir.join("result.dsse.json"), envelope).unwrap();
        run.verify(&dir)
    };
    let relabelled = dsse::sign("application/json", &payload, &[&run.key]).unwrap();
    assert_refused(&put(relabelled), ClaimId::Signature, "payload type is `application/json`");

    let text = String::from_utf8(payload).unwrap();
    for (from, to, words) in [
        ("Statement/v1", "Statement/v2", "Statement/v2"),
        ("run-result:v1", "run-result:v2", "run-result:v2"),
        (r#""refusals":1"#, r#""refusals":1,"zeal":1"#, "zeal"),
        (r#""name":"tree""#, r#""name":"bush""#, "`tree`"),
        (r#"{"digest":{"sha256":"#, r#"{"digest":{"sha1":"00","sha256":"#, "canonical spelling"),
        ("{", "{ ", "canonical spelling"),
    ] {
        assert!(text.contains(from), "{from}");
        let other = dsse::sign(dsse::IN_TOTO, text.replacen(from, to, 1).as_bytes(), &[&run.key]).unwrap();
        assert_refused(&put(other), ClaimId::Statement, words);
    }
}

#[test]
fn a_journal_head_other_than_the_predicates_is_refused() {
    let run = Run::new();
    let statement = run.content().statement;
    let head = statement.result.head.to_string();
    let text = String::from_utf8(statement.to_json().unwrap()).unwrap();
    // Only the first of the two: the predicate's stands before the subject's in canonical order.
    let other = text.replacen(&head, &Digest::ZERO.to_string(), 1);
    assert_ne!(other, text);
    assert!(Statement::from_json(other.as_bytes()).is_err());
}

#[test]
fn files_that_do_not_belong_are_refused() {
    let run = Run::new();
    let check = |tamper: &dyn Fn(&Path)| {
        let dir = run.bundle();
        tamper(&dir);
        run.verify(&dir)
    };
    let extra = check(&|dir| std::fs::write(dir.join("trusted.pem"), "").unwrap());
    assert_refused(&extra, ClaimId::Files, "`trusted.pem` does not belong");
    let linked = check(&|dir| {
        std::fs::rename(dir.join("changes.patch"), dir.join("../aside.patch")).unwrap();
        symlink("../aside.patch", dir.join("changes.patch")).unwrap();
    });
    assert_refused(&linked, ClaimId::Files, "`changes.patch` is a symbolic link");
    let gone = check(&|dir| std::fs::remove_file(dir.join("changes.patch")).unwrap());
    assert_refused(&gone, ClaimId::Files, "`changes.patch` is missing");
    let unsigned = check(&|dir| std::fs::remove_file(dir.join("result.dsse.json")).unwrap());
    assert_refused(&unsigned, ClaimId::Signature, "`result.dsse.json` is missing");
    let nothing = run.verify(&run.home.path().join("nowhere"));
    assert_refused(&nothing, ClaimId::Signature, "nowhere");
}

#[test]
fn a_blob_missing_or_too_many_is_refused() {
    let run = Run::new();
    let digest = *run.content().blobs.keys().next().unwrap();
    let dir = run.bundle();
    std::fs::remove_file(dir.join("blobs").join(digest.to_string())).unwrap();
    assert_refused(&run.verify(&dir), ClaimId::Blobs, &format!("`blobs/{digest}` is missing"));

    let dir = run.bundle();
    let extra = run.salt.digest(b"extra");
    std::fs::write(dir.join("blobs").join(extra.to_string()), b"extra").unwrap();
    assert_refused(&run.verify(&dir), ClaimId::Blobs, &format!("`blobs/{extra}` does not belong"));

    // Listed in the statement too.
    let mut content = run.content();
    content.blobs.insert(extra, b"extra".to_vec());
    content.statement.result.blobs.insert(extra);
    assert_refused(&run.verify(&run.write(&content)), ClaimId::Blobs, "which no change needs");
    let mut content = run.content();
    content.blobs.remove(&digest);
    content.statement.result.blobs.remove(&digest);
    assert_refused(&run.verify(&run.write(&content)), ClaimId::Blobs, "does not list blob");
}

// Whoever holds the right key and changes what it signed: found by checking again.

fn lines(content: &BundleContent) -> Vec<Vec<u8>> {
    content.journal.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[test]
fn i7_a_dropped_or_moved_event_is_found() {
    let run = Run::new();
    let good = run.content();
    let check = |edit: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines = lines(&good);
        edit(&mut lines);
        run.verify(&run.write(&Run::with_journal(&good, lines.concat())))
    };
    let count = lines(&good).len();
    assert_refused(
        &check(&|lines| drop(lines.pop())),
        ClaimId::Head,
        &format!("holds {} events; signed are {count}", count - 1),
    );
    assert_refused(
        &check(&|lines| drop(lines.remove(3))),
        ClaimId::Chain,
        "line 4: expected event 3, found event 4",
    );
    assert_refused(
        &check(&|lines| lines.swap(4, 5)),
        ClaimId::Chain,
        "line 5: expected event 4, found event 5",
    );
    assert_refused(&check(&|lines| drop(lines.remove(0))), ClaimId::Chain, "expected event 0");
    assert_refused(&check(&Vec::clear), ClaimId::Chain, "holds no event");
    assert_refused(&check(&|lines| lines.last_mut().unwrap().truncate(40)), ClaimId::Chain, "cut off");
}

#[test]
fn i7_an_altered_event_is_found() {
    let run = Run::new();
    let good = run.content();
    let edit = |from: &str, to: &str| {
        let text = String::from_utf8(good.journal.clone()).unwrap();
        assert!(text.contains(from), "{from}");
        run.verify(&run.write(&Run::with_journal(&good, text.replacen(from, to, 1).into_bytes())))
    };
    assert_refused(&edit(r#""pid":42"#, r#""pid":43"#), ClaimId::Chain, "line 2: event 1 claims the hash");
    assert_refused(&edit(r#""pid":42"#, r#""pid": 42"#), ClaimId::Chain, "line 2: not canonical");
    assert_refused(&edit(r#""pid":42"#, r#""pid":42.0"#), ClaimId::Chain, "line 2: not canonical");
    assert_refused(&edit(r#""pid":42"#, r#""pid":42,"pid":42"#), ClaimId::Chain, "line 2: not canonical");
    assert_refused(&edit("driver.attached", "driver.arrived"), ClaimId::Chain, "`driver.arrived` version 1");
    assert_refused(&edit("{", "["), ClaimId::Chain, "line 1: not JSON");
}

#[test]
fn i7_a_rehashed_chain_does_not_match_the_signed_head() {
    let run = Run::new();
    let good = run.content();
    let mut forged = run.forge(&good, |drafts| drafts[2].at_ms += 1);
    forged.statement.result.head = good.statement.result.head;
    assert_refused(&run.verify(&run.write(&forged)), ClaimId::Head, "signed is");
}

#[test]
fn an_event_that_says_more_than_is_understood_is_refused() {
    // Hash, chain and signature are right.
    let run = Run::new();
    let good = run.content();
    let mut head = provost_evidence::chain::Head::empty();
    let mut journal = Vec::new();
    for line in lines(&good) {
        let mut event: serde_json::Value = serde_json::from_slice(&line).unwrap();
        event["prev"] = head.hash.to_string().into();
        if let Some(usage) = event["body"].get_mut("usage") {
            usage["thoughts"] = 1.into();
        }
        event.as_object_mut().unwrap().remove("hash");
        let hash = sha256(&provost_evidence::canonical::to_canonical(&event).unwrap());
        event["hash"] = hash.to_string().into();
        head.hash = hash;
        journal.extend(provost_evidence::canonical::to_canonical(&event).unwrap());
        journal.push(b'\n');
    }
    let mut forged = Run::with_journal(&good, journal);
    forged.statement.result.head = head.hash;
    assert_refused(&run.verify(&run.write(&forged)), ClaimId::Chain, "that this format does not have");
}

#[test]
fn a_flipped_decision_is_found_by_deciding_again() {
    let run = Run::new();
    let forged = run.forge(&run.content(), |drafts| {
        for draft in drafts {
            if let Body::ActDecided(decided) = body(draft)
                && decided.decision.effect == Effect::Deny
            {
                decided.decision.effect = Effect::Allow;
            }
        }
    });
    assert_refused(&run.verify(&run.write(&forged)), ClaimId::Policy, "the policy decides `deny");
}

#[test]
fn a_denied_act_that_started_is_found() {
    let run = Run::new();
    let forged = run.forge(&run.content(), |drafts| {
        let denied = drafts
            .iter()
            .position(
                |draft| matches!(&draft.body, Body::ActDecided(it) if it.decision.effect == Effect::Deny),
            )
            .unwrap();
        let started = provost_core::event::ActStarted {
            act: provost_core::id::ActId(1),
            intent: provost_core::act::Intent::Command {
                argv: vec!["rm".into(), "-rf".into(), "/".into()],
                cwd: provost_core::path::RelPath::root(),
                limit_ms: 1,
            },
        };
        let draft = Draft { body: Body::ActStarted(started), ..drafts[denied].clone() };
        drafts.insert(denied + 1, draft);
    });
    assert_refused(
        &run.verify(&run.write(&forged)),
        ClaimId::State,
        "neither the policy nor a person allows it",
    );
}

#[test]
fn verified_without_a_passing_gate_is_found_by_folding() {
    for gate in [WithGate::Failing, WithGate::None] {
        let run = Run::with(gate);
        let forged = run.forge(&run.content(), |drafts| {
            if let Body::RunFinished(finished) = body(drafts.last_mut().unwrap()) {
                finished.verified = true;
            }
        });
        assert_refused(&run.verify(&run.write(&forged)), ClaimId::State, "verified exactly when");
    }
    // The journal is honest, the statement is not.
    let run = Run::with(WithGate::Failing);
    let mut content = run.content();
    content.statement.result.verified = true;
    assert_refused(
        &run.verify(&run.write(&content)),
        ClaimId::State,
        "the statement says `verified` is true; the events give false",
    );
}

#[test]
fn a_gate_that_judged_another_tree_is_found() {
    let run = Run::new();
    let forged = run.forge(&run.content(), |drafts| {
        for draft in drafts {
            if let Body::GateJudged(judged) = body(draft) {
                judged.tree.sha1 = "0".repeat(40);
            }
        }
    });
    assert_refused(&run.verify(&run.write(&forged)), ClaimId::State, "verified exactly when");
}

#[test]
fn a_statement_that_flatters_is_found() {
    type Flatter = fn(&mut Statement);
    let run = Run::new();
    let cases: [(Flatter, &str); 8] = [
        (|it| it.result.refusals = 0, "`refusals` is 0"),
        (|it| it.result.usage.output = 1, "`usage`"),
        (|it| it.result.cost_micros = None, "`cost_micros` is null"),
        (|it| it.result.model.name = "better".into(), "`model`"),
        (|it| it.result.finished_ms -= 1, "`finished_ms`"),
        (|it| it.result.gate = None, "`gate` is null"),
        (|it| it.result.provost = "9".into(), "`provost`"),
        (|it| it.tree.sha256 = Digest::ZERO, "subject `tree`"),
    ];
    for (flatter, words) in cases {
        let mut content = run.content();
        flatter(&mut content.statement);
        assert_refused(&run.verify(&run.write(&content)), ClaimId::State, words);
    }
    let mut content = run.content();
    content.statement.result.run = "r9999-other".parse().unwrap();
    assert_refused(&run.verify(&run.write(&content)), ClaimId::State, "belongs to another run");
}

#[test]
fn a_run_that_is_not_over_is_refused() {
    let run = Run::new();
    let forged = run.forge(&run.content(), |drafts| drop(drafts.pop()));
    assert_refused(&run.verify(&run.write(&forged)), ClaimId::State, "before the run is over");
}

#[test]
fn a_resigned_patch_is_found_by_rendering_it_again() {
    let run = Run::new();
    let mut content = run.content();
    let text = String::from_utf8(content.patch.clone()).unwrap();
    assert!(text.contains("+    a + b"));
    content.patch = text.replace("+    a + b", "+    a * b").into_bytes();
    content.statement.patch = sha256(&content.patch);
    let report = run.verify_in_repo(&run.write(&content));
    assert_refused(&report, ClaimId::Patch, "`changes.patch` differs at line");
    // What does not rest on the patch was still checked.
    assert_eq!(*report.finding(ClaimId::Tree), Finding::Held);
}

#[test]
fn a_change_of_gits_own_folder_is_refused() {
    let run = Run::new();
    let forged = run.forge(&run.content(), |drafts| {
        let changes = drafts.iter().find_map(|draft| match &draft.body {
            Body::ActStarted(ActStarted { intent: Intent::Write { changes }, .. }) => Some(changes.clone()),
            _ => None,
        });
        // Nobody's act, so that no policy is asked; the content is that of a file that the run made.
        let mut change = changes.unwrap().into_iter().find(|change| change.before.is_none()).unwrap();
        change.path = provost_core::path::RelPath::parse(".GIT/hooks/post-checkout").unwrap();
        let drifted = provost_core::event::WorkspaceDrifted { changes: vec![change] };
        let draft = Draft { body: Body::WorkspaceDrifted(drifted), ..drafts[2].clone() };
        drafts.insert(2, draft);
    });
    let report = run.verify(&run.write(&forged));
    assert_refused(
        &report,
        ClaimId::State,
        "`drifted` is []; the events give [\".GIT/hooks/post-checkout\"]",
    );
    let mut forged = forged;
    forged.statement.result.drifted =
        [provost_core::path::RelPath::parse(".GIT/hooks/post-checkout").unwrap()].into();
    let report = run.verify(&run.write(&forged));
    assert_refused(&report, ClaimId::Patch, "lies in git's own folder");
}

#[test]
fn a_resigned_blob_is_found_by_its_salted_digest() {
    let run = Run::new();
    let mut content = run.content();
    let (digest, bytes) = content.blobs.iter_mut().next().unwrap();
    bytes.push(b'!');
    let words = format!("`blobs/{digest}`");
    assert_refused(&run.verify(&run.write(&content)), ClaimId::Blobs, &words);
}

// The recipient's own repository.

fn set_source(drafts: &mut [Draft], commit: &str) {
    if let Body::RunCreated(created) = body(&mut drafts[0])
        && let Source::Commit { commit: held, .. } = &mut created.source
    {
        commit.clone_into(held);
    }
}

#[test]
fn another_base_commit_is_refused() {
    let run = Run::new();
    std::fs::write(run.repo().join(crate::run::SCOPE).join("README.md"), "other\n").unwrap();
    git(&run.repo(), &["commit", "-q", "-a", "-m", "next"]);
    let next = git(&run.repo(), &["rev-parse", "HEAD"]);
    // The run's own commit is still there: all holds, wherever HEAD is.
    assert!(run.verify_in_repo(&run.bundle()).ok());

    let with_commit = |commit: &str| {
        let mut forged = run.forge(&run.content(), |drafts| set_source(drafts, commit));
        if let Source::Commit { commit: held, .. } = &mut forged.statement.result.base.source {
            commit.clone_into(held);
        }
        run.verify_in_repo(&run.write(&forged))
    };
    assert_refused(&with_commit(&next), ClaimId::Base, "the run began with");
    let report = with_commit(&"1".repeat(40));
    assert_refused(&report, ClaimId::Base, &"1".repeat(40));
    assert!(matches!(report.finding(ClaimId::Tree), Finding::NotChecked(why) if why.contains("`base`")));

    // A name for a commit is whatever its owner makes of it.
    assert_refused(&with_commit("HEAD"), ClaimId::Base, "not the full id of a commit");

    // Only in the statement.
    let mut content = run.content();
    if let Source::Commit { commit, .. } = &mut content.statement.result.base.source {
        *commit = next;
    }
    assert_refused(&run.verify(&run.write(&content)), ClaimId::State, "`base`");
}

#[test]
fn a_run_in_a_plain_folder_is_proven_but_for_its_start() {
    let run = Run::new();
    let with_source = |source: &Source| {
        let mut forged = run.forge(&run.content(), |drafts| {
            if let Body::RunCreated(created) = body(&mut drafts[0]) {
                created.source = source.clone();
            }
        });
        forged.statement.result.base.source = source.clone();
        run.write(&forged)
    };
    let scope = provost_core::path::RelPath::parse(crate::run::SCOPE).unwrap();
    let folder = with_source(&Source::Directory { commit: None, scope: scope.clone() });
    assert!(run.verify(&folder).ok());
    let report = run.verify_in_repo(&folder);
    assert!(!report.ok());
    assert_eq!(report.first_failure(), None);
    assert!(
        matches!(report.finding(ClaimId::Base), Finding::NotChecked(why) if why.contains("outside of any commit"))
    );

    // A clean checkout is the commit; one with uncommitted changes is not, and the report says what it may be.
    let clean = with_source(&Source::Directory { commit: Some(run.commit.clone()), scope: scope.clone() });
    assert!(run.verify_in_repo(&clean).ok());
    std::fs::write(run.repo().join(crate::run::SCOPE).join("README.md"), "other\n").unwrap();
    git(&run.repo(), &["commit", "-q", "-a", "-m", "next"]);
    let next = git(&run.repo(), &["rev-parse", "HEAD"]);
    let dirty = with_source(&Source::Directory { commit: Some(next), scope });
    assert_refused(&run.verify_in_repo(&dirty), ClaimId::Base, "the folder had uncommitted changes");
}

#[test]
fn another_repository_is_refused() {
    let (run, other) = (Run::new(), Run::new());
    let elsewhere = other.repo();
    std::fs::write(elsewhere.join("outside.txt"), "other\n").unwrap();
    git(&elsewhere, &["commit", "-q", "-a", "--amend", "-m", "other"]);
    git(&elsewhere, &["reflog", "expire", "--expire=now", "--all"]);
    git(&elsewhere, &["gc", "-q", "--prune=now"]);
    let repository = provost_evidence::git::Repository::discover(&elsewhere).unwrap();
    let base: &dyn Base = &repository;
    let report = verify(&run.bundle(), &run.trusted(), Some(base), Require::Repository);
    assert_refused(&report, ClaimId::Base, &run.commit);
}

#[test]
fn content_that_the_commit_does_not_have_is_refused() {
    // A run that says that a file was something else before: tree and statement are right, the change is not.
    let run = Run::new();
    let lie = b"a lie\n";
    let (digest, size) = (run.salt.digest(lie), lie.len() as u64);
    let mut forged = run.forge(&run.content(), |drafts| {
        let put = |change: &mut provost_core::act::Change| {
            if change.path.as_str() == "old.txt" {
                let before = change.before.as_mut().unwrap();
                (before.content, before.size) = (digest, size);
            }
        };
        for draft in drafts {
            if let Body::ActStarted(ActStarted { intent: Intent::Write { changes }, .. }) = body(draft) {
                changes.iter_mut().for_each(put);
            }
        }
    });
    let old = run.salt.digest(b"gone soon\n");
    forged.blobs.remove(&old);
    forged.blobs.insert(digest, lie.to_vec());
    forged.statement.result.blobs.remove(&old);
    forged.statement.result.blobs.insert(digest);
    let report = run.verify_in_repo(&run.write(&forged));
    assert!(matches!(report.finding(ClaimId::Base), Finding::Failed(why) if why.contains("`old.txt`")));
}

#[test]
fn a_tree_that_the_change_does_not_make_is_refused() {
    let run = Run::new();
    let zero = |tree: &mut provost_core::digest::TreeDigest| tree.sha256 = Digest::ZERO;
    let mut forged = run.forge(&run.content(), |drafts| {
        for draft in drafts {
            match body(draft) {
                Body::GateJudged(judged) => zero(&mut judged.tree),
                Body::RunFinished(finished) => zero(&mut finished.tree),
                _ => {}
            }
        }
    });
    zero(&mut forged.statement.tree);
    if let Some(gate) = &mut forged.statement.result.gate {
        gate.tree = Some(forged.statement.tree.clone());
    }
    assert_refused(
        &run.verify_in_repo(&run.write(&forged)),
        ClaimId::Tree,
        "the run says that it ended with",
    );
}

/// The quick way to read a line takes what was sealed, and nothing else.
#[test]
fn i7_only_a_line_as_it_was_sealed_is_unsealed() {
    use provost_evidence::chain::{Head, seal, seal_to_json, unseal};
    let run = Run::new();
    let (mut head, mut other) = (Head::empty(), Head::empty());
    for draft in &run.drafts {
        let (event, line) = seal_to_json(&run.id, &mut head, draft.clone()).unwrap();
        assert_eq!(seal(&run.id, &mut other, draft.clone()).unwrap(), event);
        assert_eq!(provost_evidence::canonical::to_canonical(&event).unwrap(), line);
        assert_eq!(unseal(&line), Some(event));
        for at in 0..line.len() {
            let mut altered = line.clone();
            altered[at] ^= 1;
            assert_eq!(unseal(&altered), None, "{}", String::from_utf8_lossy(&altered));
        }
        let mut spaced = line.clone();
        spaced.push(b' ');
        assert_eq!(unseal(&spaced), None);
        assert_eq!(unseal(&line[..line.len() - 1]), None);
    }
    assert_eq!(head, other);
}
