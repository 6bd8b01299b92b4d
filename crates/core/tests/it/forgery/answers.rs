//! Questions to the model, and answers of it, that are not due.

use super::*;

#[test]
fn the_model_is_asked_and_spoken_to_only_when_that_is_due() {
    let mut hand = Hand::workspace(1);
    let early = forged_answer(&hand.0, Usage::default()).body;
    hand.cannot(early.clone(), "the step before it is not over");
    let act = hand.decides(Some(0), vec![read("a")]);
    hand.cannot(early, "the step before it is not over");
    hand.does(finished(act, ActEnd::Done, vec![], None));
    for why in [NoteWhy::CutOff, NoteWhy::Empty, NoteWhy::GateFailed, NoteWhy::Repeating] {
        hand.cannot(Body::Note(Note { why, text: digest(7) }), "no such note is due");
    }
    let submitted = Submitted { step: StepId(0), via: SubmitVia::Tool, summary: digest(5), wrong: None };
    hand.cannot(Body::Submitted(submitted.clone()), "did not say so");
    hand.answer(0);
    let answer = forged_answer(&hand.0, Usage::default()).body;
    hand.cannot(answer, "not to be asked now");
    hand.cannot(Body::Submitted(submitted.clone()), "did not say so");
    let of_step_0 = Submitted { via: SubmitVia::FinalAnswer, ..submitted };
    hand.cannot(Body::Submitted(of_step_0.clone()), "not of the step under way");
    let wrong = Submitted { step: StepId(1), wrong: Some(digest(6)), ..of_step_0 };
    hand.cannot(Body::Submitted(wrong), "by a schema that the contract does not name");
}

#[test]
fn a_wrong_answer_is_told_twice_and_ends_the_run_the_third_time() {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.budget = Budget::default();
    created.brief = Some(Box::new(BriefFact { schema: Some(digest(4)), ..BriefFact::default() }));
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.attach(Rung::R3);
    let submits = |hand: &mut Hand, wrong: Option<Digest>| {
        hand.answer(0);
        let step = StepId(hand.0.ledger().steps - 1);
        let via = SubmitVia::FinalAnswer;
        hand.does(Body::Submitted(Submitted { step, via, summary: digest(5), wrong }));
    };
    for _ in 0..2 {
        submits(&mut hand, Some(digest(6)));
        assert_eq!(hand.0.next(), Next::Note(NoteWhy::WrongAnswer));
        hand.does(Body::Note(Note { why: NoteWhy::WrongAnswer, text: digest(7) }));
    }
    // The control: one that is right goes on to the gate.
    let mut right = Hand(hand.0.clone());
    submits(&mut right, None);
    assert_eq!(right.0.next(), Next::RunGate);
    submits(&mut hand, Some(digest(6)));
    assert_eq!(hand.0.next(), Next::Finish(Outcome::Stopped { why: StopWhy::Schema }));
}

#[test]
fn an_answer_with_more_calls_than_can_be_is_refused_without_making_room_for_them() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    hand.does(finished(act, ActEnd::Done, vec![], None));
    let Body::ModelAnswered(mut body) = forged_answer(&hand.0, Usage::default()).body else { unreachable!() };
    body.calls = u32::MAX;
    hand.cannot(Body::ModelAnswered(body.clone()), "more calls than an answer can");
    body.calls = 0;
    body.invocation = "other".to_owned();
    hand.cannot(Body::ModelAnswered(body), "invocation id");
}

/// W10: a bound on money that cannot be reckoned is no bound. Such a run does not begin.
#[test]
fn w10_a_cost_bound_without_a_price_is_refused() {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.budget.cost_micros = Some(1);
    created.price = None;
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.cannot(Body::RunCreated(created), "price is not known");
}

/// A second kind of failing call is steered away from as the first was.
#[test]
fn each_repeated_failure_is_steered_once() {
    let mut hand = Hand::workspace(1);
    for round in 0..2 {
        for time in 0..3 {
            if (round, time) != (0, 0) {
                hand.answer(1);
            }
            let act = hand.decides(Some(0), vec![read("a")]);
            hand.does(finished(act, ActEnd::Failed, vec![], None));
        }
        let note = Note { why: NoteWhy::Repeating, text: digest(7) };
        assert_eq!(hand.0.next(), Next::Note(NoteWhy::Repeating), "round {round}");
        hand.does(Body::Note(note));
        hand.answer(1);
        let act = hand.decides(Some(0), vec![read("a")]);
        hand.does(finished(act, ActEnd::Done, vec![], None));
    }
}

/// The calls of an answer that was cut off are answered as such and are nothing else; no other call is.
#[test]
fn i1_calls_of_an_answer_that_was_cut_off_are_not_acts() {
    let invalid = |why| {
        let call = CallRef { step: StepId(0), index: 0 };
        Body::CallInvalid(CallInvalid { call, why, result: digest(20) })
    };
    let mut hand = Hand::workspace(1);
    hand.cannot(invalid(InvalidCall::CutOff), "exactly when its answer is");

    let Body::RunCreated(created) = good_run().remove(0).body else { unreachable!() };
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.attach(Rung::R3);
    let Body::ModelAnswered(mut body) = forged_answer(&hand.0, Usage::default()).body else { unreachable!() };
    (body.calls, body.stop) = (1, Stop::Length);
    hand.does(Body::ModelAnswered(body));
    hand.cannot(hand.decided(Some(0), "tool", vec![read("a")], Recovery::Replayable), "are not acts");
    hand.cannot(invalid(InvalidCall::BadArguments), "exactly when its answer is");
    hand.does(invalid(InvalidCall::CutOff));
    assert_eq!(hand.0.next(), Next::Note(NoteWhy::CutOff));
}

#[test]
fn a_failed_request_is_of_the_step_that_is_due() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    let failed = |step| {
        Body::ModelFailed(ModelFailed {
            usage: None,
            estimated: false,
            rate_limits: None,
            step: StepId(step),
            route: RouteId::FIRST,
            attempt: 1,
            class: "overloaded".to_owned(),
            status: None,
            message: digest(8),
            retry_in_ms: None,
        })
    };
    hand.cannot(failed(1), "the step before it is not over");
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand.cannot(failed(0), "not of the step that is due");
    hand.does(failed(1));
}
