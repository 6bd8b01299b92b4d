//! Unified diffs, as `diff -u` and `git diff` print them and as models write them.

use super::parse::{Action, BadPatch, Hunk, HunkLine, LineKind, Section, bad_line, lines};
use crate::workspace::FileMode;

/// Reads all file sections. Text before the first one is passed over, as `git apply` and `patch` do.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, BadPatch> {
    let lines = lines(text);
    let mut reader = Reader { lines: &lines, at: 0 };
    let mut sections = Vec::new();
    while reader.at < lines.len() {
        if reader.here().starts_with("diff --git ") {
            sections.push(reader.git()?);
        } else if reader.is_header() {
            sections.push(reader.plain()?);
        } else if reader.here().starts_with("@@ -") {
            return Err(bad_line(reader.at + 1, "a hunk before any `---` and `+++` line", reader.here()));
        } else if !sections.is_empty() && !reader.here().trim().is_empty() && reader.here() != "-- " {
            return Err(bad_line(
                reader.at + 1,
                "neither a hunk nor the next file begins here",
                reader.here(),
            ));
        } else if reader.here() == "-- " && !sections.is_empty() {
            // The signature that ends `git format-patch`.
            break;
        } else {
            reader.at += 1;
        }
    }
    Ok(sections)
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
}

/// What git's extended header says.
#[derive(Default)]
struct Header {
    old_mode: Option<String>,
    new_mode: Option<String>,
    created: bool,
    deleted: bool,
    from: Option<String>,
    to: Option<String>,
}

impl<'a> Reader<'a> {
    fn here(&self) -> &'a str {
        self.lines.get(self.at).copied().unwrap_or("")
    }

    fn is_header(&self) -> bool {
        let next = self.lines.get(self.at + 1).is_some_and(|line| line.starts_with("+++ "));
        self.here().starts_with("--- ") && next
    }

    fn git(&mut self) -> Result<Section, BadPatch> {
        let begin = self.at;
        let title = &self.here()["diff --git ".len()..];
        self.at += 1;
        let mut header = Header::default();
        while self.at < self.lines.len() {
            let line = self.here();
            let after = |prefix: &str| line.strip_prefix(prefix);
            if let Some(mode) = after("old mode ") {
                header.old_mode = Some(mode.trim().to_owned());
            } else if let Some(mode) = after("new mode ") {
                header.new_mode = Some(mode.trim().to_owned());
            } else if let Some(mode) = after("new file mode ") {
                header.created = true;
                header.new_mode = Some(mode.trim().to_owned());
            } else if after("deleted file mode ").is_some() {
                header.deleted = true;
            } else if let Some(path) = after("rename from ") {
                header.from = Some(self.path(path, "")?);
            } else if let Some(path) = after("rename to ") {
                header.to = Some(self.path(path, "")?);
            } else if after("copy from ").is_some() || after("copy to ").is_some() {
                return Err(bad_line(self.at + 1, "copies are not supported; create the file instead", line));
            } else if after("GIT binary patch").is_some() || (after("Binary files ").is_some()) {
                return Err(bad_line(self.at + 1, "binary changes cannot be applied", line));
            } else if after("index ").is_none()
                && after("similarity ").is_none()
                && after("dissimilarity ").is_none()
            {
                break;
            }
            self.at += 1;
        }
        let mode = match &header.new_mode {
            Some(mode) => Some(Self::mode(mode, begin)?),
            None => None,
        };
        let (mut old, mut new) = match (&header.from, &header.to) {
            (Some(from), Some(to)) => (Some(from.clone()), Some(to.clone())),
            _ => self.title(title, begin)?,
        };
        if self.is_header() {
            (old, new) = self.names()?;
        }
        let hunks = self.hunks()?;
        let renamed = header.from.is_some();
        let (path, action) = match (old, new) {
            (_, Some(path)) if header.created => (path, Action::Create),
            (Some(path), _) if header.deleted => (path, Action::Delete),
            (None, Some(path)) => (path, Action::Create),
            (Some(path), None) => (path, Action::Delete),
            (Some(old), Some(new)) if renamed || old != new => (old, Action::Update { to: Some(new) }),
            (Some(path), Some(_)) => (path, Action::Update { to: None }),
            (None, None) => return Err(bad_line(begin + 1, "both names are /dev/null", self.lines[begin])),
        };
        if hunks.is_empty() && mode.is_none() && !renamed && action == (Action::Update { to: None }) {
            return Err(bad_line(begin + 1, "a file without any change", self.lines[begin]));
        }
        Ok(Section { path, action, mode, hunks })
    }

    fn plain(&mut self) -> Result<Section, BadPatch> {
        let begin = self.at;
        let (path, action) = match self.names()? {
            (None, Some(path)) => (path, Action::Create),
            (Some(path), None) => (path, Action::Delete),
            (Some(old), Some(new)) if old == new => (old, Action::Update { to: None }),
            // `diff -u lib.rs.orig lib.rs`: the new name is the file's.
            (Some(_), Some(new)) => (new, Action::Update { to: None }),
            (None, None) => return Err(bad_line(begin + 1, "both names are /dev/null", self.lines[begin])),
        };
        let hunks = self.hunks()?;
        if hunks.is_empty() {
            return Err(bad_line(begin + 1, "a file without any hunk", self.lines[begin]));
        }
        Ok(Section { path, action, mode: None, hunks })
    }

    fn mode(text: &str, line: usize) -> Result<FileMode, BadPatch> {
        match FileMode::from_git(text) {
            Some(FileMode::Link) => Err(bad_line(line + 1, "symbolic links cannot be made by a patch", text)),
            Some(mode) => Ok(mode),
            None => Err(bad_line(line + 1, "not a file mode of git", text)),
        }
    }

    /// The two names after `---` and `+++`.
    fn names(&mut self) -> Result<(Option<String>, Option<String>), BadPatch> {
        let old = self.name("--- ", "a/")?;
        self.at += 1;
        let new = self.name("+++ ", "b/")?;
        self.at += 1;
        Ok((old, new))
    }

    fn name(&self, marker: &str, prefix: &str) -> Result<Option<String>, BadPatch> {
        let text = self.here().strip_prefix(marker).unwrap_or("");
        // A time may follow the name, after a tab.
        let text = if text.starts_with('"') { text } else { text.split('\t').next().unwrap_or(text) };
        let text = text.trim_end();
        if text == "/dev/null" {
            return Ok(None);
        }
        self.path(text, prefix).map(Some)
    }

    /// The names in `diff --git a/x b/x`, used where no `---` follows (a change of mode, an empty file).
    fn title(&self, title: &str, line: usize) -> Result<(Option<String>, Option<String>), BadPatch> {
        let bad = || bad_line(line + 1, "the two names cannot be told apart", title);
        let (old, new) = if let Some(quoted) = title.strip_prefix('"') {
            let end = quoted.find("\" ").ok_or_else(bad)? + 2;
            (&title[..end], &title[end + 1..])
        } else {
            // Without a rename both are the same name, so the middle is where it repeats.
            let middle = title.len() / 2;
            let halves =
                title.split_at_checked(middle).and_then(|(old, rest)| Some((old, rest.strip_prefix(' ')?)));
            let same = |old: &str, new: &str| {
                old.strip_prefix("a/").unwrap_or(old) == new.strip_prefix("b/").unwrap_or(new)
            };
            match halves.filter(|(old, new)| same(old, new)) {
                Some(halves) => halves,
                None => title.split_once(' ').filter(|(_, new)| !new.contains(' ')).ok_or_else(bad)?,
            }
        };
        Ok((Some(self.path(old, "a/")?), Some(self.path(new, "b/")?)))
    }

    fn path(&self, text: &str, prefix: &str) -> Result<String, BadPatch> {
        let text = text.trim_end();
        let raw = match text.strip_prefix('"') {
            Some(quoted) => {
                unquote(quoted).ok_or_else(|| bad_line(self.at + 1, "not a quoted name", text))?
            }
            None => text.to_owned(),
        };
        let bare = raw.strip_prefix(prefix).unwrap_or(&raw);
        if bare.is_empty() {
            return Err(bad_line(self.at + 1, "no file name", self.here()));
        }
        Ok(bare.to_owned())
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, BadPatch> {
        let mut hunks = Vec::new();
        while self.here().starts_with("@@") {
            hunks.push(self.hunk()?);
            // Blank lines between hunks and at the end are nobody's.
            let blanks = self.lines[self.at..].iter().take_while(|line| line.trim().is_empty()).count();
            let next = self.lines.get(self.at + blanks);
            if blanks > 0
                && next.is_none_or(|line| {
                    line.starts_with("@@") || line.starts_with("diff ") || line.starts_with("--- ")
                })
            {
                self.at += blanks;
            }
        }
        Ok(hunks)
    }

    /// One hunk. Its lines are taken by the numbers in its head if these fit; models often miscount, so otherwise by
    /// what the lines begin with. Nothing is placed by these numbers alone either way.
    fn hunk(&mut self) -> Result<Hunk, BadPatch> {
        let begin = self.at;
        let head = head(self.here());
        self.at += 1;
        let mut hunk =
            Hunk { hint: head.map(|head| head.start).filter(|start| *start > 0), ..Hunk::default() };
        if let Some(head) = head {
            let from = self.at;
            if self.counted(head, &mut hunk) {
                return Ok(hunk);
            }
            self.at = from;
            hunk.lines.clear();
        }
        while self.at < self.lines.len() {
            let line = self.here();
            if line.starts_with("@@") || line.starts_with("diff --git ") || self.is_header() {
                break;
            }
            if !push(&mut hunk, line) {
                // A blank line, or the start of something else: the caller says what is wrong with it.
                break;
            }
            self.at += 1;
        }
        // Blank lines at the end were read as unchanged empty lines and are rather the patch's own.
        while hunk.lines.last().is_some_and(|line| line.kind == LineKind::Keep && line.body.is_empty())
            && self.lines[self.at - 1].is_empty()
        {
            hunk.lines.pop();
            self.at -= 1;
        }
        if hunk.lines.is_empty() {
            return Err(bad_line(begin + 1, "a hunk without lines", self.lines[begin]));
        }
        Ok(hunk)
    }

    /// Takes as many lines as the head says; false if they do not fit it.
    fn counted(&mut self, head: Head, hunk: &mut Hunk) -> bool {
        let (mut old, mut new) = (head.old, head.new);
        while old > 0 || new > 0 {
            if self.at >= self.lines.len() || !push(hunk, self.here()) {
                return false;
            }
            self.at += 1;
            let Some(line) = hunk.lines.last() else { return false };
            let (takes_old, takes_new) = match line.kind {
                LineKind::Keep => (1, 1),
                LineKind::Remove => (1, 0),
                LineKind::Add => (0, 1),
            };
            // The mark that a line has no newline adds no line; it is read where it stands.
            if self.lines[self.at - 1].starts_with('\\') {
                continue;
            }
            if takes_old > old || takes_new > new {
                return false;
            }
            old -= takes_old;
            new -= takes_new;
        }
        while self.here().starts_with('\\') {
            push(hunk, self.here());
            self.at += 1;
        }
        let end = self.here();
        let over = self.at >= self.lines.len()
            || end.trim().is_empty()
            || end.starts_with("@@")
            || end.starts_with("diff ");
        over || end == "-- " || self.is_header()
    }
}

/// Adds a line of the patch to a hunk; false if it is not one.
fn push(hunk: &mut Hunk, line: &str) -> bool {
    let kind = match line.as_bytes().first() {
        // Editors and models drop the space of an empty line that is unchanged.
        None | Some(b' ') => LineKind::Keep,
        Some(b'-') => LineKind::Remove,
        Some(b'+') => LineKind::Add,
        Some(b'\\') => {
            if let Some(last) = hunk.lines.last_mut() {
                last.bare = true;
            }
            return !hunk.lines.is_empty();
        }
        Some(b'\r') if line == "\r" => LineKind::Keep,
        _ => return false,
    };
    let body = line.get(1..).unwrap_or("");
    hunk.lines.push(HunkLine {
        kind,
        body: body.strip_suffix('\r').unwrap_or(body).as_bytes().to_vec(),
        bare: false,
    });
    true
}

#[derive(Clone, Copy)]
struct Head {
    start: usize,
    old: usize,
    new: usize,
}

/// `@@ -start,old +start,new @@`.
fn head(line: &str) -> Option<Head> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let pair = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let (start, old) = pair(old)?;
    let (_, new) = pair(new)?;
    Some(Head { start, old, new })
}

/// A name in git's C quoting, its first quote taken off.
fn unquote(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.strip_suffix('"')?.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            high @ b'0'..=b'3' => {
                let digit = |byte: u8| matches!(byte, b'0'..=b'7').then(|| byte - b'0');
                (high - b'0') << 6 | digit(bytes.next()?)? << 3 | digit(bytes.next()?)?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}
