//! How the bytes of a stream fall into events.

use crate::ndjson::NdjsonParser;
use crate::sse::{SseEvent, SseParser, SseTooLarge};

/// The parser of a wire's stream.
#[derive(Debug)]
pub enum Framing {
    /// Server-sent events.
    Events(SseParser),
    /// One JSON text a line.
    Lines(NdjsonParser),
}

impl Framing {
    /// Takes the next bytes and appends the events they complete to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseTooLarge> {
        match self {
            Self::Events(parser) => parser.feed(bytes, out),
            Self::Lines(parser) => parser.feed(bytes, out),
        }
    }

    /// Takes the end of the stream: a line that it ends is an event, an event that it cuts off is none.
    pub fn finish(&mut self, out: &mut Vec<SseEvent>) {
        match self {
            Self::Events(_) => {}
            Self::Lines(parser) => parser.finish(out),
        }
    }
}
