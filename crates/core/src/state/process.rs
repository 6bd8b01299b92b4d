//! Background commands: which are open, whose they are, how much of their output the model has seen.

use super::check::{Checked, must};
use super::{OpenAct, RunState};
use crate::act::{ActEnd, CommandFact, Intent};
use crate::containment::Rung;
use crate::digest::Digest;
use crate::event::{ActFinished, ActStarted};
use crate::id::{ActId, AgentId};
use crate::process::{MOST_PROCESSES, ProcessChanged, ProcessEnded};

/// A background command of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Argument vector.
    pub argv: Vec<String>,
    /// Its port that the host's loopback leads to.
    pub publish: Option<u16>,
    /// The contract's server that it is, where it is one. It has no words for the model.
    pub server: Option<String>,
    /// How many bytes of its output the model has been shown, or was told that they are left out.
    pub shown: u64,
    /// How it ended, if it did.
    pub end: Option<ProcessEnd>,
    /// Whose it is.
    pub(super) agent: AgentId,
    /// The driver that started it. Another one does not have it.
    generation: u64,
    /// What contained commands when it was started.
    rung: Rung,
    /// Whether the act that started it is over; until then it may not have come about.
    came_about: bool,
    /// Whether the model knows that it ended.
    known: bool,
}

/// How a background command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Its numbers; `None` where it is gone with its driver and left no record.
    pub command: Option<CommandFact>,
    /// How it ended and what it wrote last, in words (blob).
    pub report: Digest,
}

impl Process {
    /// Whether it may be running.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// Whose it is: it ends with that agent.
    pub fn agent(&self) -> AgentId {
        self.agent
    }
}

impl RunState {
    /// Background commands, open and ended, by the act that started each.
    pub fn processes(&self) -> impl Iterator<Item = (ActId, &Process)> {
        self.processes.iter().filter(|(_, process)| process.came_about).map(|(act, process)| (*act, process))
    }

    /// The background command that `act` started.
    pub fn process(&self, act: ActId) -> Option<&Process> {
        self.processes.get(&act).filter(|process| process.came_about)
    }

    /// Background commands without an end.
    pub fn open_processes(&self) -> Vec<ActId> {
        self.processes().filter(|(_, process)| process.is_open()).map(|(act, _)| act).collect()
    }

    /// Background commands of this agent without an end.
    pub fn open_processes_of(&self, agent: AgentId) -> Vec<ActId> {
        let open = |process: &Process| process.agent == agent && process.is_open();
        self.processes().filter(|(_, process)| open(process)).map(|(act, _)| act).collect()
    }

    /// Background commands whose driver is gone, and they with it.
    pub fn lost_processes(&self) -> Vec<ActId> {
        let lost = |process: &Process| process.is_open() && process.generation != self.generation;
        self.processes().filter(|(_, process)| lost(process)).map(|(act, _)| act).collect()
    }

    /// Background commands of the agent whose turn it is that ended without its model knowing.
    pub fn untold_processes(&self) -> impl Iterator<Item = (ActId, &Process)> {
        let agent = self.acting();
        let untold = move |process: &Process| process.agent == agent && !process.is_open() && !process.known;
        self.processes().filter(move |(_, process)| untold(process))
    }

    /// A background command may start: there are not too many, and what it changes is seen.
    pub(super) fn check_process_start(&self, act: &OpenAct, intent: &Intent) -> Checked {
        let Intent::Background { publish, .. } = intent else {
            return Ok(());
        };
        let server = self.starts_server(act);
        must(act.call.is_some() || server.is_some(), "no call asks for it to go on in the background")?;
        must(
            self.bound_as(act.agent) == AgentId::ROOT,
            "its agent's orders deny something, and what it changes could not be told from what others do",
        )?;
        let staged = self.created.as_ref().is_some_and(|created| created.policy.workspace.is_staged());
        must(!staged, "the contract has changes staged, and nobody sees those of a background command")?;
        if server.is_some() {
            return must(publish.is_none(), "a server has no port that the host's leads to");
        }
        let open =
            self.processes.values().filter(|process| process.is_open() && process.server.is_none()).count();
        if let Some(port) = publish {
            let granted = self.created.as_ref().is_some_and(|created| created.policy.publish.contains(port));
            must(granted, "the policy does not let that port be published")?;
            must(self.rung >= Rung::R3, "its containment gives it no ports of its own")?;
            let taken =
                self.processes.values().any(|process| process.is_open() && process.publish == Some(*port));
            must(!taken, "another background command has that port")?;
        }
        must(open < MOST_PROCESSES, "more background commands run than a run can have")
    }

    pub(super) fn process_started(&mut self, body: &ActStarted, agent: AgentId) {
        if let Intent::Background { argv, publish, .. } = &body.intent {
            let server = self.open.get(&body.act).and_then(|act| self.starts_server(act));
            let server = server.map(|server| server.name.clone());
            let process = Process {
                argv: argv.clone(),
                publish: *publish,
                known: server.is_some(),
                server,
                shown: 0,
                end: None,
                agent,
                generation: self.generation,
                rung: self.rung,
                came_about: false,
            };
            self.processes.insert(body.act, process);
        }
    }

    /// What an act says that it showed of a command's output goes on where the last one stopped.
    pub(super) fn check_told(&self, act: &OpenAct, body: &ActFinished) -> Checked {
        let Some(told) = body.told else {
            return Ok(());
        };
        must(body.end == ActEnd::Done, "it shows output and did not do what was asked")?;
        let process = if told.process == body.act {
            self.processes.get(&told.process)
        } else {
            must(act.started.is_none(), "it shows the output of another command than its own")?;
            self.process(told.process)
        };
        let Some(process) = process else {
            return Err("it shows the output of a background command that was never started".to_owned());
        };
        must(process.server.is_none(), "it shows the output of a server")?;
        must(process.agent == act.agent, "it shows the output of another agent's command")?;
        must(told.from == process.shown, "it does not go on where the command's output was last shown")?;
        must(told.from <= told.to, "it shows output that was shown before")?;
        match &process.end {
            None => Ok(()),
            Some(ProcessEnd { command: Some(command), .. }) => {
                must(told.to <= command.output_bytes, "it shows more than the command wrote")
            }
            Some(ProcessEnd { command: None, .. }) => {
                must(told.to == told.from, "it shows output of which nothing is left")
            }
        }
    }

    /// The act that was to start it is over, or another act told of it. Everything was checked.
    pub(super) fn told_of_process(&mut self, body: &ActFinished) {
        if let Some(process) = self.processes.get_mut(&body.act) {
            if body.end == ActEnd::Done {
                process.came_about = true;
            } else {
                self.processes.remove(&body.act);
            }
        }
        if let Some(told) = body.told
            && let Some(process) = self.processes.get_mut(&told.process)
        {
            process.shown = told.to;
            process.known = !process.is_open();
        }
    }

    pub(super) fn told_of_ends(&mut self, agent: AgentId) {
        let ended = |process: &&mut Process| process.agent == agent && !process.is_open();
        for process in self.processes.values_mut().filter(ended) {
            process.known = true;
        }
    }

    pub(super) fn process_changed(&mut self, body: &ProcessChanged) -> Checked {
        must(!self.open_processes().is_empty(), "no background command runs")?;
        must(!body.changes.is_empty() || !body.reverted.is_empty(), "it changes nothing")?;
        // Whosever they are, none is held to less than the contract.
        self.check_no_denied_change(AgentId::ROOT, &body.changes)?;
        self.check_changes(&body.changes)?;
        self.changed(&body.changes);
        Ok(())
    }

    pub(super) fn process_ended(&mut self, body: &ProcessEnded) -> Checked {
        let process = self.process(body.act).filter(|process| process.is_open());
        let Some(process) = process else {
            return Err("no such background command runs".to_owned());
        };
        must(
            body.published.is_none_or(|published| process.publish == Some(published.port)),
            "it had no such port published",
        )?;
        let agent = process.agent;
        let (rung, lost) = (process.rung, process.generation != self.generation);
        match &body.command {
            None => must(lost, "its driver has it, and does not say how it ended")?,
            Some(command) => {
                must(command.output_bytes >= process.shown, "it wrote less than was shown of it")?;
                must(
                    command.containment.as_ref().map_or(self.rung, |receipt| receipt.rung) >= rung,
                    "it was contained less than the driver said when it started",
                )?;
                if let Some(receipt) = &command.containment {
                    self.check_containment(receipt)?;
                    self.check_required(receipt, &[])?;
                }
            }
        }
        self.check_no_denied_change(agent, &body.changes)?;
        self.check_changes(&body.changes)?;
        self.check_caps(body.command.as_ref())?;
        self.check_traffic(body.act, body.command.as_ref())?;
        // From here on nothing is refused.
        self.server_ended(body, lost);
        self.running.remove(&body.act);
        self.changed(&body.changes);
        self.count_command(body.command.as_ref());
        if let Some(process) = self.processes.get_mut(&body.act) {
            process.end = Some(ProcessEnd { command: body.command.clone(), report: body.report });
        }
        Ok(())
    }
}
