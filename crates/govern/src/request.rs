//! What an author asks for, made from a committed subtree.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::contract::{Contract, Source};
use provost_core::digest::Digest;
use provost_core::event::ModelFact;
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Layer, Policy, WorkspaceMode};
use provost_core::session::{Danger, Request};
use provost_evidence::canonical::sha256;
use provost_evidence::git::Repository;
use provost_evidence::keys::SigningKey;
use provost_evidence::tree::{BlobOid, Mode, TreeEntry, tree_digest};

use crate::SessionError;

/// Name of the policy's layer that protects what judges the work, and what is dangerous to change.
pub const LAYER: &str = "authorization";

/// Longest task, in bytes.
pub const TASK_LIMIT: usize = 128 * 1024;

/// Most files that judge.
const MOST_JUDGES: usize = 20_000;

/// Files that judge the work where the author names none: tests, by the names that test runners look for.
pub const JUDGES: [&str; 12] = [
    "**/tests/**",
    "**/test/**",
    "**/__tests__/**",
    "**/testdata/**",
    "**/*_test.*",
    "**/*_tests.*",
    "**/test_*.*",
    "**/tests.rs",
    "**/*.test.*",
    "**/*.spec.*",
    "**/*.snap",
    "**/spec/**",
];

/// What an author asks for.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// Full id of the commit.
    pub commit: &'a str,
    /// The subtree that is worked on.
    pub scope: RelPath,
    /// The task's text. It is the goal of the contract.
    pub contract: Contract,
    /// The model.
    pub model: ModelFact,
    /// Who is to carry it out.
    pub audience: String,
    /// Paths that may not be written beside those of [`JUDGES`], as globs.
    pub protect: Vec<String>,
    /// Of [`JUDGES`] and `protect`: globs that may be written all the same.
    pub open: BTreeSet<String>,
    /// Kinds of dangerous files that may be written.
    pub allowed: BTreeSet<Danger>,
    /// SHA-256 of the manifest of the toolchain that commands run with; `None` with an image.
    pub toolchain: Option<Digest>,
    /// How many commands may have to be rolled back before the run is stopped.
    pub rollbacks: u32,
}

/// Makes the request, and the session's key. Nothing is written, and nobody is asked.
pub fn propose(ask: Ask<'_>, at_ms: u64) -> Result<(Request, SigningKey), SessionError> {
    let task = ask.contract.goal.as_bytes();
    if task.trim_ascii().is_empty() {
        return Err(SessionError::Refused("the task is empty: say what is to be done".to_owned()));
    }
    if task.len() > TASK_LIMIT {
        return Err(SessionError::Refused(format!(
            "the task has {} bytes; at most {TASK_LIMIT} are taken",
            task.len()
        )));
    }
    let entries = entries(ask.repository, ask.commit, &ask.scope)?;
    let tree: Vec<TreeEntry> = entries.iter().map(|(entry, _)| entry.clone()).collect();
    let tree = tree_digest(&tree).map_err(|error| SessionError::Refused(error.to_string()))?;
    let mut protected: Vec<String> =
        JUDGES.iter().map(|glob| (*glob).to_owned()).chain(ask.protect).collect();
    if let Some(unknown) = ask.open.iter().find(|glob| !protected.contains(glob)) {
        return Err(SessionError::Refused(format!(
            "`{unknown}` opens nothing: it is none of the patterns of files that judge the work, which are {}",
            protected.join(", ")
        )));
    }
    protected.retain(|glob| !ask.open.contains(glob));
    let layer = layer(&protected, &ask.allowed)?;
    let judges = judges(&entries, &protected)?;
    let mut policy = ask.contract.policy.with(layer);
    if !policy.workspace.is_staged() {
        // A command that is to be rolled back must not have written yet.
        policy.workspace = WorkspaceMode::staged();
    }
    let key = SigningKey::generate().map_err(|error| SessionError::Key(error.to_string()))?;
    let mut random = [0; 37];
    getrandom::fill(&mut random)
        .map_err(|error| SessionError::Internal(format!("no randomness: {error}")))?;
    let (name, nonce) = random.split_at(5);
    let session = provost_core::id::RunId::from_parts(at_ms, name.try_into().unwrap_or_default());
    let request = Request {
        session,
        nonce: Digest::new(nonce.try_into().unwrap_or_default()),
        key: Digest::new(key.verifying_key().to_bytes()),
        audience: ask.audience,
        repository: ask.repository.identifier(ask.commit)?,
        task: sha256(task),
        source: Source::Commit { commit: ask.commit.to_owned(), scope: ask.scope },
        tree,
        policy,
        budget: ask.contract.budget,
        price: ask.contract.price,
        gate: ask.contract.gate,
        limits: ask.contract.limits,
        model: ask.model,
        routing: ask.contract.routing.kept(),
        judges,
        allowed: ask.allowed,
        toolchain: ask.toolchain,
        rollbacks: ask.rollbacks,
    };
    Ok((request, key))
}

/// The files of the subtree, each with its SHA-256; read by object id, and checked against it. What cannot be written out is
/// refused before anybody signs it.
fn entries(
    repository: &Repository,
    commit: &str,
    scope: &RelPath,
) -> Result<Vec<(TreeEntry, Digest)>, SessionError> {
    let found = repository.exportable(commit, scope)?;
    let ids: Vec<String> = found.iter().map(|entry| entry.oid.clone()).collect();
    let mut entries = Vec::with_capacity(ids.len());
    repository.each_blob(&ids, |place, content| {
        let entry = &found[place];
        let (path, mode) = (entry.path.clone(), entry.mode);
        entries.push((TreeEntry { path, mode, oid: BlobOid::of(&content) }, sha256(&content)));
        Ok(())
    })?;
    Ok(entries)
}

fn layer(protected: &[String], allowed: &BTreeSet<Danger>) -> Result<Layer, SessionError> {
    let mut layer = Layer::named(LAYER);
    let bad = |error: provost_core::policy::BadRule| SessionError::Refused(error.to_string());
    for glob in protected {
        layer = layer.rule(Effect::Deny, &format!("write {glob}")).map_err(bad)?;
    }
    for kind in Danger::ALL.into_iter().filter(|kind| !allowed.contains(kind)) {
        for rule in kind.rules() {
            layer = layer.rule(Effect::Deny, &rule).map_err(bad)?;
        }
    }
    Ok(layer)
}

/// The files of the subtree that match one of the globs. A rule of the policy says what matches.
fn judges(
    entries: &[(TreeEntry, Digest)],
    protected: &[String],
) -> Result<BTreeMap<RelPath, Digest>, SessionError> {
    let mut rules = Layer::named(LAYER);
    for glob in protected {
        rules = rules
            .rule(Effect::Deny, &format!("write {glob}"))
            .map_err(|error| SessionError::Refused(error.to_string()))?;
    }
    let policy = Policy { layers: vec![rules], ..Policy::preset(provost_core::policy::Preset::FullAccess) };
    let mut judges = BTreeMap::new();
    for (entry, digest) in entries {
        if entry.mode != Mode::Symlink && policy.denies_writing_by_rule(&entry.path) {
            judges.insert(entry.path.clone(), *digest);
        }
    }
    if judges.len() > MOST_JUDGES {
        return Err(SessionError::Refused(format!(
            "{} files judge the work; at most {MOST_JUDGES} are named one by one: choose a narrower scope",
            judges.len()
        )));
    }
    Ok(judges)
}
