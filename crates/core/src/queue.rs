//! Runs that wait for a driver: what a worker is told, and what people say of a run that is not over.

use serde::{Deserialize, Serialize};

use crate::brief::BriefFact;
use crate::budget::{Budget, Price};
use crate::contract::{Gate, Limits};
use crate::digest::Digest;
use crate::event::{ModelFact, RunCreated};
use crate::outcome::{Outcome, StopWhy, Unauthorized};
use crate::policy::Policy;
use crate::route::Routing;
use crate::server::Server;

/// What becomes of the questions that the policy asks, in a run that nobody sits beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Questions {
    /// They park the run until somebody answers.
    Wait,
    /// Whoever queued the run has answered all of them with yes. Commands are contained all the same.
    Approved,
}

/// The run is in the queue: its contract, frozen before anybody drives it. The first event of such a run; whoever makes
/// the run later makes exactly this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunQueued {
    /// Version of Provost.
    pub provost: String,
    /// The goal, in words (blob).
    pub goal: Digest,
    /// Policy.
    pub policy: Policy,
    /// Budget.
    pub budget: Budget,
    /// Price, where one is known.
    pub price: Option<Price>,
    /// Verification gate.
    pub gate: Option<Gate>,
    /// Limits of single acts.
    pub limits: Limits,
    /// The model.
    pub model: ModelFact,
    /// Whom to ask beside it, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Box<Routing>>,
    /// Servers of tools that are somebody else's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// What is asked of the model beside the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Box<BriefFact>>,
    /// Name of the environment variable that holds the key, in the worker's environment; `None` for the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Absolute path of the workspace.
    pub root: String,
    /// Absolute path of the repository that the workspace lies in; `None` where it is to be taken without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// What becomes of questions.
    pub questions: Questions,
}

impl RunQueued {
    /// Whether `created` is the run that was queued, and nothing more.
    pub fn orders(&self, created: &RunCreated) -> bool {
        self.goal == created.goal
            && self.policy == created.policy
            && self.budget == created.budget
            && self.price == created.price
            && self.gate == created.gate
            && self.limits == created.limits
            && self.model == created.model
            && self.routing == created.routing
            && self.servers == created.servers
            && self.brief == created.brief
            && self.root == created.root
            && self.repository == created.repository
    }
}

/// No worker takes the run, until somebody resumes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHeld {
    /// Who says so: `cancel --resumable`, `worker`.
    pub by: String,
    /// Why, in words (blob).
    pub why: Digest,
}

/// The run is to end without its work. A driver closes it; one that nobody began is over with this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCancelled {
    /// Who says so.
    pub by: String,
    /// That it is nobody's wish: the authorization that the run is under holds no longer, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unauthorized: Option<Unauthorized>,
}

impl RunCancelled {
    /// A person's wish.
    pub fn by(by: impl Into<String>) -> Self {
        Self { by: by.into(), unauthorized: None }
    }

    /// How the run ends with it.
    pub fn outcome(&self) -> Outcome {
        match self.unauthorized {
            None => Outcome::Stopped { why: StopWhy::Cancelled },
            Some(why) => Outcome::Unauthorized { why },
        }
    }
}
