//! Signing by an ssh-agent: the private key never comes into this process.
//!
//! Protocol: draft-ietf-sshm-ssh-agent, over the agent's unix socket. An Ed25519 signature of an agent is over the bytes
//! as they are, so it serves for DSSE and for SSHSIG.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::text::{Lines, visible};

use super::public::from_blob;
use super::wire::{Reader, key_blob, put, read_signature};
use crate::keys::VerifyingKey;
use crate::signer::{SignError, Signer};

/// Largest message to or from an agent, in bytes: what OpenSSH's own agent takes.
const MESSAGE_LIMIT: usize = 256 * 1024;
/// Most keys of an agent that are looked at.
const KEYS_LIMIT: u32 = 2048;

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// Why an ssh-agent gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It cannot be reached, or does not answer in time.
    #[error("the ssh-agent at {}: {source}", path.display())]
    Io {
        /// Its socket.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// It refused: the key is not there, the agent is locked, or a person said no.
    #[error("the ssh-agent refused: it does not have the key, is locked, or was told not to sign")]
    Refused,
    /// It answered something else.
    #[error("the ssh-agent's answer is not of its protocol")]
    Answer,
    /// There is more than fits a message.
    #[error("{size} bytes are more than an ssh-agent takes ({MESSAGE_LIMIT})")]
    TooLarge {
        /// How many.
        size: usize,
    },
    /// It does not have the key.
    #[error("the ssh-agent does not have the key {0}; `ssh-add FILE` adds it")]
    NoSuchKey(super::public::Fingerprint),
}

/// An ssh-agent. Each question is a connection of its own.
#[derive(Debug, Clone)]
pub struct Agent {
    socket: PathBuf,
    /// How long an answer may take. A person may have to confirm it.
    patience: Duration,
}

/// A key that an agent keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKey {
    /// Its public half.
    pub key: VerifyingKey,
    /// What its owner calls it, with what is not visible written out.
    pub comment: String,
}

impl Agent {
    /// The agent behind `socket` (what `SSH_AUTH_SOCK` names), which is given so long for each answer.
    pub fn at(socket: &Path, patience: Duration) -> Self {
        Self { socket: socket.to_owned(), patience }
    }

    /// Its Ed25519 keys. Keys of other kinds are not told.
    pub fn keys(&self) -> Result<Vec<AgentKey>, AgentError> {
        read_keys(&self.ask(REQUEST_IDENTITIES, &[], IDENTITIES_ANSWER)?)
    }

    /// The signer that signs with `key`, which the agent must have.
    pub fn signer(&self, key: &VerifyingKey) -> Result<AgentSigner, AgentError> {
        if self.keys()?.iter().any(|known| known.key == *key) {
            Ok(AgentSigner { agent: self.clone(), key: key.clone() })
        } else {
            Err(AgentError::NoSuchKey(super::public::Fingerprint::of(key)))
        }
    }

    fn sign(&self, key: &VerifyingKey, message: &[u8]) -> Result<[u8; 64], AgentError> {
        let mut body = Vec::new();
        put(&mut body, &key_blob(key));
        put(&mut body, message);
        // Flags, none of which is for Ed25519.
        body.extend([0; 4]);
        let answer = self.ask(SIGN_REQUEST, &body, SIGN_RESPONSE)?;
        let mut reader = Reader::new(&answer);
        let signature = reader.string().and_then(read_signature).ok_or(AgentError::Answer)?;
        reader.end().ok_or(AgentError::Answer)?;
        Ok(signature)
    }

    /// One question and its answer's body.
    fn ask(&self, question: u8, body: &[u8], answer: u8) -> Result<Vec<u8>, AgentError> {
        let size = body.len() + 1;
        if size > MESSAGE_LIMIT {
            return Err(AgentError::TooLarge { size });
        }
        let mut message = Vec::new();
        put(&mut message, &[&[question], body].concat());
        let talk = || -> io::Result<Option<Vec<u8>>> {
            let mut talk =
                Talk { stream: UnixStream::connect(&self.socket)?, until: Instant::now() + self.patience };
            talk.send(&message)?;
            let mut length = [0; 4];
            talk.receive(&mut length)?;
            let length = u32::from_be_bytes(length) as usize;
            if length == 0 || length > MESSAGE_LIMIT {
                return Ok(None);
            }
            let mut bytes = vec![0; length];
            talk.receive(&mut bytes)?;
            Ok(Some(bytes))
        };
        let bytes = talk()
            .map_err(|source| AgentError::Io { path: self.socket.clone(), source })?
            .ok_or(AgentError::Answer)?;
        match bytes.split_first() {
            Some((kind, rest)) if *kind == answer => Ok(rest.to_vec()),
            // The failures: of this protocol, and of the two before it.
            Some((5 | 30 | 102, [])) => Err(AgentError::Refused),
            _ => Err(AgentError::Answer),
        }
    }
}

/// Reads an agent's list of its keys: the body of its answer.
pub fn read_keys(answer: &[u8]) -> Result<Vec<AgentKey>, AgentError> {
    let mut reader = Reader::new(answer);
    let mut keys = Vec::new();
    let count = reader.number().filter(|count| *count <= KEYS_LIMIT).ok_or(AgentError::Answer)?;
    for _ in 0..count {
        let (Some(blob), Some(comment)) = (reader.string(), reader.string()) else {
            return Err(AgentError::Answer);
        };
        if let Ok(key) = from_blob(blob) {
            let comment = visible(&String::from_utf8_lossy(comment), Lines::Escape);
            keys.push(AgentKey { key, comment: comment.chars().take(200).collect() });
        }
    }
    reader.end().ok_or(AgentError::Answer)?;
    Ok(keys)
}

/// A connection that ends at a time, however slowly the other side sends.
struct Talk {
    stream: UnixStream,
    until: Instant,
}

impl Talk {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.left()?)?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) => again(error)?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            self.stream.set_read_timeout(self.left()?)?;
            match self.stream.read(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => into = &mut into[count..],
                Err(error) => again(error)?,
            }
        }
        Ok(())
    }
}

/// Whether a failed call is made again; what ran out of time says so at the next look at the clock.
fn again(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(()),
        _ => Err(error),
    }
}

/// A key of an agent, as a signer.
#[derive(Debug, Clone)]
pub struct AgentSigner {
    agent: Agent,
    key: VerifyingKey,
}

impl Signer for AgentSigner {
    fn public(&self) -> VerifyingKey {
        self.key.clone()
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignError> {
        let signature = self.agent.sign(&self.key, message)?;
        if self.key.verifies(message, &signature) {
            Ok(signature)
        } else {
            Err(SignError::NotItsOwn(self.key.key_id()))
        }
    }
}
