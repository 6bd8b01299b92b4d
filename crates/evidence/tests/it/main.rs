//! The evidence, from outside: formats against other people's tools, bundles against whoever would change them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bundle;
mod canonical;
mod checkpoint;
mod dsse;
mod git;
mod git_repo;
mod keys;
mod log;
mod patch;
mod python;
mod run;
mod tree;
mod verify;
