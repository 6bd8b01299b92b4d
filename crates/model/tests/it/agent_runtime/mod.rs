//! What users of rust-agent-runtime bring along.

mod environment;
mod events_log;
mod shapes;
