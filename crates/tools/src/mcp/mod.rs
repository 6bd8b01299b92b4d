//! Tools of servers that are somebody else's, by the Model Context Protocol.
//!
//! All that a server says is a hint from outside: names, descriptions and schemas are cleaned and bounded before a model
//! is told of them, and what cannot be told is left out with words. What the server says of its tools' effects decides
//! nothing.

mod client;
mod fit;
mod heard;
mod reply;
mod schema;
mod tool;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::net::UnixStream;

pub use client::Mcp;
pub use fit::{Fitted, fit};
pub use tool::ForeignTool;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server that answers, and the tools that it says it has.
pub type Met = (Arc<dyn Connection>, Vec<Offered>);

/// Speaks with servers.
pub trait Client: Send + Sync {
    /// Makes the acquaintance of a server over `channel`, and asks for its tools. Takes as long as the server does: the
    /// caller bounds it.
    fn connect(&self, channel: UnixStream) -> BoxFuture<'_, Result<Met, Unanswered>>;
}

/// A server that answers.
pub trait Connection: Send + Sync {
    /// Calls a tool by the server's own name for it. Once `cut` comes back the server is told that nobody waits any more,
    /// and the call is over.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        args: &'a Map<String, Value>,
        cut: BoxFuture<'a, Cut>,
    ) -> BoxFuture<'a, Result<Reply, Unanswered>>;
}

/// A tool as a server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
}

/// What a server said to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its words; what is no text is named with its size.
    pub text: String,
    /// Whether it says that the call failed.
    pub is_error: bool,
}

/// Why nobody waits for a call any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Its time is over.
    TimedOut,
    /// The run is to stop.
    Interrupted,
}

/// A server gave no answer that is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// It is gone, or what it said is not the protocol. Whether it did what it was asked for, nobody knows.
    Broken(String),
    /// It refused the request as such, and says why.
    Refused(String),
    /// Nobody waited any more.
    Cut(Cut),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(why) => write!(f, "it did not answer: {why}"),
            Self::Refused(why) => write!(f, "it refused: {why}"),
            Self::Cut(Cut::TimedOut) => f.write_str("it did not answer in time"),
            Self::Cut(Cut::Interrupted) => f.write_str("it was interrupted"),
        }
    }
}
