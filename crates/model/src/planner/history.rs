//! What a planner is told: the task, and one observation for each thing that happened.

use std::borrow::Cow;
use std::collections::HashMap;

use provost_core::act::show_argv;
use provost_core::transcript::{Call, Image, Message};
use serde_json::Value;

use super::decision::REJECTED;

/// The messages of a dialogue as a planner gets them. Append-only.
#[derive(Debug)]
pub(super) struct History {
    task: Option<String>,
    observations: Vec<String>,
    /// The calls that no result has answered yet, by id.
    open: HashMap<String, Called>,
    /// Longest observation, in bytes.
    longest: usize,
    bytes: usize,
    edits: u64,
}

#[derive(Debug)]
enum Called {
    /// An edit, in the planner's own words.
    Edit(String),
    /// Another tool, and what was done with it in the planner's own words.
    Tool(String),
    /// No tool: why the decision was none.
    Rejected(String),
}

impl History {
    pub(super) fn new(longest: usize) -> Self {
        Self { task: None, observations: Vec::new(), open: HashMap::new(), longest, bytes: 0, edits: 0 }
    }

    /// The first words of the person.
    pub(super) fn task(&self) -> &str {
        self.task.as_deref().unwrap_or_default()
    }

    pub(super) fn observations(&self) -> &[String] {
        &self.observations
    }

    /// Bytes of task and observations.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Edits that were carried out.
    pub(super) fn edits(&self) -> u64 {
        self.edits
    }

    pub(super) fn push(&mut self, message: &Message) {
        match message {
            Message::User { text, images } if self.task.is_none() => {
                let task = without_images(text, images);
                self.bytes += task.len();
                self.task = Some(task.into_owned());
            }
            Message::User { text, images } => self.observe("note", &without_images(text, images)),
            Message::Assistant(answer) => {
                let calls = answer.calls.iter();
                self.open.extend(calls.map(|call| (call.id.clone(), called(call))));
                if answer.calls.is_empty() && !answer.text.is_empty() {
                    self.observe("you said", &answer.text);
                }
            }
            Message::Results { results } => {
                for result in results {
                    let text = without_images(&result.text, &result.images);
                    match self.open.remove(&result.call_id) {
                        // The refusal names a tool that the planner never heard of; the reason is what it needs.
                        Some(Called::Rejected(problem)) => {
                            self.observe("your decision was rejected, nothing was done", &problem);
                        }
                        Some(Called::Tool(what) | Called::Edit(what)) if result.is_error => {
                            self.observe(&format!("{what} failed or was refused"), &text);
                        }
                        Some(Called::Tool(what)) => self.observe(&what, &text),
                        Some(Called::Edit(what)) => {
                            self.edits += 1;
                            self.observe(&what, &text);
                        }
                        None => self.observe("result", &text),
                    }
                }
            }
        }
    }

    fn observe(&mut self, what: &str, text: &str) {
        let observation = format!("{}\n{}", shortened(what, 400), shortened(text, self.longest));
        self.bytes += observation.len();
        self.observations.push(observation);
    }
}

/// The words alone, saying what they leave out: a planner reads no images.
fn without_images<'a>(text: &'a str, images: &[Image]) -> Cow<'a, str> {
    match images.len() {
        0 => text.into(),
        1 => format!("{text}\n[an image left out]").into(),
        n => format!("{text}\n[{n} images left out]").into(),
    }
}

/// A call in the words of the decisions.
fn called(call: &Call) -> Called {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Called::Tool(match call.name.as_str() {
        REJECTED => return Called::Rejected(text("problem")),
        "exec" => {
            let argv = arguments.get("argv").and_then(Value::as_array);
            let argv = argv.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            format!("run_tool {}", show_argv(&argv.collect::<Vec<_>>()))
        }
        "edit_file" => return Called::Edit(format!("replace_text {}", text("path"))),
        "submit" => "finish".to_owned(),
        name => format!("{name} {}", text("path")).trim_end().to_owned(),
    })
}

/// At most about `longest` bytes, of the start and of the end: what failed often stands last. Says what is left out.
fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(longest / 2);
    let tail = text.ceil_char_boundary(text.len() - longest / 2);
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use provost_core::transcript::{Assistant, CallResult};

    use super::*;

    #[test]
    fn what_happened_is_told_in_the_planners_own_words() {
        let mut history = History::new(64);
        history.push(&Message::user("fix it"));
        let call = |id: &str, name: &str, arguments: &str| Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let calls = vec![
            call("1", "exec", r#"{"argv":["cargo","test"]}"#),
            call("2", "edit_file", r#"{"path":"a b"}"#),
            call("3", REJECTED, r#"{"problem":"`kind` is `x`"}"#),
        ];
        history.push(&Message::Assistant(Assistant { calls, ..Assistant::default() }));
        let result = |id: &str, text: &str, is_error| CallResult {
            call_id: id.to_owned(),
            text: text.to_owned(),
            is_error,
            images: vec![
                Image { media: "image/png".to_owned(), data: "eA==".to_owned() };
                usize::from(is_error)
            ],
        };
        let long = format!("{}é assertion failed", "é".repeat(100));
        let results = vec![result("1", &long, false), result("2", "no", true), result("3", "no tool", true)];
        history.push(&Message::Results { results });
        history.push(&Message::user("hm"));
        assert_eq!(history.task(), "fix it");
        let told = history.observations();
        assert!(told[0].starts_with("run_tool cargo test\né") && told[0].ends_with("assertion failed"));
        assert!(told[0].contains(" bytes left out]") && told[0].len() < 130);
        assert_eq!(told[1], "replace_text a b failed or was refused\nno\n[an image left out]");
        assert_eq!(told[2], "your decision was rejected, nothing was done\n`kind` is `x`");
        assert_eq!(told[3], "note\nhm");
    }
}
