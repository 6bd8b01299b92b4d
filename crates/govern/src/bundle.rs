//! The signed bundle of a session.

use std::fs;
use std::path::Path;

use provost_evidence::bundle::{self, BundleContent};
use provost_evidence::keys::SigningKey;

use crate::SessionError;
use crate::folder::{Folder, at, put};
use crate::prepare::Prepared;

pub(crate) fn write(
    to: &Path,
    content: &BundleContent,
    folder: &Folder,
    _prepared: &Prepared,
    key: &SigningKey,
) -> Result<(), SessionError> {
    bundle::write(to, content, key).map_err(|error| SessionError::Internal(error.to_string()))?;
    let session = to.join("session");
    fs::create_dir(&session).map_err(at(&session))?;
    put(&session.join("task.md"), &folder.task()?)
}
