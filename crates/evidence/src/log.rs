//! The journal as a Merkle tree: its root names all of its lines, and short proofs tie a line or an older root to it.
//!
//! The tree is that of RFC 6962, 2.1 (the same in RFC 9162, 2.1): a leaf's hash is SHA-256(0x00 ‖ leaf), an inner node's
//! is SHA-256(0x01 ‖ left ‖ right), and the left part of a tree is the largest full one that leaves something for the
//! right. A leaf is one line of `journal.jsonl` without its line feed.
//!
//! ```
//! use provost_evidence::log::{Log, check_inclusion, leaf_hash, leaves};
//!
//! let log: Log = leaves(b"one\ntwo\nthree\n").collect();
//! let head = log.head_at(3).expect("it has three leaves");
//! let proof = log.inclusion(1, 3).expect("it has that leaf");
//! assert_eq!(check_inclusion(&leaf_hash(b"two"), 1, &head, &proof), Ok(()));
//! assert!(check_inclusion(&leaf_hash(b"2"), 1, &head, &proof).is_err());
//! ```

use serde::{Deserialize, Serialize};

use provost_core::digest::Digest;

use crate::canonical::{sha256, sha256_of};

/// What names a whole log: how many leaves it has, and the root over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogHead {
    /// Number of leaves.
    pub size: u64,
    /// Root of the tree; SHA-256 of nothing while it is empty.
    pub root: Digest,
}

/// Why a proof does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadProof {
    /// There is no such leaf, or the older log is the larger one.
    #[error("{asked} is not within a log of {size} leaves")]
    Outside {
        /// The leaf's index, or the older log's size.
        asked: u64,
        /// The log's size.
        size: u64,
    },
    /// More or fewer hashes than the way to the root has.
    #[error("the proof has {hashes} hashes, which is not the length of the way to the root")]
    Length {
        /// How many it has.
        hashes: usize,
    },
    /// It leads to another root.
    #[error("the proof leads to the root {computed}; the log of {size} leaves has {expected}")]
    Root {
        /// The size of the log whose root it is.
        size: u64,
        /// The log's root.
        expected: Digest,
        /// What the proof leads to.
        computed: Digest,
    },
}

/// The hash of a leaf.
pub fn leaf_hash(leaf: &[u8]) -> Digest {
    sha256_of(&[&[0], leaf])
}

fn node_hash(left: &Digest, right: &Digest) -> Digest {
    sha256_of(&[&[1], left.bytes(), right.bytes()])
}

/// The leaves of a journal file: its lines, each without its line feed.
pub fn leaves(journal: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = journal.strip_suffix(b"\n").unwrap_or(journal);
    let lines = (!journal.is_empty()).then(|| whole.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten()
}

/// A tree that only grows. It holds one hash for each full part, so a log of n leaves takes log2(n) of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    /// Roots of the full parts, the largest first: one for each bit that is set in `size`.
    parts: Vec<Digest>,
}

impl Tree {
    /// The tree without a leaf.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: &[u8]) {
        let mut hash = leaf_hash(leaf);
        // Two parts of one size are one of the next size: as a carry goes through the bits of a sum.
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.parts.pop() else { break };
            hash = node_hash(&left, &hash);
        }
        self.parts.push(hash);
        self.size += 1;
    }

    /// Size and root so far.
    pub fn head(&self) -> LogHead {
        let root = self.parts.iter().rev().copied().reduce(|right, left| node_hash(&left, &right));
        LogHead { size: self.size, root: root.unwrap_or_else(|| sha256(b"")) }
    }
}

impl<'a> FromIterator<&'a [u8]> for Tree {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(leaves: I) -> Self {
        let mut tree = Self::new();
        leaves.into_iter().for_each(|leaf| tree.push(leaf));
        tree
    }
}

/// The head of a journal file's log.
pub fn head_of(journal: &[u8]) -> LogHead {
    leaves(journal).collect::<Tree>().head()
}

/// The hashes of all leaves: what proofs are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log(Vec<Digest>);

impl<'a> FromIterator<&'a [u8]> for Log {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(leaves: I) -> Self {
        Self(leaves.into_iter().map(leaf_hash).collect())
    }
}

impl Log {
    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.0.len() as u64
    }

    /// What the head was when the log had `size` leaves; `None` where it never had so many.
    pub fn head_at(&self, size: u64) -> Option<LogHead> {
        Some(LogHead { size, root: root_of(self.first(size)?) })
    }

    /// The proof that the leaf `index` is in the log of the first `size` leaves (RFC 6962, 2.1.1); `None` where it is not.
    pub fn inclusion(&self, index: u64, size: u64) -> Option<Vec<Digest>> {
        let leaves = self.first(size)?;
        let index = usize::try_from(index).ok().filter(|index| *index < leaves.len())?;
        let mut proof = Vec::new();
        path(index, leaves, &mut proof);
        Some(proof)
    }

    /// The proof that the log of the first `new` leaves continues that of the first `old` (RFC 6962, 2.1.2); `None` where
    /// there are no such logs.
    pub fn consistency(&self, old: u64, new: u64) -> Option<Vec<Digest>> {
        let leaves = self.first(new)?;
        let old = usize::try_from(old).ok().filter(|old| *old <= leaves.len())?;
        let mut proof = Vec::new();
        if old > 0 && old < leaves.len() {
            subproof(old, leaves, Known::Yes, &mut proof);
        }
        Some(proof)
    }

    fn first(&self, size: u64) -> Option<&[Digest]> {
        self.0.get(..usize::try_from(size).ok()?)
    }
}

/// Where a tree of so many leaves (two or more) is cut: the largest power of two below it.
fn cut(size: usize) -> usize {
    1 << (size - 1).ilog2()
}

fn root_of(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => sha256(b""),
        [leaf] => *leaf,
        more => {
            let (left, right) = more.split_at(cut(more.len()));
            node_hash(&root_of(left), &root_of(right))
        }
    }
}

fn path(index: usize, leaves: &[Digest], proof: &mut Vec<Digest>) {
    if leaves.len() < 2 {
        return;
    }
    let at = cut(leaves.len());
    let (left, right) = leaves.split_at(at);
    if index < at {
        path(index, left, proof);
        proof.push(root_of(right));
    } else {
        path(index - at, right, proof);
        proof.push(root_of(left));
    }
}

/// Whether the root of the older leaves at hand is the older log's own, which the verifier has.
#[derive(Clone, Copy)]
enum Known {
    Yes,
    No,
}

fn subproof(old: usize, leaves: &[Digest], known: Known, proof: &mut Vec<Digest>) {
    if old == leaves.len() {
        if matches!(known, Known::No) {
            proof.push(root_of(leaves));
        }
        return;
    }
    let at = cut(leaves.len());
    let (left, right) = leaves.split_at(at);
    if old <= at {
        subproof(old, left, known, proof);
        proof.push(root_of(right));
    } else {
        subproof(old - at, right, Known::No, proof);
        proof.push(root_of(left));
    }
}

/// Checks that the leaf with this hash is number `index` (from 0) of the log (RFC 9162, 2.1.3.2).
pub fn check_inclusion(leaf: &Digest, index: u64, log: &LogHead, proof: &[Digest]) -> Result<(), BadProof> {
    if index >= log.size {
        return Err(BadProof::Outside { asked: index, size: log.size });
    }
    let length = BadProof::Length { hashes: proof.len() };
    // Place of the node at hand, and of the last node, on the level at hand.
    let (mut at, mut last) = (index, log.size - 1);
    let mut root = *leaf;
    for hash in proof {
        if last == 0 {
            return Err(length);
        }
        if at & 1 == 1 || at == last {
            root = node_hash(hash, &root);
            // A node without a neighbour on the right goes up as it is.
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            root = node_hash(&root, hash);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    if last != 0 {
        return Err(length);
    }
    leads_to(log, root)
}

/// Checks that the log `new` begins with the whole of `old` (RFC 9162, 2.1.4.2). Every log continues the empty one.
pub fn check_consistency(old: &LogHead, new: &LogHead, proof: &[Digest]) -> Result<(), BadProof> {
    if old.size > new.size {
        return Err(BadProof::Outside { asked: old.size, size: new.size });
    }
    let length = BadProof::Length { hashes: proof.len() };
    if old.size == 0 {
        leads_to(old, sha256(b""))?;
    }
    if old.size == new.size {
        leads_to(new, old.root)?;
    }
    if old.size == 0 || old.size == new.size {
        return if proof.is_empty() { Ok(()) } else { Err(length) };
    }
    // The older log as one full part: its root is the first hash of the way, and is not sent.
    let (first, rest) = if old.size.is_power_of_two() {
        (&old.root, proof)
    } else {
        proof.split_first().ok_or_else(|| length.clone())?
    };
    let shift = (old.size - 1).trailing_ones();
    let (mut at, mut last) = ((old.size - 1) >> shift, (new.size - 1) >> shift);
    let (mut old_root, mut new_root) = (*first, *first);
    for hash in rest {
        if last == 0 {
            return Err(length);
        }
        if at & 1 == 1 || at == last {
            old_root = node_hash(hash, &old_root);
            new_root = node_hash(hash, &new_root);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            new_root = node_hash(&new_root, hash);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    if last != 0 {
        return Err(length);
    }
    leads_to(old, old_root)?;
    leads_to(new, new_root)
}

fn leads_to(log: &LogHead, computed: Digest) -> Result<(), BadProof> {
    if computed == log.root {
        Ok(())
    } else {
        Err(BadProof::Root { size: log.size, expected: log.root, computed })
    }
}
