//! A run's evidence as a bundle.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use provost_core::digest::Digest;
use provost_core::id::RunId;
use provost_core::state::{Next, RunState};
use provost_evidence::bundle::{self, BundleContent, BundleError};
use provost_evidence::export::{ExportError as AssembleError, assemble};
use provost_evidence::keys::SigningKey;
use provost_evidence::steps::left_by;
use provost_journal::{Store, StoreError};

/// A bundle that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Its folder.
    pub dir: PathBuf,
    /// Key id of the signer.
    pub key_id: String,
    /// Bytes of its patch.
    pub patch_bytes: u64,
}

/// Why a run was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal cannot be made a bundle.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The bundle cannot be written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The run's words were dropped.
    #[error("the content of run `{0}` was dropped: its numbers and its chain are left, a patch is not")]
    Gone(RunId),
    /// The run was cancelled before it began.
    #[error("run `{0}` was cancelled before it began: it did nothing that could be proved")]
    Nothing(RunId),
    /// The run never began: it has a name and, where it was queued, its orders.
    #[error("run `{0}` never began: it did nothing that could be proved")]
    NotBegun(RunId),
}

impl ExportError {
    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store(error) => crate::error::store_exit_code(error),
            Self::Assemble(AssembleError::NotOver)
            | Self::Bundle(_)
            | Self::Nothing(_)
            | Self::NotBegun(_) => 2,
            // The store holds what does not verify, or not all that evidence needs.
            Self::Assemble(_) | Self::Gone(_) => 8,
        }
    }
}

/// Writes the evidence of a run that is over into `dir`, signed by `key`.
pub async fn export(
    store: &dyn Store,
    run: &RunId,
    key: &SigningKey,
    dir: &Path,
) -> Result<Exported, ExportError> {
    let content = content(store, run).await?;
    let patch_bytes = content.patch.len() as u64;
    bundle::write(dir, &content, key)?;
    Ok(Exported { dir: dir.to_owned(), key_id: key.verifying_key().key_id().to_string(), patch_bytes })
}

/// What the evidence of a run that is over consists of, before it is signed.
pub async fn content(store: &dyn Store, run: &RunId) -> Result<BundleContent, ExportError> {
    let salt = store.salt(run).await?.ok_or_else(|| ExportError::Gone(run.clone()))?;
    let mut journal = Vec::new();
    for line in store.events_json(run).await? {
        journal.extend_from_slice(&line);
        journal.push(b'\n');
    }
    let events = store.events(run, 0).await?;
    let state = RunState::fold(run.clone(), &events).map_err(AssembleError::from)?;
    if state.next() == Next::Dropped {
        return Err(ExportError::Nothing(run.clone()));
    }
    if state.created().is_none() {
        return Err(ExportError::NotBegun(run.clone()));
    }
    // Of a session also what each step left: its recipient may do them again.
    let steps = state.created().is_some_and(|created| created.authorized.is_some());
    let steps = events.iter().filter(|_| steps).flat_map(left_by);
    let sides = state.net_changes().values().flat_map(|change| [&change.before, &change.after]);
    let needed: BTreeSet<Digest> = sides.flatten().map(|fact| fact.content).chain(steps).collect();
    let mut contents: HashMap<Digest, Vec<u8>> = HashMap::new();
    for digest in needed {
        if let Some(bytes) = store.blob(run, digest).await? {
            contents.insert(digest, bytes);
        }
    }
    Ok(assemble(journal, &salt, |digest| contents.get(digest).cloned())?)
}
