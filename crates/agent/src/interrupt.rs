//! Stopping a run from outside.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_sandbox::Cancel;
use tokio::sync::Notify;

/// Stops a run: the request to the model is dropped, a running command is killed with its tree. The run can be
/// resumed.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    wake: Arc<Notify>,
    command: Cancel,
}

impl Interrupt {
    /// A handle that has not been used.
    pub fn new() -> io::Result<Self> {
        Ok(Self { asked: Arc::default(), wake: Arc::default(), command: Cancel::new()? })
    }

    /// Asks the driver to stop. It stays asked.
    pub fn request(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.command.cancel();
        self.wake.notify_waiters();
    }

    /// Whether it was asked.
    pub fn is_requested(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn command(&self) -> &Cancel {
        &self.command
    }

    /// Resolves once it was asked.
    pub(crate) async fn requested(&self) {
        loop {
            // Registered before the flag is read, so that a request in between is not missed.
            let woken = self.wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if self.is_requested() {
                return;
            }
            woken.await;
        }
    }
}
