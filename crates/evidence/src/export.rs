//! Making a bundle from a journal.

mod session;

use std::collections::BTreeMap;

use provost_core::digest::Digest;
use provost_core::event::{Body, Event};
use provost_core::state::{RunState, Violation};

use crate::bundle::BundleContent;
use crate::canonical::sha256;
use crate::chain::Head;
use crate::content::Salt;
use crate::log::head_of;
use crate::net::Net;
use crate::replay::{BrokenJournal, read_journal};
use crate::statement::{RunResult, Statement};
use crate::steps::Steps;

pub use session::{Ordered, SealError, seal};

/// A run that cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The journal is not an unbroken chain.
    #[error("the journal does not verify: {0}")]
    Journal(#[from] BrokenJournal),
    /// The journal records what cannot have happened.
    #[error("the journal does not verify: {0}")]
    Violation(#[from] Violation),
    /// The run is not over.
    #[error("the run is not over: there is no result to sign yet")]
    NotOver,
    /// A changed file was too large for the journal to keep.
    #[error(
        "`{path}` changed and is larger than 8 MiB: files larger than that are named, not kept, and a patch cannot be \
         made without their content"
    )]
    NotKept {
        /// The file.
        path: String,
    },
    /// Content of a changed file is gone.
    #[error("the content {digest} of {path} is not in the store: a patch cannot be made without it")]
    NoContent {
        /// Its salted digest.
        digest: Digest,
        /// A file that had it.
        path: String,
    },
    /// The store gave other content than was asked for.
    #[error("the store holds other content under {digest} than the events commit to ({path})")]
    WrongContent {
        /// The salted digest that was asked for.
        digest: Digest,
        /// A file that had it.
        path: String,
    },
    /// The change has no patch.
    #[error("the recorded change has no patch: {0}")]
    Patch(String),
}

/// Makes a bundle's content from the journal's stored lines (each ended by a line feed), the stream's salt, and its
/// blobs. The journal is checked as a recipient would check it, so that nothing is signed that would not verify.
///
/// A run that was authorized has no bundle before its session is sealed: see [`seal`].
///
/// A bundle ends where the run does. What a person had put back in the workspace afterwards is no part of its result, so
/// the bundle is the same before and after that.
pub fn assemble(
    mut journal: Vec<u8>,
    salt: &Salt,
    mut blob: impl FnMut(&Digest) -> Option<Vec<u8>>,
) -> Result<BundleContent, ExportError> {
    let (mut events, mut head) = read_journal(&journal)?;
    cut_to_the_end(&mut events, &mut head, &mut journal);
    let Some(first) = events.first() else {
        return Err(BrokenJournal::Empty.into());
    };
    let state = RunState::fold(first.stream.clone(), &events)?;
    let net = Net::of(&state);
    if let Some(path) = net.not_kept() {
        return Err(ExportError::NotKept { path: path.to_string() });
    }
    let mut steps = Steps::default();
    for event in &events {
        steps.see(event);
    }
    let mut blobs = BTreeMap::new();
    for digest in net.contents().union(steps.contents()).copied() {
        let path = || net.user_of(&digest);
        let bytes = blob(&digest).ok_or_else(|| ExportError::NoContent { digest, path: path() })?;
        if salt.digest(&bytes) != digest {
            return Err(ExportError::WrongContent { digest, path: path() });
        }
        blobs.insert(digest, bytes);
    }
    net.check_sizes(&blobs).map_err(ExportError::Patch)?;
    let result = RunResult::of(&state, &head, head_of(&journal), salt, blobs.keys().copied().collect());
    let result = result.ok_or(ExportError::NotOver)?;
    let patch = net.patch(result.base.source.scope(), &blobs).map_err(ExportError::Patch)?;
    let tree = match state.outcome() {
        Some(finished) => finished.tree.clone(),
        None => return Err(ExportError::NotOver),
    };
    Ok(BundleContent {
        statement: Statement { patch: sha256(&patch), journal: sha256(&journal), tree, result },
        patch,
        journal,
        blobs,
        session: None,
    })
}

/// Leaves out what came after the run was over.
fn cut_to_the_end(events: &mut Vec<Event>, head: &mut Head, journal: &mut Vec<u8>) {
    let Some(last) = events.iter().position(|event| matches!(event.body, Body::RunFinished(_))) else {
        return;
    };
    events.truncate(last + 1);
    *head = Head { next: events[last].seq + 1, hash: events[last].hash };
    let kept: usize = journal.split_inclusive(|byte| *byte == b'\n').take(last + 1).map(<[u8]>::len).sum();
    journal.truncate(kept);
}
