//! The command's output in bounded memory: its head, its tail, its length and its digest.

use std::collections::VecDeque;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::record::Captured;
use crate::running::Chunk;

pub(super) struct Capture {
    keep_head: usize,
    keep_tail: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    from: u64,
    total: u64,
    digest: Sha256,
}

impl Capture {
    pub(super) fn new(keep_head: usize, keep_tail: usize) -> Self {
        Self {
            keep_head,
            keep_tail,
            head: Vec::new(),
            tail: VecDeque::new(),
            from: 0,
            total: 0,
            digest: Sha256::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.digest.update(bytes);
        let room = self.keep_head - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep_tail)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.keep_tail);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Whether there is something that was not taken.
    pub(super) fn is_new(&self) -> bool {
        self.total > self.from
    }

    /// What came since the last part was taken.
    pub(super) fn part(&self) -> Chunk {
        let (head, tail) = (self.head.clone(), self.tail.iter().copied().collect());
        Chunk { from: self.from, to: self.total, head, tail }
    }

    /// That part was taken. The next one has as much room again.
    pub(super) fn taken(&mut self) {
        self.from = self.total;
        self.head.clear();
        self.tail.clear();
    }

    pub(super) fn finish(self) -> Captured {
        let mut sha256 = String::with_capacity(64);
        for byte in self.digest.finalize() {
            // Writing to a string does not fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Captured { head: self.head, tail: self.tail.into(), from: self.from, total: self.total, sha256 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(head: usize, tail: usize, pieces: &[&str]) -> Captured {
        let mut capture = Capture::new(head, tail);
        pieces.iter().for_each(|piece| capture.push(piece.as_bytes()));
        capture.finish()
    }

    #[test]
    fn what_fits_is_whole() {
        let kept = capture(4, 4, &["ab", "cd", "ef"]);
        assert_eq!(
            (kept.head.as_slice(), kept.tail.as_slice(), kept.dropped()),
            (&b"abcd"[..], &b"ef"[..], 0)
        );
    }

    #[test]
    fn the_middle_is_dropped_and_counted() {
        for pieces in [&["0123456789"][..], &["0", "12", "345", "6789"], &["01234567", "89"]] {
            let kept = capture(3, 2, pieces);
            assert_eq!((kept.head.as_slice(), kept.tail.as_slice()), (&b"012"[..], &b"89"[..]));
            assert_eq!((kept.total, kept.dropped()), (10, 5));
            assert_eq!(kept.sha256, "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
        }
    }

    #[test]
    fn each_part_has_the_room_of_the_whole_and_goes_on_where_the_last_ended() {
        let mut capture = Capture::new(3, 2);
        assert!(!capture.is_new());
        capture.push(b"01234567");
        let first = capture.part();
        capture.taken();
        assert_eq!((first.from, first.to), (0, 8));
        assert_eq!((first.head.as_slice(), first.tail.as_slice()), (&b"012"[..], &b"67"[..]));
        assert!(!capture.is_new());
        capture.push(b"89ab");
        let second = capture.part();
        capture.taken();
        assert_eq!((second.from, second.to), (8, 12));
        assert_eq!((second.head.as_slice(), second.tail.as_slice()), (&b"89a"[..], &b"b"[..]));
        capture.push(b"c");
        let rest = capture.finish();
        assert_eq!((rest.from, rest.total, rest.dropped()), (12, 13, 0));
        assert_eq!((rest.head.as_slice(), rest.tail.as_slice()), (&b"c"[..], &b""[..]));
    }

    #[test]
    fn nothing_may_be_kept() {
        let kept = capture(0, 0, &["abc"]);
        assert_eq!((kept.head.len(), kept.tail.len(), kept.total), (0, 0, 3));
    }
}
