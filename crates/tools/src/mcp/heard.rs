//! How much is heard of a server.
//!
//! The protocol's crate holds a whole message, and an answer to each request of a server's until that is read. A server
//! that sends without end and reads nothing would fill this process's memory, so what it sends between two questions of
//! ours has bounds.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Longest message of a server, in bytes.
const LONGEST_MESSAGE: usize = 8 * 1024 * 1024;

/// Messages, and bytes of them, that a server may send until it is asked for something again.
const MOST_MESSAGES: u64 = 10_000;
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// What was heard since the server was last asked for something.
#[derive(Debug, Default)]
pub(super) struct Heard {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Why nothing more is read.
    given_up: OnceLock<String>,
}

impl Heard {
    /// A question is about to be asked: the count begins anew.
    pub(super) fn asked_again(&self) {
        self.messages.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Why nothing more is read, if that is so.
    pub(super) fn given_up(&self) -> Option<&str> {
        self.given_up.get().map(String::as_str)
    }

    /// Counts what was read, `line` being how long the last message is so far.
    fn note(&self, read: &[u8], line: usize) -> Result<(), String> {
        let ends = memchr::memchr_iter(b'\n', read).count() as u64;
        let messages = self.messages.fetch_add(ends, Ordering::Relaxed) + ends;
        let bytes = self.bytes.fetch_add(read.len() as u64, Ordering::Relaxed) + read.len() as u64;
        if line > LONGEST_MESSAGE {
            Err(format!("a message has more than {LONGEST_MESSAGE} bytes"))
        } else if messages > MOST_MESSAGES {
            Err(format!("it sent more than {MOST_MESSAGES} messages for one question"))
        } else if bytes > MOST_BYTES {
            Err(format!("it sent more than {MOST_BYTES} bytes for one question"))
        } else {
            Ok(())
        }
    }
}

/// A reader that gives up a server which sends too much.
pub(super) struct Bounded<R> {
    inner: R,
    heard: Arc<Heard>,
    /// Bytes since the last line ended.
    line: usize,
}

impl<R> Bounded<R> {
    pub(super) fn new(inner: R, heard: Arc<Heard>) -> Self {
        Self { inner, heard, line: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = polled {
            let read = &buf.filled()[before..];
            self.line = match memchr::memrchr(b'\n', read) {
                Some(end) => read.len() - end - 1,
                None => self.line + read.len(),
            };
            if let Err(why) = self.heard.note(read, self.line) {
                let why = self.heard.given_up.get_or_init(|| why).clone();
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
            }
        }
        polled
    }
}
