//! Why a call is not an act, and why an act fails. Each is text that the model can act on.

use provost_core::path::{BadPath, RelPath};

use crate::workspace::FileError;

/// A call that is not an act: nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum BadCall {
    /// No such tool.
    #[error("there is no tool `{name}`{}; the tools are: {}", did_you_mean(near.as_deref()), known.join(", "))]
    UnknownTool {
        /// The name as given, shortened.
        name: String,
        /// The tool whose name is nearest.
        near: Option<String>,
        /// All tools.
        known: Vec<String>,
    },
    /// The arguments are not JSON.
    #[error("the arguments of `{tool}` are not valid JSON: {problem}. Received {received}. Nothing was run.")]
    NotJson {
        /// Which tool.
        tool: String,
        /// What is wrong and where.
        problem: String,
        /// What came, shortened.
        received: String,
    },
    /// The arguments are JSON and not what the tool takes.
    #[error("`{tool}`: {problem}. It takes: {takes}. Nothing was run.")]
    Arguments {
        /// Which tool.
        tool: String,
        /// What is wrong.
        problem: String,
        /// What it takes.
        takes: String,
    },
    /// An argument's value cannot be used.
    #[error("`{argument}`: {problem}")]
    Value {
        /// Which argument.
        argument: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A path cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

impl BadCall {
    /// An argument's value cannot be used.
    pub fn value(argument: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Value { argument: argument.into(), problem: problem.into() }
    }
}

/// Why an act could not be done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The call is not one that this tool can carry out.
    #[error(transparent)]
    Call(#[from] BadCall),
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not what the model last saw, or it never saw it.
    #[error("`{path}` {why}. Nothing was written.")]
    Stale {
        /// Which file.
        path: RelPath,
        /// What is the matter, and what to do.
        why: String,
    },
    /// The file's content is not text that can be shown or edited.
    #[error("`{path}` {why}")]
    NotText {
        /// Which file.
        path: RelPath,
        /// What it is instead.
        why: String,
    },
    /// Old text or a patch's lines were not found, or found more than once.
    #[error("{0}")]
    NoMatch(String),
    /// Anything else that the model has to be told.
    #[error("{0}")]
    Other(String),
}

impl From<BadPath> for Failure {
    fn from(bad: BadPath) -> Self {
        Self::File(FileError::Path(bad))
    }
}
