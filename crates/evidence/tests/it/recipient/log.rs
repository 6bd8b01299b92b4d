//! The log: whole, in order, one.

use provost_core::event::{Body, Draft};
use provost_evidence::bundle::BundleContent;
use provost_evidence::canonical::sha256;
use provost_evidence::checkpoint::{Checkpoint, Origin};
use provost_evidence::log::head_of;
use provost_evidence::verify::{ClaimId, Code};

use super::scene::{Scene, assert_refused, assert_taken};
use crate::run::Run;

fn lines(content: &BundleContent) -> Vec<Vec<u8>> {
    content.journal.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn cut(drafts: &mut Vec<Draft>, kind: &str) {
    let at = drafts.iter().rposition(|draft| draft.body.kind() == kind).unwrap();
    drafts.remove(at);
}

/// Attacks 29 and 31, by an outsider: any line dropped, moved, doubled.
#[test]
fn i7_a_log_that_is_not_as_it_was_signed_is_refused() {
    let scene = Scene::new();
    let edits: [fn(&mut Vec<Vec<u8>>); 4] = [
        |lines| drop(lines.pop()),
        |lines| drop(lines.remove(4)),
        |lines| lines.swap(4, 5),
        |lines| {
            let line = lines[4].clone();
            lines.insert(5, line);
        },
    ];
    for edit in edits {
        let mut lines = lines(&scene.content);
        edit(&mut lines);
        let dir = scene.bundle();
        std::fs::write(dir.join("journal.jsonl"), lines.concat()).unwrap();
        assert_refused(&scene.verify(&dir), Code::Log, ClaimId::Files, "`journal.jsonl`");
        // The same by whoever can sign it, but not what the checkpoint says.
        let forged = Run::with_journal(&scene.content, lines.concat());
        let report = scene.verify(&scene.write_with(&forged, scene.files(&scene.content)));
        assert_eq!(report.report.code, Code::Log, "{:?}", report.report.first_lack());
    }
    assert_taken(&scene.verify(&scene.bundle()));
}

/// Attack 29, by a dishonest runner: history without what does not please, chained and signed anew.
#[test]
fn i7_a_history_without_its_end_or_its_refusals_is_refused() {
    let scene = Scene::new();
    let report = scene.verify(&scene.write(&scene.forge(|drafts| drop(drafts.pop()))));
    assert_refused(&report, Code::Log, ClaimId::State, "before the run is over");
    // The refusal of an act: then a call of the model's was never decided on.
    let report = scene.verify(&scene.write(&scene.forge(|drafts| {
        let at = drafts
            .iter()
            .position(|draft| matches!(&draft.body, Body::ActDecided(it) if it.act.0 == 1))
            .unwrap();
        drafts.drain(at..at + 2);
    })));
    assert_refused(&report, Code::Log, ClaimId::State, "cannot follow");
    for kind in ["model.answered", "gate.judged", "act.finished"] {
        let report = scene.verify(&scene.write(&scene.forge(|drafts| cut(drafts, kind))));
        assert_eq!(report.report.code, Code::Log, "{kind}: {:?}", report.report.first_lack());
    }
}

/// Attack 30: two histories under one name.
#[test]
fn i7_a_checkpoint_of_another_history_is_refused() {
    let scene = Scene::new();
    let other = scene.forge(|drafts| drafts[2].at_ms += 1);
    let mut files = scene.files(&scene.content);
    files.checkpoint = scene.files(&other).checkpoint;
    let report = scene.verify(&scene.write_with(&scene.content, files));
    assert_refused(&report, Code::Log, ClaimId::Log, "the journal has");
    // Only the signed result says another root.
    let mut content = scene.content.clone();
    content.statement.result.log = Some(head_of(&other.journal));
    let mut files = scene.files(&content);
    files.checkpoint = scene.files(&scene.content).checkpoint;
    let report = scene.verify(&scene.write_with(&content, files));
    assert_refused(&report, Code::Log, ClaimId::Log, "the signed result has");
    // Of another session, or by another key.
    let log = head_of(&scene.content.journal);
    let named = |id: &str| Origin::session(&id.parse().unwrap());
    let checkpoint = |origin, seed| {
        Checkpoint { origin, log }.sign(&provost_evidence::keys::SigningKey::from_seed([seed; 32]))
    };
    for bad in [checkpoint(named("r0000-other"), 7), checkpoint(named("r0123-test"), 8)] {
        let mut files = scene.files(&scene.content);
        files.checkpoint = bad;
        let report = scene.verify(&scene.write_with(&scene.content, files));
        assert_refused(&report, Code::Log, ClaimId::Log, "the checkpoint");
    }
    assert_taken(&scene.verify(&scene.write(&other)));
}

/// What other people's tools are told must be what the journal says.
#[test]
fn statements_for_others_that_flatter_are_refused() {
    let scene = Scene::new();
    let mut flattered = scene.content.clone();
    flattered.statement.result.started_ms += 1;
    let mut files = scene.files(&scene.content);
    files.provenance = scene.files(&flattered).provenance;
    let report = scene.verify(&scene.write_with(&scene.content, files));
    assert_refused(&report, Code::Log, ClaimId::Provenance, "differs at byte");
    let mut files = scene.files(&scene.content);
    files.test_result = None;
    let report = scene.verify(&scene.write_with(&scene.content, files));
    assert_refused(&report, Code::Log, ClaimId::TestResult, "is missing");
    // A result that says less than the run is, of an authorized run.
    let mut content = scene.content.clone();
    content.statement.journal = sha256(b"another");
    assert_refused(&scene.verify(&scene.write(&content)), Code::Log, ClaimId::Files, "`journal.jsonl`");
}
