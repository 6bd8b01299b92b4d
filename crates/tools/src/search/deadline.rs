//! How long a search may take.

use std::cell::Cell;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// Longest time of one search. It runs in the driver's own process, where no supervisor ends it: the run's clock stands
/// over commands and answers only. Half a minute goes through a million files; a search that takes longer is one that
/// should be narrowed.
pub(super) const SEARCH_TIME: Duration = Duration::from_secs(30);

/// The end of one search.
pub(super) struct Deadline {
    begun: Instant,
    limit: Duration,
    stopped: Cell<bool>,
}

impl Deadline {
    /// From now on.
    pub(super) fn after(limit: Duration) -> Self {
        Self { begun: Instant::now(), limit, stopped: Cell::new(false) }
    }

    /// Whether the search has to stop now. Whoever is told so must stop: it counts as incomplete from here on.
    pub(super) fn is_up(&self) -> bool {
        if !self.stopped.get() && self.begun.elapsed() >= self.limit {
            self.stopped.set(true);
        }
        self.stopped.get()
    }

    /// Whether the search was stopped.
    pub(super) fn stopped(&self) -> bool {
        self.stopped.get()
    }

    /// What the model is told of a search that was stopped, and `how` to narrow it; else nothing.
    pub(super) fn note(&self, how: &str) -> String {
        if !self.stopped() {
            return String::new();
        }
        let seconds = self.limit.as_secs_f64();
        format!("[the search was stopped after {seconds} s and is incomplete: {how}]\n")
    }
}

/// A file that ends in an error when time is up: one file can be larger than everything else.
pub(super) struct Timed<'a, R> {
    pub(super) inner: R,
    pub(super) deadline: &'a Deadline,
}

impl<R: Read> Read for Timed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_up() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.inner.read(buffer)
    }
}
