//! An answer as it is put together. Every wire's decoder feeds one; what holds for all answers is held here.

use std::borrow::Cow;

use provost_core::transcript::{Assistant, Call, Stop, Usage};
use serde_json::value::RawValue;

use super::ids::Ids;
use super::json::{is_json, present};
use super::{Decoded, Progress};
use crate::{Failure, FailureClass, Sink};

/// Most bytes of text, reasoning and arguments that one answer may hold.
const BYTES: usize = 64 << 20;
/// Most calls, blocks, items and signatures of one answer, all together.
const PIECES: usize = 8_192;

/// One answer.
pub(super) struct Assembly {
    ids: Ids,
    text: String,
    calls: Vec<OpenCall>,
    bytes: usize,
    pieces: usize,
    begun: bool,
    refused: bool,
    stop: Option<Stop>,
    usage: Vec<String>,
    model: Option<String>,
}

/// A call that may be unfinished.
#[derive(Default)]
pub(super) struct OpenCall {
    /// The server's index; `None` when it gave none.
    pub(super) index: Option<u64>,
    pub(super) server_id: String,
    pub(super) name: String,
    /// Arguments given whole as the call began. Pieces that follow take their place.
    pub(super) given: String,
    pub(super) pieces: String,
    /// The id given out, once the call was shown.
    id: Option<String>,
}

impl OpenCall {
    pub(super) fn arguments(&self) -> &str {
        if self.pieces.is_empty() { &self.given } else { &self.pieces }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.id.is_some()
    }
}

impl Assembly {
    /// Of the answer number `turn` of a dialogue.
    pub(super) fn new(turn: u64) -> Self {
        Self {
            ids: Ids::new(turn),
            text: String::new(),
            calls: Vec::new(),
            bytes: 0,
            pieces: 0,
            begun: false,
            refused: false,
            stop: None,
            usage: Vec::new(),
            model: None,
        }
    }

    /// The model that the server names; its first word counts.
    pub(super) fn model(&mut self, named: Option<Cow<'_, str>>) {
        if self.model.is_none() {
            self.model = named.filter(|model| !model.is_empty()).map(Cow::into_owned);
        }
    }

    /// More visible text.
    pub(super) fn said(&mut self, piece: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        self.begun = true;
        self.text.push_str(piece);
        sink.text(piece);
        self.grow(piece.len())
    }

    /// More reasoning. What is to be kept of it is the wire's own matter.
    pub(super) fn thought(&mut self, piece: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        self.begun = true;
        sink.reasoning(piece);
        self.grow(piece.len())
    }

    /// The text is a refusal, whatever the answer's end says.
    pub(super) fn refused(&mut self) {
        self.refused = true;
    }

    /// Visible text so far, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Counts bytes that the decoder keeps.
    pub(super) fn grow(&mut self, by: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(by);
        if self.bytes > BYTES || self.pieces > PIECES {
            let message = format!("the answer is larger than {BYTES} bytes or {PIECES} pieces");
            return Err(Failure::new(FailureClass::Malformed, message));
        }
        Ok(())
    }

    /// Counts a block, an item or a signature that the decoder keeps.
    pub(super) fn kept(&mut self, bytes: usize) -> Result<(), Failure> {
        self.begun = true;
        self.pieces += 1;
        self.grow(bytes)
    }

    /// Begins a call; gives its place among the calls.
    pub(super) fn begin_call(&mut self) -> Result<usize, Failure> {
        self.kept(0)?;
        self.calls.push(OpenCall::default());
        Ok(self.calls.len() - 1)
    }

    /// A call that came whole. One without arguments is of a function without parameters.
    pub(super) fn whole_call(
        &mut self,
        id: Option<Cow<'_, str>>,
        name: Option<Cow<'_, str>>,
        arguments: Option<String>,
        sink: &mut dyn Sink,
    ) -> Result<usize, Failure> {
        let at = self.begin_call()?;
        let call = &mut self.calls[at];
        call.server_id = id.unwrap_or_default().into_owned();
        call.name = name.unwrap_or_default().into_owned();
        call.given = arguments.unwrap_or_else(|| "{}".to_owned());
        let bytes = call.given.len();
        self.show_call(at, sink);
        self.grow(bytes)?;
        Ok(at)
    }

    pub(super) fn calls(&self) -> &[OpenCall] {
        &self.calls
    }

    /// A call that [`begin_call`](Self::begin_call) began.
    pub(super) fn call(&mut self, at: usize) -> &mut OpenCall {
        &mut self.calls[at]
    }

    /// Shows the call, if its arguments are whole.
    pub(super) fn show_call(&mut self, at: usize, sink: &mut dyn Sink) {
        self.show(sink, |place, call| place == at && is_json(call.arguments()));
    }

    /// Shows all calls whose arguments are whole.
    pub(super) fn show_whole(&mut self, sink: &mut dyn Sink) {
        self.show(sink, |_, call| is_json(call.arguments()));
    }

    /// Shows the calls not yet shown that are wanted. Parsing stands last there: it is the cost.
    fn show(&mut self, sink: &mut dyn Sink, wanted: impl Fn(usize, &OpenCall) -> bool) {
        for (place, call) in self.calls.iter_mut().enumerate() {
            if call.is_shown() || call.name.is_empty() || !wanted(place, call) {
                continue;
            }
            let id = self.ids.take(&call.server_id);
            call.id = Some(id.clone());
            sink.call(&Call { id, name: call.name.clone(), arguments: call.arguments().to_owned() });
        }
    }

    /// The answer ends so; the first word counts. Its calls are whole unless it was cut off.
    pub(super) fn ended(&mut self, stop: Stop, sink: &mut dyn Sink) {
        self.stop.get_or_insert(stop);
        if matches!(stop, Stop::ToolCalls | Stop::End) {
            self.show(sink, |_, _| true);
        }
    }

    /// The server's count so far, in place of an earlier one.
    pub(super) fn counted(&mut self, usage: Option<&RawValue>) {
        if let Some(usage) = present(usage) {
            self.usage = vec![usage.get().to_owned()];
        }
    }

    /// A further count: those of the beginning and of the end are both kept.
    pub(super) fn counted_again(&mut self, usage: &RawValue) {
        self.usage.truncate(1);
        self.usage.push(usage.get().to_owned());
    }

    /// The server's last count.
    pub(super) fn count(&self) -> Option<&str> {
        self.usage.last().map(String::as_str)
    }

    /// Whether any text, reasoning or call has begun.
    pub(super) fn begun(&self) -> bool {
        self.begun
    }

    /// Where the answer stands, on a wire that may count after the end.
    pub(super) fn progress(&self) -> Progress {
        if self.stop.is_some() { Progress::Complete } else { Progress::Open }
    }

    /// The server says that nothing more will come. A gateway may say so also when its upstream broke, so only an end that
    /// was given ends the answer.
    pub(super) fn closed(&self) -> Result<Progress, Failure> {
        if self.stop.is_some() { Ok(Progress::Done) } else { Err(cut_off()) }
    }

    /// The whole answer, with what the wire keeps of it; a failure if it is unfinished.
    pub(super) fn finish(mut self, opaque: Vec<String>, usage: Option<Usage>) -> Result<Decoded, Failure> {
        let stop = self.stop.ok_or_else(cut_off)?;
        let stop = if self.refused { Stop::Refused } else { stop };
        let calls = self
            .calls
            .into_iter()
            .map(|call| Call {
                arguments: if call.pieces.is_empty() { call.given } else { call.pieces },
                id: call.id.unwrap_or_else(|| self.ids.take(&call.server_id)),
                name: call.name,
            })
            .collect();
        let (assistant, stop) = settle(Assistant { text: self.text, calls, opaque }, stop)?;
        let raw_usage = match self.usage.len() {
            0 | 1 => self.usage.pop(),
            _ => Some(format!("[{}]", self.usage.join(","))),
        };
        Ok(Decoded { assistant, stop, usage, raw_usage, model: self.model })
    }
}

fn cut_off() -> Failure {
    Failure::new(FailureClass::UnknownOutcome, "the stream ended before the answer was complete")
}

/// Checks that hold for every wire once an answer is complete.
fn settle(mut assistant: Assistant, stop: Stop) -> Result<(Assistant, Stop), Failure> {
    if stop == Stop::Length {
        // The last call may have been cut in the middle; a part must not pass for a call.
        assistant.calls.retain(|call| is_json(&call.arguments));
    }
    if assistant.calls.iter().any(|call| call.name.is_empty()) {
        return Err(Failure::new(FailureClass::Malformed, "the answer holds a call without a tool name"));
    }
    match stop {
        Stop::ToolCalls if assistant.calls.is_empty() => Err(Failure::new(
            FailureClass::Malformed,
            "the answer says that it calls tools but holds no call",
        )),
        // Many servers say `stop` also when they call.
        Stop::End if !assistant.calls.is_empty() => Ok((assistant, Stop::ToolCalls)),
        stop => Ok((assistant, stop)),
    }
}
