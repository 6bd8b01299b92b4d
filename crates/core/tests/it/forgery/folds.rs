//! A fold takes out of the dialogue only what there is, and only when the model would be asked otherwise.

use provost_core::event::{ContextFolded, FoldedBy, Seen};

use super::*;

fn folded(by: FoldedBy, from: u32) -> Body {
    let (from, text) = (StepId(from), digest(6));
    Body::ContextFolded(ContextFolded {
        from,
        by,
        text,
        route: RouteId::FIRST,
        tokens: 90,
        window: Some(100),
    })
}

fn note(why: NoteWhy) -> Body {
    Body::Note(Note { why, text: digest(7) })
}

fn answered(hand: &Hand, calls: u32, text: bool, stop: Stop) -> Body {
    let Body::ModelAnswered(body) = forged_answer(&hand.0, Usage::default()).body else { unreachable!() };
    Body::ModelAnswered(ModelAnswered { calls, text, stop, ..body })
}

fn invalid(step: u32, why: InvalidCall) -> Body {
    let call = CallRef { step: StepId(step), index: 0 };
    Body::CallInvalid(CallInvalid { call, why, result: digest(20) })
}

/// A run whose only step read a file.
fn one_step() -> Hand {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    hand.cannot(note(NoteWhy::ContextFull), "no such note is due");
    hand.cannot(folded(FoldedBy::Runtime, 1), "no such fold is due");
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand
}

#[test]
fn a_summary_is_asked_for_and_taken() {
    let mut hand = one_step();
    hand.cannot(folded(FoldedBy::Model, 1), "no such fold is due");
    hand.does(note(NoteWhy::ContextFull));
    hand.cannot(note(NoteWhy::ContextFull), "no such note is due");
    assert!(hand.0.is_folding());
    hand.does(answered(&hand, 0, true, Stop::End));
    assert_eq!(hand.0.next(), Next::Fold(FoldedBy::Model), "it is no final answer");
    hand.cannot(folded(FoldedBy::Runtime, 1), "no such fold is due");
    hand.cannot(folded(FoldedBy::Model, 0), "takes nothing out");
    hand.cannot(folded(FoldedBy::Model, 3), "still to come");
    hand.does(folded(FoldedBy::Model, 1));
    assert!(!hand.0.is_folding());
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
    hand.does(answered(&hand, 0, true, Stop::End));
    assert_eq!(hand.0.next(), Next::Submit(SubmitVia::FinalAnswer));
}

/// The calls of an answer to it are not acts, and after two such answers the runtime makes do.
#[test]
fn i1_calls_instead_of_a_summary_are_not_acts() {
    let mut hand = one_step();
    for step in 1..3 {
        hand.does(note(NoteWhy::ContextFull));
        hand.does(answered(&hand, 1, true, Stop::ToolCalls));
        hand.cannot(hand.decided(Some(0), "tool", vec![read("a")], Recovery::Replayable), "are not acts");
        hand.cannot(invalid(step, InvalidCall::BadArguments), "exactly when one was asked for");
        hand.does(invalid(step, InvalidCall::InsteadOfSummary));
    }
    assert_eq!(hand.0.next(), Next::Fold(FoldedBy::Runtime));
    hand.cannot(note(NoteWhy::ContextFull), "no such note is due");
    hand.does(folded(FoldedBy::Runtime, 3));
    assert!(!hand.0.can_fold());
    hand.cannot(folded(FoldedBy::Runtime, 3), "takes nothing out");
    hand.cannot(note(NoteWhy::ContextFull), "nothing to fold");
    hand.does(answered(&hand, 1, false, Stop::ToolCalls));
    hand.cannot(invalid(3, InvalidCall::InsteadOfSummary), "exactly when one was asked for");
    hand.does(invalid(3, InvalidCall::BadArguments));
}

#[test]
fn a_file_is_to_be_read_again_after_a_fold() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    let mut end = finished(act, ActEnd::Done, vec![], None);
    let Body::ActFinished(body) = &mut end else { unreachable!() };
    body.seen = vec![Seen { path: path("a"), content: digest(11) }];
    hand.does(end);
    assert!(hand.0.seen(&path("a")).is_some());
    hand.does(folded(FoldedBy::Runtime, 1));
    assert!(hand.0.seen(&path("a")).is_none());
}
