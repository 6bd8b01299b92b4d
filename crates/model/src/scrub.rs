//! The key out of what a server sends: it may echo what it was sent, in one piece or in several, written as JSON writes it
//! or otherwise.

use provost_core::transcript::Call;
use serde_json::Value;

use crate::wire::Decoded;
use crate::{Secret, Sink};

impl Secret {
    /// JSON text without the value, however its strings are escaped. What is no JSON is searched as it stands.
    pub(crate) fn scrub_json(&self, text: &str) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return self.scrub(text) };
        match self.scrub_value(&mut value) {
            Found::Yes => value.to_string(),
            Found::No => text.to_owned(),
        }
    }

    fn scrub_value(&self, value: &mut Value) -> Found {
        match value {
            Value::String(text) => self.scrub_string(text),
            Value::Array(items) => {
                items.iter_mut().fold(Found::No, |found, item| found.or(self.scrub_value(item)))
            }
            Value::Object(members) => {
                let mut found = Found::No;
                if members.keys().any(|key| self.scrub(key) != *key) {
                    found = Found::Yes;
                    *members =
                        std::mem::take(members).into_iter().map(|(key, it)| (self.scrub(&key), it)).collect();
                }
                members.values_mut().fold(found, |found, item| found.or(self.scrub_value(item)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Found::No,
        }
    }

    fn scrub_string(&self, text: &mut String) -> Found {
        let clean = self.scrub(text);
        if clean == *text {
            return Found::No;
        }
        *text = clean;
        Found::Yes
    }

    fn scrub_call(&self, call: &mut Call) {
        call.id = self.scrub(&call.id);
        call.name = self.scrub(&call.name);
        call.arguments = self.scrub_json(&call.arguments);
    }

    /// An answer without the value.
    pub(crate) fn scrub_answer(&self, answer: &mut Decoded) {
        let assistant = &mut answer.assistant;
        assistant.text = self.scrub(&assistant.text);
        assistant.calls.iter_mut().for_each(|call| self.scrub_call(call));
        for block in &mut assistant.opaque {
            *block = self.scrub_json(block);
        }
        answer.raw_usage = answer.raw_usage.take().map(|text| self.scrub_json(&text));
        answer.model = answer.model.take().map(|text| self.scrub(&text));
    }

    /// A message that may have been shortened in the middle of the value: what begins like it goes too.
    pub(crate) fn scrub_message(&self, text: &str) -> String {
        const TELLING: usize = 8;
        let text = self.scrub(text);
        let value = self.expose();
        let Some(begin) = value.get(..TELLING).filter(|_| self.scrub(value) != value) else { return text };
        let Some(at) = text.find(begin) else { return text };
        let same = text[at..].bytes().zip(value.bytes()).take_while(|(a, b)| a == b).count();
        let end = (at + same..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
        format!("{}[secret]{}", &text[..at], self.scrub_message(&text[end..]))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Yes,
    No,
}

impl Found {
    fn or(self, other: Self) -> Self {
        if self == Self::Yes { self } else { other }
    }
}

/// Passes on what is heard of an answer, without the key. A piece that could be the beginning of it waits for the next.
pub(crate) struct Clean<'a> {
    sink: &'a mut dyn Sink,
    secret: Option<&'a Secret>,
    text: String,
    reasoning: String,
}

impl<'a> Clean<'a> {
    pub(crate) fn new(sink: &'a mut dyn Sink, secret: Option<&'a Secret>) -> Self {
        Self { sink, secret, text: String::new(), reasoning: String::new() }
    }

    /// Passes on what still waited.
    pub(crate) fn finish(self) {
        if !self.text.is_empty() {
            self.sink.text(&self.text);
        }
        if !self.reasoning.is_empty() {
            self.sink.reasoning(&self.reasoning);
        }
    }
}

/// What of `held` and `delta` may be passed on; the rest is held.
fn passed(secret: &Secret, held: &mut String, delta: &str) -> String {
    held.push_str(delta);
    let mut out = secret.scrub(held);
    let value = secret.expose();
    let waits = (1..value.len().min(out.len() + 1)).rev().find(|count| {
        out.is_char_boundary(out.len() - count)
            && value.as_bytes().starts_with(&out.as_bytes()[out.len() - count..])
    });
    *held = out.split_off(out.len() - waits.unwrap_or(0));
    out
}

impl Sink for Clean<'_> {
    fn text(&mut self, delta: &str) {
        match self.secret {
            None => self.sink.text(delta),
            Some(secret) => {
                let out = passed(secret, &mut self.text, delta);
                if !out.is_empty() {
                    self.sink.text(&out);
                }
            }
        }
    }

    fn reasoning(&mut self, delta: &str) {
        match self.secret {
            None => self.sink.reasoning(delta),
            Some(secret) => {
                let out = passed(secret, &mut self.reasoning, delta);
                if !out.is_empty() {
                    self.sink.reasoning(&out);
                }
            }
        }
    }

    fn call(&mut self, call: &Call) {
        match self.secret {
            None => self.sink.call(call),
            Some(secret) => {
                let mut call = call.clone();
                secret.scrub_call(&mut call);
                self.sink.call(&call);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-canary/4b1d9e-f00";

    #[derive(Default)]
    struct Heard(String);

    impl Sink for Heard {
        fn text(&mut self, delta: &str) {
            self.0.push_str(delta);
        }
    }

    #[test]
    fn a_key_in_pieces_is_not_passed_on() {
        let secret = Secret::new(KEY);
        let whole = format!("it is {KEY}, or sk-canal");
        for cut in 0..whole.len() {
            let mut heard = Heard::default();
            let mut clean = Clean::new(&mut heard, Some(&secret));
            clean.text(&whole[..cut]);
            clean.text(&whole[cut..]);
            clean.finish();
            assert_eq!(heard.0, "it is [secret], or sk-canal");
        }
    }

    #[test]
    fn a_key_is_found_however_json_writes_it() {
        let secret = Secret::new(KEY);
        for written in
            [KEY.to_owned(), KEY.replace('/', "\\/"), KEY.replace('s', "\\u0073"), format!("x{KEY}y")]
        {
            let clean = secret.scrub_json(&format!(r#"{{"a":["{written}"]}}"#));
            assert!(clean.contains("[secret]") && !clean.contains("canary"), "{clean}");
        }
        assert_eq!(secret.scrub_json(r#"{"a" : 1.0}"#), r#"{"a" : 1.0}"#, "what is clean stays as it was");
    }

    #[test]
    fn a_message_that_was_cut_in_the_key_keeps_none_of_it() {
        let secret = Secret::new(KEY);
        assert_eq!(
            secret.scrub_message(&format!("to {} [shortened]", &KEY[..14])),
            "to [secret] [shortened]"
        );
        assert_eq!(secret.scrub_message("sk-cana and more"), "sk-cana and more", "too little to tell");
        assert_eq!(Secret::new("test").scrub_message("cargo test"), "cargo test");
    }
}
