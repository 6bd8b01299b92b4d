//! What people and programs see of a run.

mod changes;
mod console;
mod json;
mod preview;
mod report;
pub(crate) mod words;

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use provost::core::text::{Lines, visible};

pub(crate) use console::Console;
pub(crate) use json::JsonLines;

/// Prints a line to standard output.
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::render::put(&format!("{}\n", format_args!($($arg)*)))
    };
}
pub(crate) use say;

pub(crate) use changes::{Changed, word};
pub(crate) use preview::Preview;
pub(crate) use report::{cost, ending_line, going_on, routing_lines, standing, strength_lines, tokens};
pub(crate) use words::{counted, duration};

/// The first error of standard output other than that its reader went away.
static LOST: OnceLock<String> = OnceLock::new();

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes to standard output. A reader that went away has seen what it wanted: that is no failure. After any other
/// error the work goes on, and [`lost`] tells the exit code that the output is not whole.
pub(crate) fn put(text: &str) {
    put_bytes(text.as_bytes());
}

fn put_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = LOST.set(error.to_string());
        }
        Err(_) => CLOSED.store(true, Ordering::Relaxed),
        Ok(()) => {}
    }
}

/// Whether whoever read standard output went away: a command that only prints has nothing left to do.
pub(crate) fn closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Writes a patch to standard output: to a program byte for byte, to a terminal with all that could deceive written out.
pub(crate) fn put_patch(patch: &[u8]) {
    if crate::world::World::stdout_is_terminal() {
        put(&visible(&String::from_utf8_lossy(patch), Lines::Keep));
    } else {
        put_bytes(patch);
    }
}

/// Why a part of the output was lost, if one was.
pub(crate) fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}
