//! Whether copies share their blocks with what they are copies of.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether a file of `from`'s file system can be cloned into `folder`, by doing it with files of the folder's own.
pub(crate) fn shares(from: &Path, folder: &Path) -> bool {
    let same = || -> io::Result<bool> { Ok(from.metadata()?.dev() == folder.metadata()?.dev()) };
    same().unwrap_or(false) && clones(folder).unwrap_or(false)
}

fn clones(folder: &Path) -> io::Result<bool> {
    let (one, other) = (folder.join(".provost-one"), folder.join(".provost-other"));
    let tried = (|| {
        let mut file = File::create_new(&one)?;
        file.write_all(&[1; 4096])?;
        Ok(rustix::fs::ioctl_ficlone(File::create_new(&other)?, &file).is_ok())
    })();
    for path in [one, other] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    tried
}
