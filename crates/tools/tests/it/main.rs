//! What tools do to real folders, and what a model reads of it.
#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    clippy::unnecessary_wraps,
    reason = "a test that cannot set itself up fails, and its texts are small"
)]

mod calls;
mod cases;
mod duplicate;
mod edit;
mod files;
mod git_names;
mod mcp;
mod patch;
mod scan;
mod search;
mod shell;
mod started;
mod support;
