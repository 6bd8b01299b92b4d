//! The claims that a verification decides on, and the report of them.

use std::fmt;

use serde::Serialize;

use super::code::Code;
use crate::statement::RunResult;

/// One thing that a bundle claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimId {
    /// A trusted key signed the statement.
    Signature,
    /// The statement is one about a run.
    Statement,
    /// The files are those that were signed.
    Files,
    /// The journal is an unbroken chain of events.
    Chain,
    /// The chain ends at the signed head.
    Head,
    /// Each policy decision is the one that the recorded policy gives.
    Policy,
    /// Each event can follow those before it, and the statement says what they amount to.
    State,
    /// The content in the bundle is what the events commit to.
    Blobs,
    /// The patch is the recorded change.
    Patch,
    /// The recorded change is the run's own doing.
    Acts,
    /// The run began with the recipient's own commit.
    Base,
    /// The commit with the change is the tree at the end.
    Tree,
    /// The gate passed on that tree.
    Gate,
    /// Of a session: enough trusted keys signed its authorization.
    Authorization,
    /// Of a session: it was not taken back.
    Revocation,
    /// Of a session: it is what the recipient expects.
    Request,
    /// Of a session: the log's signed head is that of the journal.
    Log,
    /// Of a session: the run is the one that was authorized.
    Contract,
    /// Of a session: the run kept to the time that it had.
    Window,
    /// Of a session: nothing protected was changed, and no link leads out.
    Scope,
    /// Of a session: new names are the same name everywhere.
    Names,
    /// Of a session: the files that judge are as they were authorized.
    Judges,
    /// Of a session: nothing dangerous was changed that nobody allowed.
    Danger,
    /// Of a session: its provenance says the same.
    Provenance,
    /// Of a session: its test result says the same.
    TestResult,
}

impl ClaimId {
    /// Those about a run, in the order in which they are checked.
    pub const ALL: [Self; 13] = [
        Self::Signature,
        Self::Statement,
        Self::Files,
        Self::Chain,
        Self::Head,
        Self::Policy,
        Self::State,
        Self::Blobs,
        Self::Patch,
        Self::Acts,
        Self::Base,
        Self::Tree,
        Self::Gate,
    ];

    /// Those about a governed session, in the order in which they are told.
    pub const SESSION: [Self; 25] = [
        Self::Authorization,
        Self::Revocation,
        Self::Request,
        Self::Signature,
        Self::Statement,
        Self::Files,
        Self::Chain,
        Self::Head,
        Self::Log,
        Self::Contract,
        Self::Window,
        Self::Policy,
        Self::State,
        Self::Blobs,
        Self::Base,
        Self::Scope,
        Self::Names,
        Self::Judges,
        Self::Danger,
        Self::Patch,
        Self::Tree,
        Self::Acts,
        Self::Gate,
        Self::Provenance,
        Self::TestResult,
    ];

    /// Whether other claims rest on it: where it does not hold, those behind it are not come to.
    pub(super) fn bears(self) -> bool {
        matches!(
            self,
            Self::Authorization
                | Self::Revocation
                | Self::Signature
                | Self::Statement
                | Self::Files
                | Self::Chain
                | Self::Head
                | Self::Policy
                | Self::State
                | Self::Blobs
                | Self::Base
        )
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Statement => "statement",
            Self::Files => "files",
            Self::Chain => "chain",
            Self::Head => "head",
            Self::Policy => "policy",
            Self::State => "state",
            Self::Blobs => "blobs",
            Self::Patch => "patch",
            Self::Acts => "acts",
            Self::Base => "base",
            Self::Tree => "tree",
            Self::Gate => "gate",
            Self::Authorization => "authorization",
            Self::Revocation => "revocation",
            Self::Request => "request",
            Self::Log => "log",
            Self::Contract => "contract",
            Self::Window => "window",
            Self::Scope => "scope",
            Self::Names => "names",
            Self::Judges => "judges",
            Self::Danger => "danger",
            Self::Provenance => "provenance",
            Self::TestResult => "test_result",
        }
    }

    /// What is proven where it holds.
    pub fn proves(self) -> &'static str {
        match self {
            Self::Signature => "The holder of a key that you trust signed this statement.",
            Self::Statement => {
                "What was signed is a statement about one run, in a format that this program knows whole."
            }
            Self::Files => "The patch and the journal are, byte for byte, those that were signed.",
            Self::Chain => {
                "The events are whole and in order, from the first on: none was dropped, moved or altered."
            }
            Self::Head => {
                "The journal ends where the signer says that it ends: nothing was cut off or added."
            }
            Self::Policy => {
                "Each act was decided on as the recorded policy demands; you need not believe the decisions."
            }
            Self::State => {
                "Each event can follow those before it (nothing refused was started), and the statement's outcome, usage and refusals are those of the events."
            }
            Self::Blobs => {
                "The content of each changed file, before and after, is what the events commit to; none is missing and none was added."
            }
            Self::Patch => "The patch is exactly the change that the events record.",
            Self::Acts => {
                "All of the change was made by acts that the policy allows or that were approved; nobody else was seen to change these files."
            }
            Self::Base => {
                "The run began with the files of your commit, and each changed file was, before, what it is there."
            }
            Self::Tree => {
                "Your commit with this change is the very tree that the run ended with: nothing else changed."
            }
            Self::Gate => {
                "The runner saw the gate's command exit with 0 in a fresh checkout of exactly this tree, and nothing changed after it."
            }
            Self::Authorization => {
                "As many keys as you ask for, all of which you trust to authorize, signed exactly this order."
            }
            Self::Revocation => "Nothing that you know of takes the order, the session or those keys back.",
            Self::Request => "The order is for your task, your commit, your scope and your repository.",
            Self::Log => {
                "The session's key signed the Merkle root of exactly these events: each tool for transparency logs comes to the same root."
            }
            Self::Contract => {
                "The run's first event is that order: policy, budget, model, gate and files are the authorized ones."
            }
            Self::Window => {
                "By the runner's clock, nothing began before or after the time that was authorized."
            }
            Self::Scope => {
                "Only files beneath the scope changed, none of them protected; no link leads out and no file is of another kind."
            }
            Self::Names => "Each new name means the same file on every system that you may check it out on.",
            Self::Judges => {
                "The files that decide whether the work is done are, before and after, those that were authorized."
            }
            Self::Danger => {
                "Nothing changed that runs before it is read, or that reading does not show, but what was allowed."
            }
            Self::Provenance => "The provenance that other people's tools read says what the result says.",
            Self::TestResult => "The test result that other people's tools read says what the journal says.",
        }
    }

    /// What is not proven, even where it holds.
    pub fn does_not_prove(self) -> &'static str {
        match self {
            Self::Signature => "When it was signed, or that the holder was honest.",
            Self::Statement => "That what it says is true: the claims below check what can be checked.",
            Self::Files => "That they fit together: the claims below check it.",
            Self::Chain => "That the runner recorded all that happened, or at the times that it says.",
            Self::Head => "That the signer has no second journal of the same run.",
            Self::Policy => {
                "That the policy is the one you would have chosen, or that each act touched only what it declared."
            }
            Self::State => {
                "That the model is the one it says, that usage is what the vendor billed, or that an answer satisfies the schema that was asked for."
            }
            Self::Blobs => {
                "Anything about content that is not in the bundle: prompts, answers and outputs are committed to and not shown."
            }
            Self::Patch => "That the change is good, or safe to run.",
            Self::Acts => "That what changed while a command ran was that command's doing.",
            Self::Base => "That the commit itself is trustworthy, or what was in files that git ignores.",
            Self::Tree => "Anything about files that git ignores.",
            Self::Gate => {
                "That the gate tests what you need, that the change left the tests as strong as they were, or that it passes on your machine."
            }
            Self::Authorization => "That whoever signed understood it, or was not made to.",
            Self::Revocation => "That you know of every revocation.",
            Self::Request => "That the task is a good one.",
            Self::Log => "That there is no second log under the same key, unless a witness saw it.",
            Self::Contract => "That the run took place in the contained machine that it says.",
            Self::Window => "That the runner's clock was right.",
            Self::Scope => "That the change is good, or safe to run.",
            Self::Names => "Anything about names that your commit has already.",
            Self::Judges => "That they test what you need.",
            Self::Danger => "That ordinary code in the change is safe to run.",
            Self::Provenance => "Anything beyond the result.",
            Self::TestResult => "Anything beyond the journal: read what `gate` proves.",
        }
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the check of a claim came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum Finding {
    /// It holds.
    Held,
    /// It does not hold, and why.
    Failed(String),
    /// It was not checked, and why.
    NotChecked(String),
}

/// A claim and what its check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Which.
    pub id: ClaimId,
    /// What its check came to.
    pub finding: Finding,
    /// What is proven where it holds, in one sentence.
    pub proves: &'static str,
    /// What is not proven, even where it holds.
    pub does_not_prove: &'static str,
}

/// What must hold for a bundle to count as verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Require {
    /// All that the bundle alone can show. The claims `base` and `tree` may stay unchecked.
    Bundle,
    /// Also that it begins with the recipient's own commit and ends with the tree it says.
    Repository,
    /// All that is claimed of a governed session.
    Session,
}

impl Require {
    /// Whether it asks for `claim` to hold.
    pub(super) fn asks_for(self, claim: ClaimId) -> bool {
        match claim {
            // A session that was ordered without a gate has none.
            ClaimId::Gate | ClaimId::TestResult if self == Self::Session => false,
            _ if self == Self::Session => true,
            ClaimId::Base | ClaimId::Tree => self == Self::Repository,
            // A run without a gate, or one that says itself that its gate did not pass, is no less well proven.
            ClaimId::Gate => false,
            // Work beside the run is told, and no forgery.
            ClaimId::Acts => false,
            _ => true,
        }
    }
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Each claim, in the order in which they are checked.
    pub claims: Vec<Claim>,
    /// What had to hold.
    pub require: Require,
    /// The kind of what is wrong first, or that nothing is.
    pub code: Code,
    /// Id of the trusted key that signed; `None` where none did.
    pub signed_by: Option<String>,
    /// What the signer says of the run, once signature and format hold. The claims say how far it is proven.
    pub result: Option<RunResult>,
    /// What the events say and nobody can check from the bundle, a sentence each.
    pub by_word: Vec<&'static str>,
}

impl Report {
    /// Whether the evidence verifies: no claim failed and each required one held.
    ///
    /// Whether the run's work is done is another question: see the result's `outcome` and `verified`.
    pub fn ok(&self) -> bool {
        self.code == Code::Verified
    }

    /// The first claim that does not hold, or that had to and was not checked; and why.
    pub fn first_lack(&self) -> Option<(ClaimId, &str)> {
        let unchecked = || {
            self.claims.iter().find_map(|claim| match &claim.finding {
                Finding::NotChecked(why) if self.require.asks_for(claim.id) => Some((claim.id, why.as_str())),
                _ => None,
            })
        };
        self.first_failure().or_else(unchecked)
    }

    /// What the check of `id` came to.
    pub fn finding(&self, id: ClaimId) -> &Finding {
        const MISSING: &Finding = &Finding::NotChecked(String::new());
        self.claims.iter().find(|claim| claim.id == id).map_or(MISSING, |claim| &claim.finding)
    }

    /// The first claim that does not hold, and why.
    pub fn first_failure(&self) -> Option<(ClaimId, &str)> {
        self.claims.iter().find_map(|claim| match &claim.finding {
            Finding::Failed(why) => Some((claim.id, why.as_str())),
            Finding::Held | Finding::NotChecked(_) => None,
        })
    }
}
