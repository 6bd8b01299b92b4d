//! What a change may touch: nothing that is protected, no other kinds of files, no link that leads out.

use std::collections::BTreeMap;

use provost_core::act::{Change, FileFact};
use provost_core::digest::Digest;
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Layer, Policy};
use provost_core::text::{Lines, visible};

use crate::canonical::sha256;
use crate::links::Links;
use crate::names;
use crate::net::{Blobs, Net};
use crate::tree::{Mode, TreeEntry};

/// The files that a run began with, as the recipient's repository has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaseTree {
    /// All files.
    pub entries: Vec<TreeEntry>,
    /// Submodules, which are none of them.
    pub submodules: Vec<RelPath>,
    /// The content of those files that were asked for.
    pub kept: BTreeMap<RelPath, Vec<u8>>,
}

/// Most findings that a sentence names.
const MOST_NAMED: usize = 10;

/// Findings as one sentence; nothing is wrong where there are none.
pub(crate) fn none_of(found: &[String]) -> Result<(), String> {
    if found.is_empty() {
        return Ok(());
    }
    let mut words = found[..found.len().min(MOST_NAMED)].join("; ");
    if found.len() > MOST_NAMED {
        words.push_str(&format!("; and {} more", found.len() - MOST_NAMED));
    }
    Err(words)
}

/// A path in a sentence.
pub(crate) fn shown(path: &RelPath) -> String {
    format!("`{}`", visible(path.as_str(), Lines::Escape))
}

fn mode_of(side: Option<&FileFact>) -> Option<Mode> {
    side?.mode.parse().ok()
}

/// The policy's denials of writing as they are where case does not count: for paths in lower case.
fn in_lower_case(policy: &Policy) -> Policy {
    let denials =
        policy.layers.iter().flat_map(|layer| &layer.rules).filter(|rule| rule.effect == Effect::Deny);
    let lower = denials.filter_map(|rule| rule.pattern.as_str().to_lowercase().parse().ok());
    Policy { layers: vec![Layer::denying("denials", lower.collect())], ..policy.clone() }
}

/// Changes where the policy denies writing by a rule, in whatever case, and files that a session does not have.
pub(crate) fn outside(policy: &Policy, net: &Net<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let caseless = in_lower_case(policy);
    for change in net.changes() {
        let path = &change.path;
        if path.is_root() {
            found.push("the workspace itself is named as a file".to_owned());
        }
        let lower = RelPath::try_from(path.as_str().to_lowercase()).ok();
        if policy.denies_writing_by_rule(path)
            || lower.is_some_and(|lower| caseless.denies_writing_by_rule(&lower))
        {
            found.push(format!("{} is protected: the policy denies writing there", shown(path)));
        }
        if let Some(after) = &change.after
            && after.mode.parse::<Mode>().is_err()
        {
            let mode = visible(&after.mode, Lines::Escape).chars().take(20).collect::<String>();
            found.push(format!(
                "{} has mode {mode}: a file of a session has 100644, 100755 or 120000",
                shown(path)
            ));
        }
    }
    found
}

/// Symbolic links that lead out of the tree with the change and did not without it.
pub(crate) fn links_out(net: &Net<'_>, blobs: &Blobs, base: &BaseTree) -> Result<Vec<String>, String> {
    let mut targets: BTreeMap<&RelPath, Vec<u8>> = BTreeMap::new();
    for entry in base.entries.iter().filter(|entry| entry.mode == Mode::Symlink) {
        let target = base.kept.get(&entry.path).ok_or("the target of a link of the base is not at hand")?;
        targets.insert(&entry.path, target.clone());
    }
    let before = Links::new(targets.iter().map(|(path, target)| (*path, target.clone())));
    for change in net.changes() {
        match &change.after {
            Some(after) if mode_of(Some(after)) == Some(Mode::Symlink) => {
                let target =
                    blobs.get(&after.content).ok_or("the target of a changed link is not at hand")?;
                targets.insert(&change.path, target.clone());
            }
            _ => drop(targets.remove(&change.path)),
        }
    }
    let after = Links::new(targets.iter().map(|(path, target)| (*path, target.clone())));
    let changed = |path: &RelPath| net.changes().iter().any(|change| change.path == *path);
    let mut found = Vec::new();
    for path in targets.keys() {
        let Some(astray) = after.astray(path) else {
            continue;
        };
        // A link that led out already is the base's own.
        if changed(path) || before.astray(path).is_none() {
            found.push(format!("the link {} leads to `{}`, {astray}", shown(path), after.shown(path)));
        }
    }
    Ok(found)
}

/// Submodules where files of the session lie.
pub(crate) fn submodules(base: &BaseTree) -> Vec<String> {
    base.submodules
        .iter()
        .map(|path| format!("{} is a submodule, which no session has", shown(path)))
        .collect()
}

/// Names that the change adds and that are not the same everywhere.
pub(crate) fn bad_names(net: &Net<'_>, base: &BaseTree) -> Vec<String> {
    let before: Vec<&RelPath> = base.entries.iter().map(|entry| &entry.path).collect();
    let mut after: std::collections::BTreeSet<&RelPath> = before.iter().copied().collect();
    for change in net.changes() {
        match change.after {
            Some(_) => drop(after.insert(&change.path)),
            None => drop(after.remove(&change.path)),
        }
    }
    names::faults(before, after).iter().map(ToString::to_string).collect()
}

/// Files that judge the work and that the change touches.
pub(crate) fn touched_judges(judges: &BTreeMap<RelPath, Digest>, net: &Net<'_>) -> Vec<String> {
    let touched = net.changes().iter().filter(|change| judges.contains_key(&change.path));
    touched
        .map(|change| format!("{} judges the work, and the change touches it", shown(&change.path)))
        .collect()
}

/// Files that judge the work and are not, in the base, what the authorization says.
pub(crate) fn other_judges(judges: &BTreeMap<RelPath, Digest>, base: &BaseTree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, digest) in judges {
        match base.kept.get(path).map(|content| sha256(content)) {
            None => found.push(format!("{} judges the work, and your commit does not have it", shown(path))),
            Some(has) if has != *digest => found.push(format!(
                "{} judges the work; authorized is the SHA-256 {digest}, your commit has {has}",
                shown(path)
            )),
            Some(_) => {}
        }
    }
    found
}

/// What to tell of each change that a reader of the patch may overlook: another kind of file, another mode, a link.
pub(crate) fn notable(net: &Net<'_>) -> Vec<String> {
    net.changes().iter().filter_map(|change| told(change)).collect()
}

fn told(change: &Change) -> Option<String> {
    let (before, after) = (mode_of(change.before.as_ref()), mode_of(change.after.as_ref())?);
    let path = shown(&change.path);
    let kind = |mode| if mode == Mode::Symlink { "a symbolic link" } else { "a file" };
    match before {
        Some(before) if (before == Mode::Symlink) != (after == Mode::Symlink) => {
            Some(format!("{path} was {} and is {}", kind(before), kind(after)))
        }
        Some(before) if before != after => Some(format!("{path} had mode {before} and has {after}")),
        None if after != Mode::File => Some(format!("{path} is new, with mode {after}")),
        _ => None,
    }
}
