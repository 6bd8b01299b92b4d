//! The arguments of rust-agent-runtime 0.1.2: positionals only, as its scripts have them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Subcommand;

/// The name under which the program takes these arguments without a word before them.
const ITS_NAME: &str = "rust-agent-runtime";

#[derive(Debug, clap::Args)]
#[command(
    display_name = "rust-agent-runtime",
    version = concat!("0.1.2 (provost ", env!("CARGO_PKG_VERSION"), ")"),
    after_long_help = HELP
)]
pub(crate) struct AgentRuntime {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Take the name of a task: `enqueued=true`, or `enqueued=false` where there is such a task.
    Enqueue {
        /// Folder of the tasks.
        dir: PathBuf,
        /// The task: text without tabs and line feeds.
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
    /// Print the tasks as a table. Reads, and makes nothing.
    Status {
        /// Folder of the tasks.
        dir: PathBuf,
    },
    /// Print the tasks as a table, again and again.
    Watch {
        /// Folder of the tasks.
        dir: PathBuf,
        /// Milliseconds between two tables.
        #[arg(value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
        ms: u64,
    },
    /// End a task without its work: `cancelled=ID`. It stays cancelled.
    Cancel {
        /// Folder of the tasks.
        dir: PathBuf,
        /// The task.
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
    /// Do a task, or go on with one, as the variables AGENT_* and AGY_* say.
    Run {
        /// Folder of the tasks; outside of the workspace.
        dir: PathBuf,
        /// The task.
        #[arg(allow_hyphen_values = true)]
        id: String,
        /// The folder that is worked on. It need not be a git repository.
        workspace: PathBuf,
    },
    /// Take over the tasks that wait in an old `DIR/events.log`, and say what else is in it.
    Import {
        /// Folder of the tasks.
        dir: PathBuf,
    },
    /// The demonstration of Provost: another story than the one of rust-agent-runtime.
    Demo,
}

const HELP: &str = r#"A link named `rust-agent-runtime` to this program takes the verbs without `agent-runtime` before
them.

Exit codes are Provost's: 0 done, 1 the verification did not pass or nothing was changed, 2
usage, 3 refused, 4 the limit of steps, 5 a person must decide, 6 the program that decides
failed, 7 somebody else has the task, 8 a damaged store, 9 no containment, 10 cancelled or
without progress, 130 interrupted. Scripts that asked for 1 on every failure ask for "not 0".

The variables of `run`: AGENT_TASK, AGENT_ALLOWED (required); AGENT_VERIFY (required: `;`
between whole commands, quotes as in a shell, or JSON lists); AGENT_MAX_STEPS (8),
AGENT_TIMEOUT_SECS (120), AGENT_MAX_OBSERVATION_BYTES (16384), AGENT_MAX_OUTPUT_BYTES (65536);
AGY_BIN (agy), AGY_MODEL, AGY_WORK_DIR; AGENT_FAKE_PROVIDER, a script in place of AGY_BIN.

What is otherwise than it was:
- The store is `DIR/provost.db`: `provost log`, `show` and `export` with `--store
  DIR/provost.db` tell all of a task. Its run is `t-ID` where ID has only a-z, 0-9 and `-` (2 to
  62), `b-` and the ID in base32 otherwise (at most 38 bytes).
- An old `events.log` is read, never written. `status` shows its tasks that the store does not
  have, and warns of what was torn or overwritten. A task that waits in it can be run and
  cancelled; for one that ended, or of which it says that it runs, take a new ID. Do not let the
  old program write there meanwhile.
- `run` again: a task that is over prints its result again, one that was interrupted goes on
  where it stopped (with the same variables), one whose program that decides failed is tried
  again, a cancelled one is an error.
- Where nobody can tell whether a command ran to its end (the machine went down under it), the
  task waits (5). Look, and run it again with PROVOST_SETTLE=happened, did-not or again.
- In `status`, what nobody drives and can be run again is Queued; a task of which the deciding
  program failed is Failed, and can be run again too.
- Programs run contained and without network, with an environment of their own; what they change
  is found and recorded. Where the host cannot contain them, nothing runs (9). Only
  AGENT_ALLOWED runs; another one is refused, and told.
- A `finish` is accepted after a `replace_text` when AGENT_VERIFY passes in a fresh copy of the
  files (ignored ones left out), so a `verify` before it is not needed and not enough. Several
  commands run as `sh -c 'A && B'`, each word quoted. A task that ends as it began is failed.
  Five times the same failing decision ends it (10).
- The deciding program is looked for from the folder of the caller and must lie outside of the
  workspace. It runs in an empty folder of its own unless AGY_WORK_DIR names one (it may do
  there whatever it likes); it sees PATH, HOME, LANG, TERM, AGY_*, GEMINI_* and GOOGLE_*, a
  script FAKE_* as well. One that fails is tried three times. Its answer may have 1 MiB.
- A line feed in a summary is written `\u{a}`; a failed run prints its tokens too."#;

/// The arguments as this program takes them: where it was started under the name of rust-agent-runtime, its verbs.
pub(super) fn translated(mut words: Vec<OsString>) -> Vec<OsString> {
    let called = words.first().and_then(|word| Path::new(word).file_name());
    if called.is_some_and(|name| name == ITS_NAME) {
        words.insert(1, OsString::from("agent-runtime"));
    }
    words
}
