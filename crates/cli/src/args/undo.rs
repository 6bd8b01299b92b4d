//! What was typed to look back and to go back.
//!
//! Steps are counted as `provost log` shows them, from 1; the state after step 0 is the start of the run.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use provost::core::id::RunId;

use super::StoreArg;

#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// Only what this step changed, by its number in `provost log`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) step: Option<u32>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per changed file on standard output, content named by digest.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rewind {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// Back to the state after this step, by its number in `provost log`; 0 is the start of the run.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) step: u32,
    /// Only this file, or all that lies beneath this folder; from the workspace's top. Repeatable.
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Print what would change as a patch, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per file on standard output, and one for the whole.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fork {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// From the state after this step, by its number in `provost log`; 0 is the start of the run.
    #[arg(long, value_name = "N")]
    pub(crate) step: u32,
    /// Folder for the new run's files; it must not exist or be empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Name of the new run: 4 to 64 characters of a-z, 0-9 and `-` [default: a fresh one].
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<RunId>,
    /// Make a plain folder, not a work tree of the run's git repository.
    #[arg(long)]
    pub(crate) no_worktree: bool,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
