//! Stopping a run from outside.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use provost_sandbox::Cancel;
use tokio::sync::Notify;

/// Stops a run: the request to the model is dropped, a running command is killed with its tree. The run can be
/// resumed.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    asked: AtomicBool,
    wake: Notify,
    command: Cancel,
    /// What stops with it.
    children: Mutex<Vec<Weak<Inner>>>,
}

impl Inner {
    fn new() -> io::Result<Self> {
        Ok(Self {
            asked: AtomicBool::new(false),
            wake: Notify::new(),
            command: Cancel::new()?,
            children: Mutex::default(),
        })
    }

    fn request(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.command.cancel();
        self.wake.notify_waiters();
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        for child in children.iter().filter_map(Weak::upgrade) {
            child.request();
        }
    }
}

impl Interrupt {
    /// A handle that has not been used.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Inner::new()?)))
    }

    /// A handle of its own that is asked whenever this one is, and not the other way round.
    pub fn child(&self) -> io::Result<Self> {
        let child = Arc::new(Inner::new()?);
        let mut children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child));
        drop(children);
        // Asked in between or before: it holds for the child too.
        if self.is_requested() {
            child.request();
        }
        Ok(Self(child))
    }

    /// Asks the driver to stop. It stays asked.
    pub fn request(&self) {
        self.0.request();
    }

    /// Whether it was asked.
    pub fn is_requested(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn command(&self) -> &Cancel {
        &self.0.command
    }

    /// Resolves once it was asked.
    pub async fn requested(&self) {
        loop {
            // Registered before the flag is read, so that a request in between is not missed.
            let woken = self.0.wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if self.is_requested() {
                return;
            }
            woken.await;
        }
    }
}
