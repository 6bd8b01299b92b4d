//! The bytes of a dialogue, which only grow and which every request shares.

use std::io;

use bytes::Bytes;

/// Bytes of a full piece. Large enough that a long dialogue is a few dozen pieces, small enough that copying one
/// unfinished piece for each request costs nothing.
const PIECE: usize = 64 * 1024;

/// An append-only text in pieces. A full piece is never changed, moved or copied again: a request holds a reference to
/// it. So a dialogue is in memory once, however many requests carry it.
#[derive(Debug, Default)]
pub struct Prefix {
    full: Vec<Bytes>,
    /// What does not fill a piece yet.
    open: Vec<u8>,
}

impl Prefix {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.full.len() * PIECE + self.open.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces that are full, in order.
    pub fn full(&self) -> &[Bytes] {
        &self.full
    }

    /// What follows the full pieces: less than 64 KiB.
    pub fn open(&self) -> &[u8] {
        &self.open
    }

    /// All of it in one piece, for whoever wants to look at it.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        for piece in &self.full {
            out.extend_from_slice(piece);
        }
        out.extend_from_slice(&self.open);
        out
    }

    /// Shows it from byte `from` on, piece by piece.
    pub fn show(&self, from: usize, see: &mut dyn FnMut(&[u8])) {
        let skip = (from / PIECE).min(self.full.len());
        let mut from = from - skip * PIECE;
        for piece in self.full[skip..].iter().map(|piece| &piece[..]).chain([&self.open[..]]) {
            let begin = from.min(piece.len());
            if begin < piece.len() {
                see(&piece[begin..]);
            }
            from -= begin;
        }
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    pub(super) fn extend_from_slice(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.open.capacity() == 0 {
                // All of a piece at once: growing to it by and by would copy it, and leave it with room to spare.
                self.open.reserve_exact(PIECE);
            }
            let (now, rest) = bytes.split_at(bytes.len().min(PIECE - self.open.len()));
            self.open.extend_from_slice(now);
            if self.open.len() == PIECE {
                self.full.push(std::mem::take(&mut self.open).into());
            }
            bytes = rest;
        }
    }
}

/// For the JSON serializer. It never fails.
impl io::Write for Prefix {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
