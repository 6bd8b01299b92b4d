//! The journal: fenced appends, leases, blobs and projections over SQLite.
//!
//! A [`Store`] has one write, [`Store::append`]: atomic, durable when it returns, refused for a wrong head or a stale
//! lease. All else is a read, a lease or a projection. There is no policy here and nothing of the agent. What is done
//! to runs beside driving them is [`Retention`].
//!
//! [`SqliteStore`] keeps any number of runs in one file. Start reading in `sqlite/writer.rs`: one thread per handle
//! writes, and what waits while it commits shares the next commit.

mod error;
mod lease;
mod letter;
mod owner;
mod projection;
mod retention;
mod sqlite;
mod store;

pub use error::StoreError;
pub use lease::Lease;
pub use letter::{Letter, Posted, Word};
pub use owner::Owner;
pub use projection::{Holder, RunRow, Standing};
pub use retention::{Content, Retention, RunUsage};
pub use sqlite::{FileSize, SqliteStore};
pub use store::{Appended, Blob, BoxFuture, Store};

pub use provost_evidence::chain::Head;
pub use provost_evidence::content::Salt;
