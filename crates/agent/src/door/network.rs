//! The network of a command: what policy decides of each host is in the journal before it is dialled.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use provost_core::containment::Receipt;
use provost_core::event::{Body, NetDecided};
use provost_core::id::ActId;
use provost_core::net::Traffic;
use provost_sandbox::{Cancel, Command, Egress, ExitRecord, HostDecision, NetReport, NotRecorded, Record};
use provost_sandbox::{PROXY_ENVIRONMENT, RunError as CommandError};
use tokio::sync::{mpsc, oneshot};

use crate::driver::Driver;
use crate::error::RunError;
use crate::executor::Contained;
use crate::mandate::is_too_late;
use crate::recorder::Recorder;

/// A decision that a command's connection waits for to be durable.
pub(crate) struct Pending {
    act: ActId,
    decided: HostDecision,
    durable: oneshot::Sender<()>,
}

/// Hands decisions to the driver, which alone writes to the journal.
struct ToDriver {
    act: ActId,
    to: mpsc::UnboundedSender<Pending>,
}

/// Decisions of commands that go on, on their way to the journal.
pub(crate) type Dials = (mpsc::UnboundedSender<Pending>, mpsc::UnboundedReceiver<Pending>);

/// A way for them.
pub(crate) fn dials() -> Dials {
    mpsc::unbounded_channel()
}

impl Record for ToDriver {
    fn record(&self, decided: HostDecision) -> Result<(), NotRecorded> {
        let (durable, is_durable) = oneshot::channel();
        self.to.send(Pending { act: self.act, decided, durable }).map_err(|_| NotRecorded)?;
        // The driver may be gone, or could not write.
        is_durable.blocking_recv().map_err(|_| NotRecorded)
    }
}

/// Where what a command changes gathers before it is in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gather {
    /// Nowhere: it is there at once.
    Nowhere,
    /// In a layer, which is given with the command's record.
    InLayer,
    /// In the copy of the workspace that the command works in.
    InCopy,
}

async fn run(
    sandbox: &dyn Contained,
    command: Command,
    cancel: Cancel,
    changes: Gather,
) -> Result<(ExitRecord, Option<OwnedFd>), CommandError> {
    match changes {
        Gather::Nowhere | Gather::InCopy => Ok((sandbox.run(command, cancel).await?, None)),
        Gather::InLayer => {
            let ran = sandbox.run_staged(command, cancel).await?;
            Ok((ran.record, Some(ran.layer)))
        }
    }
}

impl Driver<'_> {
    /// Whether commands have a network: the policy allows some host, and they are contained by what can give them one.
    pub(crate) fn has_network(&self) -> bool {
        let state = self.recorder.state();
        state.containment().is_some_and(Receipt::can_dial)
            && state.created().is_some_and(|created| created.policy.opens_network(state.rung()))
    }

    /// Runs a command to its end, and puts on record meanwhile what it dials.
    pub(super) async fn run_with_network(
        &mut self,
        act: ActId,
        sandbox: &Arc<dyn Contained>,
        mut command: Command,
        cancel: Cancel,
        changes: Gather,
    ) -> Result<(Result<(ExitRecord, Option<OwnedFd>), CommandError>, NetReport), RunError> {
        let egress = self.give_network(act, &mut command, self.dials.0.clone());
        let running = run(sandbox.as_ref(), command, cancel, changes);
        tokio::pin!(running);
        let mut failed = None;
        let ended = loop {
            tokio::select! {
                biased;
                Some(next) = self.dials.1.recv() => {
                    if failed.is_none() {
                        failed = serve_dial(&mut self.recorder, next).await.err();
                    }
                }
                ended = &mut running => break ended,
            }
        };
        match failed {
            // From there on nothing was dialled, and the command has ended.
            Some(error) => Err(error),
            None => Ok((ended, egress.map_or_else(NetReport::default, |egress| egress.report()))),
        }
    }

    /// Gives a command a network, where commands have one.
    pub(super) fn give_network(
        &self,
        act: ActId,
        command: &mut Command,
        to: mpsc::UnboundedSender<Pending>,
    ) -> Option<Egress> {
        let policy = self.policy_of_act(act).map(Arc::new);
        let egress = Egress::new(policy.filter(|_| self.has_network())?, Arc::new(ToDriver { act, to }));
        command.egress = Some(egress.clone());
        let proxies = PROXY_ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into()));
        command.env.extend(proxies);
        // Cargo may ask its registry; what of that the policy allows is decided where it dials.
        command.env.remove(std::ffi::OsStr::new("CARGO_NET_OFFLINE"));
        Some(egress)
    }
}

/// Puts a decision on record, and lets whoever waits for that go on.
pub(crate) async fn serve_dial(recorder: &mut Recorder, pending: Pending) -> Result<(), RunError> {
    let Pending { act, decided: HostDecision { host, port, decision, private }, durable } = pending;
    let state = recorder.state();
    let runs = state.open_acts().contains_key(&act)
        || state.process(act).is_some_and(provost_core::state::Process::is_open);
    // A command that is cancelled dials nothing any more, and one that ended asks in vain.
    if !runs || state.cancelled().is_some() {
        return Ok(());
    }
    match recorder.record(Body::NetDecided(NetDecided { act, host, port, decision, private })) {
        // Nothing is dialled any more.
        Err(error) if is_too_late(&error) => return Ok(()),
        other => other?,
    }
    recorder.commit().await?;
    // Whoever waited may have ended with its command.
    let _ = durable.send(());
    Ok(())
}

/// What is put on record of it; `None` where nothing was dialled or refused.
pub(super) fn traffic(report: &NetReport) -> Option<Traffic> {
    (!report.traffic.is_empty()).then(|| report.traffic.clone())
}

/// What the model is told of what was refused.
pub(super) fn refusals(report: &NetReport) -> String {
    let mut text = String::new();
    for refusal in &report.refusals {
        text.push_str(&format!("\nNetwork: `{}` was refused: {}.", refusal.what, refusal.why));
    }
    let told = report.refusals.len() as u64;
    let more = report.traffic.refused.saturating_sub(told);
    if told > 0 && more > 0 {
        text.push_str(&format!("\nNetwork: {more} more attempts were refused."));
    }
    text
}
