//! A session for the small run: what an author would have asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use provost_core::digest::Digest;
use provost_core::event::{Body, RunCreated};
use provost_core::path::RelPath;
use provost_core::session::{Authorization, Request};
use provost_evidence::canonical::sha256;
use provost_evidence::keys::{SigningKey, VerifyingKey};
use provost_evidence::ssh::public;

use crate::run::Run;

/// When the tests' authorization begins to hold, and when it ends.
pub(crate) const FROM: u64 = 1_796_000_000_000;
pub(crate) const UNTIL: u64 = FROM + 3_600_000;
/// A time at which it holds.
pub(crate) const NOW: u64 = FROM + 60_000;

pub(crate) const TASK: &[u8] = b"Make the sum a sum.\n";

pub(crate) fn created(run: &Run) -> &RunCreated {
    match &run.drafts[0].body {
        Body::RunCreated(created) => created,
        other => panic!("{other:?}"),
    }
}

/// The authorization under which the run could have been made; `key` signs what comes of it.
pub(crate) fn authorization(run: &Run, key: &VerifyingKey) -> Authorization {
    let created = created(run).clone();
    Authorization {
        request: Request {
            session: run.id.clone(),
            nonce: sha256(b"nonce"),
            key: Digest::new(key.to_bytes()),
            audience: "runner-1".to_owned(),
            repository: sha256(b"roots"),
            task: sha256(TASK),
            source: created.source,
            tree: created.tree,
            policy: created.policy,
            budget: created.budget,
            price: created.price,
            gate: created.gate,
            limits: created.limits,
            model: created.model,
            routing: None,
            judges: BTreeMap::from([(RelPath::parse("run.sh").unwrap(), sha256(b"#!/bin/sh\nexit 0\n"))]),
            allowed: BTreeSet::new(),
            toolchain: Some(sha256(b"toolchain")),
            rollbacks: 3,
        },
        not_before_ms: FROM,
        expires_ms: UNTIL,
    }
}

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

/// A trust folder with these files.
pub(crate) fn trust_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// A line of `allowed_signers`.
pub(crate) fn allowed(who: &str, options: &str, key: &VerifyingKey) -> String {
    format!("{who} {options} {}\n", public::line(key))
}

pub(crate) fn read_trust(dir: &Path) -> provost_evidence::trust::Trust {
    provost_evidence::trust::Trust::read(dir).unwrap()
}
