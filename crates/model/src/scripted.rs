//! A provider in process, for tests of whoever drives one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::transcript::Message;

use crate::{
    Answer, Beside, BoxFuture, Dialogue, Failure, FailureClass, Invocation, Prelude, Provider, Sink,
};

/// One thing that was done to a [`Scripted`] provider.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A dialogue was opened.
    Opened {
        /// Number of the dialogue, from 0.
        dialogue: usize,
        /// What it starts with.
        prelude: Prelude,
    },
    /// A message was pushed.
    Pushed {
        /// Number of the dialogue.
        dialogue: usize,
        /// The message.
        message: Message,
    },
    /// An answer was asked for.
    Asked {
        /// Number of the dialogue.
        dialogue: usize,
        /// The particulars.
        invocation: Invocation,
    },
}

type Decide = dyn Fn(&Prelude, &[Message]) -> Result<Answer, Failure> + Send + Sync;

enum Source {
    Queue(Mutex<VecDeque<Result<Answer, Failure>>>),
    Decide(Box<Decide>),
}

/// A provider that gives canned answers and records what it was told. Clones share both.
#[derive(Clone)]
pub struct Scripted {
    source: Arc<Source>,
    records: Arc<Mutex<Vec<Record>>>,
}

impl Scripted {
    /// Gives `turns` one after another, whichever dialogue asks; then fails with `BadRequest`.
    pub fn new(turns: impl IntoIterator<Item = Result<Answer, Failure>>) -> Self {
        Self::from_source(Source::Queue(Mutex::new(turns.into_iter().collect())))
    }

    /// Lets `decide` answer from the dialogue's prelude and messages: stateless, so fit for trees and resumes.
    pub fn from_fn(
        decide: impl Fn(&Prelude, &[Message]) -> Result<Answer, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self::from_source(Source::Decide(Box::new(decide)))
    }

    fn from_source(source: Source) -> Self {
        Self { source: Arc::new(source), records: Arc::default() }
    }

    /// All that was done so far, in order.
    pub fn records(&self) -> Vec<Record> {
        locked(&self.records).clone()
    }

    /// The messages pushed to dialogue `number`, in order.
    pub fn messages(&self, number: usize) -> Vec<Message> {
        let of = |record: &Record| match record {
            Record::Pushed { dialogue, message } if *dialogue == number => Some(message.clone()),
            _ => None,
        };
        locked(&self.records).iter().filter_map(of).collect()
    }

    /// How many canned turns are left; 0 for [`Scripted::from_fn`].
    pub fn left(&self) -> usize {
        match &*self.source {
            Source::Queue(queue) => locked(queue).len(),
            Source::Decide(_) => 0,
        }
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("left", &self.left()).finish_non_exhaustive()
    }
}

/// What a panicking test left behind is still worth reading.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Provider for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "scripted"
    }

    fn endpoint(&self) -> &'static str {
        ""
    }

    fn carries(&self, _: Beside) -> bool {
        true
    }

    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        let mut records = locked(&self.records);
        let dialogue = records.iter().filter(|record| matches!(record, Record::Opened { .. })).count();
        records.push(Record::Opened { dialogue, prelude: prelude.clone() });
        drop(records);
        let bytes = prelude.system.len();
        Box::new(ScriptedDialogue { provider: self.clone(), dialogue, prelude, messages: Vec::new(), bytes })
    }
}

struct ScriptedDialogue {
    provider: Scripted,
    dialogue: usize,
    prelude: Prelude,
    messages: Vec<Message>,
    bytes: usize,
}

impl Dialogue for ScriptedDialogue {
    fn push(&mut self, message: &Message) {
        self.bytes += serde_json::to_vec(message).map_or(0, |json| json.len());
        self.messages.push(message.clone());
        let record = Record::Pushed { dialogue: self.dialogue, message: message.clone() };
        locked(&self.provider.records).push(record);
    }

    fn prompt_bytes(&self) -> usize {
        self.bytes
    }

    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let record = Record::Asked { dialogue: self.dialogue, invocation: invocation.clone() };
            locked(&self.provider.records).push(record);
            let turn = match &*self.provider.source {
                Source::Queue(queue) => locked(queue).pop_front().unwrap_or_else(|| {
                    Err(Failure::new(FailureClass::BadRequest, "the script has no further answer"))
                }),
                Source::Decide(decide) => decide(&self.prelude, &self.messages),
            };
            if let Ok(answer) = &turn {
                if !answer.assistant.text.is_empty() {
                    sink.text(&answer.assistant.text);
                }
                answer.assistant.calls.iter().for_each(|call| sink.call(call));
            }
            turn
        })
    }
}
