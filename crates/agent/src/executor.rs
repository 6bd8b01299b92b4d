//! Where commands run: in the sandbox of this host, or in a stand-in for it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_core::containment::Receipt;
use provost_journal::BoxFuture;
use provost_sandbox::{
    Cancel, Chunk, Command, ExitRecord, Probe, Profile, Publish, Ran, Recovered, RunError, RungChoice,
    Running, Sandbox, Unavailable,
};
use tokio::sync::Notify;
use tokio::time::timeout;

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

    /// Starts a command that goes on and is spoken with over its standard input and output, and comes back as soon as it
    /// runs. The other end of those is a stream socket.
    fn serve(&self, command: Command) -> BoxFuture<'_, Result<Served, RunError>> {
        let _ = command;
        let why = RunError::Unknown("this containment has no command spoken with".to_owned());
        Box::pin(std::future::ready(Err(why)))
    }

    /// Starts a command that goes on, and comes back as soon as it runs. What it leaves in its record folder outlives the
    /// driver; the command does not.
    /// `publish` is the host's port that leads to one of its own.
    fn start(
        &self,
        command: Command,
        publish: Option<Publish>,
    ) -> BoxFuture<'_, Result<Arc<dyn Background>, RunError>> {
        let _ = (command, publish);
        let why = RunError::Unknown("this containment does not let commands go on".to_owned());
        Box::pin(std::future::ready(Err(why)))
    }
}

/// A command that is spoken with: the command, and what is connected to its standard input and output.
pub type Served = (Arc<dyn Background>, OwnedFd);

/// A command that goes on. Dropped, it is killed with its tree.
pub trait Background: Send + Sync {
    /// Comes back once there is output that was not taken, with some time for the rest of it; or once it has ended.
    fn news(&self) -> BoxFuture<'_, ()>;

    /// What it wrote since this was last asked; `None` once it has ended: the rest is in its record.
    fn take(&self) -> BoxFuture<'_, Result<Option<Chunk>, RunError>>;

    /// Kills it with its tree. It has ended a little later.
    fn kill(&self);

    /// Whether it has ended.
    fn has_ended(&self) -> bool;

    /// Comes back once it has ended and its tree is gone.
    fn ended(&self) -> BoxFuture<'_, Result<ExitRecord, RunError>>;
}

/// How long a supervisor that outlived its driver is waited for.
const SUPERVISOR_WAIT: Duration = Duration::from_secs(10);

/// How long output that has begun is given to be whole: a banner is seldom one write.
const SETTLES: Duration = Duration::from_millis(100);

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

    fn start(
        &self,
        command: Command,
        publish: Option<Publish>,
    ) -> BoxFuture<'_, Result<Arc<dyn Background>, RunError>> {
        let sandbox = self.0.clone();
        Box::pin(async move {
            let happened = Arc::new(Notify::new());
            let wake = happened.clone();
            let wake = Box::new(move || wake.notify_waiters());
            let started = tokio::task::spawn_blocking(move || sandbox.start(&command, publish, wake));
            let running = started.await.unwrap_or_else(|error| Err(RunError::Unknown(error.to_string())))?;
            Ok(Arc::new(Process { running, happened }) as Arc<dyn Background>)
        })
    }

    fn serve(&self, command: Command) -> BoxFuture<'_, Result<Served, RunError>> {
        let sandbox = self.0.clone();
        Box::pin(async move {
            let happened = Arc::new(Notify::new());
            let wake = happened.clone();
            let wake = Box::new(move || wake.notify_waiters());
            let started = tokio::task::spawn_blocking(move || sandbox.serve(&command, wake));
            let (running, channel) =
                started.await.unwrap_or_else(|error| Err(RunError::Unknown(error.to_string())))?;
            Ok((Arc::new(Process { running, happened }) as Arc<dyn Background>, channel))
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

struct Process {
    running: Running,
    happened: Arc<Notify>,
}

impl Process {
    async fn until<T>(&self, found: impl Fn(&Running) -> Option<T>) -> T {
        loop {
            // Registered before it is looked at, so that nothing is missed in between.
            let happens = self.happened.notified();
            tokio::pin!(happens);
            happens.as_mut().enable();
            if let Some(found) = found(&self.running) {
                return found;
            }
            happens.await;
        }
    }
}

impl Background for Process {
    fn news(&self) -> BoxFuture<'_, ()> {
        self.running.ask_for_notice();
        Box::pin(async move {
            self.until(|running| (running.has_written() || running.ended().is_some()).then_some(())).await;
            // It may end in the middle of its banner.
            let _ = timeout(SETTLES, self.until(Running::ended)).await;
        })
    }

    fn take(&self) -> BoxFuture<'_, Result<Option<Chunk>, RunError>> {
        self.running.ask_for_output();
        Box::pin(self.until(|running| match running.output() {
            Some(Some(part)) => Some(Ok(Some(part))),
            Some(None) => Some(Err(RunError::Unknown("its output could not be handed over".to_owned()))),
            None => running.ended().map(|_| Ok(None)),
        }))
    }

    fn kill(&self) {
        self.running.kill();
    }

    fn has_ended(&self) -> bool {
        self.running.ended().is_some()
    }

    fn ended(&self) -> BoxFuture<'_, Result<ExitRecord, RunError>> {
        Box::pin(self.until(Running::ended))
    }
}
