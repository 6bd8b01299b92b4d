//! The driver: context assembly, the loop, the door and recovery.
//!
//! Start reading at [`Runtime`]. One step takes this path: `driver.rs` asks the state machine what is next, `ask.rs`
//! asks the model, `door.rs` decides on each call and carries it out, `recorder.rs` writes what happened.

mod ahead;
mod ask;
mod asking;
mod brief;
mod checkout;
mod door;
mod driver;
mod duplicate;
mod error;
mod executor;
mod export;
mod files;
mod fold;
mod fork;
mod fork_content;
mod fork_files;
mod gate;
mod git_guard;
mod guard;
mod host;
mod ignores;
mod interrupt;
mod lease;
mod mail;
mod meter;
mod observe;
mod prompt;
mod queue;
mod recorder;
mod removal;
mod rewind;
mod runtime;
mod schema;
mod schema_work;
mod stop;
mod talk;
mod tree;
mod undo;
mod worker;

pub use asking::lost_request;
pub use brief::image;
pub use driver::Ending;
pub use error::RunError;
pub use executor::{Background, Contained, Executor, Host, Served};
pub use export::{ExportError, Exported, export};
pub use fork::{ForkOrder, ForkPlace, Forked};
pub use host::{command_environment, toolchain_folders};
pub use interrupt::Interrupt;
pub use observe::{Always, Approver, Asker, Observer, Question, Unobserved, Word, Words};
pub use queue::{Enqueued, Queued, enqueue, reserve, source_of};
pub use rewind::{Rewound, Target};
pub use runtime::{Answer, Clock, Drift, Order, Runtime, Says, Session, Variables, system_clock};
pub use stop::{Stopping, stop};
pub use undo::Undo;
pub use worker::{Left, Shop, Until, Worker};
