//! Commands that go on: their start, what they wrote, their end. Each is an act that starts it, and `process.ended`.
//!
//! They live in this driver's memory only. Whoever drives the run next finds them in the journal, and gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use provost_core::act::{ActEnd, CommandFact, ExitFact, Intent, show_argv};
use provost_core::containment::Rung;
use provost_core::event::{Body, ProcessChanged, ProcessEnded, Published, Told};
use provost_core::id::{ActId, AgentId};
use provost_core::process::{self, MOST_PROCESSES};
use provost_core::state::Process;
use provost_sandbox::{
    Captured, Chunk, Egress, ExitRecord, Failure, NetReport, Publish, Recovered, RunError as CommandError,
};
use provost_tools::CommandRequest;
use provost_tools::command::{self, Output, Standing};
use tokio::time::{Instant, timeout};

use super::command::{Found, fact_of, made_for_git, notes_of, undone};
use super::network::serve_dial;
use super::{ActResult, millis};
use crate::checkout::Place;
use crate::driver::Driver;
use crate::error::RunError;
use crate::executor::Background;

/// How long the first output of a command is waited for.
const FIRST_OUTPUT: Duration = Duration::from_secs(1);

/// The same where a container has to be made for it.
const CONTAINER_STARTS: Duration = Duration::from_secs(5);

/// A command that goes on under this driver.
pub(crate) struct Live {
    pub(super) command: Arc<dyn Background>,
    pub(super) egress: Option<Egress>,
    pub(super) published: Option<Publish>,
}

/// How one ended; or why it never started, which of a container may be known late.
pub(super) type Ended = Result<ExitRecord, Failure>;

/// All of them.
pub(crate) type Processes = BTreeMap<ActId, Live>;

/// A part of a command's output: what was shown before it, and what was kept of it.
struct Part {
    from: u64,
    to: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl From<Chunk> for Part {
    fn from(chunk: Chunk) -> Self {
        Self { from: chunk.from, to: chunk.to, head: chunk.head, tail: chunk.tail }
    }
}

impl Part {
    /// What a record holds behind the first `shown` bytes. A part that was taken and never shown, because its driver died
    /// in between, is left out.
    fn rest(output: &Captured, shown: u64) -> Self {
        let behind = |bytes: &[u8], begin: u64| {
            let skipped = usize::try_from(shown.saturating_sub(begin)).unwrap_or(usize::MAX);
            bytes[skipped.min(bytes.len())..].to_vec()
        };
        let mut head = behind(&output.head, output.from);
        let mut tail = behind(&output.tail, output.total.saturating_sub(output.tail.len() as u64));
        if shown < output.from && output.dropped() == 0 {
            // What is missing is missing before it.
            tail.splice(0..0, std::mem::take(&mut head));
        }
        Self { from: shown.min(output.total), to: output.total, head, tail }
    }

    fn nothing(at: u64) -> Self {
        Self { from: at, to: at, head: Vec::new(), tail: Vec::new() }
    }

    fn tell(&self, name: &str, standing: Standing<'_>) -> String {
        let output = Output { head: &self.head, tail: &self.tail, total: self.to - self.from };
        command::progress(name, standing, self.from, output)
    }
}

/// The numbers of a command of which nothing ran.
fn never_started(shown: u64) -> CommandFact {
    CommandFact {
        exit: ExitFact::NotStarted,
        duration_ms: 0,
        output_bytes: shown,
        survivors: 0,
        caps: Vec::new(),
        traffic: None,
        tests: None,
        containment: None,
    }
}

impl Driver<'_> {
    /// Starts a command that goes on when its act is over.
    pub(super) async fn start_background(
        &mut self,
        act: ActId,
        request: CommandRequest,
        publish: Option<u16>,
    ) -> Result<(), RunError> {
        let state = self.recorder.state();
        if state.created().is_some_and(|created| created.policy.workspace.is_staged()) {
            return self.fail(
                act,
                "Commands do not go on in the background where changes are staged: nobody would see what this one changes. \
                 Nothing was run; use `shell` for what comes to an end.",
            );
        }
        if state.bound_as(self.agent) != AgentId::ROOT {
            return self.fail(
                act,
                "Your orders deny you something, so nothing that you start goes on in the background: what it changes could not \
                 be told from what others do. Nothing was run; use `shell` for what comes to an end.",
            );
        }
        let open = state.processes().filter(|(_, process)| process.is_open() && process.server.is_none());
        let names: Vec<String> = open.map(|(act, _)| process::name(act)).collect();
        if names.len() >= MOST_PROCESSES {
            let text = format!(
                "{MOST_PROCESSES} background commands run already, and no more can: {}. Nothing was run; end one with \
                 `shell_kill`.",
                names.join(", ")
            );
            return self.fail(act, &text);
        }
        let begun = std::time::Instant::now();
        let published = match publish.map(|port| self.publish(port)) {
            None => None,
            Some(Ok(published)) => Some(published),
            Some(Err(why)) => return self.fail(act, &format!("{why} Nothing was run.")),
        };
        self.look_before_command(self.agent).await?;
        let place = Place { sandbox: self.sandbox.clone(), root: self.files.root().to_owned() };
        self.make_record(act)?;
        let asked = (request.limit != Duration::MAX).then_some(request.limit);
        let limit = [asked, self.time_left()].into_iter().flatten().min();
        let intent = Intent::Background {
            argv: request.argv.clone(),
            cwd: request.cwd.clone(),
            limit_ms: limit.map(|limit| limit.as_millis() as u64),
            publish,
        };
        self.start(act, intent).await?;
        let mut command = self.command(act, &place, &request, limit.unwrap_or(Duration::MAX));
        let egress = self.give_network(act, &mut command, self.dials.0.clone());
        match place.sandbox.start(command, published.clone()).await {
            Ok(command) => drop(self.background.insert(act, Live { command, egress, published })),
            Err(CommandError::NotStarted(failure)) => return self.did_not_start(act, &failure),
            Err(error) => return Err(RunError::Internal(error.to_string())),
        }
        let by_engine = self.recorder.state().containment().is_some_and(|receipt| receipt.engine.is_some());
        self.wait_for_news(act, if by_engine { CONTAINER_STARTS } else { FIRST_OUTPUT }).await?;
        let part = self.take_output(act, 0).await?;
        let (part, ended) = if let Some(part) = part {
            (part, None)
        } else {
            match self.await_end(act).await? {
                Ok(record) => (Part::rest(&record.output, 0), Some(record)),
                Err(failure) => {
                    self.background.remove(&act);
                    return self.did_not_start(act, &failure);
                }
            }
        };
        let exit = ended.as_ref().map(|record| super::command::exit_fact(record.ended));
        let standing = exit.as_ref().map_or(Standing::Running, |exit| Standing::Ended(Some(exit)));
        let mut text = format!("$ {}\n", show_argv(&request.argv));
        text.push_str(&part.tell(&process::name(act), standing));
        let (Found { changes, reverted, .. }, taken_back) = self.look_after(&[act], None).await?;
        text.push_str(&taken_back);
        let mut result = ActResult::of(ActEnd::Done, text);
        result.told = Some(Told { process: act, from: part.from, to: part.to });
        (result.changes, result.reverted) = (changes, reverted);
        result.duration_ms = millis(begun);
        self.end(act, result)?;
        match ended {
            Some(record) => self.process_ended(act, Ok(record)).await,
            None => Ok(()),
        }
    }

    fn did_not_start(&mut self, act: ActId, failure: &Failure) -> Result<(), RunError> {
        self.fail(act, &format!("{failure}. Nothing was run."))?;
        self.discard_record(act);
        Ok(())
    }

    /// Takes a port of the host's loopback for a command, or says why it is not to be had.
    fn publish(&self, port: u16) -> Result<Publish, String> {
        let state = self.recorder.state();
        let granted = state.created().map(|created| created.policy.publish.clone()).unwrap_or_default();
        if !granted.contains(&port) {
            let ports: Vec<String> = granted.iter().map(ToString::to_string).collect();
            let ports = if ports.is_empty() { "none".to_owned() } else { ports.join(", ") };
            return Err(format!("The policy does not let port {port} be published; it lets: {ports}."));
        }
        if state.rung() < Rung::R3 {
            return Err(format!(
                "Port {port} cannot be published: commands have no network under {}.",
                state.rung()
            ));
        }
        let taken = state.processes().find(|(_, process)| process.is_open() && process.publish == Some(port));
        if let Some((process, _)) = taken {
            return Err(format!("Port {port} is published for {} already.", process::name(process)));
        }
        Publish::bind(port)
            .map_err(|error| format!("Port {port} of this host cannot be listened on: {error}."))
    }

    /// The published ports of the commands that run.
    pub(super) fn published(&self) -> impl Iterator<Item = Publish> {
        self.background
            .values()
            .filter(|live| !live.command.has_ended())
            .filter_map(|live| live.published.clone())
    }

    /// Tells what a command wrote and how it stands.
    pub(super) async fn poll(&mut self, act: ActId, process: ActId, wait: Duration) -> Result<(), RunError> {
        let begun = std::time::Instant::now();
        let Some(shown) = self.shown(process).filter(|_| self.is_own(process)) else {
            return self.fail(act, &self.no_process(process));
        };
        self.note_drift().await?;
        if self.background.contains_key(&process) {
            self.wait_for_news(process, wait).await?;
            if let Some(part) = self.take_output(process, shown).await? {
                self.note_drift().await?;
                let text = part.tell(&process::name(process), Standing::Running);
                let mut result = ActResult::of(ActEnd::Done, text);
                result.told = Some(Told { process, from: part.from, to: part.to });
                result.duration_ms = millis(begun);
                return self.end(act, result);
            }
            let ended = self.await_end(process).await?;
            self.process_ended(process, ended).await?;
        }
        self.tell_end(act, process).await
    }

    /// Ends a command with all its processes. What it was for is over either way: should this driver die, it dies too.
    pub(super) async fn kill(&mut self, act: ActId, process: ActId) -> Result<(), RunError> {
        if !self.is_own(process) {
            return self.fail(act, &self.no_process(process));
        }
        self.recorder.commit().await?;
        self.end_process(process).await?;
        self.tell_end(act, process).await
    }

    /// Tells of a command that ended: what it wrote last, once; then only how it ended.
    async fn tell_end(&mut self, act: ActId, process: ActId) -> Result<(), RunError> {
        let Some(Process { shown, end: Some(end), .. }) = self.recorder.state().process(process).cloned()
        else {
            return Err(RunError::Internal(format!("{} has no end", process::name(process))));
        };
        let total = end.command.as_ref().map_or(shown, |command| command.output_bytes);
        let exit = end.command.as_ref().map(|command| command.exit);
        let text = if self.recorder.state().untold_processes().any(|(untold, _)| untold == process)
            || shown < total
            // Why is in there, and nowhere else.
            || exit == Some(ExitFact::NotStarted)
        {
            String::from_utf8_lossy(&self.recorder.bytes(&end.report).await?).into_owned()
        } else {
            Part::nothing(shown).tell(&process::name(process), Standing::Ended(exit.as_ref()))
        };
        let mut result = ActResult::of(ActEnd::Done, text);
        result.told = Some(Told { process, from: shown, to: total });
        self.end(act, result)
    }

    fn shown(&self, process: ActId) -> Option<u64> {
        let process = self.recorder.state().process(process)?;
        // A server is nothing that the model has.
        process.server.is_none().then_some(process.shown)
    }

    /// Whether it is a command of the agent at hand: nobody ends another's, or hears of it, and a server is nobody's.
    fn is_own(&self, process: ActId) -> bool {
        let process = self.recorder.state().process(process);
        process.is_some_and(|process| process.agent() == self.agent && process.server.is_none())
    }

    fn no_process(&self, wanted: ActId) -> String {
        let state = self.recorder.state();
        let open = state.open_processes_of(self.agent).into_iter();
        let open = open.filter(|act| state.process(*act).is_some_and(|process| process.server.is_none()));
        let names: Vec<String> = open.map(process::name).collect();
        let running =
            if names.is_empty() { "none runs".to_owned() } else { format!("running: {}", names.join(", ")) };
        format!("There is no background command {}; {running}.", process::name(wanted))
    }

    /// Waits until a command has something to tell, at most so long. An interruption is seen by the loop.
    async fn wait_for_news(&mut self, process: ActId, wait: Duration) -> Result<(), RunError> {
        let Some(command) = self.background.get(&process).map(|live| live.command.clone()) else {
            return Ok(());
        };
        let until = Instant::now() + self.time_left().map_or(wait, |left| wait.min(left));
        let news = timeout(until - Instant::now(), command.news());
        tokio::pin!(news);
        loop {
            tokio::select! {
                biased;
                () = self.interrupt.requested() => return Ok(()),
                Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
                _ = &mut news => return Ok(()),
            }
        }
    }

    /// What a command wrote since the first `shown` bytes; `None` where it has ended.
    async fn take_output(&mut self, process: ActId, shown: u64) -> Result<Option<Part>, RunError> {
        let Some(live) = self.background.get(&process) else { return Ok(None) };
        let taken = live.command.take().await.map_err(|error| RunError::Internal(error.to_string()))?;
        let part = taken.map(Part::from);
        if part.as_ref().is_some_and(|part| part.from != shown) {
            return Err(RunError::Internal(format!(
                "output of {} was taken and not shown",
                process::name(process)
            )));
        }
        Ok(part)
    }

    /// Waits for the end of a command that is about to end. What it still dials is answered: it cannot end before.
    pub(super) async fn await_end(&mut self, process: ActId) -> Result<Ended, RunError> {
        let Some(live) = self.background.get(&process) else {
            return Err(RunError::Internal(format!("{} does not run here", process::name(process))));
        };
        let command = live.command.clone();
        let ended = command.ended();
        tokio::pin!(ended);
        loop {
            tokio::select! {
                biased;
                Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
                ended = &mut ended => return match ended {
                    Ok(record) => Ok(Ok(record)),
                    Err(CommandError::NotStarted(failure)) => Ok(Err(failure)),
                    Err(error) => Err(RunError::Internal(error.to_string())),
                },
            }
        }
    }

    /// Ends a command, or accounts for one that is gone with the driver before this one.
    pub(crate) async fn end_process(&mut self, process: ActId) -> Result<(), RunError> {
        if let Some(live) = self.background.get(&process) {
            live.command.kill();
            let ended = self.await_end(process).await?;
            self.process_ended(process, ended).await
        } else if self.recorder.state().lost_processes().contains(&process) {
            self.process_lost(process).await
        } else {
            Ok(())
        }
    }

    /// Ends all commands that go on: before the gate, before the run is over, before this driver leaves it.
    pub(crate) async fn end_processes(&mut self) -> Result<(), RunError> {
        // All at once, then one after the other.
        for live in self.background.values() {
            live.command.kill();
        }
        for process in self.recorder.state().open_processes() {
            self.end_process(process).await?;
        }
        Ok(())
    }

    /// Whether one has ended by itself.
    pub(crate) fn has_ends(&self) -> bool {
        self.background.values().any(|live| live.command.has_ended())
    }

    /// Records the ends of those that ended by themselves. The model is told before it is asked.
    pub(crate) async fn notice_ends(&mut self) -> Result<(), RunError> {
        let ended = self.background.iter().filter(|(_, live)| live.command.has_ended());
        let ended: Vec<ActId> = ended.map(|(process, _)| *process).collect();
        for process in ended {
            let ended = self.await_end(process).await?;
            self.process_ended(process, ended).await?;
        }
        Ok(())
    }

    pub(super) async fn process_ended(&mut self, process: ActId, ended: Ended) -> Result<(), RunError> {
        let (net, published) = match self.background.remove(&process) {
            Some(Live { egress, published, .. }) => (egress.map(|egress| egress.report()), published),
            None => (None, None),
        };
        // Nobody speaks with a server that is gone.
        let server = self.recorder.state().process(process).and_then(|process| process.server.clone());
        server.and_then(|server| self.servers.connections.remove(&server));
        let net = net.unwrap_or_default();
        let published = published.map(|published| published.report());
        let found = self.look_after(&[process], None).await?;
        let shown = self.shown(process).unwrap_or_default();
        let (command, rest, notes) = match ended {
            Ok(record) => {
                let command = fact_of(&record, &net, self.recorder.state().containment());
                (command, Part::rest(&record.output, shown), notes_of(&record, &net))
            }
            // The act that was to start it said that it runs. What was shown is what the engine said.
            Err(failure) => (never_started(shown), Part::nothing(shown), format!("\n{failure}")),
        };
        let mut report = rest.tell(&process::name(process), Standing::Ended(Some(&command.exit)));
        report.push_str(&notes);
        self.record_end(process, (Some(command), published), report, found)
    }

    fn record_end(
        &mut self,
        act: ActId,
        (command, published): (Option<CommandFact>, Option<Published>),
        mut report: String,
        (found, taken_back): (Found, String),
    ) -> Result<(), RunError> {
        report.push_str(&taken_back);
        let report = self.recorder.content(report);
        let Found { changes, reverted, later } = found;
        let ended = ProcessEnded { act, command, published, report, changes, reverted };
        self.recorder.record(Body::ProcessEnded(Box::new(ended)))?;
        self.discard_record(act);
        if later.is_empty() { Ok(()) } else { self.record_drift(later) }
    }

    /// Accounts for a command whose driver died, from the record that its supervisor left.
    async fn process_lost(&mut self, process: ActId) -> Result<(), RunError> {
        let shown = self.shown(process).unwrap_or_default();
        let record = self.left_of(process).await?;
        // All that were lost died at the same time: none of them changed what changed after the last had ended.
        let mut last = Some(0);
        for lost in self.recorder.state().lost_processes() {
            let ended_at = self.left_of(lost).await?.map(|record| record.ended_at_ns);
            last = last.zip(ended_at).map(|(last, ended_at)| last.max(ended_at));
        }
        let found = self.look_after(&[process], last).await?;
        let name = process::name(process);
        let (command, report) = match record {
            Some(record) => {
                // What it dialled is in the journal, and how much that was went with its driver.
                let net = NetReport::default();
                let command = fact_of(&record, &net, self.recorder.state().containment());
                let rest = Part::rest(&record.output, shown);
                let report = rest.tell(&name, Standing::Ended(Some(&command.exit)));
                (Some(command), report + &notes_of(&record, &net))
            }
            None => (None, Part::nothing(shown).tell(&name, Standing::Ended(None))),
        };
        self.record_end(process, (command, None), report, found)
    }

    /// The record of a command whose driver died; `None` where it left none.
    async fn left_of(&self, act: ActId) -> Result<Option<ExitRecord>, RunError> {
        let dir = self.record_dir(act);
        match self.runtime.executor.recover(&dir).await {
            Ok(Recovered::Finished(record)) => Ok(Some(*record)),
            Ok(Recovered::NotStarted(_) | Recovered::Unknown) => Ok(None),
            Ok(Recovered::Running) => {
                let source = std::io::Error::other(
                    "a background command of the driver before is still being ended; resume again",
                );
                Err(RunError::Spool { path: dir, source })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RunError::Spool { path: dir, source }),
        }
    }

    /// Settles the start of a command whose driver died before it was recorded.
    pub(super) async fn recover_background(&mut self, act: ActId) -> Result<(), RunError> {
        let dir = self.record_dir(act);
        if let Ok(Recovered::NotStarted(failure)) = self.runtime.executor.recover(&dir).await {
            let text =
                format!("The driver died before this command was let go ({}). It did not run.", failure.step);
            self.end(act, ActResult::of(ActEnd::Interrupted, text))?;
            self.discard_record(act);
            return Ok(());
        }
        let name = process::name(act);
        let text = format!(
            "{name} was started. The driver died then, and {name} with it; it was not started again."
        );
        self.end(act, ActResult::of(ActEnd::Done, text))
    }

    /// What the model is told of commands that ended without its doing.
    pub(crate) fn told_of_ends(&self) -> String {
        let mut text = String::new();
        for (act, process) in self.recorder.state().untold_processes() {
            let exit = process.end.as_ref().and_then(|end| end.command.as_ref()).map(|command| command.exit);
            let line = command::clipped(&show_argv(&process.argv));
            let left = if exit.is_none_or(|exit| exit == ExitFact::DriverLost || exit == ExitFact::Cancelled)
            {
                " It was not started again."
            } else {
                ""
            };
            text.push_str(&format!(
                "{} ended ({line}): {}.{left}\n",
                process::name(act),
                command::how(exit.as_ref())
            ));
        }
        text.push_str("`shell_poll` tells what they wrote last.");
        text
    }

    /// What commands that go on changed, and in words what of it was taken back.
    async fn look_after(
        &mut self,
        acts: &[ActId],
        ended_at_ns: Option<u64>,
    ) -> Result<(Found, String), RunError> {
        let found = self.changes_by_command(acts, ended_at_ns).await?;
        let mut text = undone(&found.reverted);
        for path in self.files.expel_from_git()? {
            text.push_str(&made_for_git(&path));
        }
        Ok((found, text))
    }

    /// Records what changed while commands go on: it is their doing.
    pub(super) async fn note_changes_in_background(&mut self) -> Result<(), RunError> {
        let acts = self.recorder.state().open_processes();
        let (Found { changes, reverted, .. }, _) = self.look_after(&acts, None).await?;
        if changes.is_empty() && reverted.is_empty() {
            return Ok(());
        }
        self.recorder.record(Body::ProcessChanged(ProcessChanged { changes, reverted }))
    }
}
