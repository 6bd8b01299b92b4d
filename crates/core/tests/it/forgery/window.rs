//! The time of an authorization, and what is said of one that holds no longer.

use provost_core::outcome::Unauthorized;
use provost_core::policy::WorkspaceMode;
use provost_core::session::Authorized;

use super::*;

const NOT_BEFORE: u64 = 5_000;
const EXPIRES: u64 = 20_000;

fn authorized() -> Authorized {
    Authorized { payload: digest(77), not_before_ms: NOT_BEFORE, expires_ms: EXPIRES, rollbacks: 1 }
}

fn created(workspace: WorkspaceMode) -> Body {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.policy = Policy { workspace, ..Policy::preset(Preset::Workspace) };
    created.budget = Budget::default();
    created.authorized = Some(Box::new(authorized()));
    Body::RunCreated(created)
}

/// A session with one answer of `calls` calls.
struct Session(Hand);

impl Session {
    fn new(calls: u32) -> Self {
        let mut session = Self(Hand(RunState::new("r-hand".parse().unwrap())));
        session.at(NOT_BEFORE, created(WorkspaceMode::staged())).unwrap();
        session.attach();
        session.0.answer(calls);
        session
    }

    fn attach(&mut self) {
        let generation = self.0.0.generation() + 1;
        let containment = world::staging(Rung::R3);
        self.0.does(Body::DriverAttached(DriverAttached {
            generation,
            host: "h".into(),
            pid: 1,
            containment,
        }));
    }

    fn at(&mut self, at_ms: u64, body: Body) -> Result<(), Violation> {
        let event = Event { at_ms, ..event_after(&self.0.0, body) };
        self.0.0.apply(&event)
    }

    #[track_caller]
    fn too_late(&mut self, body: Body) {
        let before = self.0.0.clone();
        let violation = self.at(EXPIRES, body).unwrap_err();
        assert!(matches!(violation, Violation::Window { .. }), "{violation}");
        assert!(violation.to_string().ends_with("after the run's authorization has expired"), "{violation}");
        assert_eq!(self.0.0, before, "a refused event left its mark");
    }
}

fn ends(why: Unauthorized) -> Body {
    Body::RunCancelled(RunCancelled { by: "authorization".to_owned(), unauthorized: Some(why) })
}

#[test]
fn a_session_begins_in_its_time_and_has_its_changes_staged() {
    let empty = || Session(Hand(RunState::new("r-hand".parse().unwrap())));
    let created = || created(WorkspaceMode::staged());
    let early = empty().at(NOT_BEFORE - 1, created()).unwrap_err();
    assert!(early.to_string().contains("before the run's authorization is valid"), "{early}");
    empty().too_late(created());
    let direct = empty().at(NOT_BEFORE, self::created(WorkspaceMode::Direct)).unwrap_err();
    assert!(direct.to_string().contains("changes are staged"), "{direct}");
    empty().at(EXPIRES - 1, created()).unwrap();
    empty().at(NOT_BEFORE, created()).unwrap();
}

#[test]
fn nothing_begins_when_the_time_is_over_and_what_is_under_way_ends() {
    let mut session = Session::new(2);
    let act = session.0.decides(Some(0), vec![exec("make all")]);
    let decided = session.0.decided(Some(1), "tool", vec![read("a")], Recovery::Replayable);
    session.too_late(decided);
    session.too_late(started(act, command("make all")));
    session.at(EXPIRES - 1000, started(act, command("make all"))).unwrap();
    session.at(EXPIRES + 7, finished(act, ActEnd::Interrupted, vec![], None)).unwrap();

    let mut session = Session::new(0);
    let submitted =
        Submitted { step: StepId(0), via: SubmitVia::FinalAnswer, summary: digest(5), wrong: None };
    session.too_late(Body::Submitted(submitted));
    session.0.submit();
    let gate = session.0.decided(None, "gate", vec![gate()], Recovery::Supervised);
    session.too_late(gate);

    // An answer that comes too late begins no step; the request is over.
    let mut session = Session(Hand(RunState::new("r-hand".parse().unwrap())));
    session.at(NOT_BEFORE, created(WorkspaceMode::staged())).unwrap();
    session.attach();
    let answer = forged_answer(&session.0.0, Usage::default()).body;
    session.too_late(answer);
    let failed = ModelFailed {
        step: StepId(0),
        route: RouteId::default(),
        attempt: 1,
        class: "cancelled".to_owned(),
        status: None,
        message: digest(3),
        usage: Some(Usage { input: 10, ..Usage::default() }),
        estimated: false,
        rate_limits: None,
        retry_in_ms: None,
    };
    // Nobody knows whether it was answered, so it is not made again by itself.
    let again = ModelFailed { retry_in_ms: Some(10), ..failed.clone() };
    session.0.cannot(Body::ModelFailed(again), "made again without anybody's word");
    session.at(EXPIRES, Body::ModelFailed(failed)).unwrap();
    assert_eq!(session.0.0.ledger().usage.input, 10, "it is paid for");
    session.attach();
}

#[test]
fn a_command_gets_no_more_time_than_is_left() {
    let mut session = Session::new(1);
    let act = session.0.decides(Some(0), vec![exec("make all")]);
    session.at(EXPIRES - 500, drifted(vec![creates("b", 60)])).unwrap();
    session.0.cannot(started(act, command("make all")), "more time than its authorization has left");
    let Intent::Command { argv, cwd, .. } = command("make all") else { unreachable!() };
    session.0.does(started(act, Intent::Command { argv, cwd, limit_ms: 500 }));
}

#[test]
fn a_session_ends_unauthorized_when_it_has_expired_or_somebody_revoked_it() {
    for why in [Unauthorized::Expired, Unauthorized::Revoked] {
        let mut session = Session::new(1);
        let outcome = Outcome::Unauthorized { why };
        let end = session.0.end(outcome, false);
        session.0.cannot(end.clone(), "it does not follow while the run is running");
        if why == Unauthorized::Expired {
            session.0.cannot(ends(why), "its authorization has not expired");
            session.at(EXPIRES, ends(why)).unwrap();
        } else {
            session.0.does(ends(why));
        }
        assert_eq!(session.0.0.next(), Next::Finish(outcome));
        // Not as a person's wish, and not for the other reason.
        let as_wish = session.0.end(Outcome::Stopped { why: StopWhy::Cancelled }, false);
        session.0.cannot(as_wish, "does not stand so that it ends");
        let other = if why == Unauthorized::Expired { Unauthorized::Revoked } else { Unauthorized::Expired };
        let other = session.0.end(Outcome::Unauthorized { why: other }, false);
        session.0.cannot(other, "does not stand so that it ends");
        session.0.does(end);
        let finished = session.0.0.outcome().unwrap().outcome;
        assert_eq!((finished.exit_code(), finished.word()), (3, "unauthorized"));
    }
    // Of a run without an authorization nobody can say it.
    let mut ordinary = Hand::workspace(1);
    ordinary.cannot(ends(Unauthorized::Revoked), "not made under an authorization");
    ordinary.does(Body::RunCancelled(RunCancelled::by("somebody")));
}
