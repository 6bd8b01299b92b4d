//! Lines of JSON: a planner's answer while it is written.

use provost_core::transcript::Usage;
use serde_json::Value;

use super::envelope::Envelope;
use crate::{Failure, FailureClass, Sink};

/// Decodes `step_update` and `result` events, one JSON object a line.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The line that has not ended yet.
    line: Vec<u8>,
    number: u64,
    /// Most bytes of one line, and of all text.
    limit: usize,
    text: String,
    result: Option<Envelope>,
}

impl Decoder {
    pub(super) fn new(limit: usize) -> Self {
        Self { line: Vec::new(), number: 0, limit, text: String::new(), result: None }
    }

    /// Takes what was read. After an error the decoder is spent.
    pub(super) fn feed(&mut self, mut bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Failure> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end])?;
            self.end_line(sink)?;
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes)
    }

    /// Ends the answer: its text and the result event.
    pub(super) fn finish(&mut self, sink: &mut dyn Sink) -> Result<(String, Envelope), Failure> {
        self.end_line(sink)?;
        let result = self.result.take().ok_or_else(|| {
            Failure::new(FailureClass::Transport, "the planner's stream ended before its `result` event")
        })?;
        Ok((std::mem::take(&mut self.text), result))
    }

    /// Tokens as counted so far.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.result.as_ref().and_then(Envelope::usage)
    }

    /// Whether any text came.
    pub(super) fn begun(&self) -> bool {
        !self.text.is_empty()
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        // A complete answer stands, whatever is written after it; and nothing of that is kept.
        if self.result.is_some() {
            return Ok(());
        }
        if self.line.len() + bytes.len() > self.limit {
            let what = format!("line {} is longer than {} bytes", self.number + 1, self.limit);
            return Err(Failure::new(FailureClass::Malformed, what));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, sink: &mut dyn Sink) -> Result<(), Failure> {
        let line = std::mem::take(&mut self.line);
        self.number += 1;
        if self.result.is_some() || line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut event: Value = match serde_json::from_slice(&line) {
            Ok(event @ Value::Object(_)) => event,
            Ok(_) => return Err(self.odd(&line, "is JSON and not an object")),
            Err(error) => return Err(self.odd(&line, &format!("is not JSON ({error})"))),
        };
        match event.get("event").and_then(Value::as_str) {
            Some("step_update") => {
                if let Some(delta) = event.pointer("/step_update/text_delta").and_then(Value::as_str) {
                    if self.text.len() + delta.len() > self.limit {
                        let what = format!("the planner's text is longer than {} bytes", self.limit);
                        return Err(Failure::new(FailureClass::Malformed, what));
                    }
                    self.text.push_str(delta);
                    sink.text(delta);
                }
            }
            Some("result") => {
                let result = event.get_mut("result").map(Value::take).unwrap_or_default();
                self.result = Some(Envelope::of_result(result));
            }
            // New kinds of events are for newer readers.
            _ => {}
        }
        Ok(())
    }

    fn odd(&self, line: &[u8], what: &str) -> Failure {
        let begin = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        let what = format!("line {} of the planner's stream {what}: `{begin}`", self.number);
        Failure::new(FailureClass::Malformed, what)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Sink for Heard {
        fn text(&mut self, delta: &str) {
            self.0.push(delta.to_owned());
        }
    }

    const STREAM: &str = "{\"event\":\"init\"}\n\n  \r\n\
        {\"event\":\"step_update\",\"step_update\":{\"text_delta\":\"né \"}}\r\n\
        {\"event\":\"step_update\",\"step_update\":{\"tool\":1}}\n\
        {\"event\":\"step_update\",\"step_update\":{\"text_delta\":\"🦀\"}}\n\
        {\"event\":\"result\",\"result\":{\"status\":\"SUCCESS\",\"usage\":{\"input_tokens\":7}}}";

    fn decode(pieces: &[&[u8]], limit: usize) -> Result<(String, Vec<String>, Option<Usage>), Failure> {
        let (mut decoder, mut heard) = (Decoder::new(limit), Heard::default());
        for piece in pieces {
            decoder.feed(piece, &mut heard)?;
        }
        let (text, result) = decoder.finish(&mut heard)?;
        Ok((text, heard.0, result.usage()))
    }

    #[test]
    fn unknown_events_and_blank_lines_are_passed_over() {
        let (text, deltas, usage) = decode(&[STREAM.as_bytes()], 4096).unwrap();
        assert_eq!((text.as_str(), deltas), ("né 🦀", vec!["né ".to_owned(), "🦀".to_owned()]));
        assert_eq!(usage.unwrap().input, 7);
        let after = [STREAM.as_bytes(), b"\nnot json", &[b'x'; 9000]];
        assert!(decode(&after, 4096).is_ok(), "a complete answer stands");
    }

    #[test]
    fn what_is_no_event_is_named() {
        for (text, says) in [
            ("{}\nhello\n", "line 2 of the planner's stream is not JSON"),
            ("5\n", "not an object"),
            ("{\"event\":\"step_update\"}\n", "before its `result`"),
            ("{\"event\":\"result\"", "line 1"),
        ] {
            let failure = decode(&[text.as_bytes()], 4096).unwrap_err();
            assert!(failure.message.contains(says) && failure.retryable(), "{failure}");
        }
        let failure = decode(&[&[b'a'; 60], &[b'a'; 60]], 100).unwrap_err();
        assert_eq!(failure.message, "line 1 is longer than 100 bytes");
        let one = "{\"event\":\"step_update\",\"step_update\":{\"text_delta\":\"0123456789\"}}\n".repeat(11);
        let failure = decode(&[one.as_bytes()], 100).unwrap_err();
        assert!(failure.message.contains("text is longer than 100 bytes"), "{failure}");
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(cuts in prop::collection::vec(0..STREAM.len(), 0..9)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|two| &STREAM.as_bytes()[two[0]..two[1]]).collect();
            prop_assert_eq!(decode(&pieces, 4096), decode(&[STREAM.as_bytes()], 4096));
        }
    }
}
