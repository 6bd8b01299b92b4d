//! One JSON object a line: events exactly as the journal has them, then what else there is to say.

use std::io::Write;

use provost::agent::{Observer, Words};
use provost::core::event::Event;
use provost::evidence::canonical::to_canonical;

/// Prints each event as it becomes durable.
#[derive(Debug, Default)]
pub(crate) struct JsonLines;

impl Observer for JsonLines {
    fn event(&self, event: &Event, _: &dyn Words) {
        if let Ok(json) = to_canonical(event) {
            line(&json);
        }
    }
}

impl JsonLines {
    /// Prints one object that is not an event.
    pub(crate) fn say(value: &serde_json::Value) {
        line(value.to_string().as_bytes());
    }
}

fn line(json: &[u8]) {
    let mut out = std::io::stdout().lock();
    // A reader that went away has seen what it wanted.
    let _ = out.write_all(json).and_then(|()| out.write_all(b"\n"));
}
