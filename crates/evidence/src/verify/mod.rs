//! Verification: everything in a bundle is checked again, from the signature down to the recipient's own commit.
//!
//! Nothing is believed because the bundle says it. Keys come from the caller. Until the signature holds only the
//! envelope is parsed; until the digests hold, only the statement; a claim that does not hold leaves those that stand
//! on it unchecked, and the report says so.

mod check;
mod claim;
mod code;
mod repository;
mod session;

use std::path::Path;

use provost_core::path::RelPath;

pub use crate::scope::BaseTree;
pub use claim::{Claim, ClaimId, Finding, Report, Require};
pub use code::Code;
pub use session::{SessionExpectation, SessionReport, lies_within, verify_session};

use crate::bundle::Folder;
use crate::keys::VerifyingKey;
use crate::tree::Mode;
use check::Check;

/// The recipient's own repository.
pub trait Base {
    /// The files of the subtree `scope` of `commit`, paths relative to `scope`, and the content of those that `keep`
    /// asks for. Read from the commit, never from the working tree. The error is a sentence for a person.
    fn tree(
        &self,
        commit: &str,
        scope: &RelPath,
        keep: &dyn Fn(&RelPath, Mode) -> bool,
    ) -> Result<BaseTree, String>;
}

/// Verifies the bundle in `dir`.
///
/// `trusted` are keys that the recipient obtained elsewhere: never take them from the bundle. With `base` the run is
/// also held against the recipient's own repository.
pub fn verify(dir: &Path, trusted: &[VerifyingKey], base: Option<&dyn Base>, require: Require) -> Report {
    let mut check = Check::new(base);
    // `None` is a claim that did not hold: what stands on it stays unchecked.
    let _ = check.whole(Folder::open(dir), trusted);
    check.report(require)
}
