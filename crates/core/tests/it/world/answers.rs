//! What the model is asked and answers, and what becomes of its calls.

use super::*;

impl World {
    pub(super) fn ask(&mut self, step: StepId, invocation: String, route: RouteId) {
        if self.state.can_fold() && self.choices.once_in(20) {
            return self.fold(FoldedBy::Runtime);
        }
        if self.state.can_fold() && !self.state.is_folding() && self.choices.once_in(10) {
            return self.append(Body::Note(Note { why: NoteWhy::ContextFull, text: digest(7) }));
        }
        let price = self.state.price_of(route).cloned();
        if self.troubles > 0 && self.choices.once_in(9) {
            self.troubles -= 1;
            let usage = Usage { input: 7, ..Usage::default() };
            let mut body = ModelFailed {
                usage: (self.choices.once_in(3) && self.state.ledger().reserve(price.as_ref(), 7, 1).is_ok())
                    .then_some(usage),
                step,
                route,
                attempt: 1,
                class: self.choices.of(&["overloaded", UNKNOWN_OUTCOME]).to_owned(),
                status: Some(529),
                estimated: false,
                rate_limits: Some(limits()),
                message: digest(8),
                retry_in_ms: self.choices.of(&[Some(10), None]),
            };
            if self.state.authorized().is_some() && leaves_open(&body.class) {
                body.retry_in_ms = None;
            }
            return self.append(Body::ModelFailed(body));
        }
        let estimate = 10 + self.choices.pick(50) as u64;
        let granted = match self.state.ledger().reserve(price.as_ref(), estimate, 100) {
            Ok(tokens) => tokens,
            Err(bound) => {
                let agent = self.state.acting();
                let open = match agent {
                    AgentId::ROOT => self.state.open_processes(),
                    child => self.state.open_processes_of(child),
                };
                return match open.first() {
                    Some(process) => self.end_process(*process),
                    None if agent == AgentId::ROOT => self.finish(Outcome::BudgetSpent { bound }),
                    None => self.end_agent(AgentEnd::BudgetSpent { bound }),
                };
            }
        };
        // Silence says nothing, a final answer ends the run, calls go on.
        let what = match self.mood {
            Mood::Lively => self.choices.pick(8),
            Mood::Silent => self.choices.of(&[0, 1, 1, 1, 1, 1, 2, 3]),
            Mood::Stubborn => self.choices.of(&[0, 4, 4, 4, 4, 4, 4, 4]),
        };
        let (calls, text, stop) = match what {
            0 => (0, true, Stop::End),
            1 => (0, false, Stop::End),
            2 => (self.choices.pick(3) as u32, true, Stop::Length),
            3 => (0, true, Stop::Refused),
            _ => (1 + self.choices.pick(3) as u32, false, Stop::ToolCalls),
        };
        let cached = self.choices.pick(10) as u64;
        let written = self.choices.pick(estimate as usize - 9) as u64;
        let usage = Usage {
            input: estimate - cached - written.min(estimate - cached),
            output: granted.min(self.choices.pick(200) as u64),
            cache_read: cached,
            cache_write: written.min(estimate - cached),
            reasoning: 0,
        };
        let estimated = self.choices.once_in(5);
        self.append(Body::ModelAnswered(ModelAnswered {
            step,
            invocation,
            route,
            prompt: None,
            answer: digest(9),
            calls,
            text,
            stop,
            usage,
            estimated,
            raw_usage: (!estimated).then(|| digest(7)),
            rate_limits: (!text).then(limits),
            model: "m".to_owned(),
            latency_ms: 1,
            ttft_ms: None,
        }));
        if let Some(missed) = self.state.cache_miss().filter(|_| self.choices.once_in(2)) {
            self.append(Body::CacheMissed(missed));
        }
    }

    /// Reads a call as an act. Sometimes the one behind it is read as well, before the first is carried out.
    pub(super) fn call(&mut self, call: CallRef) {
        let mine = self.state.acting();
        let mut events = self.events.iter().rev().filter(|event| event.agent == mine);
        let cut_off = events.find_map(|event| match &event.body {
            Body::ModelAnswered(body) => Some(body.stop == Stop::Length),
            _ => None,
        });
        if cut_off != Some(true) && self.state.is_folding() {
            let why = InvalidCall::InsteadOfSummary;
            return self.append(Body::CallInvalid(CallInvalid { call, why, result: digest(20) }));
        }
        if cut_off == Some(true) || (self.mood == Mood::Lively && self.choices.once_in(6)) {
            let why = match cut_off {
                Some(true) => InvalidCall::CutOff,
                _ => self.choices.of(&[InvalidCall::BadArguments, InvalidCall::UnknownTool]),
            };
            return self.append(Body::CallInvalid(CallInvalid { call, why, result: digest(20) }));
        }
        let read = |name: &str| Touch::Read { path: path(name) };
        let exec = |line: &str| Touch::Exec { argv: words(line), program: None };
        // Few argument digests, so that the same failing call comes up again.
        let args = digest(30 + self.choices.pick(3) as u64);
        let (args, what) = match self.mood {
            Mood::Stubborn if mine == AgentId::ROOT => {
                (digest(30), self.choices.of(&[0, 6, 6, 6, 6, 6, 14, 14]))
            }
            Mood::Stubborn => (digest(30), self.choices.of(&[0, 6, 6, 6, 6, 6, 6, 6])),
            _ => (args, self.choices.pick(16)),
        };
        let (tool, touches, recovery) = match what {
            0 => ("submit", vec![], Recovery::Replayable),
            1 => ("read", vec![read("a")], Recovery::Replayable),
            2 => ("read", vec![read(ASKED), read("a")], Recovery::Replayable),
            3..=5 => {
                let names: &[&str] = match self.choices.pick(5) {
                    0 => &["a"],
                    1 => &["src/lib.rs", "new/file"],
                    2 => &[ASKED, "a"],
                    3 => &[PROTECTED],
                    _ => &[],
                };
                let touches = names.iter().map(|name| Touch::Write { path: path(name) }).collect();
                ("write", touches, Recovery::Replayable)
            }
            6 => ("exec", vec![exec("rm -rf a")], Recovery::Supervised),
            7 => ("exec", vec![exec("git push")], Recovery::Supervised),
            12 => ("shell_poll", vec![], Recovery::Replayable),
            7..=11 | 13 if !self.created().servers.is_empty() => servers::call(&mut self.choices),
            14 | 15 => ("delegate", vec![Touch::Spawn { agent: "helper".to_owned() }], Recovery::Replayable),
            8 => ("mcp", vec![Touch::Call { tool: "mail".to_owned() }], Recovery::Indeterminate),
            _ => ("exec", vec![exec("make all")], Recovery::Supervised),
        };
        self.decide(Some(call), tool, args, touches, recovery);
    }

    pub(super) fn decide(
        &mut self,
        call: Option<CallRef>,
        tool: &str,
        args: Digest,
        touches: Vec<Touch>,
        recovery: Recovery,
    ) {
        let whose = call.map_or(AgentId::ROOT, |_| self.state.acting());
        let policy = self.state.policy_of(whose).unwrap();
        let decision = match call {
            Some(_) => policy.decide(&touches, self.state.rung()),
            None => policy.decide_ordered(&touches, self.state.rung(), Ordered::by(tool)),
        };
        let act = self.state.next_act();
        self.append(Body::ActDecided(ActDecided {
            act,
            call,
            tool: tool.to_owned(),
            args,
            touches,
            recovery,
            decision,
        }));
    }

    /// Takes one of the open acts a step further, not always the first; or reads one more call meanwhile.
    pub(super) fn act(&mut self) {
        if let Some(call) = self.unread_call()
            && self.state.cancelled().is_none()
            && self.choices.once_in(3)
        {
            return self.call(call);
        }
        let open: Vec<ActId> = match self.state.next() {
            Next::Recover(id) if self.state.cancelled().is_some() => vec![id],
            _ => self.acts_at_hand(),
        };
        // Nobody calls a server that is about to start.
        let start = self.state.open_acts().iter().find(|(_, act)| self.state.starts_server(act).is_some());
        let start = start.map(|(id, _)| *id).filter(|id| open.contains(id));
        let id = start.unwrap_or_else(|| self.choices.of(&open));
        let act = self.state.open_acts()[&id].clone();
        if let Some(intent) = &act.started {
            self.settle(id, &act, intent);
        } else if act.is_refused() {
            self.end(id, ActEnd::Refused, Vec::new(), Vec::new(), None);
        } else if act.may_start() {
            self.perform(id, &act);
        } else {
            match self.choices.pick(3) {
                0 => self.verdict(id, Verdict::Denied),
                1 => self.verdict(id, Verdict::Approved),
                _ => {
                    self.detach(Pause::Approval, Some(id));
                }
            }
        }
    }

    /// A call of the step that has not been read, while another's act is open.
    pub(super) fn unread_call(&self) -> Option<CallRef> {
        let mut read = 0;
        let mine = self.state.acting();
        for event in self.events.iter().rev().filter(|event| event.agent == mine) {
            match &event.body {
                Body::ModelAnswered(body) => {
                    return (read < body.calls && body.stop != Stop::Length)
                        .then_some(CallRef { step: body.step, index: read });
                }
                Body::CallInvalid(_) | Body::ActDecided(ActDecided { call: Some(_), .. }) => read += 1,
                _ => {}
            }
        }
        None
    }
}
