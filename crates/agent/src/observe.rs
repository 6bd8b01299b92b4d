//! Who watches a run and who is asked.

use provost_core::act::Touch;
use provost_core::digest::Digest;
use provost_core::event::Event;
use provost_core::id::{ActId, AgentId};
use provost_core::policy::Decision;
use provost_model::BoxFuture;

/// Looks up content by its digest, as long as the run still has it.
pub trait Words {
    /// The bytes that `digest` commits to.
    fn get(&self, digest: &Digest) -> Option<Vec<u8>>;
}

/// Watches a run. Called on the driver's own thread: be quick.
pub trait Observer: Send + Sync {
    /// An event is durable.
    fn event(&self, event: &Event, words: &dyn Words) {
        let _ = (event, words);
    }
    /// The model says something. Provisional: the answer may still fail and be asked for again.
    fn text(&self, delta: &str) {
        let _ = delta;
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// An act that policy asks about.
#[derive(Debug, Clone)]
pub struct Question {
    /// The act.
    pub act: ActId,
    /// Tool.
    pub tool: String,
    /// Arguments, JSON.
    pub args: String,
    /// What it would touch.
    pub touches: Vec<Touch>,
    /// The rule that asks.
    pub decision: Decision,
    /// Which agent wants it, where that is not the root.
    pub asker: Option<Asker>,
}

/// An agent that another one started, and that wants to do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Its id.
    pub agent: AgentId,
    /// What it is called.
    pub name: String,
    /// What it is to do.
    pub goal: String,
}

/// An approver's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Yes.
    Approve,
    /// No.
    Deny,
    /// Nobody can say now: the run parks until somebody does.
    Later,
}

/// Answers where policy asks.
pub trait Approver: Send + Sync {
    /// Its name, as the journal has it.
    fn name(&self) -> &str;
    /// Decides on one act.
    fn decide<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Word>;
}

/// Gives the same word every time.
#[derive(Debug, Clone, Copy)]
pub struct Always {
    name: &'static str,
    word: Word,
}

impl Always {
    /// Approves everything; contained all the same.
    pub const APPROVE: Self = Self { name: "--yes", word: Word::Approve };
    /// Leaves every question for later.
    pub const LATER: Self = Self { name: "nobody", word: Word::Later };
}

impl Approver for Always {
    fn name(&self) -> &str {
        self.name
    }

    fn decide<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Word> {
        Box::pin(std::future::ready(self.word))
    }
}
