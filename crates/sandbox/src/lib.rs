//! Containment of a process tree: rungs, probe, supervisor and exit records.
//!
//! The agent process never forks and never uses `pre_exec` (with a large heap a fork costs tens of milliseconds).
//! It starts its own binary again; an `.init_array` entry of this crate recognises that start and turns the
//! process into a small single-threaded **supervisor**, before `main` and whatever `main` is. The supervisor stays
//! outside of what it contains, drains the command's output, keeps the clock, kills the tree, and leaves an exit
//! record in a folder that the command cannot see. The driver reads its result from that record, so there is one
//! path whether or not the driver survived.
//!
//! Invariants:
//! - A command that did not start provably did not run; its failure is never an exit status.
//! - The `started` marker exists before the command's first instruction; the record is written after its last. Neither is
//!   synced: after a restart of the host a folder without a record says that nobody knows.
//! - The supervisor holds an exclusive lock on the file in the record folder for its whole life: a free lock, a
//!   `started` marker and no record mean that what happened is unknown.
//! - When the driver dies, by `kill -9` too, its tree dies at once.
//! - A receipt claims only what [`Probe::run`] performed and saw on this host.
//!
//! Linux only. Where to start reading: `sandbox.rs` (the driver's side), then `init/supervise.rs`, then
//! `init/contain.rs` (what the command's process does to itself) and `init/mounts.rs` (what it sees).

mod attack;
mod broker;
mod bytes;
mod cache;
mod command;
mod egress;
mod engine;
mod entry;
mod git;
mod group;
pub mod image;
mod init;
mod landlock;
mod launcher;
mod plan;
mod probe;
mod profile;
mod record;
mod reflink;
mod remedy;
mod running;
mod sandbox;
mod seccomp;
mod selftest;
mod setting;
mod surroundings;
mod sys;
mod system;
mod tended;
mod toolchain;
mod view;
mod wire;

pub use cache::{Freshness, Origin, ProbeCache};
pub use command::{Cancel, Command};
pub use egress::{
    Egress, HostDecision, HostResolver, NetReport, NotRecorded, PROXY_ENVIRONMENT, Publish, Record, Refusal,
    Resolver, parse,
};
pub use engine::{ByEngine, EngineFound, engines};
pub use git::{GitFolder, GitName, GitPart, git_folder};
pub use probe::{Disabled, Fact, Probe};
pub use profile::{Changes, ImageRoot, Profile, ProfileError, WorkspaceAccess};
pub use record::{Captured, Ended, ExitRecord, Failure, Recovered, prepare_record, recover};
pub use remedy::{Advice, advice};
pub use running::{Chunk, Running, Wake};
pub use sandbox::{Ran, RunError, RungChoice, Sandbox, Unavailable};
pub use selftest::{Attempt, Counts, SelfTest, SelfTestError, Verdict, promises};
pub use setting::{Git, Network, Setting, Workspace};
pub use surroundings::Surroundings;
pub use tended::{Ends, Gone, Program, Tended};
pub use toolchain::{cargo_caches, git_reads, toolchain_env, toolchain_reads};
pub use view::HOME;
