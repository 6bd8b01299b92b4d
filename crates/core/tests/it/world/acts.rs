//! Acts as they are carried out, and what they leave.

use super::*;

impl World {
    pub(super) fn verdict(&mut self, act: ActId, verdict: Verdict) {
        self.append(Body::ActApproved(ActApproved { act, verdict, by: "world".to_owned() }));
    }

    /// Begins an act that may begin; one that only reads is over at once.
    pub(super) fn perform(&mut self, id: ActId, act: &OpenAct) {
        let mut writes = Vec::new();
        for (index, touch) in act.touches.iter().enumerate() {
            match touch {
                Touch::Read { .. } => {}
                Touch::Write { path } => writes.push(path.clone()),
                Touch::Call { .. } => return self.perform_call(id, act),
                Touch::Exec { argv, .. } if index == 0 => {
                    let (argv, cwd) = (argv.clone(), RelPath::root());
                    let staged = self.created().policy.workspace.is_staged();
                    let server = self.state.starts_server(act).is_some();
                    let narrowed = self.state.bound_as(act.agent) != AgentId::ROOT;
                    let may_go_on = act.call.is_some() && !staged && !narrowed;
                    let intent = if server || (may_go_on && self.choices.once_in(3)) {
                        Intent::Background { argv, cwd, limit_ms: None, publish: None }
                    } else {
                        Intent::Command { argv, cwd, limit_ms: 1000 }
                    };
                    self.append(Body::ActStarted(ActStarted { act: id, intent }));
                    return self.dial(id);
                }
                Touch::Spawn { .. } => return self.spawn(id, act),
                // Not yet in the journal's vocabulary: these fail before they start.
                _ => {
                    return self.end(id, ActEnd::Failed, Vec::new(), Vec::new(), None);
                }
            }
        }
        let end = if self.choices.once_in(5) { ActEnd::Failed } else { ActEnd::Done };
        if writes.is_empty() || end == ActEnd::Failed {
            return self.end(id, end, Vec::new(), Vec::new(), None);
        }
        let changes = writes.iter().map(|path| self.change(path.as_str())).collect();
        self.append(Body::ActStarted(ActStarted { act: id, intent: Intent::Write { changes } }));
    }

    /// A command that runs may dial.
    pub(super) fn dial(&mut self, act: ActId) {
        if self.choices.once_in(3) {
            let (host, port) = ("example.org".to_owned(), 443);
            let policy = self.state.policy_of(self.state.open_acts()[&act].agent).unwrap();
            let decision = policy.decide_dial(&host, port, self.state.rung());
            self.append(Body::NetDecided(NetDecided { act, host, port, decision, private: Vec::new() }));
        }
    }

    /// Ends an act that started. By the same driver or by the next, the event is the same.
    pub(super) fn settle(&mut self, id: ActId, act: &OpenAct, intent: &Intent) {
        if let Intent::Write { changes } = intent {
            // Meanwhile a drift may have taken the files elsewhere: then the write failed and changed nothing.
            let fits = changes.iter().all(|change| self.files.get(&change.path) == change.before.as_ref());
            if !fits || self.choices.once_in(5) {
                return self.end(id, ActEnd::Failed, Vec::new(), Vec::new(), None);
            }
            return self.wrote(id, changes);
        }
        if let Intent::Call { .. } = intent {
            return self.settle_call(id, act);
        }
        if let Intent::Background { .. } = intent {
            let end = if self.choices.once_in(6) { ActEnd::Interrupted } else { ActEnd::Done };
            return self.end(id, end, vec![], vec![], None);
        }
        if let Intent::Spawn(spawn) = intent {
            return self.end_spawn(id, spawn.agent);
        }
        if let Some(staged) = &act.staged {
            return self.apply_staged(id, staged);
        }
        if self.state.indeterminate_act() == Some(id) || (self.troubles > 0 && self.choices.once_in(9)) {
            return self.ask_a_person(id);
        }
        if act.settled.is_some() || self.choices.once_in(8) {
            // It was not let go, or a person says what became of it.
            return self.end(id, ActEnd::Interrupted, Vec::new(), Vec::new(), None);
        }
        if self.created().policy.workspace.is_staged() && act.call.is_some() {
            return self.stage(id, act);
        }
        let exit = self.exit();
        let mut changes = match self.choices.pick(if act.call.is_some() { 3 } else { 6 }) {
            1 => vec![self.change("a")],
            2 => vec![self.change("new/file"), self.change(ASKED)],
            _ => vec![],
        };
        let mut reverted = if self.choices.once_in(4) { vec![path(PROTECTED)] } else { vec![] };
        reverted.extend(self.take_back(id, &mut changes));
        let command = self.ran(act, exit);
        self.end(id, exit.end(), changes, reverted, Some(command));
    }

    pub(super) fn exit(&mut self) -> ExitFact {
        match self.choices.pick(8) {
            0..=3 => ExitFact::Exited { code: 0 },
            4 | 5 => ExitFact::Exited { code: 1 },
            6 => self.choices.of(&[ExitFact::TimedOut { limit_ms: 1000 }, ExitFact::Signalled { signal: 9 }]),
            _ => self.choices.of(&[ExitFact::DriverLost, ExitFact::Cancelled]),
        }
    }

    pub(super) fn ran(&mut self, act: &OpenAct, exit: ExitFact) -> CommandFact {
        let gate = self.created().gate.as_ref();
        let counted = gate.is_some_and(|gate| gate.counted == Counted::AgainstBase)
            && act.call.is_none()
            && matches!(act.tool.as_str(), "gate" | BASE_GATE)
            && matches!(exit, ExitFact::Exited { .. });
        let tests = counted.then(|| {
            let passed = self.choices.pick(3) as u64;
            (passed < 2).then_some(TestsRan { passed, failed: 0, ignored: 1 })
        });
        let tests = tests.flatten();
        CommandFact {
            exit,
            duration_ms: 1,
            output_bytes: 0,
            survivors: 0,
            caps: Vec::new(),
            traffic: None,
            tests,
            containment: (act.rung != self.state.rung() || self.choices.once_in(4))
                .then(|| receipt(act.rung)),
        }
    }

    /// What a command changed in its layer; or it is gone with its driver.
    pub(super) fn stage(&mut self, id: ActId, act: &OpenAct) {
        let left = |name: &str, why| Unapplied { path: path(name), why };
        let (mut changes, mut unapplied) = match self.choices.pick(6) {
            0 => (vec![self.change("a")], vec![]),
            1 => (
                vec![self.change("new/file"), self.change("a")],
                vec![left(PROTECTED, WhyUnapplied::Guarded)],
            ),
            2 => (vec![], vec![left("a", WhyUnapplied::Conflict), left("b", WhyUnapplied::HeldBack)]),
            3 => (vec![], vec![]),
            4 => {
                let command = self.ran(act, ExitFact::DriverLost);
                return self.end(id, ActEnd::Interrupted, vec![], vec![], Some(command));
            }
            _ => return self.end(id, ActEnd::Interrupted, vec![], vec![], None),
        };
        let guarded = self.take_back(id, &mut changes);
        unapplied.extend(guarded.into_iter().map(|path| Unapplied { path, why: WhyUnapplied::Guarded }));
        let mut beside = self.choices.pick(2) as u64;
        if self.state.rolls_back() && (Unclean::made(&unapplied).is_some() || self.choices.once_in(3)) {
            let back = std::mem::take(&mut changes).into_iter();
            unapplied.extend(back.map(|it| Unapplied { path: it.path, why: WhyUnapplied::RolledBack }));
            beside = 0;
        }
        self.append(Body::ActStaged(Box::new(ActStaged { act: id, changes, unapplied, beside })));
    }

    /// Puts what was staged into the workspace; where a file is not what it was, nothing of it.
    pub(super) fn apply_staged(&mut self, id: ActId, staged: &ActStaged) {
        let fits = |change: &Change| self.files.get(&change.path) == change.before.as_ref();
        let mut unapplied = staged.unapplied.clone();
        if !staged.changes.iter().all(fits) {
            unapplied.extend(staged.changes.iter().map(|change| {
                let why = if fits(change) { WhyUnapplied::HeldBack } else { WhyUnapplied::Conflict };
                Unapplied { path: change.path.clone(), why }
            }));
        }
        let changes = staged.applied(&unapplied, &[]);
        let act = self.state.open_acts()[&id].clone();
        let (end, command) = if self.choices.once_in(6) {
            (ActEnd::Interrupted, None)
        } else {
            let exit = self.exit_of_staged(staged);
            (exit.end(), Some(self.ran(&act, exit)))
        };
        self.finish_act(id, end, changes, vec![], unapplied, command);
    }

    /// How a command ended whose changes are staged: of one that was rolled back for that, not by itself.
    pub(super) fn exit_of_staged(&mut self, staged: &ActStaged) -> ExitFact {
        let back = staged.unapplied.iter().any(|left| left.why == WhyUnapplied::RolledBack);
        let nothing = staged.changes.is_empty() && staged.beside == 0;
        match (self.state.rolls_back(), Unclean::made(&staged.unapplied)) {
            (true, None) if back => self.choices.of(&[
                ExitFact::TimedOut { limit_ms: 1000 },
                ExitFact::Signalled { signal: 9 },
                ExitFact::Cancelled,
            ]),
            (true, None) if !nothing => ExitFact::Exited { code: self.choices.pick(2) as i32 },
            _ => self.exit(),
        }
    }

    /// Nobody can tell what became of an act. The next time, a person does.
    pub(super) fn ask_a_person(&mut self, act: ActId) {
        if self.state.cancelled().is_some() {
            return self.end(act, ActEnd::Interrupted, Vec::new(), Vec::new(), None);
        }
        if self.state.indeterminate_act() == Some(act) {
            let how = self.choices.of(&[Settlement::DidNot, Settlement::Happened, Settlement::Again]);
            return self.append(Body::ActSettled(ActSettled { act, how, by: "world".to_owned() }));
        }
        if self.state.open_acts()[&act].settled.is_some() {
            // A person has said so before.
            return self.end(act, ActEnd::Interrupted, Vec::new(), Vec::new(), None);
        }
        self.troubles -= 1;
        self.detach(Pause::Indeterminate, Some(act));
    }

    /// A write did what it set out to do, which its start says.
    pub(super) fn wrote(&mut self, act: ActId, changes: &[Change]) {
        for change in changes {
            write(&mut self.files, change);
        }
        self.end(act, ActEnd::Done, Vec::new(), Vec::new(), None);
    }

    pub(super) fn end(
        &mut self,
        act: ActId,
        end: ActEnd,
        changes: Vec<Change>,
        reverted: Vec<RelPath>,
        command: Option<CommandFact>,
    ) {
        self.finish_act(act, end, changes, reverted, Vec::new(), command);
    }

    pub(super) fn finish_act(
        &mut self,
        act: ActId,
        end: ActEnd,
        changes: Vec<Change>,
        reverted: Vec<RelPath>,
        unapplied: Vec<Unapplied>,
        command: Option<CommandFact>,
    ) {
        for change in &changes {
            write(&mut self.files, change);
        }
        let seen = match end {
            ActEnd::Done => vec![Seen { path: path("a"), content: digest(10) }],
            _ => vec![],
        };
        let open = &self.state.open_acts()[&act];
        let (rung, is_poll) = (open.rung, open.tool == "shell_poll");
        let server = self.state.starts_server(open).is_some();
        let begins = matches!(open.started, Some(Intent::Background { .. })) && !server;
        self.started_as.insert(act, rung);
        let mine = open.agent;
        let mine = |process: &Process| process.agent() == mine && process.server.is_none();
        let processes = self.state.processes().filter(|(_, process)| mine(process));
        let processes: Vec<_> = processes.map(|(act, process)| (act, process.clone())).collect();
        let told = match (end, begins, is_poll) {
            (ActEnd::Done, true, _) => Some(Told { process: act, from: 0, to: 3 }),
            (ActEnd::Done, false, true) if !processes.is_empty() => {
                let (process, was) = self.choices.of(&processes);
                let most = match &was.end {
                    None => was.shown + 4,
                    Some(end) => end.command.as_ref().map_or(was.shown, |command| command.output_bytes),
                };
                Some(Told { process, from: was.shown, to: most })
            }
            _ => None,
        };
        self.append(Body::ActFinished(Box::new(ActFinished {
            act,
            end,
            told,
            result: digest(11),
            changes,
            reverted,
            unapplied,
            seen,
            command,
            duration_ms: 1,
        })));
    }
}
