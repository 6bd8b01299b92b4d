//! The one way into the journal: drafts gather here, and nothing leaves the process before they are durable.
//!
//! The rule that holds I2: [`Recorder::commit`] runs before every effect and before every request to the model. What
//! is recorded in between travels in one append, so a step that only reads costs one, a step with effects two.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use provost_core::act::Intent;
use provost_core::brief::ImageFact;
use provost_core::dialogue::{Dialogue, Item, ItemResult};
use provost_core::digest::Digest;
use provost_core::event::{Body, Draft, Event};
use provost_core::id::AgentId;
use provost_core::state::RunState;
use provost_core::transcript::{Assistant, CallResult, Image, Message, Stop};
use provost_evidence::chain::Head;
use provost_evidence::content::Salt;
use provost_journal::{Blob, Lease, Store};

use crate::error::RunError;
use crate::mandate;
use crate::observe::{Observer, Words};
use crate::runtime::Clock;

/// The journal of one run, as its driver writes it.
pub(crate) struct Recorder {
    store: Arc<dyn Store>,
    observer: Arc<dyn Observer>,
    clock: Clock,
    salt: Salt,
    pub(crate) lease: Lease,
    head: Head,
    state: RunState,
    drafts: Vec<Draft>,
    blobs: Vec<Blob>,
    /// Content recorded since the last message went out, for building the next.
    words: Held,
    /// What was said to the model of each agent that has no end.
    said: BTreeMap<AgentId, Said>,
    /// Result of the newest gate run, for the note that tells the model of it.
    gate_output: Option<Digest>,
    last_ms: u64,
}

/// An agent's dialogue.
#[derive(Default)]
struct Said {
    dialogue: Dialogue,
    /// How many of its messages went out.
    shown: usize,
    /// Ids of the calls of the newest answer that went out: the results that follow it carry them.
    call_ids: Vec<String>,
    last_stop: Option<Stop>,
}

impl Said {
    fn of(agent: AgentId) -> Self {
        Self { dialogue: Dialogue::of(agent), ..Self::default() }
    }
}

/// Content by its digest.
#[derive(Default)]
struct Held(HashMap<Digest, Arc<Vec<u8>>>);

impl Words for Held {
    fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.0.get(digest).map(|bytes| bytes.as_ref().clone())
    }
}

impl Recorder {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        observer: Arc<dyn Observer>,
        clock: Clock,
        salt: Salt,
        lease: Lease,
    ) -> Self {
        let state = RunState::new(lease.run.clone());
        Self {
            store,
            observer,
            clock,
            salt,
            lease,
            head: Head::empty(),
            state,
            drafts: Vec::new(),
            blobs: Vec::new(),
            words: Held::default(),
            said: BTreeMap::from([(AgentId::ROOT, Said::of(AgentId::ROOT))]),
            gate_output: None,
            last_ms: 0,
        }
    }

    /// Folds what the journal already holds, to go on with it: the words of the dialogue are at hand then.
    pub(crate) async fn take_up(&mut self, events: &[Event]) -> Result<(), RunError> {
        let mut dialogue = Dialogue::default();
        for event in events {
            dialogue.apply(event);
        }
        let (store, run) = (self.store.clone(), self.lease.run.clone());
        let wanted = self.missing(dialogue.items());
        let mut found = store.blobs(&run, &wanted);
        // Begun now: a store with a thread of its own looks for them while the state is folded.
        let begun = poll_fn(|context| Poll::Ready(found.as_mut().poll(context))).await;
        self.replay(events)?;
        if self.state.outcome().is_some() {
            return Ok(());
        }
        let found = match begun {
            Poll::Ready(found) => found,
            Poll::Pending => found.await,
        };
        self.hold(&wanted, found?)
    }

    /// Folds what the journal already holds.
    pub(crate) fn replay(&mut self, events: &[Event]) -> Result<(), RunError> {
        for event in events {
            self.fold(event)?;
            self.head = Head { next: event.seq + 1, hash: event.hash };
            self.last_ms = self.last_ms.max(event.at_ms);
        }
        Ok(())
    }

    fn fold(&mut self, event: &Event) -> Result<(), RunError> {
        self.state
            .apply(event)
            .map_err(|violation| RunError::Unsound { run: event.stream.to_string(), violation })?;
        if let Body::ActStarted(started) = &event.body
            && let Intent::Spawn(spawn) = &started.intent
        {
            self.said.insert(spawn.agent, Said::of(spawn.agent));
        }
        for said in self.said.values_mut() {
            said.dialogue.apply(event);
        }
        match &event.body {
            Body::ModelAnswered(answered) => {
                if let Some(said) = self.said.get_mut(&event.agent) {
                    said.last_stop = Some(answered.stop);
                }
            }
            Body::AgentEnded(_) => drop(self.said.remove(&event.agent)),
            Body::ActFinished(finished) if self.state.gate_run().is_some() => {
                self.gate_output = Some(finished.result);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the newest run of the gate printed.
    pub(crate) fn gate_output(&self) -> Option<Digest> {
        self.gate_output
    }

    /// Why the agent's model stopped at its newest answer.
    pub(crate) fn last_stop(&self, agent: AgentId) -> Stop {
        self.said.get(&agent).and_then(|said| said.last_stop).unwrap_or(Stop::End)
    }

    pub(crate) fn state(&self) -> &RunState {
        &self.state
    }

    pub(crate) fn salt(&self) -> &Salt {
        &self.salt
    }

    /// The clock, never running backwards within a run.
    pub(crate) fn now_ms(&mut self) -> u64 {
        self.last_ms = self.last_ms.max((self.clock)());
        self.last_ms
    }

    /// The same, of one who only looks.
    pub(crate) fn time_ms(&self) -> u64 {
        self.last_ms.max((self.clock)())
    }

    /// Takes content into the journal with the next commit, and names it.
    pub(crate) fn content(&mut self, bytes: impl Into<Vec<u8>>) -> Digest {
        let bytes = bytes.into();
        let digest = self.salt.digest(&bytes);
        if self.words.0.contains_key(&digest) {
            return digest;
        }
        self.words.0.insert(digest, Arc::new(bytes.clone()));
        self.blobs.push(Blob::new(&self.salt, bytes));
        digest
    }

    /// Records what happened. Durable with the next commit; the state has it at once.
    pub(crate) fn record(&mut self, body: Body) -> Result<(), RunError> {
        let at_ms = self.now_ms();
        let draft = Draft { at_ms, agent: self.state.agent_of(&body), body };
        // The state does not look at hashes, so the event can be folded before the journal seals it.
        let event = Event {
            v: draft.body.version(),
            stream: self.lease.run.clone(),
            seq: self.state.next_seq(),
            at_ms,
            agent: draft.agent,
            body: draft.body.clone(),
            prev: Digest::ZERO,
            hash: Digest::ZERO,
        };
        self.fold(&event).map_err(|error| match error {
            // The clock's doing, and no error of the driver's.
            late if mandate::is_too_late(&late) => late,
            RunError::Unsound { violation, .. } => RunError::Internal(violation.to_string()),
            other => other,
        })?;
        self.drafts.push(draft);
        Ok(())
    }

    /// Makes all that was recorded durable, in one append.
    pub(crate) async fn commit(&mut self) -> Result<(), RunError> {
        if self.drafts.is_empty() {
            return Ok(());
        }
        let drafts = std::mem::take(&mut self.drafts);
        let blobs = std::mem::take(&mut self.blobs);
        let appended = self.store.append(&self.lease, &self.head, drafts, blobs).await?;
        self.head = appended.head;
        for event in &appended.events {
            self.observer.event(event, &self.words);
        }
        Ok(())
    }

    /// The messages of an agent that became durable since the last call, in order. Commit first.
    pub(crate) async fn messages(&mut self, agent: AgentId) -> Result<Vec<Message>, RunError> {
        debug_assert!(self.drafts.is_empty(), "what is not durable is not shown to the model");
        let Some(said) = self.said.get_mut(&agent) else { return Ok(Vec::new()) };
        let items = said.dialogue.items().get(said.shown..).unwrap_or_default().to_vec();
        said.shown += items.len();
        let mut call_ids = std::mem::take(&mut said.call_ids);
        self.fetch(&items).await?;
        let mut messages = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::User(digest) => messages.push(Message::user(self.text(&digest).await?)),
                Item::Shown(digest, shown) => {
                    let mut images = Vec::with_capacity(shown.len());
                    for ImageFact { media, data, .. } in shown {
                        images.push(Image { media, data: self.text(&data).await? });
                    }
                    messages.push(Message::User { text: self.text(&digest).await?, images });
                }
                Item::Assistant(digest) => {
                    let answer = self.assistant(&digest).await?;
                    call_ids = answer.calls.iter().map(|call| call.id.clone()).collect();
                    messages.push(Message::Assistant(answer));
                }
                Item::Results(results) => messages.push(self.results(&results, &call_ids).await?),
            }
        }
        if let Some(said) = self.said.get_mut(&agent) {
            said.call_ids = call_ids;
        }
        self.words.0.clear();
        Ok(messages)
    }

    /// All messages of an agent's dialogue, in order. Commit first.
    pub(crate) async fn all_messages(&mut self, agent: AgentId) -> Result<Vec<Message>, RunError> {
        if let Some(said) = self.said.get_mut(&agent) {
            said.shown = 0;
        }
        self.messages(agent).await
    }

    /// All events so far. Commit first.
    pub(crate) async fn events(&self) -> Result<Vec<Event>, RunError> {
        debug_assert!(self.drafts.is_empty(), "something is still to be recorded");
        Ok(self.store.events(&self.lease.run, 0).await?)
    }

    /// Holds the words of these items that are not at hand. A run that is taken up again has thousands: all at once.
    async fn fetch(&mut self, items: &[Item]) -> Result<(), RunError> {
        let missing = self.missing(items);
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.store.blobs(&self.lease.run, &missing).await?;
        self.hold(&missing, found)
    }

    /// The words of these items that are not at hand, in the order of the store's index.
    fn missing(&self, items: &[Item]) -> Vec<Digest> {
        let mut missing: Vec<Digest> = Vec::new();
        for item in items {
            match item {
                Item::User(digest) | Item::Assistant(digest) => missing.push(*digest),
                Item::Shown(digest, images) => {
                    missing.push(*digest);
                    missing.extend(images.iter().map(|image| image.data));
                }
                Item::Results(results) => missing.extend(results.iter().map(|result| result.text)),
            }
        }
        missing.retain(|digest| !self.words.0.contains_key(digest));
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    fn hold(&mut self, digests: &[Digest], found: Vec<Option<Vec<u8>>>) -> Result<(), RunError> {
        for (digest, bytes) in digests.iter().zip(found) {
            let bytes = bytes.ok_or_else(|| RunError::Gone(format!("content {}", digest.short())))?;
            self.words.0.insert(*digest, Arc::new(bytes));
        }
        Ok(())
    }

    async fn results(&self, results: &[ItemResult], call_ids: &[String]) -> Result<Message, RunError> {
        let mut out = Vec::with_capacity(results.len());
        for (index, result) in results.iter().enumerate() {
            let call_id = call_ids
                .get(index)
                .ok_or_else(|| RunError::Internal("results without their answer".to_owned()))?;
            out.push(CallResult {
                call_id: call_id.clone(),
                text: self.text(&result.text).await?,
                is_error: result.is_error,
                images: Vec::new(),
            });
        }
        Ok(Message::Results { results: out })
    }

    /// An answer of the model.
    pub(crate) async fn assistant(&self, digest: &Digest) -> Result<Assistant, RunError> {
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes);
        let parsed = match self.words.0.get(digest) {
            Some(bytes) => parse(bytes),
            None => parse(&self.bytes(digest).await?),
        };
        parsed
            .map_err(|error| RunError::Gone(format!("the answer {} does not parse: {error}", digest.short())))
    }

    async fn text(&self, digest: &Digest) -> Result<String, RunError> {
        Ok(String::from_utf8_lossy(&self.bytes(digest).await?).into_owned())
    }

    /// Content of this run by its digest.
    pub(crate) async fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, RunError> {
        if let Some(bytes) = self.words.0.get(digest) {
            return Ok(bytes.as_ref().clone());
        }
        self.store
            .blob(&self.lease.run, *digest)
            .await?
            .ok_or_else(|| RunError::Gone(format!("content {}", digest.short())))
    }
}
