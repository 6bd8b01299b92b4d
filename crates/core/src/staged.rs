//! Changes that a command made in a layer over the workspace, before they are put there.

use serde::{Deserialize, Serialize};

use crate::act::Change;
use crate::id::ActId;
use crate::path::RelPath;

/// A command has ended, and this is what its layer says of the workspace. Durable before the first file is touched: a
/// crash while they are touched is settled from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActStaged {
    /// The act that ran the command.
    pub act: ActId,
    /// What is about to be put into the workspace: all of it, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapplied: Vec<Unapplied>,
    /// How many files and folders are put there beside these that are no part of a run: what git ignores, and folders.
    /// A crash can lose them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beside: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something that a command changed in its layer, and that did not come into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unapplied {
    /// Which path.
    pub path: RelPath,
    /// Why not.
    pub why: WhyUnapplied,
}

/// Why a change did not come into the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyUnapplied {
    /// The policy guards the path: it denies writing there, or asks a person about it.
    Guarded,
    /// Somebody else changed the file while the command ran.
    Conflict,
    /// It is no file, folder or link, or would give rights to whoever runs it.
    Special,
    /// Another change of the same command is in conflict, and a part of what it did is not what it did.
    HeldBack,
    /// The file system refused it.
    Failed,
    /// The driver died, and its content with it.
    Lost,
    /// With its holes and links written out, what the command changed is more than the cap on disk.
    Cap,
}

impl WhyUnapplied {
    /// In words that follow the path.
    pub fn words(self) -> &'static str {
        match self {
            Self::Guarded => "the policy guards it",
            Self::Conflict => "somebody else changed it while the command ran",
            Self::Special => "it is no ordinary file, or has a set-user-id or set-group-id bit",
            Self::HeldBack => "held back because of a conflict",
            Self::Failed => "it could not be put there",
            Self::Lost => "its content was lost when the driver died",
            Self::Cap => "written out, what the command changed is more than the cap on disk",
        }
    }
}
