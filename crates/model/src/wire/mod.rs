//! The wires: how a dialogue becomes a request body, and how a stream of events becomes an answer.
//!
//! No socket is in here. An encoder appends bytes; a decoder is pushed events; the same decoder reads a
//! live stream and a recorded one.

mod address;
mod anthropic_decode;
mod anthropic_encode;
mod assembly;
mod chat_decode;
mod chat_encode;
mod effort;
mod framing;
mod gemini_decode;
mod gemini_encode;
mod ids;
mod json;
mod ollama_decode;
mod ollama_encode;
mod prefix;
mod responses_decode;
mod responses_encode;
mod writer;

pub use framing::Framing;
pub use prefix::Prefix;
use provost_core::transcript::{Assistant, Message, Stop, Usage};

use crate::ndjson::NdjsonParser;
use crate::sse::{SseEvent, SseParser};
use crate::{Failure, FailureClass, Prelude, Sink};

/// Which protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireKind {
    /// `POST {base}/chat/completions`, as OpenAI and most local servers speak it.
    OpenAiChat,
    /// `POST {base}/responses`, as OpenAI speaks it to its newer models.
    OpenAiResponses,
    /// `POST {base}/v1/messages`, as Anthropic speaks it.
    AnthropicMessages,
    /// `POST {base}/models/{model}:streamGenerateContent`, as Google speaks it.
    Gemini,
    /// `POST {base}/api/chat`, as Ollama speaks it.
    Ollama,
}

/// What an encoder must know besides the prelude.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, off unless an endpoint needs it"
)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EncodeOptions {
    /// Name of the model, as the vendor knows it.
    pub model: String,
    /// Chat only: name the output limit `max_completion_tokens`, as OpenAI's own newer models demand.
    pub max_completion_tokens: bool,
    /// Chat only: do not ask for usage, as some vendors refuse to be asked and tell it all the same.
    pub no_stream_options: bool,
    /// Chat only: send `reasoning_content` back with the assistant messages it came with.
    pub echo_reasoning: bool,
    /// Responses only: have reasoning come back sealed, to be sent with the next request. Models that do not reason
    /// refuse it.
    pub encrypted_reasoning: bool,
    /// Further top-level members of the request (`temperature`, `thinking`, …). Where the prelude asks for the same member,
    /// this one stands; two objects are joined.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl WireKind {
    /// Whether a request may name both tools and a schema for the answer's text.
    pub(crate) fn takes_schema_beside_tools(self, model: &str) -> bool {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses | Self::AnthropicMessages => true,
            // Its older models refuse that.
            Self::Gemini => effort::gemini_takes_words(model),
            // It holds the whole answer to the schema, and no tool is called.
            Self::Ollama => false,
        }
    }

    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::AnthropicMessages, Self::Gemini, Self::Ollama];

    /// A stable word for journals and configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::AnthropicMessages => "anthropic_messages",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Members of the request that belong to the wire: `extra` may not name them.
    pub fn reserved(self) -> &'static [&'static str] {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => &[
                "model",
                "messages",
                "tools",
                "system",
                "stream",
                "stream_options",
                "max_tokens",
                "max_completion_tokens",
            ],
            Self::OpenAiResponses => &[
                "model",
                "input",
                "instructions",
                "tools",
                "stream",
                "store",
                "include",
                "previous_response_id",
                "conversation",
                "max_output_tokens",
            ],
            Self::Gemini => &["contents", "systemInstruction", "system_instruction", "tools"],
            Self::Ollama => &["model", "messages", "tools", "stream", "truncate", "shift"],
        }
    }

    /// An encoder with the prelude already encoded.
    pub fn encoder(self, options: &EncodeOptions, prelude: &Prelude) -> Box<dyn Encode> {
        match self {
            Self::OpenAiChat => Box::new(chat_encode::Encoder::new(options, prelude)),
            Self::OpenAiResponses => Box::new(responses_encode::Encoder::new(options, prelude)),
            Self::AnthropicMessages => Box::new(anthropic_encode::Encoder::new(options, prelude)),
            Self::Gemini => Box::new(gemini_encode::Encoder::new(options, prelude)),
            Self::Ollama => Box::new(ollama_encode::Encoder::new(options, prelude)),
        }
    }

    /// A decoder for one answer. `turn` makes ids that the vendor left out unique within the dialogue.
    pub fn decoder(self, turn: u64) -> Box<dyn Decode> {
        match self {
            Self::OpenAiChat => Box::new(chat_decode::Decoder::new(turn)),
            Self::OpenAiResponses => Box::new(responses_decode::Decoder::new(turn)),
            Self::AnthropicMessages => Box::new(anthropic_decode::Decoder::new(turn)),
            Self::Gemini => Box::new(gemini_decode::Decoder::new(turn)),
            Self::Ollama => Box::new(ollama_decode::Decoder::new(turn)),
        }
    }

    /// The parser of its stream.
    pub fn framing(self) -> Framing {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses | Self::AnthropicMessages | Self::Gemini => {
                Framing::Events(SseParser::default())
            }
            Self::Ollama => Framing::Lines(NdjsonParser::default()),
        }
    }

    /// The media type of its stream.
    pub(crate) fn media(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses | Self::AnthropicMessages | Self::Gemini => {
                "text/event-stream"
            }
            Self::Ollama => "application/x-ndjson",
        }
    }
}

/// Encodes a dialogue, appending only.
pub trait Encode: Send + Sync {
    /// Appends one message.
    fn push(&mut self, message: &Message);
    /// The bytes so far. Each later prefix begins with each earlier one.
    fn prefix(&self) -> &Prefix;
    /// Writes what follows the prefix to make a whole request with this output limit (0: the default).
    fn tail(&self, max_output: u64, out: &mut Vec<u8>);
}

/// Where a decoder stands after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The answer is unfinished: the stream's end now would be a failure.
    Open,
    /// The answer is complete; usage may still come.
    Complete,
    /// Nothing more will come.
    Done,
}

/// Decodes one answer from events.
pub trait Decode: Send {
    /// Takes one event. After an error the decoder is spent.
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure>;
    /// Ends the answer; a failure if it is unfinished.
    fn finish(self: Box<Self>) -> Result<Decoded, Failure>;
    /// Whether any text, reasoning or call has begun.
    fn begun(&self) -> bool;
    /// Bytes of text, reasoning and arguments so far.
    fn size(&self) -> usize;
    /// Tokens as the vendor has counted them so far; also after an error, whose attempt is paid for all the same.
    fn usage(&self) -> Option<Usage>;
}

/// What a decoder made of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The answer.
    pub assistant: Assistant,
    /// Why it ended.
    pub stop: Stop,
    /// Tokens, if the vendor said.
    pub usage: Option<Usage>,
    /// The vendor's usage object(s) as JSON text.
    pub raw_usage: Option<String>,
    /// The model that the vendor named.
    pub model: Option<String>,
}

fn malformed(what: &str, error: &serde_json::Error) -> Failure {
    Failure::new(FailureClass::Malformed, format!("{what} is not understood: {error}"))
}
