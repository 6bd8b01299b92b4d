//! Ids of blobs and trees as git computes them, in both of its object formats, without git.

use std::fmt;
use std::str::FromStr;

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use provost_core::digest::{Digest, TreeDigest};
use provost_core::path::RelPath;

/// What kind of file an entry is, as git records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// An ordinary file, `100644`.
    File,
    /// A file that may be executed, `100755`.
    Executable,
    /// A symbolic link whose content is its target, `120000`.
    Symlink,
}

/// The text is not a mode that a workspace file can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a file mode of a workspace: expected 100644, 100755 or 120000")]
pub struct BadMode(String);

impl Mode {
    /// The six octal digits.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
        }
    }
}

impl FromStr for Mode {
    type Err = BadMode;
    fn from_str(text: &str) -> Result<Self, BadMode> {
        [Self::File, Self::Executable, Self::Symlink]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| BadMode(text.chars().take(20).collect()))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The id of some content in both object formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobOid {
    /// Id in the SHA-1 format.
    pub sha1: [u8; 20],
    /// Id in the SHA-256 format.
    pub sha256: [u8; 32],
}

impl BlobOid {
    /// The ids that `git hash-object` gives `content`.
    ///
    /// ```
    /// use provost_evidence::tree::{BlobOid, hex};
    /// assert_eq!(hex(&BlobOid::of(b"").sha1), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    /// ```
    pub fn of(content: &[u8]) -> Self {
        let (sha1, sha256) = object("blob", content, content);
        Self { sha1, sha256 }
    }
}

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Where, from the tree's root.
    pub path: RelPath,
    /// What kind of file.
    pub mode: Mode,
    /// Its content.
    pub oid: BlobOid,
}

/// Entries that cannot stand in one tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTree {
    /// The same path twice.
    #[error("`{0}` stands in the tree twice")]
    Twice(RelPath),
    /// A path that is a file and a folder.
    #[error("`{0}` is both a file and a folder")]
    FileAndFolder(RelPath),
    /// The root as a file.
    #[error("the root of the tree is named as a file")]
    Root,
}

/// The id of the tree that holds exactly `entries`, in any order. Folders are implied by their files.
pub fn tree_digest(entries: &[TreeEntry]) -> Result<TreeDigest, BadTree> {
    let mut files: Vec<(Vec<u8>, &TreeEntry)> =
        entries.iter().map(|entry| (entry.path.to_bytes(), entry)).collect();
    // Git sorts a folder as if its name ended in `/`, which is the order of whole paths by their bytes.
    files.sort_by(|a, b| a.0.cmp(&b.0));
    if let Some(pair) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(BadTree::Twice(pair[0].1.path.clone()));
    }
    for (path, entry) in &files {
        if entry.path.is_root() {
            return Err(BadTree::Root);
        }
        let beneath = [path.as_slice(), b"/"].concat();
        let at = files.partition_point(|(other, _)| *other < beneath);
        if files.get(at).is_some_and(|(other, _)| other.starts_with(&beneath)) {
            return Err(BadTree::FileAndFolder(entry.path.clone()));
        }
    }
    // A stack and no recursion, and no prefix copied or compared twice: a path from a foreign bundle may be as deep as
    // it likes.
    let mut open = vec![Folder::default()];
    let mut last: &[u8] = b"";
    for (path, entry) in &files {
        let shared = path.iter().zip(last).take_while(|(a, b)| a == b).count();
        // A folder's `end` is where its `/` stands in the last path: it stays open if this path shares that `/`.
        while open.len() > 1 && open.last().is_some_and(|top| top.end >= shared) {
            close(&mut open);
        }
        let mut from = open.last().map_or(0, Folder::after);
        while let Some(at) = path[from..].iter().position(|byte| *byte == b'/') {
            open.push(Folder { name: path[from..from + at].to_vec(), end: from + at, ..Folder::default() });
            from += at + 1;
        }
        if let Some(top) = open.last_mut() {
            top.add(entry.mode.as_str(), &path[from..], &entry.oid.sha1, &entry.oid.sha256);
        }
        last = path;
    }
    while open.len() > 1 {
        close(&mut open);
    }
    let (sha1, sha256) = open.first().map(Folder::oid).unwrap_or_default();
    Ok(TreeDigest { sha1: hex(&sha1), sha256: Digest::new(sha256) })
}

/// A folder whose entries are being collected: its tree object in both formats. The root has no name.
#[derive(Default)]
struct Folder {
    name: Vec<u8>,
    /// Length of its path.
    end: usize,
    sha1: Vec<u8>,
    sha256: Vec<u8>,
}

impl Folder {
    fn add(&mut self, mode: &str, name: &[u8], sha1: &[u8], sha256: &[u8]) {
        for (object, oid) in [(&mut self.sha1, sha1), (&mut self.sha256, sha256)] {
            object.extend_from_slice(mode.as_bytes());
            object.push(b' ');
            object.extend_from_slice(name);
            object.push(0);
            object.extend_from_slice(oid);
        }
    }

    /// Where the names of its entries begin in their paths.
    fn after(&self) -> usize {
        if self.name.is_empty() { 0 } else { self.end + 1 }
    }

    fn oid(&self) -> ([u8; 20], [u8; 32]) {
        object("tree", &self.sha1, &self.sha256)
    }
}

/// Adds the innermost folder to the one around it.
fn close(open: &mut Vec<Folder>) {
    let Some(done) = open.pop() else {
        return;
    };
    let (sha1, sha256) = done.oid();
    if let Some(around) = open.last_mut() {
        around.add("40000", &done.name, &sha1, &sha256);
    }
}

fn object(kind: &str, for_sha1: &[u8], for_sha256: &[u8]) -> ([u8; 20], [u8; 32]) {
    let sha1 = Sha1::new().chain_update(format!("{kind} {}\0", for_sha1.len())).chain_update(for_sha1);
    let sha256 =
        Sha256::new().chain_update(format!("{kind} {}\0", for_sha256.len())).chain_update(for_sha256);
    (sha1.finalize().into(), sha256.finalize().into())
}

/// Lower-case hex digits, as git writes ids.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
