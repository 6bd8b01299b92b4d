//! What becomes of commands' changes to the workspace.

use serde::{Deserialize, Serialize};

use crate::path::RelPath;

/// What becomes of commands' changes to the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode", deny_unknown_fields)]
pub enum WorkspaceMode {
    /// They are there at once; what policy does not let stand is undone afterwards.
    #[default]
    Direct,
    /// They gather in a layer, and what policy lets stand is put into the workspace when the command has ended. A host
    /// that can keep nothing apart does not start the run.
    Staged {
        /// Folders that are changed at once all the same, where git ignores them: what is built there serves the next
        /// command.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        build_folders: Vec<RelPath>,
        /// How much of what a command changed is kept.
        #[serde(default, skip_serializing_if = "Keep::is_usual")]
        keep: Keep,
    },
}

/// How much of what a command changed is put into the workspace when it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// What policy lets stand; what it does not is left out.
    #[default]
    Allowed,
    /// All of it, or nothing: nothing where the command was cut short, or made what cannot stand
    /// ([`Unclean`](crate::staged::Unclean)).
    AllOrNothing,
}

impl Keep {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_usual(&self) -> bool {
        *self == Self::Allowed
    }
}

/// Folders that tools build into.
const BUILD_FOLDERS: [&str; 4] = ["target", "node_modules", ".venv", "venv"];

impl WorkspaceMode {
    /// Staged, with the build folders of the usual tools: `target`, `node_modules`, `.venv` and `venv`.
    pub fn staged() -> Self {
        Self::keeping(Keep::Allowed)
    }

    /// The same, of each command all or nothing.
    pub fn all_or_nothing() -> Self {
        Self::keeping(Keep::AllOrNothing)
    }

    fn keeping(keep: Keep) -> Self {
        let build_folders = BUILD_FOLDERS.iter().filter_map(|name| RelPath::parse(name).ok()).collect();
        Self::Staged { build_folders, keep }
    }

    /// How much of what a command changed is kept.
    pub fn keep(&self) -> Keep {
        match self {
            Self::Direct => Keep::Allowed,
            Self::Staged { keep, .. } => *keep,
        }
    }

    /// Whether changes gather in a layer.
    pub fn is_staged(&self) -> bool {
        matches!(self, Self::Staged { .. })
    }

    pub(crate) fn is_direct(&self) -> bool {
        !self.is_staged()
    }

    /// The folders that are changed at once although changes are staged.
    pub fn build_folders(&self) -> &[RelPath] {
        match self {
            Self::Direct => &[],
            Self::Staged { build_folders, .. } => build_folders,
        }
    }
}
