//! The command line from outside: the binary, its output, its exit codes, what it leaves on the disk.

#![allow(clippy::unwrap_used, clippy::unused_self, reason = "a test that cannot set itself up has failed")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` in place reads better")]
#![allow(dead_code, reason = "one support module serves all")]

mod script;
mod staged;
mod support;

mod agent_runtime;
mod agents;
mod attach;
mod background;
mod bad_input;
mod brief;
mod cases;
mod cassette;
mod containment;
mod crash;
mod demo;
mod durable;
mod evidence;
mod folds;
mod hostile;
mod ignores;
mod images;
mod keys;
mod kill;
mod leak;
mod lost_answer;
mod main_job;
mod mcp;
mod models;
mod money;
mod network;
mod people;
mod policy;
mod power;
mod presets;
mod provider;
mod providers;
mod queue;
mod retention;
mod routing;
mod session;
mod terminal;
mod told;
mod told_sessions;
mod undo;
mod undo_fork;
mod verdict;
mod wires;
