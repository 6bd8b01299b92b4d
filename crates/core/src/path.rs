//! Paths beneath a workspace.

use std::ffi::OsString;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize, Serializer};

/// A path relative to the workspace root, `/`-separated, without `.`, `..` or empty parts. The root itself is `.`.
///
/// Names on Linux are bytes. In this text form a byte that is not valid UTF-8 is written `\xNN` and a backslash `\\`,
/// so that every name has exactly one spelling and events stay JSON. This is a name, not a proof: what a path leads to
/// is decided by the kernel when it is opened beneath the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct RelPath(String);

/// Why a text is not a path beneath the workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// Empty text.
    #[error("the path is empty; `.` names the workspace itself")]
    Empty,
    /// Starts with `/`.
    #[error("`{0}` is absolute; give the path from the workspace root")]
    Absolute(String),
    /// Has a `..` part.
    #[error("`{0}` contains `..`; give the path from the workspace root, without `..`")]
    Parent(String),
    /// Has a NUL byte.
    #[error("the path contains a NUL byte")]
    Nul,
    /// The escaped form is not one that this type writes.
    #[error("`{0}` is not an escaped path: a backslash begins `\\\\` or `\\xNN`")]
    Escape(String),
}

impl RelPath {
    /// The workspace root.
    pub fn root() -> Self {
        Self(".".to_owned())
    }

    /// Reads a path as a person or a model writes it (a backslash is an ordinary character).
    ///
    /// ```
    /// use provost_core::path::RelPath;
    /// assert_eq!(RelPath::parse("./src//lib.rs").unwrap().as_str(), "src/lib.rs");
    /// assert!(RelPath::parse("../x").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        Self::from_bytes(text.as_bytes())
    }

    /// Reads a path as the system has it.
    pub fn from_bytes(raw: &[u8]) -> Result<Self, BadPath> {
        let shown = || String::from_utf8_lossy(raw).into_owned();
        if raw.is_empty() {
            return Err(BadPath::Empty);
        }
        if raw.contains(&0) {
            return Err(BadPath::Nul);
        }
        if raw[0] == b'/' {
            return Err(BadPath::Absolute(shown()));
        }
        let mut out = String::with_capacity(raw.len());
        for part in raw.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(BadPath::Parent(shown())),
                name => {
                    if !out.is_empty() {
                        out.push('/');
                    }
                    escape(name, &mut out);
                }
            }
        }
        Ok(if out.is_empty() { Self::root() } else { Self(out) })
    }

    /// The path beneath `self` named `name`, one part or several.
    pub fn join(&self, name: &[u8]) -> Result<Self, BadPath> {
        if self.is_root() || name.is_empty() || name[0] == b'/' {
            return Self::from_bytes(name);
        }
        let mut raw = self.to_bytes();
        raw.push(b'/');
        raw.extend_from_slice(name);
        Self::from_bytes(&raw)
    }

    /// Whether this is the root itself.
    pub fn is_root(&self) -> bool {
        self.0 == "."
    }

    /// The escaped text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name's bytes as the system has them.
    pub fn to_bytes(&self) -> Vec<u8> {
        unescape(&self.0).unwrap_or_else(|| self.0.clone().into_bytes())
    }

    /// The name as the system has it.
    #[cfg(unix)]
    pub fn to_os(&self) -> OsString {
        use std::os::unix::ffi::OsStringExt;
        OsString::from_vec(self.to_bytes())
    }

    /// This path and each folder above it, nearest first, the root left out.
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        let mut rest = if self.is_root() { None } else { Some(self.0.as_str()) };
        std::iter::from_fn(move || {
            let here = rest?;
            rest = here.rfind('/').map(|cut| &here[..cut]);
            Some(here)
        })
    }

    /// Last part of the name.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

fn escape(name: &[u8], out: &mut String) {
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' {
                out.push_str("\\\\");
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next()? {
            b'\\' => out.push(b'\\'),
            b'x' => {
                let (high, low) = (char::from(bytes.next()?), char::from(bytes.next()?));
                out.push((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8);
            }
            _ => return None,
        }
    }
    Some(out)
}

impl TryFrom<String> for RelPath {
    type Error = BadPath;
    /// Reads the escaped text form and refuses every other spelling of the same name.
    fn try_from(text: String) -> Result<Self, BadPath> {
        let names = |part: &str| !matches!(part, "" | "." | "..");
        if !text.contains(['\\', '\0']) && text.split('/').all(names) {
            return Ok(Self(text));
        }
        let raw = unescape(&text).ok_or_else(|| BadPath::Escape(text.clone()))?;
        let path = Self::from_bytes(&raw)?;
        if path.0 == text { Ok(path) } else { Err(BadPath::Escape(text)) }
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl From<RelPath> for String {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
