//! What all encoders write with: a text of JSON that only grows.

use provost_core::transcript::{Image, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value};

use super::json::put;
use super::{EncodeOptions, Prefix};

/// Writes a request's prefix.
#[derive(Default)]
pub(super) struct Writer {
    prefix: Prefix,
    items: usize,
}

impl Writer {
    pub(super) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// JSON as it stands.
    pub(super) fn raw(&mut self, json: &str) {
        self.prefix.extend_from_slice(json.as_bytes());
    }

    /// The same from bytes.
    pub(super) fn bytes(&mut self, json: &[u8]) {
        self.prefix.extend_from_slice(json);
    }

    pub(super) fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        put(&mut self.prefix, value);
    }

    /// A member that is not the first of its object.
    pub(super) fn member(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        self.raw(",");
        self.value(key);
        self.raw(":");
        self.value(value);
    }

    /// What goes between two items of the dialogue.
    pub(super) fn item(&mut self) {
        if self.items > 0 {
            self.raw(",");
        }
        self.items += 1;
    }

    /// `before`, the items and `after`; nothing where there are no items.
    pub(super) fn list<T>(
        &mut self,
        before: &str,
        items: impl IntoIterator<Item = T>,
        after: &str,
        mut each: impl FnMut(&mut Self, T),
    ) {
        let mut any = false;
        for item in items {
            self.raw(if any { "," } else { before });
            any = true;
            each(self, item);
        }
        if any {
            self.raw(after);
        }
    }

    /// The tools, as chat completions name them.
    pub(super) fn function_tools(&mut self, tools: &[ToolSpec]) {
        self.list(",\"tools\":[", tools, "]", |out, tool| {
            out.raw("{\"type\":\"function\",\"function\":{\"name\":");
            out.value(&tool.name);
            out.member("description", &tool.description);
            out.member("parameters", &tool.schema);
            out.raw("}}");
        });
    }
}

/// The further members of a request: what the wire asks for, and over it what the caller wants to say.
pub(super) fn members(options: &EncodeOptions, mut own: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in &options.extra {
        match (own.get_mut(key), value) {
            (Some(Value::Object(own)), Value::Object(more)) => own.extend(more.clone()),
            _ => {
                own.insert(key.clone(), value.clone());
            }
        }
    }
    own
}

/// The output limit of a request, if any is named; `asked` is the attempt's own.
pub(super) fn limit(asked: u64, prelude: u64) -> Option<u64> {
    [asked, prelude].into_iter().find(|limit| *limit > 0)
}

/// An image as an address that holds it.
pub(super) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media, image.data)
}
