//! A dialogue with a planner: one start of its program per answer.

use std::sync::Arc;
use std::time::Duration;

use provost_core::transcript::{Assistant, Message, Stop, Usage};
use provost_sandbox::{Ended, Program};
use tokio::time::Instant;

use super::builder::{Answers, Finishes, Settings};
use super::decision::{Decision, Rejected};
use super::envelope::Envelope;
use super::history::History;
use super::process::{self, Limits, Ran};
use super::prompt::{self, Given, NO_CONTEXT, Reads};
use super::stream::Decoder;
use crate::{Answer, BoxFuture, Dialogue, Failure, FailureClass, Invocation, Prelude, RateLimits, Sink};

/// Longer limits than this are taken for it: arithmetic with instants must not overflow.
const LONGEST: Duration = Duration::from_hours(24 * 365);

pub(super) struct PlannerDialogue {
    settings: Arc<Settings>,
    system: String,
    history: History,
    /// Assistant messages pushed so far.
    turn: u64,
}

impl PlannerDialogue {
    pub(super) fn new(settings: Arc<Settings>, prelude: Prelude) -> Self {
        let history = History::new(settings.observation_bytes);
        // Its tools are ours; a planner has its five kinds of decision instead.
        Self { settings, system: prelude.system, history, turn: 0 }
    }
}

impl Dialogue for PlannerDialogue {
    fn push(&mut self, message: &Message) {
        if matches!(message, Message::Assistant(_)) {
            self.turn += 1;
        }
        self.history.push(message);
    }

    fn prompt_bytes(&self) -> usize {
        // What does not change (instruction, schema) is some 2 KiB.
        self.history.bytes() + 2048
    }

    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            self.attempt(invocation, sink).await.map_err(|mut failure| {
                failure.message = self.scrub(failure.message);
                failure
            })
        })
    }
}

impl PlannerDialogue {
    async fn attempt(&self, invocation: &Invocation, sink: &mut dyn Sink) -> Result<Answer, Failure> {
        let start = Instant::now();
        let settings = &self.settings;
        let timeout = settings.timeout.min(invocation.timeout).min(LONGEST);
        let Given { args, stdin, reads } = prompt::given(settings, &self.system, &self.history, timeout);
        let program = Program {
            path: settings.program.clone(),
            args,
            cwd: settings.cwd.clone(),
            env: settings.env.clone(),
        };
        let limits = Limits { deadline: start + timeout, timeout, idle: None };
        let (assistant, envelope, ttft) = match settings.answers {
            Answers::Decisions => {
                let envelope = self.envelope(&program, &stdin, limits).await?;
                let assistant =
                    self.decide(&envelope, reads).map_err(|failure| failure.with_usage(envelope.usage()))?;
                assistant.calls.iter().for_each(|call| sink.call(call));
                (assistant, envelope, Some(start.elapsed()))
            }
            Answers::Text => {
                let limits = Limits { idle: Some(invocation.idle.min(timeout)), ..limits };
                let (text, envelope, ttft) = self.stream(&program, &stdin, limits, sink).await?;
                (Assistant { text, ..Assistant::default() }, envelope, ttft)
            }
        };
        Ok(Answer {
            stop: if assistant.calls.is_empty() { Stop::End } else { Stop::ToolCalls },
            assistant,
            usage: envelope.usage(),
            raw_usage: envelope.raw_usage(),
            latency_ms: millis(start.elapsed()),
            ttft_ms: ttft.map(millis),
            model: settings.model.clone(),
            rate_limits: RateLimits::default(),
        })
    }

    /// One envelope on standard output. Bytes past the limit are read and dropped: a closed pipe would kill the program
    /// in the middle of its work, and hide why.
    async fn envelope(&self, program: &Program, stdin: &[u8], limits: Limits) -> Result<Envelope, Failure> {
        let most = self.settings.output_bytes;
        let (mut kept, mut total) = (Vec::new(), 0u64);
        let mut output = |bytes: &[u8]| {
            total += bytes.len() as u64;
            kept.extend_from_slice(&bytes[..bytes.len().min(most.saturating_sub(kept.len()))]);
            Ok(())
        };
        let ran = process::run(program, stdin, limits, &mut output).await;
        let parsed = if total > most as u64 {
            let what = format!("the planner printed {total} bytes; at most {most} are read");
            Err(Failure::new(FailureClass::Malformed, what))
        } else {
            Envelope::parse(self.scrub_bytes(kept).as_ref())
        };
        // Whatever went wrong, tokens that it counted are paid for.
        let usage = parsed.as_ref().ok().and_then(Envelope::usage);
        let counted = |failure: Failure| counted(failure, total, usage);
        let ran = ran.map_err(counted)?;
        match (ended_badly(program, &ran), parsed) {
            (None, parsed) => {
                let envelope = parsed.map_err(counted)?;
                envelope.failure().map_or(Ok(envelope), |failure| Err(counted(failure)))
            }
            // Its own words say more than its exit status.
            (Some(failure), parsed) => {
                Err(counted(parsed.ok().and_then(|envelope| envelope.failure()).unwrap_or(failure)))
            }
        }
    }

    fn must_edit_first(&self) -> bool {
        self.settings.finishes == Finishes::AfterAnEdit && self.history.edits() == 0
    }

    fn decide(&self, envelope: &Envelope, reads: Reads) -> Result<Assistant, Failure> {
        let value = envelope.decision().ok_or_else(|| {
            Failure::new(FailureClass::Malformed, "the planner's answer has no `structured_output`")
        })?;
        let calls = match Decision::from_value(value) {
            Ok(Decision::Finish { summary }) if reads == Reads::Stdin && summary == NO_CONTEXT => {
                let what = "the planner was given its context on standard input and says that it saw none: its \
                    client does not read standard input, and one argument cannot hold so much";
                return Err(Failure::new(FailureClass::ContextOverflow, what));
            }
            Ok(Decision::Finish { .. }) if self.must_edit_first() => {
                Err(Rejected("`finish` before any edit: no `replace_text` was carried out yet".to_owned()))
            }
            Ok(decision) => decision.calls(&self.settings.verification, self.turn),
            Err(rejected) => Err(rejected),
        };
        let calls = calls.unwrap_or_else(|rejected| vec![rejected.call(self.turn)]);
        Ok(Assistant { calls, ..Assistant::default() })
    }

    /// Events on standard output, their text given on as it comes.
    async fn stream(
        &self,
        program: &Program,
        stdin: &[u8],
        limits: Limits,
        sink: &mut dyn Sink,
    ) -> Result<(String, Envelope, Option<Duration>), Failure> {
        let start = Instant::now();
        let mut decoder = Decoder::new(self.settings.output_bytes);
        let (mut total, mut ttft) = (0u64, None);
        let mut sink = Scrubbing { secrets: self, sink };
        let mut output = |bytes: &[u8]| {
            total += bytes.len() as u64;
            decoder.feed(bytes, &mut sink)?;
            if ttft.is_none() && decoder.begun() {
                ttft = Some(start.elapsed());
            }
            Ok(())
        };
        let ran = process::run(program, stdin, limits, &mut output).await;
        let usage = decoder.usage();
        let ran = ran.map_err(|failure| counted(failure, total, usage))?;
        let finished = decoder.finish(&mut sink);
        let usage = finished.as_ref().map_or(usage, |(_, result)| result.usage());
        let counted = |failure: Failure| counted(failure, total, usage);
        let bad = ended_badly(program, &ran);
        match (finished, bad) {
            (Ok((text, result)), bad) => match result.failure().or(bad) {
                Some(failure) => Err(counted(failure)),
                None => Ok((self.scrub(text), result, ttft)),
            },
            (Err(_), Some(failure)) | (Err(failure), None) => Err(counted(failure)),
        }
    }

    fn scrub(&self, text: String) -> String {
        self.settings.secrets.iter().fold(text, |text, secret| secret.scrub(&text))
    }

    fn scrub_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.settings.secrets.is_empty() {
            return bytes;
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.scrub(text).into_bytes(),
            // Not UTF-8 is not JSON: it goes nowhere but into a message, which is scrubbed itself.
            Err(error) => error.into_bytes(),
        }
    }
}

/// Takes credentials out of text on its way to whoever listens.
struct Scrubbing<'a> {
    secrets: &'a PlannerDialogue,
    sink: &'a mut dyn Sink,
}

impl Sink for Scrubbing<'_> {
    fn text(&mut self, delta: &str) {
        self.sink.text(&self.secrets.scrub(delta.to_owned()));
    }
}

fn counted(failure: Failure, bytes: u64, usage: Option<Usage>) -> Failure {
    let usage = failure.usage.or(usage);
    Failure { bytes_received: bytes, ..failure.with_usage(usage) }
}

/// The failure of a program that did not exit with 0.
fn ended_badly(program: &Program, ran: &Ran) -> Option<Failure> {
    let how = match ran.ended {
        Ended::Exited(0) => return None,
        Ended::Exited(status) => format!("exited with {status}"),
        Ended::Signalled(signal) => format!("was killed by signal {signal}"),
        other => format!("ended unexpectedly ({other:?})"),
    };
    let words = if ran.last_words.is_empty() {
        ", and printed no error".to_owned()
    } else {
        format!("; its last words: {}", ran.last_words)
    };
    Some(Failure::new(FailureClass::Server, format!("{} {how}{words}", process::named(program))))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
