//! The door's other side: files, search, patch, commands, and the workspace they work in.
//!
//! A tool never has an effect of its own. It says what a call would touch ([`Tool::touches`]), and after policy said yes
//! it reads, or makes a write or a command ready ([`Tool::prepare`]). What comes out is one of few [`Effect`]s, which the
//! door journals and carries out: a [`WriteSet`] with [`Workspace::apply`], a command in the sandbox.

pub mod args;
pub mod command;
mod edit;
mod exec;
mod failure;
mod list;
pub mod mcp;
mod oid;
mod order;
mod patch;
mod program;
mod read;
mod registry;
mod search;
mod shell;
mod started;
mod submit;
mod text;
mod tool;
mod touch;
pub mod workspace;
mod write;

pub use edit::EditFile;
pub use exec::Exec;
pub use failure::{BadCall, Failure};
pub use list::ListDir;
pub use oid::BlobOid;
pub use patch::ApplyPatch;
pub use read::ReadFile;
pub use registry::{BadTool, Registry};
pub use search::find::Find;
pub use search::grep::Grep;
pub use shell::{Shell, ShellKill, ShellPoll, ShellStart};
pub use submit::Submit;
pub use tool::{CommandRequest, Context, Effect, Observation, SeenState, Tool, WriteSet};
pub use workspace::Workspace;
pub use write::WriteFile;
