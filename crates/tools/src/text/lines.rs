//! Lines and their endings, byte order marks, and what a content is if it is not text.

/// UTF-8's byte order mark.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// One line: its bytes, and its ending (empty for a last line that has none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) ending: &'a [u8],
}

/// The lines of a content. A trailing line feed ends the last line and does not begin another.
pub(crate) fn split(content: &[u8]) -> Vec<Line<'_>> {
    content.split_inclusive(|byte| *byte == b'\n').map(line).collect()
}

fn line(raw: &[u8]) -> Line<'_> {
    let ending = if raw.ends_with(b"\r\n") { 2 } else { usize::from(raw.ends_with(b"\n")) };
    let (body, ending) = raw.split_at(raw.len() - ending);
    Line { body, ending }
}

/// The content without a byte order mark at its front.
pub(crate) fn without_bom(content: &[u8]) -> &[u8] {
    content.strip_prefix(BOM).unwrap_or(content)
}

/// How many lines end which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Endings {
    pub(crate) lf: usize,
    pub(crate) crlf: usize,
}

impl Endings {
    pub(crate) fn of(content: &[u8]) -> Self {
        let mut out = Self::default();
        let mut before = 0;
        for &byte in content {
            if byte == b'\n' {
                if before == b'\r' {
                    out.crlf += 1;
                } else {
                    out.lf += 1;
                }
            }
            before = byte;
        }
        out
    }

    /// The ending that most lines have; a line feed where there is nothing to go by.
    pub(crate) fn dominant(self) -> &'static [u8] {
        if self.crlf > self.lf { b"\r\n" } else { b"\n" }
    }
}

/// Why a content is not text, in words that follow the file's name.
pub(crate) fn not_text(content: &[u8]) -> Option<String> {
    match content {
        [0xff, 0xfe, ..] => {
            return Some("is UTF-16 text (little endian): convert it to UTF-8 first".to_owned());
        }
        [0xfe, 0xff, ..] => return Some("is UTF-16 text (big endian): convert it to UTF-8 first".to_owned()),
        _ => {}
    }
    if let Some(at) = content.iter().position(|byte| *byte == 0) {
        return Some(format!("is binary: {} bytes, with a NUL byte at offset {at}", content.len()));
    }
    let bad = std::str::from_utf8(content).err()?.valid_up_to();
    let line = memchr::memchr_iter(b'\n', &content[..bad]).count() + 1;
    Some(format!(
        "is not valid UTF-8: byte 0x{:02x} at offset {bad} (line {line}); it may be text in another encoding. \
         `edit_file` can change its ASCII parts and leaves all other bytes as they are",
        content[bad]
    ))
}
