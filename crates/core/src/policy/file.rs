//! Policy files.
//!
//! ```toml
//! preset = "workspace"        # what it builds on; without it, `strict`
//! at_least = "R2"             # refuse to start where containment is weaker
//! require = ["net", "kill-tree"]  # or where one of these is not enforced
//! image = "sha256:9c1b…"      # the image that is the root of commands; whole, as `provost image digest` prints it
//! engine = "podman"           # run commands by podman or docker, in that image; without it, by this program itself
//!
//! allow = ["exec cargo test*", "write src/**"]
//! ask   = ["write Cargo.toml"]
//! deny  = [
//!     "read secrets/",
//!     # With what it has to hold for and what not: checked whenever the file is read.
//!     { rule = "exec cargo publish", match = ["cargo publish --dry-run", "env cargo publish"], no_match = ["cargo package"] },
//! ]
//!
//! publish = [3000]            # ports of 127.0.0.1 that may lead to a background command
//!
//! [default]                   # where no rule matches: allow, contained, ask or deny
//! exec = "ask"
//!
//! git = "commit"              # commands may commit; without it `none`; `full` also gives them hooks and configuration
//!
//! workspace = "staged"        # commands' changes are looked at before they are there; without it, `direct`;
//!                             # `all-or-nothing`: and of a command that was cut short, or made what cannot stand, none is
//! build_folders = ["target"]  # changed at once all the same, where git ignores them
//!
//! [caps]                      # what the processes of each command may take together
//! cpu_seconds = 600
//! memory_mib = 4096
//! processes = 512             # and threads
//! tmp_mib = 256
//! file_mib = 1024             # each file that is written
//! open_files = 1024           # of each process
//! disk_mib = 512              # changes to a staged workspace
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::examples::{self, Entry};
use super::{
    BadRule, Containment, Default, Effect, GitAccess, Layer, Pattern, Policy, Preset, Rule, WorkspaceMode,
};
use crate::act::Access;
use crate::caps::Caps;
use crate::containment::{Engine, Guarantee, Rung};
use crate::path::RelPath;

/// A policy file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// Not TOML, or a key or value that does not belong.
    #[error("{source_name}: {message}")]
    Toml {
        /// The file.
        source_name: String,
        /// Where and what.
        message: String,
    },
    /// Not the digest of an image.
    #[error("{source_name}: image: {message}")]
    Image {
        /// The file, and the line.
        source_name: String,
        /// What is wrong.
        message: String,
    },
    /// A rule that asks about a host. A command dials while it runs, and nobody can be asked then.
    #[error(
        "{source_name}: `ask net {target}`: nobody can be asked while a command dials; write it under `allow` or `deny`"
    )]
    AskNet {
        /// The file, and the line of the rule.
        source_name: String,
        /// The hosts.
        target: String,
    },
    /// A rule that does not parse.
    #[error("{source_name}: {rule}")]
    Rule {
        /// The file, and the line of the rule.
        source_name: String,
        /// What is wrong with the rule.
        rule: BadRule,
    },
    /// A rule that does not hold for its own example, or holds for what it must not.
    #[error("{source_name}: {message}")]
    Example {
        /// The file, and the line of the example.
        source_name: String,
        /// Which rule and example, and what is wrong.
        message: String,
    },
    /// A cap that is none.
    #[error("{source_name}: {message}")]
    Caps {
        /// The file, and the line of the table.
        source_name: String,
        /// What is wrong.
        message: String,
    },
    /// Build folders that are none.
    #[error("{source_name}: {message}")]
    Staging {
        /// The file, and the line of the list.
        source_name: String,
        /// What is wrong.
        message: String,
    },
    /// An unknown preset.
    #[error("{source_name}: {message}")]
    Preset {
        /// The file, and the line of the name.
        source_name: String,
        /// What is wrong.
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    preset: Option<Spanned<String>>,
    at_least: Option<Rung>,
    #[serde(default)]
    require: Vec<Guarantee>,
    containment: Option<Containment>,
    #[serde(default)]
    allow: Vec<Spanned<Entry>>,
    #[serde(default)]
    ask: Vec<Spanned<Entry>>,
    #[serde(default)]
    deny: Vec<Spanned<Entry>>,
    #[serde(default)]
    default: BTreeMap<Access, Default>,
    caps: Option<Spanned<FileCaps>>,
    workspace: Option<FileMode>,
    build_folders: Option<Spanned<Vec<String>>>,
    git: Option<Spanned<GitAccess>>,
    image: Option<Spanned<String>>,
    engine: Option<Engine>,
    #[serde(default)]
    publish: BTreeSet<NonZeroU16>,
}

/// What becomes of commands' changes to the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileMode {
    Direct,
    Staged,
    AllOrNothing,
}

/// Caps in the units that people use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCaps {
    cpu_seconds: Option<u64>,
    memory_mib: Option<u64>,
    processes: Option<u64>,
    file_mib: Option<u64>,
    open_files: Option<u64>,
    tmp_mib: Option<u64>,
    disk_mib: Option<u64>,
}

impl FileCaps {
    /// Those that are said, the usual ones for the rest; `None` where one is zero or beyond all bounds.
    fn caps(&self) -> Option<Caps> {
        let times = |amount: Option<u64>, unit: u64| match amount {
            None => Some(None),
            Some(0) => None,
            Some(amount) => amount.checked_mul(unit).map(Some),
        };
        let usual = Caps::default();
        Some(Caps {
            cpu_ms: times(self.cpu_seconds, 1000)?.or(usual.cpu_ms),
            memory_bytes: times(self.memory_mib, 1 << 20)?.or(usual.memory_bytes),
            processes: times(self.processes, 1)?.or(usual.processes),
            file_bytes: times(self.file_mib, 1 << 20)?.or(usual.file_bytes),
            open_files: times(self.open_files, 1)?.or(usual.open_files),
            tmp_bytes: times(self.tmp_mib, 1 << 20)?.or(usual.tmp_bytes),
            disk_bytes: times(self.disk_mib, 1 << 20)?.or(usual.disk_bytes),
        })
    }
}

pub(super) fn parse(text: &str, source: &str) -> Result<Policy, PolicyFileError> {
    let source_name = source.to_owned();
    let file: File = toml::from_str(text).map_err(|error| PolicyFileError::Toml {
        source_name: source_name.clone(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    // What TOML takes and policy does not is named by file and line.
    let at = |span: Range<usize>| {
        let line = 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
        format!("{source}:{line}")
    };
    let preset = match &file.preset {
        Some(name) => name
            .get_ref()
            .parse()
            .map_err(|message| PolicyFileError::Preset { source_name: at(name.span()), message })?,
        None => Preset::Strict,
    };
    let mut layer = Layer::named("policy file");
    layer.source = Some(source_name.clone());
    layer.defaults = file.default;
    for (effect, rules) in
        [(Effect::Allow, &file.allow), (Effect::Ask, &file.ask), (Effect::Deny, &file.deny)]
    {
        for rule in rules {
            let entry = rule.get_ref();
            let pattern: Pattern = entry
                .rule
                .parse()
                .map_err(|bad| PolicyFileError::Rule { source_name: at(rule.span()), rule: bad })?;
            if effect == Effect::Ask && pattern.access() == Access::Net {
                let target = pattern.target().to_owned();
                return Err(PolicyFileError::AskNet { source_name: at(rule.span()), target });
            }
            let wanted = entry.holds.iter().map(|example| (example, true));
            for (example, wanted) in wanted.chain(entry.fails.iter().map(|example| (example, false))) {
                let wrong = |what: &str| PolicyFileError::Example {
                    source_name: at(example.span()),
                    message: format!("`{effect} {pattern}` {what} `{}`", example.get_ref()),
                };
                match examples::holds(&pattern, effect, example.get_ref()) {
                    Ok(holds) if holds == wanted => {}
                    Ok(true) => return Err(wrong("holds for its `no_match`")),
                    Ok(false) => return Err(wrong("does not hold for its `match`")),
                    Err(why) => return Err(wrong(&format!("has an example that cannot be read ({why}):"))),
                }
            }
            layer.rules.push(Rule { effect, pattern });
        }
    }
    let mut policy = Policy::preset(preset).with(layer).requiring(file.require);
    if let Some(at_least) = file.at_least {
        policy.at_least = at_least;
    }
    if let Some(caps) = &file.caps {
        policy.caps = caps.get_ref().caps().ok_or_else(|| PolicyFileError::Caps {
            source_name: at(caps.span()),
            message: "a cap is zero or too large".to_owned(),
        })?;
    }
    if let Some(containment) = file.containment {
        policy.containment = containment;
    }
    let staging = |span: Range<usize>, message: &str| PolicyFileError::Staging {
        source_name: at(span),
        message: message.to_owned(),
    };
    match file.workspace {
        None | Some(FileMode::Direct) => {}
        Some(FileMode::Staged) => policy.workspace = WorkspaceMode::staged(),
        Some(FileMode::AllOrNothing) => policy.workspace = WorkspaceMode::all_or_nothing(),
    }
    if let Some(names) = &file.build_folders {
        let folders: Result<Vec<RelPath>, _> =
            names.get_ref().iter().map(|name| RelPath::parse(name)).collect();
        let folders = folders.map_err(|bad| staging(names.span(), &bad.to_string()))?;
        if folders.iter().any(RelPath::is_root) {
            return Err(staging(names.span(), "the workspace itself is no build folder"));
        }
        let WorkspaceMode::Staged { build_folders, .. } = &mut policy.workspace else {
            return Err(staging(
                names.span(),
                "build folders mean something only with `workspace = \"staged\"` or `\"all-or-nothing\"`",
            ));
        };
        *build_folders = folders;
    }
    if let Some(git) = &file.git {
        policy = policy.with_git(*git.get_ref());
        if policy.git == GitAccess::Commit && policy.workspace.is_staged() {
            return Err(staging(
                git.span(),
                "`git = \"commit\"` needs `workspace = \"direct\"`: a commit would be there before the changes that \
                 it holds",
            ));
        }
    }
    if let Some(image) = &file.image {
        let digest = image.get_ref().strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
        policy.image = Some(digest.ok_or_else(|| PolicyFileError::Image {
            source_name: at(image.span()),
            message: format!("`{}` is not `sha256:` and 64 hex digits", image.get_ref()),
        })?);
    }
    policy.engine = file.engine;
    policy.publish = file.publish.into_iter().map(NonZeroU16::get).collect();
    Ok(policy)
}
