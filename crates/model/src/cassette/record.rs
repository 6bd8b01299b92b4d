//! A provider whose attempts are written down.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::transcript::{Call, Message};

use super::{Attempt, CassetteError, End, HEAD, Heard, limit_part, message_part, prelude_part};
use crate::{
    Answer, Beside, BoxFuture, Dialogue, Failure, FailureClass, Invocation, Prelude, Provider, Sink,
};

/// Passes everything on to another provider and writes a cassette.
pub struct Recorder {
    inner: Arc<dyn Provider>,
    tape: Arc<Mutex<Tape>>,
}

struct Tape {
    file: File,
    path: PathBuf,
    /// The parts of the line before.
    before: Vec<Arc<str>>,
}

impl Recorder {
    /// Records on a new file, which must not exist. It holds the words of the dialogue, so others may not read it.
    pub fn new(inner: Arc<dyn Provider>, path: &Path) -> Result<Self, CassetteError> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| CassetteError::file(path, source))?;
        file.write_all(format!("{HEAD}\n").as_bytes()).map_err(|source| CassetteError::file(path, source))?;
        let tape = Tape { file, path: path.to_owned(), before: Vec::new() };
        Ok(Self { inner, tape: Arc::new(Mutex::new(tape)) })
    }

    /// Records another provider on the same file.
    #[must_use]
    pub fn beside(&self, inner: Arc<dyn Provider>) -> Self {
        Self { inner, tape: self.tape.clone() }
    }
}

impl Provider for Recorder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn endpoint(&self) -> &str {
        self.inner.endpoint()
    }

    fn carries(&self, what: Beside) -> bool {
        self.inner.carries(what)
    }

    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        let parts = vec![prelude_part(self.inner.model(), &prelude).into()];
        Box::new(Recorded { inner: self.inner.open(prelude), parts, tape: self.tape.clone() })
    }
}

struct Recorded {
    inner: Box<dyn Dialogue>,
    parts: Vec<Arc<str>>,
    tape: Arc<Mutex<Tape>>,
}

impl Dialogue for Recorded {
    fn push(&mut self, message: &Message) {
        self.parts.push(message_part(message).into());
        self.inner.push(message);
    }

    fn prompt_bytes(&self) -> usize {
        self.inner.prompt_bytes()
    }

    fn prompt(&self, from: u64, see: &mut dyn FnMut(&[u8])) {
        self.inner.prompt(from, see);
    }

    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let mut ears = Ears { sink, heard: Vec::new() };
            let result = self.inner.ask(invocation, &mut ears).await;
            let heard = ears.heard;
            let mut parts = self.parts.clone();
            parts.push(limit_part(invocation.max_output).into());
            let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
            match tape.write(parts, heard, &result) {
                Ok(()) => result,
                // A cassette with a hole in it would fail much later, and tell of something else.
                Err(error) => Err(Failure::new(FailureClass::Setup, format!("the cassette: {error}"))),
            }
        })
    }
}

impl Tape {
    fn write(
        &mut self,
        parts: Vec<Arc<str>>,
        heard: Vec<Heard>,
        result: &Result<Answer, Failure>,
    ) -> Result<(), CassetteError> {
        let shared = parts.iter().zip(&self.before).take_while(|(a, b)| a == b).count();
        let attempt = Attempt {
            shared,
            parts: parts[shared..].iter().map(ToString::to_string).collect(),
            heard,
            end: End::of(result),
        };
        let line = serde_json::to_string(&attempt).map_err(std::io::Error::from);
        let written = line.and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|source| CassetteError::file(&self.path, source))?;
        self.before = parts;
        Ok(())
    }
}

/// Hears what the caller hears.
struct Ears<'a> {
    sink: &'a mut dyn Sink,
    heard: Vec<Heard>,
}

impl Sink for Ears<'_> {
    fn text(&mut self, delta: &str) {
        self.heard.push(Heard::Text(delta.to_owned()));
        self.sink.text(delta);
    }

    fn reasoning(&mut self, delta: &str) {
        self.heard.push(Heard::Reasoning(delta.to_owned()));
        self.sink.reasoning(delta);
    }

    fn call(&mut self, call: &Call) {
        self.heard.push(Heard::Call(call.clone()));
        self.sink.call(call);
    }
}
