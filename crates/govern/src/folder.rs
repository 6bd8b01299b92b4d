//! Where sessions lie on the machine that carries them out: one folder each, for its owner alone.
//!
//! | name | what it is |
//! | --- | --- |
//! | `request.json` | what was asked for |
//! | `task.md` | the task, verbatim |
//! | `session.key` | the session's private key, gone once its result is signed |
//! | `place.json` | where the repository and the store of runs are |
//! | `authorization.json`, `authorization.json.sig` | what an authority signed |
//! | `workspace/` | the committed subtree that is worked on |
//! | `result/` | the bundle, signed |
//!
//! A file is there whole or not at all; a folder comes by its name when it is complete.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use provost_core::id::RunId;
use provost_core::session::Request;
use provost_evidence::canonical::to_canonical;
use provost_evidence::keys::SigningKey;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::SessionError;

/// Largest file of a session that is read, in bytes.
const FILE_LIMIT: u64 = 16 * 1024 * 1024;
/// Most signatures beside an authorization.
const MOST_SIGNATURES: usize = 16;

/// The sessions of one user on one machine.
#[derive(Debug, Clone)]
pub struct Sessions {
    root: PathBuf,
}

/// One session's folder.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    session: RunId,
}

/// Where a session's repository and its store of runs are, on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whereabouts {
    /// Root of the repository.
    pub repository: PathBuf,
    /// The store that the session's run is kept in.
    pub store: PathBuf,
    /// Name of the environment variable that holds the provider's key, where it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// The name by which the runner took the session, where it is not the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
}

/// What an authority gave: the signed file, and signatures that lie beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedFile {
    /// The file.
    pub bytes: Vec<u8>,
    /// SSH signatures over what it says, in their armor.
    pub signatures: Vec<Vec<u8>>,
}

impl SignedFile {
    /// Reads an authorization, and the signatures beside it: `FILE.sig`, `FILE.2.sig`, and so on.
    pub fn read(path: &Path) -> Result<Self, SessionError> {
        let bytes = read(path)?;
        let mut signatures = Vec::new();
        for number in 1..=MOST_SIGNATURES {
            let beside = beside(path, number);
            match read(&beside) {
                Ok(signature) => signatures.push(signature),
                Err(SessionError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Self { bytes, signatures })
    }

    /// Writes both, the authorization last.
    pub fn write(&self, path: &Path) -> Result<(), SessionError> {
        for (number, signature) in (1..).zip(&self.signatures) {
            put(&beside(path, number), signature)?;
        }
        put(path, &self.bytes)
    }
}

fn beside(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(if number == 1 { ".sig".to_owned() } else { format!(".{number}.sig") });
    PathBuf::from(name)
}

impl Sessions {
    /// The sessions in the folder `root`, which need not exist.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Makes a session's folder from its request. The private key never leaves it.
    pub fn create(
        &self,
        request: &Request,
        key: &SigningKey,
        task: &[u8],
        place: &Whereabouts,
    ) -> Result<Folder, SessionError> {
        make(&self.root)?;
        let path = self.root.join(request.session.as_str());
        DirBuilder::new().mode(0o700).create(&path).map_err(at(&path))?;
        let folder = Folder { path, session: request.session.clone() };
        key.write_private(&folder.at("session.key")).map_err(|error| SessionError::Key(error.to_string()))?;
        put(&folder.at("task.md"), task)?;
        put(&folder.at("place.json"), &json(place)?)?;
        // Last: a folder without it is none.
        put(&folder.at("request.json"), &json(request)?)?;
        Ok(folder)
    }

    /// The session whose name begins so.
    pub fn find(&self, name: &str) -> Result<Folder, SessionError> {
        let mut found: Vec<RunId> = self.all()?;
        found.retain(|session| session.as_str().starts_with(name));
        match found.as_slice() {
            [session] => self.open(session),
            [] => Err(SessionError::NoSession { name: name.to_owned(), root: self.root.clone() }),
            _ => match found.iter().find(|session| session.as_str() == name) {
                Some(session) => self.open(session),
                None => Err(SessionError::Ambiguous { name: name.to_owned(), count: found.len() }),
            },
        }
    }

    /// The session of that name.
    pub fn open(&self, session: &RunId) -> Result<Folder, SessionError> {
        let path = self.root.join(session.as_str());
        if !path.join("request.json").is_file() {
            return Err(SessionError::NoSession { name: session.to_string(), root: self.root.clone() });
        }
        Ok(Folder { path, session: session.clone() })
    }

    /// All of them, oldest first.
    pub fn all(&self) -> Result<Vec<RunId>, SessionError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.root)(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(at(&self.root))?;
            let name = entry.file_name();
            if let Some(session) = name.to_str().and_then(|name| name.parse().ok())
                && entry.path().join("request.json").is_file()
            {
                found.push(session);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Notes that the authorization with this digest is used by `session`: it is single use. Again by the same session is
    /// the same use.
    pub fn spend(&self, payload: &str, session: &RunId) -> Result<(), SessionError> {
        make(&self.root)?;
        let path = self.root.join("spent");
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(at(&path))?;
        // Held until the file is closed: of two at once, one comes second.
        flock(&file, FlockOperation::LockExclusive).map_err(|error| at(&path)(error.into()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(at(&path))?;
        let by = text.lines().find_map(|line| line.strip_prefix(payload)?.strip_prefix(' '));
        match by {
            Some(by) if by == session.as_str() => Ok(()),
            Some(by) => Err(SessionError::Spent { by: by.to_owned() }),
            None => {
                let line = format!("{payload} {session}\n");
                file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(at(&path))
            }
        }
    }

    /// Revokes a session, or an authorization by its digest, on this machine. Gives whether it was not revoked before.
    pub fn revoke(&self, what: &str, why: &str) -> Result<Fresh, SessionError> {
        if self.revoked(&[what])?.is_some() {
            return Ok(Fresh::No);
        }
        make(&self.root)?;
        let path = self.root.join("revoked");
        let why = why.replace(['\n', '\r'], " ");
        let mut file =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(at(&path))?;
        file.write_all(format!("{what} {why}\n").as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(at(&path))?;
        Ok(Fresh::Yes)
    }

    /// Why one of these is revoked on this machine; `None` where none is.
    pub fn revoked(&self, names: &[&str]) -> Result<Option<String>, SessionError> {
        let path = self.root.join("revoked");
        let text = match read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(SessionError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(text.lines().find_map(|line| {
            let (name, why) = line.split_once(' ').unwrap_or((line, ""));
            names.contains(&name).then(|| why.to_owned())
        }))
    }
}

/// Whether something is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// It is.
    Yes,
    /// It was so before.
    No,
}

impl Folder {
    /// The session's name.
    pub fn session(&self) -> &RunId {
        &self.session
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The committed subtree that is worked on.
    pub fn workspace(&self) -> PathBuf {
        self.at("workspace")
    }

    /// The signed bundle; there once the session is closed.
    pub fn result(&self) -> PathBuf {
        self.at("result")
    }

    /// Whether the session is closed: its result is signed and its key is gone.
    pub fn is_closed(&self) -> bool {
        self.result().is_dir() && !self.at("session.key").exists()
    }

    /// What was asked for.
    pub fn request(&self) -> Result<Request, SessionError> {
        parse(&self.at("request.json"))
    }

    /// The request's bytes, as an authority gets them.
    pub fn request_bytes(&self) -> Result<Vec<u8>, SessionError> {
        read(&self.at("request.json"))
    }

    /// Where the repository and the store are.
    pub fn whereabouts(&self) -> Result<Whereabouts, SessionError> {
        parse(&self.at("place.json"))
    }

    /// Remembers by which name the runner takes the session.
    pub fn remember_runner(&self, name: &str) -> Result<(), SessionError> {
        let place = Whereabouts { runner: Some(name.to_owned()), ..self.whereabouts()? };
        put(&self.at("place.json"), &json(&place)?)
    }

    /// The task.
    pub fn task(&self) -> Result<Vec<u8>, SessionError> {
        read(&self.at("task.md"))
    }

    /// The session's private key; gone once it is closed.
    pub fn key(&self) -> Result<SigningKey, SessionError> {
        SigningKey::read(&self.at("session.key")).map_err(|error| SessionError::Key(error.to_string()))
    }

    /// What an authority signed; `None` while nobody has.
    pub fn authorization(&self) -> Result<Option<SignedFile>, SessionError> {
        match SignedFile::read(&self.at("authorization.json")) {
            Ok(signed) => Ok(Some(signed)),
            Err(SessionError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes away a session that nobody has signed.
    pub fn discard(self) -> Result<(), SessionError> {
        if self.authorization()?.is_some() {
            return Err(SessionError::Refused(format!("session `{}` is authorized: it stays", self.session)));
        }
        self.destroy_key()?;
        fs::remove_dir_all(&self.path).map_err(at(&self.path))
    }

    pub(crate) fn keep_authorization(&self, signed: &SignedFile) -> Result<(), SessionError> {
        let path = self.at("authorization.json");
        // What lies beside an earlier one is over other bytes.
        for number in signed.signatures.len() + 1..=MOST_SIGNATURES {
            let stale = beside(&path, number);
            match fs::remove_file(&stale) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&stale)(error)),
                _ => {}
            }
        }
        signed.write(&path)
    }

    /// Destroys the private key: what it has signed can be neither extended nor forked from here on.
    pub(crate) fn destroy_key(&self) -> Result<(), SessionError> {
        let path = self.at("session.key");
        match OpenOptions::new().write(true).open(&path) {
            Ok(mut file) => {
                // Where the file system writes in place nothing of it is left; the name goes in any case.
                let length = file.metadata().map_err(at(&path))?.len();
                file.write_all(&vec![0; length as usize])
                    .and_then(|()| file.sync_all())
                    .map_err(at(&path))?;
                fs::remove_file(&path).map_err(at(&path))?;
                sync(&self.path)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(at(&path)(error)),
        }
    }
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> SessionError {
    let path = path.to_owned();
    move |source| SessionError::File { path, source }
}

fn make(folder: &Path) -> Result<(), SessionError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at(folder))
}

pub(crate) fn sync(folder: &Path) -> Result<(), SessionError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

/// Writes a file whole, for its owner alone.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<(), SessionError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    written().map_err(at(path))?;
    match path.parent() {
        None => Ok(()),
        // A bare name lies where we are.
        Some(here) if here.as_os_str().is_empty() => sync(Path::new(".")),
        Some(folder) => sync(folder),
    }
}

/// Reads a regular file of at most 16 MiB. A pipe or a device does not keep us waiting, and a link is not followed.
pub fn read(path: &Path) -> Result<Vec<u8>, SessionError> {
    let mut bytes = Vec::new();
    // A pipe does not keep us waiting, and a link is somebody else's file.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty());
    let file = File::from(opened.map_err(|error| at(path)(error.into()))?);
    if !file.metadata().map_err(at(path))?.is_file() {
        return Err(at(path)(io::Error::other("not a regular file")));
    }
    file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(at(path))?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(at(path)(io::Error::other(format!("larger than {FILE_LIMIT} bytes"))));
    }
    Ok(bytes)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, SessionError> {
    to_canonical(value).map_err(|error| SessionError::Internal(error.to_string()))
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, SessionError> {
    serde_json::from_slice(&read(path)?)
        .map_err(|error| SessionError::Unclear { path: path.to_owned(), why: error.to_string() })
}
