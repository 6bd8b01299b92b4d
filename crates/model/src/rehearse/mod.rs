//! The rehearsal: a server that plays a script over the real wires.
//!
//! It never thinks and keeps no dialogue: the step to play is read from the request, so it survives
//! restarts and serves any client that resends its history. See [`Script`] for the format.

mod body;
mod request;
mod respond;
mod script;
mod server;

pub use script::{Script, ScriptError};
pub use server::{Handle, Running, Seen, Server};
