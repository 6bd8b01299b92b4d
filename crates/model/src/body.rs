//! The body of a request: pieces that the dialogue keeps, sent without joining them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use sha2::{Digest as _, Sha256};

use crate::wire::Encode;

/// Bytes in pieces. Its length is exact, so that it is sent with `content-length`: many servers refuse a chunked
/// request.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl RequestBody {
    /// The request of a dialogue as it is now. Made again for each attempt; only what does not fill a piece is copied.
    pub(crate) fn of(encoder: &dyn Encode, max_output: u64) -> Self {
        let prefix = encoder.prefix();
        let mut end = prefix.open().to_vec();
        encoder.tail(max_output, &mut end);
        let pieces: VecDeque<Bytes> = prefix.full().iter().cloned().chain([end.into()]).collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, left }
    }
}

impl RequestBody {
    /// The SHA-256 of all of it, hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        self.pieces.iter().for_each(|piece| hash.update(piece));
        provost_core::digest::Digest::new(hash.finalize().into()).to_string()
    }

    /// One text.
    pub(crate) fn whole(text: String) -> Self {
        let left = text.len() as u64;
        Self { pieces: VecDeque::from([text.into()]), left }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = this.pieces.pop_front();
        this.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
