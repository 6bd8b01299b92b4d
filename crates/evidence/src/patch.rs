//! A patch in git's format, the same bytes for the same changes, that plain `git apply` takes.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use provost_core::path::RelPath;

use crate::patch_lines::{Edit, edits, split};
use crate::tree::{BlobOid, Mode, hex};

/// A file at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// What kind of file.
    pub mode: Mode,
    /// Its content; of a symbolic link, its target.
    pub bytes: Vec<u8>,
}

/// One path before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// Where, from the root of the repository.
    pub path: RelPath,
    /// The file before; `None` where there was none.
    pub before: Option<FileVersion>,
    /// The file after; `None` where it is gone.
    pub after: Option<FileVersion>,
}

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// Renders changes as a patch that `git apply` and `git apply --index` accept. It is reversible with `-R`, except for
/// what git 2.47 does not take back in its own patches either: a file that became a link or a link that became a file,
/// and the mode of a deleted executable.
///
/// The order of `changes` does not matter; a path whose two sides are equal leaves nothing. Lines keep their endings,
/// content with NUL bytes goes as a binary patch. Ids in it are those of git's SHA-1 format: in a repository of the
/// SHA-256 format git takes the text parts but refuses binary ones.
pub fn render(changes: &[FileDiff]) -> Vec<u8> {
    let mut sorted: Vec<(Vec<u8>, &FileDiff)> =
        changes.iter().map(|change| (change.path.to_bytes(), change)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = Vec::new();
    for (path, change) in sorted {
        match (&change.before, &change.after) {
            (None, None) => {}
            // A file that becomes a link or the reverse is a removal and a creation: git has no other word for it.
            (Some(before), Some(after))
                if (before.mode == Mode::Symlink) != (after.mode == Mode::Symlink) =>
            {
                file(&mut out, &path, Some(before), None);
                file(&mut out, &path, None, Some(after));
            }
            (before, after) if before == after => {}
            (before, after) => file(&mut out, &path, before.as_ref(), after.as_ref()),
        }
    }
    out
}

fn file(out: &mut Vec<u8>, path: &[u8], before: Option<&FileVersion>, after: Option<&FileVersion>) {
    let (old_name, new_name) = (quoted(b"a/", path), quoted(b"b/", path));
    line(out, &[b"diff --git ", &old_name, b" ", &new_name]);
    let mut index_mode = "";
    match (before, after) {
        (None, Some(after)) => line(out, &[b"new file mode ", after.mode.as_str().as_bytes()]),
        (Some(before), None) => line(out, &[b"deleted file mode ", before.mode.as_str().as_bytes()]),
        (Some(before), Some(after)) if before.mode != after.mode => {
            line(out, &[b"old mode ", before.mode.as_str().as_bytes()]);
            line(out, &[b"new mode ", after.mode.as_str().as_bytes()]);
        }
        (Some(before), Some(_)) => index_mode = before.mode.as_str(),
        (None, None) => return,
    }
    let content =
        |version: Option<&FileVersion>| version.map(|version| version.bytes.clone()).unwrap_or_default();
    let (old, new) = (content(before), content(after));
    if before.is_some() && after.is_some() && old == new {
        return;
    }
    let oid = |version: Option<&FileVersion>| {
        version.map_or_else(|| "0".repeat(40), |version| hex(&BlobOid::of(&version.bytes).sha1))
    };
    let (space, mode) = if index_mode.is_empty() { ("", "") } else { (" ", index_mode) };
    line(out, &[format!("index {}..{}{space}{mode}", oid(before), oid(after)).as_bytes()]);
    if old.contains(&0) || new.contains(&0) {
        line(out, &[b"GIT binary patch"]);
        literal(out, &new);
        // The second part is what makes `git apply -R` work.
        literal(out, &old);
    } else if old != new {
        name_line(out, b"--- ", before.map(|_| old_name));
        name_line(out, b"+++ ", after.map(|_| new_name));
        hunks(out, &old, &new);
    }
}

fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
    out.push(b'\n');
}

fn name_line(out: &mut Vec<u8>, mark: &[u8], name: Option<Vec<u8>>) {
    match name {
        None => line(out, &[mark, b"/dev/null"]),
        // Git ends a name with a tab where a reader could take its spaces for the beginning of a date.
        Some(name) if name.contains(&b' ') && name[0] != b'"' => line(out, &[mark, &name, b"\t"]),
        Some(name) => line(out, &[mark, &name]),
    }
}

/// A name as git writes it: in quotes with C escapes where it holds a quote, a backslash, a control character or a
/// byte beyond ASCII.
fn quoted(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    let special = |byte: u8| !(b' '..0x7f).contains(&byte) || byte == b'"' || byte == b'\\';
    let mut out = Vec::with_capacity(path.len() + 4);
    if !path.iter().copied().any(special) {
        out.extend_from_slice(prefix);
        out.extend_from_slice(path);
        return out;
    }
    out.push(b'"');
    out.extend_from_slice(prefix);
    for &byte in path {
        let letter = match byte {
            0x07 => b'a',
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0b => b'v',
            0x0c => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => byte,
            _ if special(byte) => {
                out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
    out.push(b'"');
    out
}

fn hunks(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    let (old, new) = (split(old), split(new));
    let edits = edits(&old, &new);
    let mut rest = edits.as_slice();
    while let Some(first) = rest.first() {
        // Changes whose context would touch or overlap share a hunk.
        let count =
            1 + rest.windows(2).take_while(|pair| pair[1].old.start - pair[0].old.end <= 2 * CONTEXT).count();
        let (group, later) = rest.split_at(count);
        rest = later;
        let last = group.last().unwrap_or(first);
        let before = first.old.start.min(CONTEXT);
        let after = (old.len() - last.old.end).min(CONTEXT);
        let (old_start, new_start) = (first.old.start - before, first.new.start - before);
        let (old_end, new_end) = (last.old.end + after, last.new.end + after);
        let range = |start: usize, end: usize| match end - start {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            lines => format!("{},{lines}", start + 1),
        };
        line(
            out,
            &[format!("@@ -{} +{} @@", range(old_start, old_end), range(new_start, new_end)).as_bytes()],
        );
        let mut at = old_start;
        for Edit { old: gone, new: come } in group {
            old[at..gone.start].iter().for_each(|text| body_line(out, b' ', text));
            old[gone.clone()].iter().for_each(|text| body_line(out, b'-', text));
            new[come.clone()].iter().for_each(|text| body_line(out, b'+', text));
            at = gone.end;
        }
        old[at..old_end].iter().for_each(|text| body_line(out, b' ', text));
    }
}

fn body_line(out: &mut Vec<u8>, mark: u8, text: &[u8]) {
    out.push(mark);
    out.extend_from_slice(text);
    if !text.ends_with(b"\n") {
        out.extend_from_slice(b"\n\\ No newline at end of file\n");
    }
}

const BASE85: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// One side of a binary patch: the content, deflated, in git's base 85, 52 bytes a line.
fn literal(out: &mut Vec<u8>, content: &[u8]) {
    line(out, &[format!("literal {}", content.len()).as_bytes()]);
    for chunk in deflate(content).chunks(52) {
        let length = chunk.len() as u8;
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
        for four in chunk.chunks(4) {
            let mut word = [0; 4];
            word[..four.len()].copy_from_slice(four);
            let mut number = u32::from_be_bytes(word);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = BASE85[(number % 85) as usize];
                number /= 85;
            }
            out.extend_from_slice(&digits);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}
