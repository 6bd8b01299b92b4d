//! Server-sent events: an incremental, bounded parser after the WHATWG rules.
//!
//! Any split of the bytes gives the same events. An event that the stream's end cuts off is never given.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// The `event:` field; empty when there was none.
    pub event: String,
    /// The `data:` lines joined by newlines. Bytes that are not UTF-8 arrive as U+FFFD.
    pub data: String,
}

/// Largest event, in bytes, that [`SseParser::default`] takes.
pub const EVENT_LIMIT: usize = 8 << 20;

/// An event outgrew the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("one server-sent event is larger than {limit} bytes")]
pub struct SseTooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

/// Push bytes in, take events out.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    /// The unfinished line.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    /// No line was finished yet, so a byte order mark may still stand in front.
    first_line: bool,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limit(EVENT_LIMIT)
    }
}

impl SseParser {
    /// A parser that refuses events of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            event: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
        }
    }

    /// Takes the next bytes and appends the events they complete to `out`.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseTooLarge> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            self.grow(&bytes[..end])?;
            let cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.end_line(out);
        }
        self.grow(bytes)
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), SseTooLarge> {
        if self.line.len() + self.data.len() + self.event.len() + bytes.len() > self.limit {
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
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                out.push(SseEvent {
                    event: String::from_utf8_lossy(&self.event).into_owned(),
                    data: String::from_utf8_lossy(&self.data).into_owned(),
                });
            }
            self.data.clear();
            self.event.clear();
        } else {
            let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
            let value = line.get(colon + 1..).unwrap_or_default();
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &line[..colon] {
                b"data" => {
                    if self.has_data {
                        self.data.push(b'\n');
                    }
                    self.has_data = true;
                    self.data.extend_from_slice(value);
                }
                b"event" => {
                    self.event.clear();
                    self.event.extend_from_slice(value);
                }
                // Comments (an empty field name), `id`, `retry` and unknown fields.
                _ => {}
            }
        }
        self.line.clear();
    }
}
