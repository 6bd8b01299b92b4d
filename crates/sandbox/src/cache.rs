//! The probe's result, kept from one process to the next in the user's cache folder.
//!
//! It is trusted only in the surroundings that it was made in, and only from a file and a folder that nobody else could
//! have written. A rung that a self-test found wanting stays so for this program on this kernel, across restarts, until
//! a self-test finds it sound.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use provost_core::containment::{Engine, Rung};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::probe::{Disabled, Probe};
use crate::surroundings::Surroundings;

/// Whether a result of an earlier process will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It will, where nothing has changed.
    Cached,
    /// It will not.
    Fresh,
}

/// Where a probe came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Its operations were performed now.
    Performed,
    /// They were performed by an earlier process in the same surroundings.
    Cached,
    /// They were performed now, because what was kept is not to be trusted.
    NotTrusted {
        /// Why not.
        why: String,
    },
}

/// A folder that keeps probes, private to its owner.
#[derive(Debug, Clone)]
pub struct ProbeCache {
    folder: PathBuf,
}

/// What the file holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    surroundings: Surroundings,
    probe: Probe,
}

const FILE: &str = "probe.json";
/// Far more than any probe is.
const LARGEST: u64 = 1 << 20;

/// Why nothing that is kept can be used.
enum Unusable {
    /// There is nothing.
    Absent,
    /// Somebody else could have written it, or it is none.
    NotTrusted(String),
}

impl ProbeCache {
    /// A cache in this folder, which is made when something is first kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The file that it keeps.
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// What this host can enforce: as kept, or performed now and kept. That it could not be kept is no error: it is
    /// performed again.
    pub fn probe(&self, freshness: Freshness) -> (Probe, Origin) {
        let here = Surroundings::look();
        let (kept, origin) = match self.read() {
            Ok(kept) => (Some(kept), Origin::Performed),
            Err(Unusable::Absent) => (None, Origin::Performed),
            Err(Unusable::NotTrusted(why)) => (None, Origin::NotTrusted { why }),
        };
        if let Some(kept) = &kept
            && kept.surroundings == here
            && freshness == Freshness::Cached
        {
            // The strongest rung is settled again: it follows from the rest.
            let disabled = kept.probe.disabled.clone();
            return (kept.probe.clone().with_disabled(disabled), Origin::Cached);
        }
        let disabled = kept
            .filter(|kept| kept.surroundings.has_program_and_kernel_of(&here))
            .map_or(Vec::new(), |kept| kept.probe.disabled);
        let probe = Probe::run().with_disabled(disabled);
        let _ = self.write(&Kept { surroundings: here, probe: probe.clone() });
        (probe, origin)
    }

    /// Keeps what a self-test found of a rung, a container engine's or this program's own (`None`): that it is not to be
    /// taken, or (`None`) that it may be.
    ///
    /// # Errors
    ///
    /// It cannot be kept, so that a later process would not know.
    pub fn judge(
        &self,
        probe: &Probe,
        rung: Rung,
        engine: Option<Engine>,
        found: Option<Disabled>,
    ) -> io::Result<Probe> {
        let mut disabled = probe.disabled.clone();
        disabled.retain(|other| !other.is(rung, engine));
        disabled.extend(found);
        let probe = probe.clone().with_disabled(disabled);
        self.write(&Kept { surroundings: Surroundings::look(), probe: probe.clone() })?;
        Ok(probe)
    }

    fn read(&self) -> Result<Kept, Unusable> {
        let folder = self.open_folder()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&folder, FILE, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => Unusable::Absent,
            errno => Unusable::NotTrusted(format!("`{}`: {errno}", self.path().display())),
        })?;
        private(&file, FileType::RegularFile, &self.path())?;
        let mut text = Vec::new();
        File::from(file)
            .take(LARGEST)
            .read_to_end(&mut text)
            .map_err(|error| Unusable::NotTrusted(error.to_string()))?;
        // Of another version of this program, most likely.
        serde_json::from_slice(&text).map_err(|_| Unusable::Absent)
    }

    fn open_folder(&self) -> Result<OwnedFd, Unusable> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder =
            rustix::fs::openat(CWD, &self.folder, flags, Mode::empty()).map_err(|errno| match errno {
                Errno::NOENT => Unusable::Absent,
                errno => Unusable::NotTrusted(format!("`{}`: {errno}", self.folder.display())),
            })?;
        private(&folder, FileType::Directory, &self.folder)?;
        Ok(folder)
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let folder = self.open_folder().map_err(|unusable| match unusable {
            Unusable::Absent => io::Error::from(io::ErrorKind::NotFound),
            Unusable::NotTrusted(why) => io::Error::other(why),
        })?;
        let text = serde_json::to_vec(kept)?;
        let temporary = format!("{FILE}.{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &temporary, flags, Mode::from_raw_mode(0o600))?;
        let written = File::from(file)
            .write_all(&text)
            .and_then(|()| Ok(rustix::fs::renameat(&folder, &temporary, &folder, FILE)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&folder, &temporary, rustix::fs::AtFlags::empty());
        }
        written
    }
}

/// Refuses what anybody but this user could have written.
fn private(fd: &OwnedFd, kind: FileType, path: &Path) -> Result<(), Unusable> {
    let not = |why: &str| Err(Unusable::NotTrusted(format!("`{}` {why}", path.display())));
    let seen = rustix::fs::fstat(fd).map_err(|errno| Unusable::NotTrusted(errno.to_string()))?;
    if FileType::from_raw_mode(seen.st_mode) != kind {
        return not("is not what it should be");
    }
    if seen.st_uid != rustix::process::geteuid().as_raw() {
        return not("belongs to somebody else");
    }
    if seen.st_mode & 0o022 != 0 {
        return not("can be written by others");
    }
    Ok(())
}
