//! The named policies.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::git::CONTROL_FILES_LAYER;
use super::{Containment, Default, Effect, GitAccess, Layer, Policy, WorkspaceMode};
use crate::act::Access;
use crate::caps::Caps;
use crate::containment::Rung;

/// A policy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Reads and writes in the workspace, commands while contained, no network, control files protected.
    Workspace,
    /// Reads; commands while contained see the workspace read-only.
    ReadOnly,
    /// Everything but reading asks.
    Strict,
    /// Everything is allowed and commands are not contained.
    FullAccess,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Workspace, Self::ReadOnly, Self::Strict, Self::FullAccess];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::ReadOnly => "read-only",
            Self::Strict => "strict",
            Self::FullAccess => "full-access",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|preset| preset.name() == text).ok_or_else(|| {
            format!("`{text}` is not a preset: expected workspace, read-only, strict or full-access")
        })
    }
}

/// Files that steer what other programs do with the workspace: nobody changes them by way of an agent.
const CONTROL_FILES: &[&str] = &[
    "**/.git",
    "**/.git/**",
    // By these git takes any folder for one of its own, with a configuration that runs programs.
    "**/HEAD",
    "**/commondir",
    "**/config.worktree",
    "**/.gitattributes",
    "**/.gitmodules",
    "**/.envrc",
    "**/.husky/**",
    "**/.mcp.json",
    "**/.vscode/settings.json",
    "**/.vscode/tasks.json",
    "**/.cargo/config",
    "**/.cargo/config.toml",
    "**/.provost/**",
    "**/provost.toml",
];

/// Files that hold credentials by custom.
const SECRET_FILES: &[&str] = &[
    "**/.env",
    "**/.env.*",
    "**/*.pem",
    "**/*.key",
    "**/*.p12",
    "**/id_rsa",
    "**/id_ed25519",
    "**/id_ecdsa",
    "**/.netrc",
    "**/.git-credentials",
    "**/.pgpass",
    "**/.docker/config.json",
    "**/.kube/config",
    "**/.cargo/credentials",
    "**/.cargo/credentials.toml",
    "**/.envrc",
    "**/.npmrc",
    "**/.pypirc",
    "**/.aws/**",
    "**/.ssh/**",
];

pub(super) fn policy(preset: Preset) -> Policy {
    use Default::{Allow, Ask, Contained, Deny};
    let (read, write, exec, net, call, spawn) = match preset {
        Preset::Workspace => (Allow, Allow, Contained, Deny, Ask, Allow),
        Preset::ReadOnly => (Allow, Deny, Contained, Deny, Deny, Deny),
        Preset::Strict => (Allow, Ask, Ask, Ask, Ask, Ask),
        Preset::FullAccess => (Allow, Allow, Allow, Allow, Allow, Allow),
    };
    let mut layer = Layer::named(&format!("preset {preset}"));
    layer.defaults = Access::ALL.into_iter().zip([read, write, exec, net, call, spawn]).collect();
    let mut layers = vec![layer];
    if preset != Preset::FullAccess {
        layers.push(fixed(CONTROL_FILES_LAYER, "write", CONTROL_FILES));
        layers.push(fixed("secret files", "read", SECRET_FILES));
    }
    Policy {
        layers,
        containment: if preset == Preset::FullAccess {
            Containment::LimitsOnly
        } else {
            Containment::Strongest
        },
        at_least: Rung::R0,
        require: BTreeSet::new(),
        caps: Caps::default(),
        workspace: WorkspaceMode::Direct,
        git: if preset == Preset::FullAccess { GitAccess::Full } else { GitAccess::None },
        publish: BTreeSet::new(),
        image: None,
        engine: None,
    }
}

fn fixed(name: &str, access: &str, globs: &[&str]) -> Layer {
    let mut layer = Layer::named(name);
    layer.rules = globs
        .iter()
        .filter_map(|glob| format!("{access} {glob}").parse().ok())
        .map(|pattern| super::Rule { effect: Effect::Deny, pattern })
        .collect();
    // The lists above are constants: a rule that does not parse is a bug, and a test counts them.
    debug_assert_eq!(layer.rules.len(), globs.len());
    layer
}
