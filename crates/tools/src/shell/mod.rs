//! Lines of a shell: read by bash's grammar, every command of theirs decided on before anything starts.

mod background;
mod builtins;
mod documents;
mod expansions;
mod files;
mod made;
mod names;
mod parse;
mod tests;
mod tool;
mod walk;
mod words;

pub use background::{ShellKill, ShellPoll, ShellStart};
pub use tool::Shell;
pub(crate) use walk::started_by;
