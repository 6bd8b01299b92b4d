//! Why a file of the workspace cannot be used.

use std::io;
use std::path::PathBuf;

use provost_core::path::{BadPath, RelPath};

use super::Kind;

/// Why a file of the workspace cannot be used. Each names the path.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The text is not a path beneath the workspace.
    #[error(transparent)]
    Path(BadPath),
    /// An absolute path that is not beneath the workspace.
    #[error("`{path}` is outside the workspace; the workspace is `{}`", root.display())]
    Outside {
        /// The path as given.
        path: String,
        /// The workspace.
        root: PathBuf,
    },
    /// A symbolic link leads out of the workspace.
    #[error("`{path}` leaves the workspace: `{link}` is a symbolic link to `{target}`")]
    Leaves {
        /// The path that was asked for.
        path: RelPath,
        /// The link on it that leads out.
        link: RelPath,
        /// Where the link points.
        target: String,
    },
    /// Links that go in circles, or too many of them.
    #[error("`{path}` goes through more than 40 symbolic links, or in a circle")]
    Loop {
        /// The path that was asked for.
        path: RelPath,
    },
    /// Nothing there.
    #[error("there is no `{path}`{}", near_names(near))]
    Missing {
        /// The path that was asked for.
        path: RelPath,
        /// Names that exist and resemble it.
        near: Vec<RelPath>,
    },
    /// Something other than what the operation works on.
    #[error("`{path}` is {kind}, not {wanted}")]
    Kind {
        /// The path.
        path: RelPath,
        /// What it is.
        kind: Kind,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// A part of the path is `.git` to git on another file system.
    #[error(
        "`{path}`: `{name}` is a name that git reads as `.git` on some systems, so nothing is written there; choose \
         another name"
    )]
    GitName {
        /// The path.
        path: RelPath,
        /// The part, characters that cannot be seen written out.
        name: String,
    },
    /// The file is larger than may be read whole.
    #[error(
        "`{path}` has {size} bytes and at most {limit} are read whole: ask for a range with `start_line` and `end_line`"
    )]
    TooLarge {
        /// The path.
        path: RelPath,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused.
    #[error("`{path}`: {source}")]
    Io {
        /// The path.
        path: RelPath,
        /// What the system says.
        source: io::Error,
    },
    /// The workspace itself cannot be opened.
    #[error("the workspace `{}` cannot be opened: {source}", path.display())]
    Root {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl FileError {
    pub(crate) fn io(path: &RelPath, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match source.kind() {
            io::ErrorKind::NotFound => Self::missing(path),
            _ => Self::Io { path: path.clone(), source },
        }
    }

    pub(crate) fn missing(path: &RelPath) -> Self {
        Self::Missing { path: path.clone(), near: Vec::new() }
    }
}

fn near_names(near: &[RelPath]) -> String {
    if near.is_empty() {
        return String::new();
    }
    let names: Vec<String> = near.iter().map(|path| format!("`{path}`")).collect();
    format!("; near that name: {}", names.join(", "))
}
