//! Governed sessions: a signed order in, a patch with proof out.
//!
//! An author asks ([`propose`]), an authority signs exactly that, a runner carries it out ([`prepare`], [`begin`], [`go_on`]), and
//! a recipient who trusts none of the machines in between verifies the result with `provost-evidence`. A session is one
//! run of the ordinary kind, in the ordinary store; what is added here is what it is bound to.

mod accept;
mod carry;
mod close;
mod folder;
mod mandate;
mod prepare;
mod replay;
mod request;
mod toolchain;
mod trial;

use std::io;
use std::path::PathBuf;

use provost_agent::{ExportError, RunError};
use provost_core::id::RunId;
use provost_evidence::bundle::BundleError;
use provost_evidence::export::SealError;
use provost_evidence::git::GitError;
use provost_journal::StoreError;

pub use accept::{Accept, Accepted, accept};
pub use carry::{begin, go_on, has_begun, order_of};
pub use close::{close, give_out};
pub use folder::{Folder, Fresh, Sessions, SignedFile, Whereabouts, read};
pub use mandate::{Revocations, taking_up};
pub use prepare::{Prepared, Runner, check, prepare};
pub use replay::{Again, Found, Outer, replay};
pub use request::{Ask, JUDGES, LAYER, TASK_LIMIT, propose};
pub use toolchain::{Toolchain, toolchain};
pub use trial::Bench;

/// Why a session cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The request cannot be made, or not be carried out, as it is.
    #[error("{0}")]
    Refused(String),
    /// What an authority signed does not allow it.
    #[error("not authorized: {0}")]
    NotAuthorized(String),
    /// What an authority signed was taken back.
    #[error("not authorized: {0}")]
    Revoked(String),
    /// The time of what an authority signed is over.
    #[error("not authorized: {0}")]
    Expired(String),
    /// The authorization was used already.
    #[error("the authorization was used by session `{by}`; it is good for one session and no other")]
    Spent {
        /// The session.
        by: String,
    },
    /// Nobody has signed it.
    #[error("session `{0}` is not authorized yet")]
    Unauthorized(RunId),
    /// No such session.
    #[error("no session `{name}` in `{}`", root.display())]
    NoSession {
        /// As it was named.
        name: String,
        /// Where sessions are looked for.
        root: PathBuf,
    },
    /// More than one.
    #[error("{count} sessions begin with `{name}`; give more of its name")]
    Ambiguous {
        /// As it was named.
        name: String,
        /// How many.
        count: usize,
    },
    /// The run is not over.
    #[error("session `{0}` is not over: there is no result yet")]
    NotOver(RunId),
    /// Its key is gone and its result is not there.
    #[error(
        "session `{0}` has lost its key before its result was signed: nobody can sign it any more; begin a new session"
    )]
    KeyGone(RunId),
    /// A key.
    #[error("{0}")]
    Key(String),
    /// A file of the session's.
    #[error("`{}`: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the session's says what cannot be read.
    #[error("`{}` is not what it should be: {why}", path.display())]
    Unclear {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The evidence.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The result cannot be signed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The bundle cannot be written, or read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// This host cannot contain what is to be tried.
    #[error("{0}")]
    Containment(String),
    /// A bug.
    #[error("{0}")]
    Internal(String),
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> Self {
        Self::Run(error.into())
    }
}

impl SessionError {
    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_)
            | Self::NoSession { .. }
            | Self::Ambiguous { .. }
            | Self::NotOver(_)
            | Self::Unclear { .. }
            | Self::Key(_)
            | Self::File { .. }
            | Self::Bundle(_)
            | Self::Git(_) => 2,
            Self::NotAuthorized(_)
            | Self::Revoked(_)
            | Self::Expired(_)
            | Self::Spent { .. }
            | Self::Unauthorized(_) => 3,
            Self::KeyGone(_) | Self::Seal(_) => 8,
            Self::Run(error) => error.exit_code(),
            Self::Export(error) => error.exit_code(),
            Self::Containment(_) => 9,
            Self::Internal(_) => 70,
        }
    }
}
