//! A provider that asks a *program* for each decision: a command-line client of a model, or a script in its place.
//!
//! The program is started once per decision, reads what is known, and prints one JSON envelope
//! `{"status":"SUCCESS","structured_output":{"kind":…},"usage":{…}}`. Only the decision is taken; the program carries
//! out nothing of it. It becomes calls of our own tools, which pass the door like every other call:
//!
//! | decision | calls |
//! | --- | --- |
//! | `run_tool {program, args}` | `exec` |
//! | `read_file {path}` | `read_file` |
//! | `replace_text {path, expected, replacement}` | `edit_file` |
//! | `verify` | `exec`, once for each configured command, in order |
//! | `finish {summary}` | `submit` |
//!
//! **What fails and what is told.** An envelope that is broken, or a program that fails, is a [`Failure`] of a class that
//! is tried again. A decision that is not one (an unknown kind, a field too many, a text too long) is no failure: the
//! same question would get the same answer. It becomes a call of [`REJECTED`], which is no tool; the loop refuses it, and
//! the planner reads why among its observations.
//!
//! **Where the context goes.** One argument can hold 128 KiB and is visible in `ps`. A script reads the request on
//! standard input. `agy` takes its prompt as an argument and nothing is documented about its standard input, so a short
//! prompt goes where it is known to work, and a long one (or every one: [`ContextBy::Stdin`]) goes to standard input,
//! where clients of its kind read it; one that does not is told to say so, and that is a failure with its reason.
//!
//! **What supervises it.** `provost-sandbox`'s supervisor without its containment ([`provost_sandbox::Tended`]): the one
//! way to find a descendant that called `setsid` or changed its group is to be its subreaper, which a library must not
//! make of the process that it lives in, and `unsafe` has its one place there. The program has all rights of its user.
//!
//! [`Failure`]: crate::Failure

mod builder;
mod decision;
mod dialogue;
mod envelope;
mod history;
mod process;
mod prompt;
mod resolve;
mod stream;

pub use builder::{Answers, BadPlanner, ContextBy, Finishes, Planner, PlannerBuilder};
pub use decision::{Decision, REJECTED, Rejected};
pub use resolve::{NoProgram, resolve};
