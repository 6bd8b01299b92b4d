//! What users of rust-agent-runtime bring along: its environment variables, its event log, and the lines that their
//! scripts read. The planner ([`crate::planner`]) speaks to its providers.
//!
//! Pure parsers and printers of a foreign format: bytes and maps come in, values and text go out.

pub mod environment;
pub mod events_log;
pub mod shapes;
mod verify;
