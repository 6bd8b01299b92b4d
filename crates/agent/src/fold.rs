//! Making room in a model's window: when, and what stands for what was said.

use std::fmt::Write as _;

use provost_core::event::{Body, ContextFolded, FoldedBy};
use provost_core::id::StepId;
use provost_core::text::{Lines, visible};
use provost_core::transcript::{Assistant, Message};

use crate::driver::Driver;
use crate::error::RunError;
use crate::talk::{Asked, BYTES_PER_TOKEN, Talk};

/// What the model is asked for a summary with.
pub(crate) const REQUEST: &str = "\
Your context is nearly full.

What was said so far is about to be taken out of it, all but the goal, and what you answer \
now will stand in its place. Call no tool. Write down what you need to go on without it: what is done and how you know; \
what you found out (paths, names, line numbers, commands and what they said); what was decided and why; what failed and \
must not be tried again; what is left to do, in order. Be exact and brief.";

/// Tokens of the window that a summary may take.
const SUMMARY_TOKENS: u64 = 4096;

/// Bytes of what the runtime says of what was folded.
const RECORD_BYTES: usize = 6 * 1024;

/// Files of which is said that they were changed.
const FILES_SHOWN: usize = 40;

/// What a prompt leaves of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Enough, or nobody knows.
    Enough,
    /// A quarter at most.
    Little,
    /// Not even what a summary takes.
    None,
}

impl Room {
    fn of(prompt: u64, window: u64) -> Self {
        if prompt.saturating_add(SUMMARY_TOKENS.min(window / 8)) > window {
            Self::None
        } else if prompt >= window / 4 * 3 {
            Self::Little
        } else {
            Self::Enough
        }
    }
}

impl Driver<'_> {
    /// What a prompt of so many tokens leaves of the window, as far as a fold would help.
    pub(crate) fn room(&self, prompt: u64) -> Room {
        let state = self.recorder.state();
        let room = self.window().map_or(Room::Enough, |window| Room::of(prompt, window));
        match room {
            _ if !state.can_fold() => Room::Enough,
            // By estimate alone: the vendor says whether it is so.
            Room::None if self.talk.is_metered() => Room::None,
            // That is being done.
            Room::None | Room::Little if state.is_folding() => Room::Enough,
            Room::None | Room::Little => Room::Little,
            Room::Enough => Room::Enough,
        }
    }

    fn window(&self) -> Option<u64> {
        self.recorder.state().model_of(self.talk.route).and_then(|(model, _)| model.window)
    }

    /// Takes out of the dialogue what it can go on without, and begins it anew.
    pub(crate) async fn fold(&mut self, by: FoldedBy) -> Result<(), RunError> {
        self.recorder.commit().await?;
        let tokens = self.talk.estimate();
        let (route, window) = (self.talk.route, self.window());
        let whole = self.talk.dialogue.prompt_bytes() as u64;
        let kept = window.map_or(whole / 4, |window| window / 8 * BYTES_PER_TOKEN);
        let steps = self.recorder.state().ledger().steps;
        let folded = self.recorder.state().folded_before();
        // Newest within it again would take nothing out.
        let asked = Asked::of(&self.recorder.events().await?).remove(&self.agent).unwrap_or_default();
        let from =
            asked.newest_within(route, whole, kept).filter(|from| from.0 > folded).unwrap_or(StepId(steps));
        let mut text = match by {
            FoldedBy::Model => format!(
                "What was said before was taken out to make room. This is what you wrote down of it:\n\n{}\n",
                shortened(self.current_answer()?.text.trim(), summary_bytes(window))
            ),
            FoldedBy::Runtime => {
                let messages = self.recorder.all_messages(self.agent).await?;
                shortened(&record(&messages, asked.since(from)), summary_bytes(window))
            }
        };
        self.name_changed_files(&mut text);
        text.push_str("\nRead a file again before you change it.");
        let text = self.recorder.content(text);
        self.recorder.record(Body::ContextFolded(ContextFolded { from, by, text, route, tokens, window }))?;
        self.recorder.commit().await?;
        let limits_told = self.talk.limits_told.take();
        self.begin_talk(route).await?;
        self.talk.limits_told = limits_told;
        Ok(())
    }

    /// Opens a dialogue with a model, and tells it all that is said so far.
    pub(crate) async fn begin_talk(&mut self, route: provost_core::route::RouteId) -> Result<(), RunError> {
        let provider = self.runtime.asked(route)?;
        // What the vendor counted of its prompts is known as well as to whoever takes the run up.
        let asked = Asked::of(&self.recorder.events().await?).remove(&self.agent).unwrap_or_default();
        let messages = self.recorder.all_messages(self.agent).await?;
        let mut talk = Talk::open(route, provider.as_ref(), self.prelude.clone(), self.recorder.salt());
        talk.say(&messages, &asked, |_| false);
        self.talk = talk;
        Ok(())
    }

    fn name_changed_files(&self, text: &mut String) {
        let changes = self.recorder.state().net_changes();
        if changes.is_empty() {
            return;
        }
        text.push_str("\nFiles that differ from the start of the run:\n");
        for path in changes.keys().take(FILES_SHOWN) {
            let _ = writeln!(text, "- {path}");
        }
        if changes.len() > FILES_SHOWN {
            let _ = writeln!(text, "- and {} more", changes.len() - FILES_SHOWN);
        }
    }
}

/// Bytes that what stands for the dialogue may have: what is longer than the room that it makes makes none.
fn summary_bytes(window: Option<u64>) -> usize {
    let tokens = window.map_or(SUMMARY_TOKENS, |window| SUMMARY_TOKENS.min(window / 8));
    (tokens * BYTES_PER_TOKEN) as usize
}

/// The beginning of words that are too long, and that there were more.
fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let kept = text.floor_char_boundary(most);
    format!("{}\n[… {} bytes left out …]", &text[..kept], text.len() - kept)
}

/// What the runtime says in the place of these messages, but for so many answers at their end: the newest first to be kept.
fn record(messages: &[Message], kept: usize) -> String {
    let answers: Vec<&Assistant> = messages
        .iter()
        .filter_map(|message| match message {
            Message::Assistant(answer) => Some(answer),
            _ => None,
        })
        .collect();
    let gone = answers.get(..answers.len().saturating_sub(kept)).unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    let mut bytes = 0;
    for answer in gone.iter().rev() {
        let line = line(answer);
        bytes += line.len();
        if bytes > RECORD_BYTES {
            break;
        }
        lines.push(line);
    }
    let mut text = String::from(
        "What was said before was taken out to make room: it filled your context, and there is no summary of it. You \
         did this, in order:\n\n",
    );
    if lines.len() < gone.len() {
        let _ = writeln!(text, "({} older answers are not listed)", gone.len() - lines.len());
    }
    lines.iter().rev().for_each(|line| text.push_str(line));
    text
}

fn line(answer: &Assistant) -> String {
    let cut = |text: &str, chars: usize| {
        let text = visible(text.trim(), Lines::Escape);
        let short: String = text.chars().take(chars).collect();
        if short.len() < text.len() { format!("{short}…") } else { short }
    };
    let calls = answer.calls.iter().map(|call| format!("{}({})", call.name, cut(&call.arguments, 120)));
    let said = Some(cut(&answer.text, 200)).filter(|text| !text.is_empty());
    let parts: Vec<String> = said.into_iter().chain(calls).collect();
    format!("- {}\n", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use provost_core::transcript::Call;

    use super::*;

    #[test]
    fn room_is_told_by_shares_of_the_window() {
        assert_eq!(Room::of(0, 200_000), Room::Enough);
        assert_eq!(Room::of(149_999, 200_000), Room::Enough);
        assert_eq!(Room::of(150_000, 200_000), Room::Little);
        assert_eq!(Room::of(195_904, 200_000), Room::Little);
        assert_eq!(Room::of(195_905, 200_000), Room::None);
        assert_eq!(Room::of(0, 0), Room::Little, "a window of nothing folds at once");
        assert_eq!(Room::of(u64::MAX, 1_000), Room::None);
    }

    #[test]
    fn what_stands_for_the_dialogue_is_no_longer_than_the_room_it_makes() {
        assert_eq!(summary_bytes(Some(12_000)), 4_500);
        assert_eq!((summary_bytes(None), summary_bytes(Some(u64::MAX))), (12_288, 12_288));
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("äääää", 5), "ää\n[… 6 bytes left out …]");
    }

    #[test]
    fn the_record_names_the_newest_and_counts_the_rest() {
        let answer = |n: usize| {
            let arguments = format!("{{\"path\":\"{n}-{}\"}}", "x".repeat(300));
            let call = Call { id: n.to_string(), name: "read_file".to_owned(), arguments };
            Message::Assistant(Assistant {
                text: format!("I look.\n\u{1b}[31m{n}"),
                calls: vec![call],
                ..Assistant::default()
            })
        };
        let messages: Vec<Message> = (0..100).map(answer).collect();
        let text = record(&messages, 2);
        assert!(text.len() < RECORD_BYTES + 500, "{}", text.len());
        assert!(text.contains("97\\n") || text.contains("[31m97"), "{text}");
        assert!(!text.contains("[31m98") && !text.contains("[31m99"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("older answers are not listed"), "{text}");
    }
}
