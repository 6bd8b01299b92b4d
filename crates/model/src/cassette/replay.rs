//! A provider that answers from a cassette and asks nobody.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::event::MOST_CALLS;
use provost_core::transcript::Message;

use super::{Attempt, CassetteError, End, HEAD, Heard, limit_part, message_part, prelude_part};
use crate::{
    Answer, Beside, BoxFuture, Dialogue, Failure, FailureClass, Invocation, Prelude, Provider, Sink,
};

/// Characters of each side that are shown where two requests differ.
const SHOWN: usize = 60;

/// Answers each request as it was answered when it was recorded. Asked the same again, as after a failure, it gives what came
/// next, and the last of them from then on.
pub struct Replay {
    like: Arc<dyn Provider>,
    tape: Arc<Mutex<Vec<Track>>>,
}

struct Track {
    parts: Vec<Arc<str>>,
    heard: Vec<Heard>,
    end: End,
    played: bool,
}

/// Largest cassette that is read, in bytes.
const LARGEST: u64 = 1 << 30;

/// The text of a regular file. A pipe or a device could be read for ever.
fn read(path: &Path) -> std::io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(std::io::Error::other("it is larger than 1 GiB"));
    }
    Ok(text)
}

impl Replay {
    /// Reads a cassette. `like` is who would be asked otherwise: it encodes what is asked, so that the journal says the same
    /// of it, and is never asked.
    pub fn load(path: &Path, like: Arc<dyn Provider>) -> Result<Self, CassetteError> {
        let text = read(path).map_err(|source| CassetteError::file(path, source))?;
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, head)| head != HEAD) {
            return Err(CassetteError::NoCassette(path.to_owned()));
        }
        let mut tracks: Vec<Track> = Vec::new();
        for (at, line) in lines {
            let bad = |message: String| CassetteError::Line { path: path.to_owned(), line: at + 1, message };
            let attempt: Attempt = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            if let End::Answered(told) = &attempt.end
                && told.assistant.calls.len() > MOST_CALLS as usize
            {
                let calls = told.assistant.calls.len();
                return Err(bad(format!("its answer holds {calls} calls, and one can hold {MOST_CALLS}")));
            }
            let before = tracks.last().map_or(&[][..], |track| &track.parts);
            let Some(shared) = before.get(..attempt.shared) else {
                return Err(bad(format!(
                    "it shares {} parts with a line of {}",
                    attempt.shared,
                    before.len()
                )));
            };
            let parts = shared
                .iter()
                .cloned()
                .chain(attempt.parts.iter().map(|part| Arc::from(part.as_str())))
                .collect();
            let Attempt { heard, end, .. } = attempt;
            tracks.push(Track { parts, heard, end, played: false });
        }
        Ok(Self { like, tape: Arc::new(Mutex::new(tracks)) })
    }

    /// The model that the cassette's first request asked, where it says so.
    pub fn first_model(path: &Path) -> Result<Option<String>, CassetteError> {
        let text = read(path).map_err(|source| CassetteError::file(path, source))?;
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(CassetteError::NoCassette(path.to_owned()));
        }
        let first = lines.next().and_then(|line| serde_json::from_str::<Attempt>(line).ok());
        let prelude = first.and_then(|attempt| attempt.parts.into_iter().next());
        let prelude: Option<serde_json::Value> = prelude.and_then(|part| serde_json::from_str(&part).ok());
        Ok(prelude.and_then(|prelude| Some(prelude["model"].as_str()?.to_owned())))
    }

    /// Answers from the same file in the place of another provider.
    #[must_use]
    pub fn beside(&self, like: Arc<dyn Provider>) -> Self {
        Self { like, tape: self.tape.clone() }
    }
}

impl Provider for Replay {
    fn name(&self) -> &'static str {
        "cassette"
    }

    fn model(&self) -> &str {
        self.like.model()
    }

    fn endpoint(&self) -> &'static str {
        ""
    }

    fn carries(&self, what: Beside) -> bool {
        self.like.carries(what)
    }

    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        let parts = vec![prelude_part(self.like.model(), &prelude).into()];
        Box::new(Replayed { parts, like: self.like.open(prelude), tape: self.tape.clone() })
    }
}

struct Replayed {
    parts: Vec<Arc<str>>,
    like: Box<dyn Dialogue>,
    tape: Arc<Mutex<Vec<Track>>>,
}

impl Dialogue for Replayed {
    fn push(&mut self, message: &Message) {
        self.parts.push(message_part(message).into());
        self.like.push(message);
    }

    fn prompt_bytes(&self) -> usize {
        self.like.prompt_bytes()
    }

    fn prompt(&self, from: u64, see: &mut dyn FnMut(&[u8])) {
        self.like.prompt(from, see);
    }

    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let mut parts = self.parts.clone();
            parts.push(limit_part(invocation.max_output).into());
            let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
            let same = |track: &Track| track.parts == parts;
            let fresh = tape.iter().position(|track| same(track) && !track.played);
            let Some(at) = fresh.or_else(|| tape.iter().rposition(same)) else {
                return Err(Failure::new(FailureClass::Setup, not_there(&tape, &parts)));
            };
            tape[at].played = true;
            for heard in &tape[at].heard {
                match heard {
                    Heard::Text(delta) => sink.text(delta),
                    Heard::Reasoning(delta) => sink.reasoning(delta),
                    Heard::Call(call) => sink.call(call),
                }
            }
            tape[at].end.clone().result()
        })
    }
}

/// What to say of a request that was not recorded: the nearest that was, and where they part.
fn not_there(tape: &[Track], parts: &[Arc<str>]) -> String {
    let alike = |track: &Track| track.parts.iter().zip(parts).take_while(|(a, b)| a == b).count();
    let Some((at, nearest)) = tape.iter().enumerate().max_by_key(|(_, track)| alike(track)) else {
        return "the request is not on the cassette, which is empty".to_owned();
    };
    let place = alike(nearest);
    let (theirs, ours) = (nearest.parts.get(place), parts.get(place));
    let [theirs, ours] = [theirs, ours].map(|part| part.map_or("", |part| &**part));
    let same = theirs.chars().zip(ours.chars()).take_while(|(a, b)| a == b).count();
    // A little of what is alike shows where in the part it is.
    let shown = |part: &str| -> String { part.chars().skip(same.saturating_sub(20)).take(SHOWN).collect() };
    let what = match place {
        0 => "what the dialogue begins with".to_owned(),
        at if at + 1 >= parts.len() => "the output limit".to_owned(),
        at => format!("message {at}"),
    };
    format!(
        "the request is not on the cassette; the nearest is number {} there, and the first difference is in {what}: there \
         `{}`, here `{}`",
        at + 1,
        shown(theirs),
        shown(ours)
    )
}
