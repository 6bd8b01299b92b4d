//! The contract: what is to be done, where, and within what bounds.

use serde::{Deserialize, Serialize};

use crate::agents::AgentLimits;
use crate::brief::Brief;
use crate::budget::{Budget, Price};
use crate::path::RelPath;
use crate::policy::{Policy, Preset};
use crate::route::Routing;
use crate::server::Server;

/// A command that decides whether the work is done. It runs in a fresh checkout of the workspace's tree, and passes when
/// it exits with 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Argument vector; never a shell line.
    pub argv: Vec<String>,
    /// Wall-clock limit in milliseconds.
    pub limit_ms: u64,
    /// How often the agent may submit before the run ends with a failed gate.
    pub attempts: u32,
    /// Ignored files and folders, such as `node_modules`, that the command needs beside the tree. It sees copies of them
    /// as the run left them, so they are part of what is trusted and not of what is verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<RelPath>,
    /// Whether the tests that it runs are counted.
    #[serde(default, skip_serializing_if = "Counted::is_not")]
    pub counted: Counted,
}

/// Whether the tests that a gate runs are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// They are not.
    #[default]
    Not,
    /// The command runs once on the files as they are at the start, before the model is asked for the first time. It passes
    /// at the end only if no fewer tests pass than ran then ([`TestsRan`](crate::tests_ran::TestsRan)).
    AgainstBase,
}

impl Counted {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_not(&self) -> bool {
        *self == Self::Not
    }
}

/// The tool by whose name an act of the gate's is known.
pub const GATE: &str = "gate";
/// The same, of its run on the files at the start.
pub const BASE_GATE: &str = "gate_base";

impl Gate {
    /// A gate with a limit of 15 minutes and three attempts.
    pub fn command(argv: Vec<String>) -> Self {
        Self { argv, limit_ms: 15 * 60 * 1000, attempts: 3, with: Vec::new(), counted: Counted::Not }
    }
}

/// Where the work's files came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from", deny_unknown_fields)]
pub enum Source {
    /// The subtree `scope` of a commit, read by object id: nothing uncommitted is in it.
    Commit {
        /// Full commit id.
        commit: String,
        /// The subtree that is the workspace's root.
        scope: RelPath,
    },
    /// A folder as it stood, inside a repository whose HEAD was `commit`, if it was in one.
    Directory {
        /// Full commit id of HEAD.
        commit: Option<String>,
        /// Where the workspace lies in the repository.
        scope: RelPath,
    },
}

impl Source {
    /// The commit it is measured against, if there is one.
    pub fn commit(&self) -> Option<&str> {
        match self {
            Self::Commit { commit, .. } => Some(commit),
            Self::Directory { commit, .. } => commit.as_deref(),
        }
    }

    /// The subtree of the repository that is the workspace.
    pub fn scope(&self) -> &RelPath {
        match self {
            Self::Commit { scope, .. } | Self::Directory { scope, .. } => scope,
        }
    }
}

/// Limits of single acts, and of the tree of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Longest a command may run, in milliseconds, where the agent asks for no less.
    pub command_ms: u64,
    /// Bytes of a command's output that are kept; half from its start, half from its end.
    pub output_bytes: u64,
    /// Largest file that is read whole or recorded, in bytes.
    pub file_bytes: u64,
    /// Most output tokens of one answer.
    pub answer_tokens: u64,
    /// The agents that the root may have beside it; none in a contract that does not say.
    #[serde(default, skip_serializing_if = "AgentLimits::is_none")]
    pub agents: AgentLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            command_ms: 10 * 60 * 1000,
            output_bytes: 32 * 1024,
            file_bytes: 1024 * 1024,
            answer_tokens: 16_384,
            agents: AgentLimits::STANDARD,
        }
    }
}

/// What a run is ordered to do. Without a named policy it has `strict`.
///
/// ```
/// use provost_core::contract::{Contract, Gate};
/// let contract = Contract::new("make the tests pass")
///     .gate(Gate::command(vec!["cargo".into(), "test".into()]));
/// assert_eq!(contract.budget.steps, Some(50));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// What is to be done, in words.
    pub goal: String,
    /// What the agent may touch.
    pub policy: Policy,
    /// What it may spend.
    pub budget: Budget,
    /// What decides that it is done.
    pub gate: Option<Gate>,
    /// What the model costs, where it is known.
    pub price: Option<Price>,
    /// Whom to ask beside the model, and when; [`Routing::default`] is nobody.
    pub routing: Routing,
    /// Limits of single acts, and of the tree of agents.
    pub limits: Limits,
    /// Servers of tools that are somebody else's.
    pub servers: Vec<Server>,
    /// What is asked of the model beside the goal.
    pub brief: Brief,
}

impl Contract {
    /// A contract under the policy `strict`, with the default budget and limits and no gate.
    pub fn new(goal: impl Into<String>) -> Self {
        Self {
            goal: goal.into(),
            policy: Policy::preset(Preset::Strict),
            budget: Budget::default(),
            gate: None,
            price: None,
            routing: Routing::default(),
            limits: Limits::default(),
            servers: Vec::new(),
            brief: Brief::default(),
        }
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the budget.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the verification gate.
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Sets the model's price.
    #[must_use]
    pub fn price(mut self, price: Price) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets whom to ask beside the model, and when.
    #[must_use]
    pub fn routing(mut self, routing: Routing) -> Self {
        self.routing = routing;
        self
    }

    /// Sets the servers of tools that are somebody else's.
    #[must_use]
    pub fn servers(mut self, servers: Vec<Server>) -> Self {
        self.servers = servers;
        self
    }

    /// Sets what is asked of the model beside the goal.
    #[must_use]
    pub fn brief(mut self, brief: Brief) -> Self {
        self.brief = brief;
        self
    }

    /// Sets the limits of single acts and of the tree of agents.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}
