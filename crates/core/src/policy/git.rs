//! What commands may do to the repository that they work in.

use serde::{Deserialize, Serialize};

use super::{Effect, Layer, Policy, Rule};

/// What commands may do to the repository that they work in. It says nothing of the tools that read and write files:
/// those have rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitAccess {
    /// What the rules say of `.git`; in every preset but `full-access`, nothing beneath it is changed.
    #[default]
    None,
    /// `git add`, `commit`, `branch`, `stash` and `switch` work. What git takes orders from (its configuration, hooks,
    /// attributes, other object stores, other work trees) stays as it is.
    Commit,
    /// Everything, but for what a rule of its own denies. Whoever changes git's configuration or hooks decides what
    /// programs run when somebody else uses the repository, outside of all containment.
    Full,
}

/// The layer of a preset that guards what steers other programs.
pub(super) const CONTROL_FILES_LAYER: &str = "control files";
/// Its rules that guard a repository.
pub(super) const REPOSITORY: [&str; 5] =
    ["**/.git", "**/.git/**", "**/HEAD", "**/commondir", "**/config.worktree"];

impl Policy {
    /// This policy with another answer to what commands may do to the repository. [`GitAccess::Full`] takes away the
    /// preset's own rules about `.git` and no others; the other two put them there where they are missing.
    #[must_use]
    pub fn with_git(mut self, git: GitAccess) -> Self {
        self.git = git;
        let guards: Vec<Rule> = REPOSITORY
            .iter()
            .filter_map(|glob| format!("write {glob}").parse().ok())
            .map(|pattern| Rule { effect: Effect::Deny, pattern })
            .collect();
        let layer = self.layers.iter_mut().find(|layer| is_built_in(layer));
        match (git, layer) {
            (GitAccess::Full, Some(layer)) => layer.rules.retain(|rule| !guards.contains(rule)),
            (GitAccess::Full, None) => {}
            (GitAccess::None | GitAccess::Commit, Some(layer)) => {
                let missing = guards.into_iter().filter(|rule| !layer.rules.contains(rule));
                let missing: Vec<Rule> = missing.collect();
                layer.rules.extend(missing);
            }
            (GitAccess::None | GitAccess::Commit, None) => {
                let mut layer = Layer::named(CONTROL_FILES_LAYER);
                layer.rules = guards;
                self.layers.push(layer);
            }
        }
        self
    }

    /// Whether commands may commit: what policy says of git, as far as the rest of it leaves room. Where the workspace is
    /// read-only there is nothing to commit, and where changes are staged a commit would be there before them.
    pub fn lets_commit(&self) -> bool {
        self.git == GitAccess::Commit && !self.workspace.is_staged() && !self.forbids_all_writes()
    }
}

/// A file's layer of that name has a source.
fn is_built_in(layer: &Layer) -> bool {
    layer.name == CONTROL_FILES_LAYER && layer.source.is_none()
}
