//! What went wrong, said for the person who reads it, with the exit code it ends in.

use std::fmt::Display;
use std::io::Write as _;

use provost::agent::{ExportError, RunError};
use provost::core::text::{Lines, visible};

/// A failure with its exit code and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Wrong use: exit 2.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { code: 2, message: message.to_string(), hint: None }
    }

    /// A bug or a broken machine: exit 70.
    pub(crate) fn internal(message: impl Display) -> Self {
        Self { code: 70, message: message.to_string(), hint: None }
    }

    /// Evidence that did not verify: exit 8.
    pub(crate) fn evidence(message: impl Display) -> Self {
        Self { code: 8, message: message.to_string(), hint: None }
    }

    /// Something that ends in an exit code of its own.
    pub(crate) fn coded(code: u8, message: impl Display) -> Self {
        Self { code, message: message.to_string(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The same about work that is done: whatever failed since, the order was no wrong use.
    pub(crate) fn of_work_done(mut self) -> Self {
        if self.code == 2 {
            self.code = 70;
        }
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn print(&self) {
        // A terminal that is gone is no reason to panic.
        let mut err = std::io::stderr().lock();
        // Names of files and words of vendors stand in it.
        let _ = writeln!(err, "error: {}", visible(&self.message, Lines::Keep));
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "hint: {}", visible(hint, Lines::Keep));
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self { code: error.exit_code(), message: error.to_string(), hint: None }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        Self { code: error.exit_code(), message: error.to_string(), hint: None }
    }
}

impl From<provost::journal::StoreError> for Failure {
    fn from(error: provost::journal::StoreError) -> Self {
        RunError::from(error).into()
    }
}

/// Attaches the path to an I/O error.
pub(crate) trait AtPath<T> {
    /// Fails with exit 2, naming the path.
    fn at(self, path: &std::path::Path) -> Result<T, Failure>;
}

impl<T> AtPath<T> for std::io::Result<T> {
    fn at(self, path: &std::path::Path) -> Result<T, Failure> {
        self.map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
    }
}
