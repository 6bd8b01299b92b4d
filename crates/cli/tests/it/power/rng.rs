//! Random choices that a seed repeats.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// splitmix64.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed that nobody chose.
    pub(crate) fn fresh_seed() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self::new(now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32).next()
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to and without `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A moment in a stretch of time.
    pub(crate) fn moment(&mut self, within: Duration) -> Duration {
        Duration::from_micros(self.below(within.as_micros() as u64 + 1))
    }
}
