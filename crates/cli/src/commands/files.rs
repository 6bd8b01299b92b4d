//! Files that a person names, read whole and within bounds.

use std::fs::File;
use std::io::{Error, Read};
use std::path::Path;

/// Reads a regular file of at most so many bytes. A pipe or a device could be read for ever.
pub(super) fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    // Looked at before it is opened: opening a pipe waits for whoever writes.
    if !path.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}
