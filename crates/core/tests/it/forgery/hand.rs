//! A run written by hand, and the bodies that it is written with.

use super::*;

pub(super) fn forged_answer(state: &RunState, usage: Usage) -> Event {
    let step = StepId(state.ledger().steps);
    let body = ModelAnswered {
        step,
        invocation: invocation_id(state.stream(), step),
        route: state.route().unwrap_or_default(),
        prompt: None,
        answer: digest(9),
        calls: 0,
        text: true,
        stop: Stop::End,
        usage,
        estimated: false,
        raw_usage: None,
        rate_limits: None,
        model: "m".to_owned(),
        latency_ms: 1,
        ttft_ms: None,
    };
    event_after(state, Body::ModelAnswered(body))
}

pub(super) fn event_after(state: &RunState, body: Body) -> Event {
    let at_ms = state.span_ms().1;
    Event {
        v: 1,
        stream: state.stream().clone(),
        seq: state.next_seq(),
        at_ms,
        agent: state.agent_of(&body),
        body,
        prev: provost_core::digest::Digest::ZERO,
        hash: provost_core::digest::Digest::ZERO,
    }
}

/// A run written by hand, event by event.
pub(super) struct Hand(pub(super) RunState);

impl Hand {
    /// A run with one answer of `calls` calls, under `policy`, its driver at `rung`, with the gate of the worlds.
    pub(super) fn new(policy: Policy, rung: Rung, calls: u32) -> Self {
        let mut hand = Self::unattached(policy);
        hand.attach(rung);
        hand.answer(calls);
        hand
    }

    /// The same at R3, with these limits.
    pub(super) fn limited(policy: Policy, calls: u32, limits: Limits) -> Self {
        let mut hand = Self::created(policy, limits);
        hand.attach(Rung::R3);
        hand.answer(calls);
        hand
    }

    /// A run that no driver has taken yet.
    pub(super) fn unattached(policy: Policy) -> Self {
        Self::created(policy, Limits::default())
    }

    fn created(policy: Policy, limits: Limits) -> Self {
        let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
        created.policy = policy;
        created.limits = limits;
        created.budget = Budget::default();
        let mut hand = Self(RunState::new("r-hand".parse().unwrap()));
        hand.does(Body::RunCreated(created));
        hand
    }

    /// The same, of a policy that has changes staged.
    pub(super) fn staged(policy: Policy, calls: u32) -> Self {
        let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
        created.policy = policy;
        created.budget = Budget::default();
        let mut hand = Self(RunState::new("r-hand".parse().unwrap()));
        hand.does(Body::RunCreated(created));
        let containment = world::staging(Rung::R3);
        let attached = DriverAttached { generation: 1, host: "h".into(), pid: 1, containment };
        hand.does(Body::DriverAttached(attached));
        hand.answer(calls);
        hand
    }

    pub(super) fn workspace(calls: u32) -> Self {
        let rules = Layer::named("hand").rule(Effect::Deny, "write guarded/").unwrap();
        let rules =
            rules.rule(Effect::Ask, "read asked/").unwrap().rule(Effect::Ask, "write asked/").unwrap();
        Self::new(Policy::preset(Preset::Workspace).with(rules), Rung::R3, calls)
    }

    #[track_caller]
    pub(super) fn does(&mut self, body: Body) {
        let event = event_after(&self.0, body);
        self.0.apply(&event).unwrap();
    }

    /// The body is refused, for this reason, and leaves the state as it was.
    #[track_caller]
    pub(super) fn cannot(&mut self, body: Body, why: &str) {
        let before = self.0.clone();
        let event = event_after(&self.0, body);
        let violation = self.0.apply(&event).unwrap_err();
        assert_eq!(self.0, before, "a refused event left its mark");
        assert!(violation.to_string().contains(why), "refused for another reason: {violation}");
    }

    pub(super) fn attach(&mut self, rung: Rung) {
        let generation = self.0.generation() + 1;
        let containment = receipt(rung);
        self.does(Body::DriverAttached(DriverAttached { generation, host: "h".into(), pid: 1, containment }));
    }

    pub(super) fn answer(&mut self, calls: u32) {
        let Body::ModelAnswered(mut body) = forged_answer(&self.0, Usage::default()).body else {
            unreachable!()
        };
        body.calls = calls;
        body.text = calls == 0;
        self.does(Body::ModelAnswered(body));
    }

    pub(super) fn decided(
        &self,
        index: Option<u32>,
        tool: &str,
        touches: Vec<Touch>,
        recovery: Recovery,
    ) -> Body {
        let agent = self.0.acting();
        let policy = self.0.policy_of(index.map_or(AgentId::ROOT, |_| agent)).unwrap();
        let decision = match index {
            Some(_) => policy.decide(&touches, self.0.rung()),
            None => policy.decide_ordered(&touches, self.0.rung(), Ordered::by(tool)),
        };
        let step = self.0.agent(agent).unwrap().step().unwrap_or_default();
        Body::ActDecided(ActDecided {
            act: self.0.next_act(),
            call: index.map(|index| CallRef { step, index }),
            tool: tool.to_owned(),
            args: digest(30),
            touches,
            recovery,
            decision,
        })
    }

    #[track_caller]
    pub(super) fn decides(&mut self, index: Option<u32>, touches: Vec<Touch>) -> ActId {
        let act = self.0.next_act();
        let body = self.decided(index, "tool", touches, Recovery::Supervised);
        self.does(body);
        act
    }

    /// Runs the gate up to its judgement, which is left to the caller.
    #[track_caller]
    pub(super) fn run_gate(&mut self, exit: i32) -> ActId {
        let act = self.decides(None, vec![gate()]);
        self.does(started(act, command("check all")));
        self.does(finished(act, end_of(exit), vec![], Some(ran(exit, Rung::R3))));
        act
    }

    #[track_caller]
    pub(super) fn submit(&mut self) {
        let step = StepId(self.0.ledger().steps - 1);
        self.does(Body::Submitted(Submitted {
            step,
            via: SubmitVia::FinalAnswer,
            summary: digest(5),
            wrong: None,
        }));
    }

    pub(super) fn end(&self, outcome: Outcome, verified: bool) -> Body {
        let tree =
            self.0.last_gate().map_or_else(|| world::tree(&world::start()), |judged| judged.tree.clone());
        Body::RunFinished(RunFinished { outcome, verified, tree, needed: None })
    }
}

pub(super) fn end_of(exit: i32) -> ActEnd {
    if exit == 0 { ActEnd::Done } else { ActEnd::Failed }
}

pub(super) fn gate() -> Touch {
    exec("check all")
}

pub(super) fn exec(line: &str) -> Touch {
    Touch::Exec { argv: line.split(' ').map(str::to_owned).collect(), program: None }
}

pub(super) fn read(name: &str) -> Touch {
    Touch::Read { path: path(name) }
}

pub(super) fn write(name: &str) -> Touch {
    Touch::Write { path: path(name) }
}

pub(super) fn command(line: &str) -> Intent {
    Intent::Command {
        argv: line.split(' ').map(str::to_owned).collect(),
        cwd: provost_core::path::RelPath::root(),
        limit_ms: 1000,
    }
}

pub(super) fn started(act: ActId, intent: Intent) -> Body {
    Body::ActStarted(ActStarted { act, intent })
}

pub(super) fn finished(act: ActId, end: ActEnd, changes: Vec<Change>, command: Option<CommandFact>) -> Body {
    Body::ActFinished(Box::new(ActFinished {
        act,
        end,
        result: digest(11),
        changes,
        reverted: vec![],
        unapplied: vec![],
        seen: vec![],
        command,
        told: None,
        duration_ms: 1,
    }))
}

pub(super) fn ran(code: i32, rung: Rung) -> CommandFact {
    CommandFact {
        exit: ExitFact::Exited { code },
        duration_ms: 1,
        output_bytes: 0,
        survivors: 0,
        caps: Vec::new(),
        traffic: None,
        containment: Some(receipt(rung)),
    }
}

pub(super) fn creates(name: &str, content: u64) -> Change {
    let after = Some(world::start().into_values().next().unwrap())
        .map(|fact| provost_core::act::FileFact { content: digest(content), ..fact });
    Change { path: path(name), before: None, after }
}

pub(super) fn judged(act: ActId, verdict: GateVerdict) -> Body {
    Body::GateJudged(GateJudged { act, tree: world::tree(&world::start()), verdict })
}

pub(super) fn drifted(changes: Vec<Change>) -> Body {
    Body::WorkspaceDrifted(WorkspaceDrifted { changes })
}
