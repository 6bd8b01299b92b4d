//! The pure heart of Provost: contract, policy, acts, events and the run's state machine.
//!
//! Nothing here does I/O, reads a clock, draws randomness or is async: all of that is passed in.

pub mod act;
pub mod address;
pub mod agents;
pub mod brief;
pub mod budget;
pub mod caps;
pub mod changes;
pub mod containment;
pub mod contract;
pub mod dialogue;
pub mod digest;
pub mod event;
pub mod exec;
pub mod fold;
pub mod fork;
pub mod history;
pub mod id;
pub mod lifecycle;
pub mod net;
pub mod outcome;
pub mod path;
pub mod policy;
pub mod price;
pub mod process;
pub mod prompt;
pub mod queue;
pub mod rate_limits;
pub mod route;
pub mod server;
pub mod session;
pub mod spend;
pub mod staged;
pub mod state;
pub mod tests_ran;
pub mod text;
pub mod transcript;
