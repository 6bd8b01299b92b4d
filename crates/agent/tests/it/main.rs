//! The driver with a scripted model: real store, real workspace, real sandbox.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` in place reads better")]

mod ahead;
mod approvals;
mod children;
mod commits;
mod durability;
mod folds;
mod gate;
mod holes;
mod money;
mod network;
mod ordinary;
mod planner;
mod programs;
mod prompts;
mod races;
mod refusals;
mod routing;
mod sim;
mod staged;
mod support;
mod undo;
mod workspace;
