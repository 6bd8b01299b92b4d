//! Provost, embeddable: run coding agents under orders, with evidence.
//!
//! This crate only gathers the public surface of the others. Start with [`agent::Runtime`].

pub use provost_agent as agent;
pub use provost_core as core;
pub use provost_evidence as evidence;
pub use provost_govern as govern;
pub use provost_journal as journal;
pub use provost_model as model;
pub use provost_sandbox as sandbox;
pub use provost_tools as tools;
