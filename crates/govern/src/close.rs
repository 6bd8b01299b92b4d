//! Closing a session: its result is signed once, and its key is destroyed.

use std::fs;
use std::io;
use std::path::Path;

use provost_agent::content;
use provost_evidence::export::{Ordered, seal};
use provost_journal::Store;

use crate::SessionError;
use crate::folder::{Folder, Fresh, at, sync};

/// Signs the result of a session whose run is over and destroys the session's key: from here on its journal can be
/// neither extended nor told anew. Again, and after a crash at any point, it comes to the same bytes.
pub async fn close(store: &dyn Store, folder: &Folder) -> Result<Fresh, SessionError> {
    let result = folder.result();
    if folder.is_closed() {
        return Ok(Fresh::No);
    }
    if !result.is_dir() {
        if !folder.at("session.key").exists() {
            return Err(SessionError::KeyGone(folder.session().clone()));
        }
        let key = folder.key()?;
        let new = folder.at("result.new");
        match fs::remove_dir_all(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&new)(error)),
            _ => {}
        }
        let content = content(store, folder.session()).await?;
        let signed =
            folder.authorization()?.ok_or_else(|| SessionError::Unauthorized(folder.session().clone()))?;
        let ordered =
            Ordered { authorization: signed.bytes, signatures: signed.signatures, task: folder.task()? };
        seal(content, ordered, &key)?.write(&new)?;
        fs::rename(&new, &result).map_err(at(&result))?;
        sync(folder.path())?;
    }
    folder.destroy_key()?;
    Ok(Fresh::Yes)
}

/// Copies the signed result of a closed session to `to`, a new or empty folder. Nobody is asked, nothing is signed: it is
/// the same each time.
pub fn give_out(folder: &Folder, to: &Path) -> Result<(), SessionError> {
    if !folder.is_closed() {
        return Err(SessionError::NotOver(folder.session().clone()));
    }
    fs::create_dir_all(to).map_err(at(to))?;
    if fs::read_dir(to).map_err(at(to))?.next().is_some() {
        return Err(SessionError::Refused(format!(
            "`{}` is not empty: a bundle is written to a new or empty folder",
            to.display()
        )));
    }
    let mut open = vec![(folder.result(), to.to_owned())];
    while let Some((from, to)) = open.pop() {
        for entry in fs::read_dir(&from).map_err(at(&from))? {
            let entry = entry.map_err(at(&from))?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type().map_err(at(&from))?.is_dir() {
                fs::create_dir(&to).map_err(at(&to))?;
                open.push((from, to));
            } else {
                fs::copy(&from, &to).map_err(at(&to))?;
            }
        }
    }
    Ok(())
}
