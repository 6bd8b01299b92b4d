//! What people and programs see of a run.

mod console;
mod json;
mod report;

pub(crate) use console::Console;
pub(crate) use json::JsonLines;
/// Prints a line to standard output. A reader that went away has seen what it wanted: that is no failure.
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout().lock(), $($arg)*);
    }};
}
pub(crate) use say;

pub(crate) use report::{act_lines, cost, duration, ending_line, tokens};
