//! The pure heart of Provost: contract, policy, acts, events and the run's state machine.
//!
//! Nothing here does I/O, reads a clock, draws randomness or is async: all of that is passed in.

pub mod containment;
pub mod transcript;
