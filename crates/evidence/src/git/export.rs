//! Writing a commit's files out, from objects alone.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

use provost_core::path::RelPath;

use super::{CommitEntry, GitError, ObjectFormat, Repository, io_at};
use crate::tree::{BlobOid, Mode, TreeEntry, hex, tree_digest};

/// The files of a commit that can all be written out, and where its links lead.
pub(super) struct Exportable {
    pub(super) entries: Vec<CommitEntry>,
    links: Vec<(RelPath, Vec<u8>)>,
}

/// Looks at everything that is to be written, and writes nothing.
pub(super) fn exportable(
    repository: &Repository,
    commit: &str,
    scope: &RelPath,
) -> Result<Exportable, GitError> {
    let found = repository.commit_entries(commit, scope)?;
    if let Some(path) = found.submodules.into_iter().next() {
        return Err(GitError::Submodule(path));
    }
    for entry in &found.entries {
        if entry.path.to_bytes().split(|byte| *byte == b'/').any(is_git_folder_name) {
            return Err(GitError::BadName(entry.path.to_string()));
        }
    }
    let links = check_links(repository, &found.entries)?;
    check_tree(repository, &found.tree, &found.entries)?;
    Ok(Exportable { entries: found.entries, links })
}

pub(super) fn export(
    repository: &Repository,
    commit: &str,
    scope: &RelPath,
    into: &Path,
) -> Result<Vec<CommitEntry>, GitError> {
    let Exportable { entries, links } = exportable(repository, commit, scope)?;
    make_empty(into)?;
    let files: Vec<&CommitEntry> = entries.iter().filter(|entry| entry.mode != Mode::Symlink).collect();
    let oids: Vec<String> = files.iter().map(|entry| entry.oid.clone()).collect();
    repository.each_blob(&oids, |place, content| {
        let entry = files[place];
        let path = into.join(entry.path.to_os());
        make_parent(&path)?;
        let mode = if entry.mode == Mode::Executable { 0o755 } else { 0o644 };
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut file| file.write_all(&content))
            .map_err(io_at(&path))
    })?;
    // Links last: nothing is ever written through one.
    for (path, target) in links {
        let path = into.join(path.to_os());
        make_parent(&path)?;
        symlink(std::ffi::OsString::from_vec(target), &path).map_err(io_at(&path))?;
    }
    Ok(entries)
}

fn make_parent(path: &Path) -> Result<(), GitError> {
    path.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(io_at(parent)))
}

fn make_empty(into: &Path) -> Result<(), GitError> {
    DirBuilder::new().recursive(true).mode(0o700).create(into).map_err(io_at(into))?;
    match fs::read_dir(into).map_err(io_at(into))?.next() {
        None => Ok(()),
        Some(_) => Err(GitError::NotEmpty(into.to_owned())),
    }
}

/// Reads all link targets and refuses those that can lead out.
fn check_links(
    repository: &Repository,
    entries: &[CommitEntry],
) -> Result<Vec<(RelPath, Vec<u8>)>, GitError> {
    let links: Vec<&CommitEntry> = entries.iter().filter(|entry| entry.mode == Mode::Symlink).collect();
    let names: HashSet<Vec<u8>> = links.iter().map(|entry| entry.path.to_bytes()).collect();
    let oids: Vec<String> = links.iter().map(|entry| entry.oid.clone()).collect();
    let targets = repository.blobs(&oids)?;
    links
        .into_iter()
        .zip(targets)
        .map(|(entry, target)| {
            if stays_inside(&entry.path.to_bytes(), &target, &names) {
                Ok((entry.path.clone(), target))
            } else {
                let target = String::from_utf8_lossy(&target).into_owned();
                Err(GitError::LinkOut { path: entry.path.clone(), target })
            }
        })
        .collect()
}

/// Whether a link leads to a place inside, for the kernel and not only for its text: `..` behind another link goes up
/// from wherever that one leads, so there it is not allowed.
fn stays_inside(link: &[u8], target: &[u8], links: &HashSet<Vec<u8>>) -> bool {
    if target.is_empty() || target[0] == b'/' || target.contains(&0) {
        return false;
    }
    let mut at: Vec<&[u8]> = link.split(|byte| *byte == b'/').collect();
    at.pop();
    let mut behind_link = false;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                if behind_link || at.pop().is_none() {
                    return false;
                }
            }
            name => {
                at.push(name);
                behind_link |= links.contains(&at.join(&b'/'));
            }
        }
    }
    true
}

/// Computes the folder's tree id from its entries, in the repository's format, and compares.
fn check_tree(repository: &Repository, tree: &str, entries: &[CommitEntry]) -> Result<(), GitError> {
    let ours: Vec<TreeEntry> = entries
        .iter()
        .map(|entry| {
            let mut oid = BlobOid { sha1: [0; 20], sha256: [0; 32] };
            let known = match repository.format {
                ObjectFormat::Sha1 => unhex(&entry.oid, &mut oid.sha1),
                ObjectFormat::Sha256 => unhex(&entry.oid, &mut oid.sha256),
            };
            match known {
                Some(()) => Ok(TreeEntry { path: entry.path.clone(), mode: entry.mode, oid }),
                None => Err(GitError::Altered(entry.oid.clone())),
            }
        })
        .collect::<Result<_, _>>()?;
    let digest = tree_digest(&ours)?;
    let computed = match repository.format {
        ObjectFormat::Sha1 => digest.sha1,
        ObjectFormat::Sha256 => digest.sha256.to_string(),
    };
    if computed == tree { Ok(()) } else { Err(GitError::OddTree(tree.to_owned())) }
}

fn unhex(text: &str, bytes: &mut [u8]) -> Option<()> {
    if text.len() != bytes.len() * 2 {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(())
}

/// The id of a blob in one format.
pub(super) fn oid(format: ObjectFormat, content: &[u8]) -> String {
    let oid = BlobOid::of(content);
    match format {
        ObjectFormat::Sha1 => hex(&oid.sha1),
        ObjectFormat::Sha256 => hex(&oid.sha256),
    }
}

/// Whether one part of a path is `.git`, or is taken for it by some file system: any case, with characters that HFS+
/// ignores, with NTFS's short name, streams, backslashes, trailing dots and spaces.
///
/// ```
/// use provost_evidence::git::is_git_folder_name;
/// assert!(is_git_folder_name(b".Git") && is_git_folder_name(b"GIT~1") && is_git_folder_name(b".git. ."));
/// assert!(!is_git_folder_name(b".github") && !is_git_folder_name(b"git"));
/// ```
pub fn is_git_folder_name(name: &[u8]) -> bool {
    let shown = String::from_utf8_lossy(name);
    let kept: String = shown.chars().filter(|c| !hfs_ignores(*c)).collect();
    kept.split(['\\', ':', '/']).any(|part| {
        let part = part.trim_end_matches(['.', ' ']);
        part.eq_ignore_ascii_case(".git") || part.eq_ignore_ascii_case("git~1")
    })
}

/// As git's own `next_hfs_char`.
fn hfs_ignores(c: char) -> bool {
    matches!(c as u32, 0x200c..=0x200f | 0x202a..=0x202e | 0x206a..=0x206f | 0xfeff)
}
