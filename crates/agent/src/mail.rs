//! Letters that have come for a driver: a cancel, a hold, answers to questions. The heartbeat's thread brings them; the
//! driver makes events of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::event::Verdict;
use provost_core::id::ActId;
use provost_journal::{Letter, Word};
use tokio::sync::Notify;

use crate::interrupt::Interrupt;

/// The letters of one run, as far as its driver knows of them.
#[derive(Debug, Clone)]
pub(crate) struct Mail {
    letters: Arc<Mutex<Vec<Letter>>>,
    came: Arc<Notify>,
    /// Of this driver alone: a letter stops one run.
    interrupt: Interrupt,
}

/// What a letter asks of the driver as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancel,
    Hold,
}

impl Mail {
    pub(crate) fn new(interrupt: Interrupt) -> Self {
        Self { letters: Arc::default(), came: Arc::default(), interrupt }
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Letter>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that waits in the store now.
    pub(crate) fn deliver(&self, waiting: Vec<Letter>) {
        if waiting.is_empty() && self.lock().is_empty() {
            return;
        }
        let stops = waiting.iter().any(|letter| matches!(letter.says, Word::Cancel | Word::Hold));
        *self.lock() = waiting;
        self.came.notify_waiters();
        if stops && !self.interrupt.is_requested() {
            self.interrupt.request();
        }
    }

    /// Whether somebody wants the run stopped, and who. A cancel goes before a hold.
    pub(crate) fn stop(&self) -> Option<(Stop, String)> {
        let letters = self.lock();
        let by = |word| letters.iter().find(|letter| letter.says == word).map(|letter| letter.by.clone());
        by(Word::Cancel).map(|by| (Stop::Cancel, by)).or_else(|| by(Word::Hold).map(|by| (Stop::Hold, by)))
    }

    /// The answers that have come, each with its author.
    pub(crate) fn verdicts(&self) -> Vec<(ActId, Verdict, String)> {
        let of = |letter: &Letter| match letter.says {
            Word::Verdict { act, verdict } => Some((act, verdict, letter.by.clone())),
            Word::Cancel | Word::Hold => None,
        };
        self.lock().iter().filter_map(of).collect()
    }

    /// Resolves once an answer about `act` has come.
    pub(crate) async fn verdict_on(&self, act: ActId) -> (Verdict, String) {
        loop {
            let came = self.came.notified();
            tokio::pin!(came);
            came.as_mut().enable();
            let found = self.verdicts().into_iter().find(|(about, _, _)| *about == act);
            if let Some((_, verdict, by)) = found {
                return (verdict, by);
            }
            came.await;
        }
    }
}
