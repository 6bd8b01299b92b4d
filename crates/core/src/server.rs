//! Servers of tools that are somebody else's. Only the person who orders a run names them; nothing in a workspace does.
//!
//! A server is a background command of the run, which the contract itself orders. What it offers is on record the first
//! time that it says so, and that is what the model is told from then on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::ActId;

/// Most servers of a run.
pub const MOST_SERVERS: usize = 8;

/// Most tools of one server.
pub const MOST_TOOLS: usize = 64;

/// Longest name of a server, in bytes.
pub const LONGEST_NAME: usize = 20;

/// How long a server has for its start and for each call, unless the person says otherwise, in milliseconds.
pub const USUAL_TIMEOUT_MS: u64 = 60_000;

/// A server of tools, as the person declared it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name: 1 to 20 of `a-z`, `0-9` and `_`, without `__`. Rules call its tools `name.tool`.
    pub name: String,
    /// What starts it, an argument vector. It speaks over its standard input and output.
    pub argv: Vec<String>,
    /// Names of the environment variables that it gets beside those of every command.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub env: BTreeSet<String>,
    /// Its tools that only read, by the person's word: a call of one that was cut short needs nobody's decision.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reads: BTreeSet<String>,
    /// The tools that the model is offered; all that the server has where there is no such list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// How long its start and each call may take, in milliseconds.
    pub timeout_ms: u64,
}

impl Server {
    /// A server with the usual time limit, nothing in its environment, and no tool that is known to only read.
    ///
    /// ```
    /// use provost_core::server::Server;
    /// let server = Server::new("files", vec!["mcp-server-files".into()]);
    /// assert_eq!(server.check(), Ok(()));
    /// assert!(!server.offers_only_reading("list"));
    /// ```
    pub fn new(name: impl Into<String>, argv: Vec<String>) -> Self {
        Self {
            name: name.into(),
            argv,
            env: BTreeSet::new(),
            reads: BTreeSet::new(),
            tools: None,
            timeout_ms: USUAL_TIMEOUT_MS,
        }
    }

    /// Whether it can be one, and if not, why.
    ///
    /// # Errors
    ///
    /// A sentence on the first thing that is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let name = crate::text::visible(&self.name, crate::text::Lines::Escape);
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let named = (1..=LONGEST_NAME).contains(&self.name.len()) && self.name.bytes().all(fits);
        if !named || self.name.contains("__") || self.name.ends_with('_') {
            return Err(format!(
                "`{name}` is no name of a server: 1 to {LONGEST_NAME} of a-z, 0-9 and _, without __ and with no _ at its end"
            ));
        }
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(format!("the command of the server `{name}` is empty"));
        }
        if self.timeout_ms == 0 {
            return Err(format!("the server `{name}` has no time at all"));
        }
        Ok(())
    }

    /// Whether the person says that this tool only reads.
    pub fn offers_only_reading(&self, tool: &str) -> bool {
        self.reads.contains(tool)
    }

    /// Whether the model is to be offered this tool, if the server has it.
    pub fn is_wanted(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.contains(tool))
    }
}

/// Whether these can be the servers of one run.
///
/// # Errors
///
/// A sentence on the first thing that is wrong with them.
pub fn check(servers: &[Server]) -> Result<(), String> {
    if servers.len() > MOST_SERVERS {
        return Err(format!("{} servers of tools are more than the {MOST_SERVERS} of a run", servers.len()));
    }
    for (index, server) in servers.iter().enumerate() {
        server.check()?;
        if servers[..index].iter().any(|other| other.name == server.name) {
            return Err(format!("two servers of tools are called `{}`", server.name));
        }
    }
    Ok(())
}

/// How rules and the journal call a server's tool.
///
/// ```
/// assert_eq!(provost_core::server::called("git", "git_log"), "git.git_log");
/// ```
pub fn called(server: &str, tool: &str) -> String {
    format!("{server}.{tool}")
}

/// The tool that an act which starts a server is recorded under.
pub fn starter(server: &str) -> String {
    format!("{STARTER}{server}")
}

/// The server that an act recorded under this tool starts.
pub fn started_by(tool: &str) -> Option<&str> {
    tool.strip_prefix(STARTER)
}

const STARTER: &str = "server ";

/// What the result of an act that started a server begins with, where the server did not come up: the act itself is done.
pub fn came_not_up(server: &str) -> String {
    format!("The server `{server}` was started and did not come up")
}

/// A server said what tools it has. The first such word of a run holds; another one is measured against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerListed {
    /// Which server.
    pub server: String,
    /// The act that started it.
    pub act: ActId,
    /// The tools that the model is offered, by the server's own names: how the model is told of each (JSON, blob).
    pub tools: BTreeMap<String, Digest>,
    /// Tools that are not what they were when the run took the list: another description or schema, new, or gone. They
    /// are not called until a person accepts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// A person takes a server's tools as they are now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerAccepted {
    /// Which server.
    pub server: String,
    /// Who says so.
    pub by: String,
}
