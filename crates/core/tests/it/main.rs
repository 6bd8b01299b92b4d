//! Tests of the pure core, in one binary. `world` makes valid journals; the other modules are named after what they
//! hold to account. Names with `i1` to `i6` hold the invariants of the design document.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod agents;
mod budget;
mod danger;
mod dialogue;
mod events;
mod forgery;
mod lifecycle;
mod paths;
mod policy;
mod rewind;
mod staging;
mod started;
mod state;
mod text;
mod world;

/// How many cases a property is tried on.
pub(crate) fn cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
