//! One JSON object a line: events exactly as the journal has them, then what else there is to say.

use provost::agent::{Observer, Words};
use provost::core::event::Event;
use provost::evidence::canonical::to_canonical;

/// Prints each event as it becomes durable.
#[derive(Debug, Default)]
pub(crate) struct JsonLines;

impl Observer for JsonLines {
    fn event(&self, event: &Event, _: &dyn Words) {
        Self::print(event);
    }
}

impl JsonLines {
    /// Prints one event.
    pub(crate) fn print(event: &Event) {
        if let Ok(json) = to_canonical(event) {
            super::put(&format!("{}\n", String::from_utf8_lossy(&json)));
        }
    }

    /// Prints one object that is not an event.
    pub(crate) fn say(value: &serde_json::Value) {
        super::put(&format!("{value}\n"));
    }
}
