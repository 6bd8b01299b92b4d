//! A governed session: what an author asks for, what an authority signs, and what a run under it is held to.
//!
//! A session is one run, made from a committed subtree under a contract that an authority has signed whole. The run's
//! first event names the signed bytes by their digest; that it is the very run that was signed, says
//! [`Request::differs`].

mod danger;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Price};
use crate::contract::{Gate, Limits, Source};
use crate::digest::{Digest, TreeDigest};
use crate::event::{ModelFact, RunCreated};
use crate::id::RunId;
use crate::path::RelPath;
use crate::policy::Policy;
use crate::route::Routing;

pub use danger::{Danger, Dangers};

/// Ignore rules, as git has them, for what builds and tests leave behind: no part of what is worked on, whatever the
/// repository's own rules say. What a commit holds is part of it all the same.
pub const BUILD_OUTPUT: &str = "target/\nnode_modules/\n.venv/\nvenv/\n__pycache__/\n*.pyc\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n";

/// What an author asks for. Nothing of it can be carried out until an authority has signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The session, which is the name of its run too.
    pub session: RunId,
    /// What is drawn anew for each request, so that no two are alike.
    pub nonce: Digest,
    /// The session's public key (Ed25519, 32 bytes): what happened is signed by it and by no other.
    pub key: Digest,
    /// Whom it is for: a name that the runner goes by. What is meant for one runner is refused by others.
    pub audience: String,
    /// Which repository: SHA-256 over the ids of the commits without a parent that lead to `source`'s, in order, each
    /// ended by a line feed. The same in each clone that is whole.
    pub repository: Digest,
    /// SHA-256 of the task's text.
    pub task: Digest,
    /// The commit and the subtree that is the workspace.
    pub source: Source,
    /// The files of that subtree.
    pub tree: TreeDigest,
    /// What the agent may touch. What is protected is a layer of it.
    pub policy: Policy,
    /// What it may spend.
    pub budget: Budget,
    /// What the model costs.
    pub price: Option<Price>,
    /// What decides that it is done.
    pub gate: Option<Gate>,
    /// Limits of single acts, and of the tree of agents.
    pub limits: Limits,
    /// The model.
    pub model: ModelFact,
    /// Whom to ask beside it, and when; and what becomes of a provider's answer that was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Box<Routing>>,
    /// Files of the subtree that judge the work, by SHA-256 of their content: what protects them is a layer of `policy`.
    pub judges: BTreeMap<RelPath, Digest>,
    /// Kinds of dangerous files that may be changed all the same.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed: BTreeSet<Danger>,
    /// SHA-256 of the manifest of the host's toolchain that commands run with; `None` with an image, which `policy` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<Digest>,
    /// How many commands may have to be rolled back before the run is stopped.
    pub rollbacks: u32,
}

/// What an authority signs: the request, and when it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authorization {
    /// What was asked for, whole.
    pub request: Request,
    /// From when on, in milliseconds since the Unix epoch.
    pub not_before_ms: u64,
    /// Until when, exclusively.
    pub expires_ms: u64,
}

/// What a run under an authorization is held to, in its first event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authorized {
    /// SHA-256 of the bytes that were signed.
    pub payload: Digest,
    /// From when on, in milliseconds since the Unix epoch.
    pub not_before_ms: u64,
    /// Until when, exclusively: an event that begins something later cannot follow.
    pub expires_ms: u64,
    /// How many commands may have to be rolled back before the run is stopped.
    pub rollbacks: u32,
}

impl Authorized {
    /// Whether `at_ms`, in milliseconds since the Unix epoch, is in its time; otherwise on which side of it.
    pub fn at(&self, at_ms: u64) -> Result<(), Outside> {
        match at_ms {
            early if early < self.not_before_ms => Err(Outside::TooEarly),
            late if late >= self.expires_ms => Err(Outside::TooLate),
            _ => Ok(()),
        }
    }

    /// Milliseconds that are left of its time at `at_ms`.
    pub fn left_ms(&self, at_ms: u64) -> u64 {
        self.expires_ms.saturating_sub(at_ms)
    }
}

/// On which side of an authorization's time a moment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outside {
    /// It is not valid yet.
    TooEarly,
    /// It has expired.
    TooLate,
}

impl Outside {
    /// In words that follow what is outside.
    pub fn words(self) -> &'static str {
        match self {
            Self::TooEarly => "before the run's authorization is valid",
            Self::TooLate => "after the run's authorization has expired",
        }
    }
}

impl Authorization {
    /// What the run's first event has to say of it; `payload` is the SHA-256 of the bytes that were signed.
    pub fn fact(&self, payload: Digest) -> Authorized {
        Authorized {
            payload,
            not_before_ms: self.not_before_ms,
            expires_ms: self.expires_ms,
            rollbacks: self.request.rollbacks,
        }
    }
}

impl Request {
    /// The first part in which a run is not the one that was asked for; `None` where it is that run.
    ///
    /// The task is not among them: a run names its goal by a salted digest. Nor is the authorization itself.
    pub fn differs(&self, run: &RunId, created: &RunCreated) -> Option<&'static str> {
        let parts = [
            ("session", self.session == *run),
            ("source", self.source == created.source),
            ("tree", self.tree == created.tree),
            ("policy", self.policy == created.policy),
            ("budget", self.budget == created.budget),
            ("price", self.price == created.price),
            ("gate", self.gate == created.gate),
            ("limits", self.limits == created.limits),
            ("model", self.model == created.model),
            ("routing", self.routing == created.routing),
            ("servers", created.servers.is_empty()),
            ("brief", created.brief.is_none()),
            ("fork", created.forked.is_none()),
        ];
        parts.into_iter().find(|(_, same)| !same).map(|(part, _)| part)
    }
}
