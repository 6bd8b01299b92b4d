//! How a session's result came about, as policy engines for build provenance read it.
//!
//! Format: SLSA Provenance v1 (<https://slsa.dev/provenance/v1>) in an in-toto Statement. The session is the build: what
//! the authority signed are its external parameters, the base commit, the image or toolchain and the model are what it
//! depends on. All of it follows from the run's result, the authorization and the checkpoint, so a verifier makes it
//! again and compares.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use provost_core::budget::{Budget, Price};
use provost_core::contract::{Gate, Limits, Source};
use provost_core::digest::{Digest, TreeDigest};
use provost_core::path::RelPath;
use provost_core::session::Authorization;

use crate::bundle::CHECKPOINT;
use crate::canonical::{NotCanonical, sha256};
use crate::checkpoint::Checkpoint;
use crate::in_toto::{
    self, BadStatement, Resource, Subject, file_digest, timestamp, tree_digest, tree_digests,
};
use crate::statement::{JOURNAL, PATCH, Statement};

/// The type of the predicate.
pub const PROVENANCE_TYPE: &str = "https://slsa.dev/provenance/v1";
/// What kind of build a session is.
pub const BUILD_TYPE: &str = "https://provost.run/governed-session/v1";
/// What builds it.
pub const BUILDER: &str = "https://provost.run/runner";

/// Name of the subject that is the workspace's files at the end.
pub const TREE_AFTER: &str = "tree.after";

/// A statement about how a session's result came about. Its subjects are `changes.patch`, `tree.after` and `checkpoint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// SHA-256 of the patch.
    pub patch: Digest,
    /// The workspace's files at the end.
    pub tree: TreeDigest,
    /// SHA-256 of the checkpoint's file.
    pub checkpoint: Digest,
    /// What is said of them.
    pub predicate: Predicate,
}

/// The predicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Predicate {
    /// What was to be done, from what.
    pub build_definition: BuildDefinition,
    /// Who did it, and when.
    pub run_details: RunDetails,
}

/// What was to be done, from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildDefinition {
    /// [`BUILD_TYPE`].
    pub build_type: String,
    /// What the authority signed.
    pub external_parameters: Parameters,
    /// The base commit, the image or the toolchain, and the model, in this order.
    pub resolved_dependencies: Vec<Resource>,
}

/// What the authority signed. The policy is not repeated: `authorization` is the digest of the bytes that hold it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// SHA-256 of the signed bytes of the authorization.
    pub authorization: Digest,
    /// SHA-256 of the task's text.
    pub task: Digest,
    /// The base commit.
    pub commit: Option<String>,
    /// The subtree that the session works in.
    pub scope: RelPath,
    /// What it may spend.
    pub budget: Budget,
    /// What the model costs.
    pub price: Option<Price>,
    /// Limits of single acts.
    pub limits: Limits,
    /// What decides that it is done.
    pub gate: Option<Gate>,
    /// The files that judge, by SHA-256 of their content.
    pub judges: BTreeMap<RelPath, Digest>,
}

/// Who did it, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunDetails {
    /// The runner.
    pub builder: Builder,
    /// Which session, and when.
    pub metadata: Metadata,
    /// The journal, and the head of its log.
    pub byproducts: Vec<Resource>,
}

/// The runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Builder {
    /// [`BUILDER`].
    pub id: String,
    /// Version of Provost, under its name.
    pub version: BTreeMap<String, String>,
}

/// Which session, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The session's name.
    pub invocation_id: String,
    /// When it began, by the runner's clock.
    pub started_on: String,
    /// When it ended.
    pub finished_on: String,
}

impl Provenance {
    /// What there is to say of a result under an authorization; `payload` is the SHA-256 of the authorization's signed
    /// bytes, `file` are the bytes of the signed checkpoint.
    pub fn of(
        result: &Statement,
        authorization: &Authorization,
        payload: &Digest,
        checkpoint: &Checkpoint,
        file: &[u8],
    ) -> Self {
        let (request, run) = (&authorization.request, &result.result);
        let (Source::Commit { scope, .. } | Source::Directory { scope, .. }) = &request.source;
        let commit = request.source.commit().map(str::to_owned);
        let head = Resource::file(CHECKPOINT, &sha256(file))
            .noted("origin", &checkpoint.origin)
            .noted("size", &checkpoint.log.size)
            .noted("root", &checkpoint.log.root);
        Self {
            patch: result.patch,
            tree: result.tree.clone(),
            checkpoint: sha256(file),
            predicate: Predicate {
                build_definition: BuildDefinition {
                    build_type: BUILD_TYPE.to_owned(),
                    external_parameters: Parameters {
                        authorization: *payload,
                        task: request.task,
                        commit,
                        scope: scope.clone(),
                        budget: request.budget,
                        price: request.price.clone(),
                        limits: request.limits,
                        gate: request.gate.clone(),
                        judges: request.judges.clone(),
                    },
                    resolved_dependencies: dependencies(authorization),
                },
                run_details: RunDetails {
                    builder: Builder {
                        id: BUILDER.to_owned(),
                        version: [("provost".to_owned(), run.provost.clone())].into(),
                    },
                    metadata: Metadata {
                        invocation_id: run.run.to_string(),
                        started_on: timestamp(run.started_ms),
                        finished_on: timestamp(run.finished_ms),
                    },
                    byproducts: vec![Resource::file(JOURNAL, &result.journal), head],
                },
            },
        }
    }

    /// The statement's canonical JSON: the payload that is signed.
    pub fn to_json(&self) -> Result<Vec<u8>, NotCanonical> {
        let subjects = vec![
            Subject::file(PATCH, &self.patch),
            Subject::tree(TREE_AFTER, &self.tree),
            Subject::file(CHECKPOINT, &self.checkpoint),
        ];
        in_toto::write(subjects, PROVENANCE_TYPE, &self.predicate)
    }

    /// Reads a statement, of exactly this format and in its one spelling.
    pub fn from_json(payload: &[u8]) -> Result<Self, BadStatement> {
        let (subjects, predicate): (_, Predicate) = in_toto::read(payload, PROVENANCE_TYPE)?;
        let known = [
            ("buildType", predicate.build_definition.build_type == BUILD_TYPE),
            ("builder.id", predicate.run_details.builder.id == BUILDER),
        ];
        if let Some((part, _)) = known.into_iter().find(|(_, known)| !known) {
            return Err(BadStatement::Predicate(part));
        }
        let provenance = Self {
            patch: file_digest(&subjects, PATCH)?,
            tree: tree_digest(&subjects, TREE_AFTER)?,
            checkpoint: file_digest(&subjects, CHECKPOINT)?,
            predicate,
        };
        in_toto::same(payload, provenance.to_json())?;
        Ok(provenance)
    }
}

fn dependencies(authorization: &Authorization) -> Vec<Resource> {
    let request = &authorization.request;
    let mut digest = tree_digests(&request.tree);
    digest.extend(request.source.commit().map(|commit| ("gitCommit".to_owned(), commit.to_owned())));
    let source = Resource { name: Some("source".to_owned()), digest, ..Resource::default() }
        .noted("repository", &request.repository);
    let files = request.policy.image.map(|image| Resource::file("image", &image));
    let toolchain = request.toolchain.map(|toolchain| Resource::file("toolchain", &toolchain));
    let model = Resource {
        name: Some(request.model.name.clone()),
        uri: Some(request.model.endpoint.clone()),
        ..Resource::default()
    }
    .noted("wire", &request.model.wire);
    [Some(source), files, toolchain, Some(model)].into_iter().flatten().collect()
}
