//! Newline-delimited JSON, as some servers stream it: one line is one event.
//!
//! Any split of the bytes gives the same lines. A last line without a line end counts too: a server that has said all
//! may close right behind it.

use crate::sse::{EVENT_LIMIT, SseEvent, SseTooLarge};

/// Push bytes in, take lines out, each as the data of an event.
#[derive(Debug)]
pub struct NdjsonParser {
    limit: usize,
    line: Vec<u8>,
    /// No line was finished yet, so a byte order mark may still stand in front.
    first_line: bool,
}

impl Default for NdjsonParser {
    fn default() -> Self {
        Self::with_limit(EVENT_LIMIT)
    }
}

impl NdjsonParser {
    /// A parser that refuses lines of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, line: Vec::new(), first_line: true }
    }

    /// Takes the next bytes and appends the lines they complete to `out`.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseTooLarge> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.grow(&bytes[..end])?;
            bytes = &bytes[end + 1..];
            self.end_line(out);
        }
        self.grow(bytes)
    }

    /// Takes the end of the stream. What it cut off in the middle of a JSON text is no line.
    pub fn finish(&mut self, out: &mut Vec<SseEvent>) {
        if serde_json::from_slice::<serde::de::IgnoredAny>(&self.line).is_ok() {
            self.end_line(out);
        }
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), SseTooLarge> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(SseTooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<SseEvent>) {
        let mut line = self.line.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        let line = line.trim_ascii();
        if !line.is_empty() {
            let data = String::from_utf8_lossy(line).into_owned();
            out.push(SseEvent { event: String::new(), data });
        }
        self.line.clear();
    }
}
