//! What a tool is, what it is given and what it hands back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::act::{Recovery, Touch};
use provost_core::contract::Limits;
use provost_core::id::ActId;
use provost_core::path::RelPath;
use provost_core::transcript::ToolSpec;
use serde_json::{Map, Value};

use crate::failure::{BadCall, Failure};
use crate::workspace::{FileChange, Workspace};

/// Something that a model can call. It never has an effect: it says what it would touch, and prepares.
pub trait Tool: Send + Sync {
    /// How the model is told of it.
    fn spec(&self) -> &ToolSpec;

    /// How a call that was cut short is settled.
    fn recovery(&self) -> Recovery;

    /// What the call would touch. Names are resolved by the kernel: a name that goes through a symbolic link is
    /// followed by a second touch with the real path. Nothing is read (but the links) and nothing is changed.
    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall>;

    /// After policy said yes: reads are done here, writes and commands only made ready.
    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure>;
}

/// What a tool is given.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The workspace.
    pub workspace: &'a Workspace,
    /// Limits of single acts.
    pub limits: &'a Limits,
    /// Compares a file's content now with what the model last saw of it.
    pub seen: &'a dyn Fn(&RelPath, &[u8]) -> SeenState,
    /// Whether policy lets a path be read: searches and listings leave out what it does not, content and name.
    pub readable: &'a dyn Fn(&RelPath) -> bool,
    /// The environment of commands; its `PATH` is where programs are looked for.
    pub environment: &'a BTreeMap<String, String>,
    /// The folder whose files are the root of commands, where that is an image and not the host.
    pub image: Option<&'a Path>,
}

/// What the model knows of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenState {
    /// It never saw the file.
    Unseen,
    /// It last saw exactly this content.
    Same,
    /// It last saw another content.
    Different {
        /// That content, where it is at hand: it is used to say what changed.
        last: Option<Vec<u8>>,
    },
}

/// What a call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is changed; this was seen.
    Observe(Observation),
    /// Files are to be changed.
    Write(WriteSet),
    /// A command is to be run.
    Command(CommandRequest),
    /// A command is to be started, and goes on.
    Start {
        /// The command.
        request: CommandRequest,
        /// The port of its own that the host's is to lead to.
        publish: Option<u16>,
    },
    /// What a command that goes on wrote is to be told.
    Poll {
        /// The act that started it.
        process: ActId,
        /// How long to wait at most for something to tell.
        wait: Duration,
    },
    /// A command that goes on is to be ended.
    Kill {
        /// The act that started it.
        process: ActId,
    },
    /// A tool of somebody else's is to be called.
    Call {
        /// The server, as the contract names it.
        server: String,
        /// The tool, by the server's own name.
        tool: String,
        /// Its arguments.
        args: Map<String, Value>,
    },
    /// The agent says that it is done.
    Submit {
        /// What it did, in its words.
        summary: String,
    },
}

/// Something seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// What the model is told.
    pub text: String,
    /// Files of which the model has now seen something, with their whole content at that moment.
    pub seen: Vec<(RelPath, Vec<u8>)>,
}

/// Files to be changed, all of them or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteSet {
    /// The changes, at real paths.
    pub changes: Vec<FileChange>,
    /// What the model is told when it is done.
    pub report: String,
    /// Files whose whole content the model knows when it is done.
    pub seen: Vec<(RelPath, Vec<u8>)>,
}

/// A command to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRequest {
    /// Argument vector.
    pub argv: Vec<String>,
    /// What is executed: where `argv[0]` was found when policy decided; `None` where it was not found.
    pub program: Option<PathBuf>,
    /// Folder it runs in: a real path.
    pub cwd: RelPath,
    /// Wall-clock limit: the contract's, or what the model asked for if that is less. Of one that goes on: what the model
    /// asked for, or [`Duration::MAX`].
    pub limit: Duration,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
}
