//! Why a run could not be started or driven.

use std::path::PathBuf;

use provost_core::event::BadEvent;
use provost_core::policy::Decision;
use provost_core::state::Violation;
use provost_evidence::canonical::NotCanonical;
use provost_journal::StoreError;
use provost_sandbox::{ProfileError, Unavailable};

/// Why a run could not be started or driven. Nothing recorded is lost by any of these.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The containment that the policy asks for is not available on this host.
    #[error("containment: {0}")]
    Containment(#[from] Unavailable),
    /// The image that the policy names is not to be had.
    #[error("containment: {0}")]
    Image(#[from] provost_sandbox::image::ImageError),
    /// The workspace cannot be contained.
    #[error("containment: {0}")]
    Profile(#[from] ProfileError),
    /// The workspace cannot be used.
    #[error("workspace `{}`: {reason}", path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Another driver works in the same folder.
    #[error("another run works in `{}`: wait for it, or work in another checkout", .0.display())]
    Occupied(PathBuf),
    /// The repository cannot be read.
    #[error("repository: {0}")]
    Git(#[from] provost_evidence::git::GitError),
    /// Something about the contract cannot hold.
    #[error("contract: {0}")]
    Contract(String),
    /// The policy denies the verification command: the work could only end refused, after it was paid for.
    #[error(
        "the policy does not allow the verification `{command}`: {decision}. Nothing was asked of the model"
    )]
    GateDenied {
        /// The command.
        command: String,
        /// What the policy says of it.
        decision: Decision,
    },
    /// The policy denies the command of a server of tools.
    #[error(
        "the policy does not allow the server `{server}` to be started: {decision}. Nothing was asked of the model"
    )]
    ServerDenied {
        /// Its name.
        server: String,
        /// What the policy says of it.
        decision: Decision,
    },
    /// A server of tools did not come up.
    #[error(
        "the server `{server}` did not come up: {why}\nNothing was asked of the model; `provost resume` tries again"
    )]
    Server {
        /// Its name.
        server: String,
        /// Why not, and what it wrote last.
        why: String,
    },
    /// The run was cancelled before it began.
    #[error("`{run}` was cancelled by {by} before it began: nothing was done, and nothing will be")]
    Dropped {
        /// The run.
        run: String,
        /// Who cancelled it.
        by: String,
    },
    /// The run's driver does not act on what it was told.
    #[error(
        "process {pid} on host `{host}` has `{run}` and does not answer; what was said waits for it. Is it stopped, or its \
         machine gone?"
    )]
    Unheard {
        /// The run.
        run: String,
        /// The driver's host.
        host: String,
        /// The driver's process id there.
        pid: u32,
    },
    /// The run's name is taken by another contract.
    #[error("`{run}` is in the store with another contract ({differs}); choose another id, or leave it out")]
    Taken {
        /// The run.
        run: String,
        /// What is not the same.
        differs: String,
    },
    /// Files cannot be put back, or a run not forked, as things are. Nothing was changed.
    #[error("{0}")]
    Undo(String),
    /// The journal holds what cannot have happened.
    #[error("the journal of `{run}` is not sound: {violation}")]
    Unsound {
        /// The run.
        run: String,
        /// What is wrong.
        violation: Violation,
    },
    /// An event in the journal cannot be read.
    #[error("journal: {0}")]
    Event(#[from] BadEvent),
    /// Content that the run needs is no longer in the store.
    #[error("the journal has dropped content that is needed here: {0}")]
    Gone(String),
    /// The spool folder of command records failed.
    #[error("spool `{}`: {source}", path.display())]
    Spool {
        /// Folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A bug.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<NotCanonical> for RunError {
    fn from(error: NotCanonical) -> Self {
        Self::Internal(error.to_string())
    }
}

impl RunError {
    /// Whether it is what is wrong with the journal of one run, which says nothing of others in its store.
    pub(crate) fn is_of_one_run(&self) -> bool {
        matches!(
            self,
            Self::Unsound { .. }
                | Self::Event(_)
                | Self::Gone(_)
                | Self::Store(StoreError::Unreadable { .. } | StoreError::Corrupt { .. })
        )
    }

    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store(error) => store_exit_code(error),
            Self::Occupied(_) | Self::Unheard { .. } => 7,
            Self::GateDenied { .. } | Self::ServerDenied { .. } => 3,
            Self::Server { .. } => 6,
            Self::Containment(_) | Self::Image(_) => 9,
            Self::Dropped { .. } => 10,
            Self::Taken { .. }
            | Self::Workspace { .. }
            | Self::Contract(_)
            | Self::Undo(_)
            | Self::Git(_)
            | Self::Profile(_) => 2,
            Self::Unsound { .. } | Self::Event(_) | Self::Gone(_) => 8,
            Self::Spool { .. } | Self::Internal(_) => 70,
        }
    }
}

/// The process exit code of a store's failure.
pub(crate) fn store_exit_code(error: &StoreError) -> u8 {
    match error {
        StoreError::Conflict { .. } | StoreError::Fenced { .. } => 7,
        StoreError::NoSuchRun { .. }
        | StoreError::Exists { .. }
        | StoreError::Ambiguous { .. }
        | StoreError::NotOurs { .. }
        | StoreError::TooNew { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Unsuitable { .. }
        | StoreError::ReadOnly { .. } => 2,
        _ => 70,
    }
}
