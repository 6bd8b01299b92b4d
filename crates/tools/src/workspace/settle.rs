//! After a crash: on which side of a set of changes the workspace stands, and how to get to the other.

use provost_core::act::{Change, FileFact};
use provost_core::digest::Digest;
use provost_core::path::RelPath;

use crate::oid::BlobOid;

use super::{Applied, ApplyError, FileChange, FileError, FileVersion, Workspace};

/// On which side of its change one file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// As before.
    Before,
    /// As after.
    After,
    /// Neither: a write in place was cut short, or somebody else changed it.
    Neither,
}

/// On which side of a set of changes the workspace stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Nothing of it happened.
    AllBefore,
    /// All of it happened.
    AllAfter,
    /// Some did; each path with its side.
    Mixed(Vec<(RelPath, Side)>),
}

impl Workspace {
    /// Compares each path with its recorded versions. `digest` is the stream's salted digest. Temporary files that a
    /// crash left beside these paths are removed.
    pub fn settle(&self, changes: &[Change], digest: &dyn Fn(&[u8]) -> Digest) -> Result<Settled, FileError> {
        self.sweep(changes.iter().map(|change| change.path.clone()));
        let mut sides = Vec::with_capacity(changes.len());
        for change in changes.iter().filter(|change| change.before != change.after) {
            let sizes = [&change.before, &change.after];
            let limit = sizes.into_iter().flatten().map(|fact| fact.size).max().unwrap_or(0);
            let side = match self.version(&change.path, limit) {
                Ok(now) if same(change.before.as_ref(), now.as_ref(), digest) => Side::Before,
                Ok(now) if same(change.after.as_ref(), now.as_ref(), digest) => Side::After,
                Ok(_) | Err(FileError::TooLarge { .. } | FileError::Kind { .. }) => Side::Neither,
                Err(error) => return Err(error),
            };
            sides.push((change.path.clone(), side));
        }
        let all = |side| sides.iter().all(|(_, each)| *each == side);
        Ok(match () {
            () if all(Side::Before) => Settled::AllBefore,
            () if all(Side::After) => Settled::AllAfter,
            () => Settled::Mixed(sides),
        })
    }

    /// Carries a half-applied set to its end: what is already after stays, what is before is applied, anything else is
    /// refused as stale and nothing is written.
    pub fn complete(&self, changes: &[FileChange]) -> Result<Applied, ApplyError> {
        self.sweep(changes.iter().map(|change| change.path.clone()));
        let mut left = Vec::new();
        for change in changes {
            let limit = change.after.as_ref().map_or(0, |after| after.bytes.len() as u64);
            match self.version(&change.path, limit) {
                Ok(now) if now == change.after => {}
                Ok(_) | Err(FileError::TooLarge { .. }) => left.push(change.clone()),
                Err(error) => return Err(error.into()),
            }
        }
        self.apply(&left)
    }
}

fn same(fact: Option<&FileFact>, now: Option<&FileVersion>, digest: &dyn Fn(&[u8]) -> Digest) -> bool {
    match (fact, now) {
        (None, None) => true,
        (Some(fact), Some(now)) => {
            // Content that the journal does not keep is committed to by its blob id.
            let content = || {
                if fact.kept { digest(&now.bytes) } else { digest(&BlobOid::of(&now.bytes).sha256) }
            };
            fact.mode == now.mode.as_git() && fact.size == now.bytes.len() as u64 && fact.content == content()
        }
        _ => false,
    }
}
