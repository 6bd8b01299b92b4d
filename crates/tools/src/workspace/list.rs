//! What is in one folder.

use rustix::fs::{AtFlags, OFlags};

use super::walk::names;
use super::{FileError, Kind, Located, Workspace};

/// One name of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name.
    pub name: Vec<u8>,
    /// What it is; a link is itself.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Target of a link.
    pub target: Option<Vec<u8>>,
}

impl Workspace {
    /// What is in the folder found before, names in byte order.
    pub fn list(&self, located: &Located) -> Result<Vec<Item>, FileError> {
        match located.kind {
            Some(Kind::Folder) => {}
            None => return Err(FileError::missing(&located.named)),
            Some(kind) => {
                return Err(FileError::Kind { path: located.named.clone(), kind, wanted: "a folder" });
            }
        }
        let failed = |errno: rustix::io::Errno| FileError::io(&located.named, errno);
        let folder = self.open_real(&located.real, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let mut items = Vec::new();
        for name in names(&folder).map_err(failed)? {
            let Ok(stat) = rustix::fs::statat(&folder, name.bytes.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
            else {
                // Gone since the folder was read.
                continue;
            };
            let target = match name.kind {
                Kind::Link => rustix::fs::readlinkat(&folder, name.bytes.as_slice(), Vec::new()).ok(),
                _ => None,
            };
            items.push(Item {
                kind: Kind::of(&stat),
                size: stat.st_size as u64,
                target: target.map(std::ffi::CString::into_bytes),
                name: name.bytes,
            });
        }
        Ok(items)
    }
}
