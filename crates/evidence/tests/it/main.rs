//! The evidence, from outside: formats against other people's tools, bundles against whoever would change them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod authorization;
mod bundle;
mod canonical;
mod checkpoint;
mod dsse;
mod git;
mod git_repo;
mod keys;
mod krl;
mod log;
mod others;
mod patch;
mod provenance;
mod python;
mod recipient;
mod run;
mod session;
mod ssh;
mod tree;
mod trust;
mod verify;
