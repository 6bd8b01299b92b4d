//! What people and programs see of a run.

mod console;
mod json;
mod report;

pub(crate) use console::Console;
pub(crate) use json::JsonLines;
pub(crate) use report::{cost, duration, ending_line, receipt_lines, tokens};
