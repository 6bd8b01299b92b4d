//! Where commands run: in the sandbox of this host, or in a stand-in for it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_core::containment::Receipt;
use provost_journal::BoxFuture;
use provost_sandbox::{
    Cancel, Command, ExitRecord, Probe, Profile, Ran, Recovered, RunError, RungChoice, Sandbox, Unavailable,
};

/// Runs commands for drivers. Not a second door: only the door calls it, behind the policy and the journal.
pub trait Executor: Send + Sync {
    /// Makes a containment for many commands.
    fn contain(&self, profile: Profile, rungs: RungChoice) -> Result<Arc<dyn Contained>, Unavailable>;

    /// What became of the command whose record folder this is, after its driver died.
    fn recover<'a>(&'a self, record_dir: &'a Path) -> BoxFuture<'a, io::Result<Recovered>>;
}

/// A containment made ready.
pub trait Contained: Send + Sync {
    /// What contains commands, guarantee by guarantee.
    fn receipt(&self) -> &Receipt;

    /// Runs a command to its end. What it leaves in its record folder outlives the driver.
    fn run(&self, command: Command, cancel: Cancel) -> BoxFuture<'_, Result<ExitRecord, RunError>>;

    /// Runs a command whose changes to the workspace gather in a layer, and gives that. Only for a containment that was
    /// made to stage changes.
    fn run_staged(&self, command: Command, cancel: Cancel) -> BoxFuture<'_, Result<Ran, RunError>> {
        let _ = (command, cancel);
        let why = RunError::Unknown("this containment does not stage changes".to_owned());
        Box::pin(std::future::ready(Err(why)))
    }
}

/// How long a supervisor that outlived its driver is waited for.
const SUPERVISOR_WAIT: Duration = Duration::from_secs(10);

/// This host, as far as its probe says that it can contain.
#[derive(Debug, Clone)]
pub struct Host(pub Probe);

impl Executor for Host {
    fn contain(&self, profile: Profile, rungs: RungChoice) -> Result<Arc<dyn Contained>, Unavailable> {
        Ok(Arc::new(Ready(Arc::new(Sandbox::new(&self.0, profile, rungs)?))))
    }

    fn recover<'a>(&'a self, record_dir: &'a Path) -> BoxFuture<'a, io::Result<Recovered>> {
        let dir = record_dir.to_owned();
        Box::pin(async move {
            let found = tokio::task::spawn_blocking(move || provost_sandbox::recover(&dir, SUPERVISOR_WAIT));
            found.await.map_err(io::Error::other)?
        })
    }
}

struct Ready(Arc<Sandbox>);

impl Contained for Ready {
    fn receipt(&self) -> &Receipt {
        self.0.receipt()
    }

    fn run(&self, command: Command, cancel: Cancel) -> BoxFuture<'_, Result<ExitRecord, RunError>> {
        let sandbox = self.0.clone();
        Box::pin(async move {
            let ran = tokio::task::spawn_blocking(move || sandbox.run(&command, &cancel));
            ran.await.unwrap_or_else(|error| Err(RunError::Unknown(error.to_string())))
        })
    }

    fn run_staged(&self, command: Command, cancel: Cancel) -> BoxFuture<'_, Result<Ran, RunError>> {
        let sandbox = self.0.clone();
        Box::pin(async move {
            let ran = tokio::task::spawn_blocking(move || sandbox.run_staged(&command, &cancel));
            ran.await.unwrap_or_else(|error| Err(RunError::Unknown(error.to_string())))
        })
    }
}
