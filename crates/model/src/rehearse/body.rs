//! A response body that plays bytes, pauses and breaks.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// One thing that a body does.
pub(super) enum Act {
    Send(Bytes),
    Wait(Duration),
    /// Break the connection.
    Break,
    /// Be silent until the client goes.
    Forever,
}

/// A body made of acts.
pub(super) struct Play {
    acts: VecDeque<Act>,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Length, where it is known and stated.
    length: Option<u64>,
}

impl Play {
    /// A whole body of known length.
    pub(super) fn whole(bytes: Bytes) -> Self {
        let length = Some(bytes.len() as u64);
        Self { acts: VecDeque::from([Act::Send(bytes)]), waiting: None, length }
    }

    /// A body that streams.
    pub(super) fn acts(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { acts: acts.into_iter().collect(), waiting: None, length: None }
    }
}

/// The scripted break.
#[derive(Debug, thiserror::Error)]
#[error("the script drops the connection")]
pub(super) struct Dropped;

impl Body for Play {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        let this = self.get_mut();
        loop {
            if let Some(sleep) = &mut this.waiting {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.waiting = None;
            }
            match this.acts.pop_front() {
                None => return Poll::Ready(None),
                Some(Act::Send(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Act::Wait(time)) => this.waiting = Some(Box::pin(sleep(time))),
                Some(Act::Break) => return Poll::Ready(Some(Err(Dropped))),
                Some(Act::Forever) => {
                    // No waker is kept: hyper drops the body when the client goes.
                    this.acts.push_front(Act::Forever);
                    return Poll::Pending;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.acts.is_empty() && self.waiting.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
