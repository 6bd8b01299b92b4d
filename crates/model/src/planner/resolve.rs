//! Finding the program that a person named.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// A name was looked for along the search path.
    #[error("there is no program `{}` in PATH", name.display())]
    NotInPath {
        /// The name.
        name: OsString,
    },
    /// A path leads to nothing that can be executed.
    #[error("`{}` {why}", path.display())]
    NotExecutable {
        /// The path, made absolute.
        path: PathBuf,
        /// What is the matter with it.
        why: &'static str,
    },
}

/// Where `program` is: a path from the caller's working directory `cwd` (never from the workspace, whose files the agent
/// writes), a bare name along `path`. Entries of `path` that are not absolute are passed over for the same reason.
///
/// # Errors
///
/// [`NoProgram`] when nothing there can be executed.
pub fn resolve(program: &OsStr, cwd: &Path, path: Option<&OsStr>) -> Result<PathBuf, NoProgram> {
    if program.as_encoded_bytes().contains(&b'/') {
        // Through its components, which leaves `.` out.
        let path: PathBuf = cwd.join(program).components().collect();
        return match why_not(&path) {
            None => Ok(path),
            Some(why) => Err(NoProgram::NotExecutable { path, why }),
        };
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    folders
        .filter(|folder| folder.is_absolute() && !program.is_empty())
        .map(|folder| folder.join(program))
        .find(|candidate| why_not(candidate).is_none())
        .ok_or_else(|| NoProgram::NotInPath { name: program.to_owned() })
}

/// Why a path cannot be executed; `None` when it can, as far as its mode says.
fn why_not(path: &Path) -> Option<&'static str> {
    match path.metadata() {
        Err(_) => Some("does not exist or cannot be reached"),
        Ok(found) if !found.is_file() => Some("is not a file"),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            Some("is not executable (chmod +x makes it so)")
        }
        Ok(_) => None,
    }
}
