//! What decides everything that is not the state machine.

use super::*;

/// Decisions of everything that is not the state machine.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    /// One of `n`; 0, the simplest, where the list has run out.
    pub(crate) fn pick(&mut self, n: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % n
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.pick(n) == n - 1
    }

    pub(super) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.pick(all.len())].clone()
    }
}

/// Choices for proptest.
pub(crate) fn choices(most: usize) -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u8>(), 0..most).prop_map(Choices::new)
}
