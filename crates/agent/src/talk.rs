//! The dialogue with one of the contract's models, and what the journal knows of its prompts.

use std::collections::BTreeMap;
use std::time::Instant;

use provost_core::event::{Body, Event, NoteWhy, PromptBroke, PromptFact};
use provost_core::id::{AgentId, StepId};
use provost_core::prompt::Break;
use provost_core::route::RouteId;
use provost_core::transcript::{Message, Usage};
use provost_evidence::content::{RunningDigest, Salt};
use provost_model::{Dialogue, Prelude, Provider, RateLimits};

/// Bytes of prompt that are taken for one token when a call is reserved or charged by estimate. English and code run
/// at 3.5 to 4.5; the low figure makes the estimate err on the side of the budget.
pub(crate) const BYTES_PER_TOKEN: u64 = 3;

/// Tokens that an image is taken for: no vendor counts more for one.
const IMAGE_TOKENS: u64 = 5_000;

/// Bytes that no token is longer than on average, in any text: for saying that something cannot fit.
const MOST_BYTES_PER_TOKEN: u64 = 8;

/// A dialogue with a model. What was said in it is only ever added to.
pub(crate) struct Talk {
    pub(crate) route: RouteId,
    pub(crate) dialogue: Box<dyn Dialogue>,
    /// The last request as its vendor counted it, for estimating the next.
    metered: Option<Metered>,
    /// What the vendor last said of its limits, and when.
    pub(crate) limits_told: Option<(Instant, RateLimits)>,
    sent: RunningDigest,
    /// Images that were shown, and the bytes of the request that they are.
    shown: u64,
    shown_bytes: u64,
}

/// A request as its vendor counted it.
#[derive(Debug, Clone, Copy)]
struct Metered {
    bytes: u64,
    shown: u64,
    tokens: u64,
}

/// What a journal says of the prompts of an agent's answers, in their order.
#[derive(Default)]
pub(crate) struct Asked {
    asked: Vec<Ask>,
    /// Its model is being asked for a summary.
    for_summary: bool,
}

struct Ask {
    step: StepId,
    route: RouteId,
    prompt: Option<PromptFact>,
    /// Tokens of the prompt, where the vendor counted them.
    tokens: Option<u64>,
    /// The model was asked for a summary.
    for_summary: bool,
}

impl Asked {
    /// Of each agent, only what its dialogue as it is now was asked with: a fold begins another.
    pub(crate) fn of(events: &[Event]) -> BTreeMap<AgentId, Self> {
        let mut all: BTreeMap<AgentId, Self> = BTreeMap::new();
        for event in events {
            match &event.body {
                Body::ModelAnswered(_) | Body::Note(_) | Body::ContextFolded(_) => {
                    all.entry(event.agent).or_default().apply(&event.body);
                }
                _ => {}
            }
        }
        all
    }

    fn apply(&mut self, body: &Body) {
        match body {
            Body::ModelAnswered(body) => {
                let tokens = (!body.estimated).then(|| body.usage.prompt());
                let (step, route, prompt) = (body.step, body.route, body.prompt);
                self.asked.push(Ask { step, route, prompt, tokens, for_summary: self.for_summary });
            }
            Body::Note(body) if body.why == NoteWhy::ContextFull => self.for_summary = true,
            Body::ContextFolded(body) => {
                self.asked.retain(|ask| !ask.for_summary && ask.step >= body.from);
                self.asked.iter_mut().for_each(|ask| (ask.prompt, ask.tokens) = (None, None));
                self.for_summary = false;
            }
            _ => {}
        }
    }

    /// How many of the answers are of this step or a later one.
    pub(crate) fn since(&self, from: StepId) -> usize {
        self.asked.iter().filter(|ask| ask.step >= from).count()
    }

    /// The oldest step whose words, with all that was said after them, take no more than so many bytes of a prompt of
    /// `whole`.
    pub(crate) fn newest_within(&self, route: RouteId, whole: u64, bytes: u64) -> Option<StepId> {
        let fits = |ask: &&Ask| ask.prompt.is_some_and(|prompt| whole.saturating_sub(prompt.bytes) <= bytes);
        self.asked.iter().filter(|ask| ask.route == route && !ask.for_summary).find(fits).map(|ask| ask.step)
    }

    fn prompt(&self, answer: usize, route: RouteId) -> Option<(StepId, PromptFact)> {
        let ask = self.asked.get(answer)?;
        ask.prompt.filter(|_| ask.route == route).map(|prompt| (ask.step, prompt))
    }

    /// The newest answer whose prompt the vendor counted, and that count.
    fn newest_counted(&self, route: RouteId) -> Option<(usize, u64)> {
        let mut counted = self.asked.iter().enumerate().rev();
        counted.find_map(|(answer, ask)| ask.tokens.filter(|_| ask.route == route).map(|it| (answer, it)))
    }

    fn newest(&self, route: RouteId) -> Option<usize> {
        (0..self.asked.len()).rev().find(|answer| self.prompt(*answer, route).is_some())
    }
}

impl Talk {
    pub(crate) fn open(route: RouteId, provider: &dyn Provider, prelude: Prelude, salt: &Salt) -> Self {
        Self {
            route,
            dialogue: provider.open(prelude),
            metered: None,
            limits_told: None,
            sent: salt.running(),
            shown: 0,
            shown_bytes: 0,
        }
    }

    pub(crate) fn push(&mut self, message: &Message) {
        if let Message::User { images, .. } = message {
            self.shown += images.len() as u64;
            self.shown_bytes += images.iter().map(|image| image.data.len() as u64).sum::<u64>();
        }
        self.dialogue.push(message);
    }

    /// What the next request begins with; `None` where it is sent as no bytes that anybody could look at.
    pub(crate) fn prompt(&mut self) -> Option<PromptFact> {
        let sent = &mut self.sent;
        let from = sent.bytes();
        self.dialogue.prompt(from, &mut |piece| sent.update(piece));
        (sent.bytes() > 0).then(|| PromptFact { bytes: sent.bytes(), digest: sent.digest() })
    }

    /// Bytes of the next request that are no image: of those the bytes say nothing about the tokens.
    pub(crate) fn text_bytes(&self) -> u64 {
        (self.dialogue.prompt_bytes() as u64).saturating_sub(self.shown_bytes)
    }

    /// Input tokens of the next request: what the vendor counted for the last one, and what came since.
    pub(crate) fn estimate(&self) -> u64 {
        let bytes = self.text_bytes();
        match self.metered {
            // Rounded up: two parts have more between them than one whole.
            Some(Metered { bytes: then, shown, tokens }) => {
                let images = self.shown.saturating_sub(shown) * IMAGE_TOKENS;
                tokens + bytes.saturating_sub(then).div_ceil(BYTES_PER_TOKEN) + images
            }
            None => bytes.div_ceil(BYTES_PER_TOKEN) + self.shown * IMAGE_TOKENS,
        }
    }

    /// Input tokens that the next request has at the very least.
    pub(crate) fn least(&self) -> u64 {
        let bytes = self.text_bytes();
        match self.metered {
            Some(Metered { bytes: then, tokens, .. }) => {
                tokens + bytes.saturating_sub(then) / MOST_BYTES_PER_TOKEN
            }
            None => bytes / MOST_BYTES_PER_TOKEN,
        }
    }

    /// Whether the vendor has counted a request of it.
    pub(crate) fn is_metered(&self) -> bool {
        self.metered.is_some()
    }

    /// Takes what the vendor counted for the request that was just answered.
    pub(crate) fn meter(&mut self, usage: Option<Usage>) {
        self.metered = usage.map(|usage| Metered {
            bytes: self.text_bytes(),
            shown: self.shown,
            tokens: usage.prompt(),
        });
    }

    /// Says again what was said so far, and finds out whether it is what was sent then, byte for byte: `step` is due next.
    pub(crate) fn say_again(
        &mut self,
        messages: &[Message],
        asked: &Asked,
        step: StepId,
        anew: impl FnOnce() -> Self,
    ) -> Option<PromptBroke> {
        // Prompts only grow: if the newest is the same, all are.
        let newest = asked.newest(self.route);
        let broke = self.say(messages, asked, |answer| Some(answer) == newest).is_some();
        broke.then(|| anew().say(messages, asked, |_| true)).flatten().map(|(same_bytes, at)| PromptBroke {
            step,
            route: self.route,
            same_bytes,
            at,
        })
    }

    /// Says all of it, and tells where the first of the prompts that are `looked` at differs, and how many bytes before it
    /// do not.
    pub(crate) fn say(
        &mut self,
        messages: &[Message],
        asked: &Asked,
        looked: impl Fn(usize) -> bool,
    ) -> Option<(u64, Break)> {
        let mut answer = 0;
        let mut same = 0;
        let mut broke = None;
        let counted = asked.newest_counted(self.route);
        for message in messages {
            if matches!(message, Message::Assistant(_)) {
                if let Some((_, tokens)) = counted.filter(|(newest, _)| *newest == answer) {
                    self.metered = Some(Metered { bytes: self.text_bytes(), shown: self.shown, tokens });
                }
                if broke.is_none()
                    && looked(answer)
                    && let Some((step, was)) = asked.prompt(answer, self.route)
                {
                    if self.prompt() == Some(was) {
                        same = was.bytes;
                    } else {
                        let first = (0..answer).all(|before| asked.prompt(before, self.route).is_none());
                        let at = if first { Break::Prelude } else { Break::Message { step } };
                        broke = Some((same, at));
                    }
                }
                answer += 1;
            }
            self.push(message);
        }
        broke
    }
}
