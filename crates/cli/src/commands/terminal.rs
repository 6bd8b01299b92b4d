//! Asking the person at the terminal.

use provost::agent::{Approver, Question, Word};
use provost::core::text::{Lines, visible};
use provost::model::BoxFuture;

use crate::render::{Preview, words::asker_line};

/// Shows an act and reads a word.
pub(crate) struct Terminal {
    preview: Preview,
}

impl Terminal {
    pub(crate) fn new(preview: Preview) -> Self {
        Self { preview }
    }
}

impl Approver for Terminal {
    fn name(&self) -> &'static str {
        "terminal"
    }

    fn decide<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Word> {
        Box::pin(async move {
            eprintln!("\nact {} would:", question.act);
            if let Some(asker) = &question.asker {
                eprintln!("{}", asker_line(asker));
            }
            for line in self.preview.lines(&question.tool, &question.args, &question.touches) {
                eprintln!("{line}");
            }
            eprintln!("  ({})", visible(&question.decision.to_string(), Lines::Escape));
            loop {
                eprint!("allow? [y]es / [n]o / [l]ater: ");
                let Some(line) = self.read_line().await else { return Word::Later };
                match line.trim().to_lowercase().as_str() {
                    "y" | "yes" => return Word::Approve,
                    "n" | "no" => return Word::Deny,
                    "l" | "later" => return Word::Later,
                    _ => eprintln!(
                        "  yes: it happens. no: it does not, and the agent is told so. later: the run waits, and \
                         `provost log RUN --act {}` shows the act whole",
                        question.act
                    ),
                }
            }
        })
    }
}

impl Terminal {
    /// A line of standard input; `None` at its end.
    ///
    /// A thread of its own reads it: nothing can end a read that waits, and whoever leaves the prompt by Ctrl-C must not
    /// wait for one either, as the end of a runtime waits for its blocking threads. A read that nobody waits for any more,
    /// because the question was answered elsewhere, is the next question's.
    async fn read_line(&self) -> Option<String> {
        let mut pending = PENDING.lock().await;
        let line = match pending.take() {
            Some(line) => line,
            None => begin_line()?,
        };
        // Left here while it is waited for.
        let line = pending.insert(line);
        let read = line.await;
        *pending = None;
        read.ok().flatten()
    }
}

type Line = tokio::sync::oneshot::Receiver<Option<String>>;

/// The line that is being read from standard input, of which there is one.
static PENDING: tokio::sync::Mutex<Option<Line>> = tokio::sync::Mutex::const_new(None);

fn begin_line() -> Option<Line> {
    let (sender, line) = tokio::sync::oneshot::channel();
    let reader = std::thread::Builder::new().name("prompt".to_owned()).spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0);
        let _ = sender.send(read.then_some(line));
    });
    reader.ok()?;
    Some(line)
}
