//! The protocol itself, by the crate that its authors keep. Both ways of making acquaintance: `server/discover`, and
//! `initialize` where a server does not know that.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService, ServiceError};
use serde_json::{Map, Value};
use tokio::net::UnixStream;

use super::heard::{Bounded, Heard};
use super::{BoxFuture, Client, Connection, Cut, Met, Offered, Reply, Unanswered, reply};

/// Most pages of a list, most tools on them, and most bytes of these, that are read.
const MOST_PAGES: usize = 32;
const MOST_OFFERED: usize = 1024;
const MOST_LISTED: usize = 8 * 1024 * 1024;

/// Speaks the Model Context Protocol over a channel: one JSON message a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mcp;

impl Client for Mcp {
    fn connect(&self, channel: UnixStream) -> BoxFuture<'_, Result<Met, Unanswered>> {
        Box::pin(async move {
            let us = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
            // None of what a server may ask of a client: nobody sits here to be asked.
            let client = ClientConfig::new(ClientCapabilities::default(), us);
            let (read, write) = channel.into_split();
            let lifecycle = ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            };
            let heard = Arc::new(Heard::default());
            let read = Bounded::new(read, heard.clone());
            let service = client
                .serve_with_lifecycle((read, write), lifecycle)
                .await
                .map_err(|error| broken(&heard, &error.to_string()))?;
            let peer = Peer { service, heard };
            let offered = peer.list().await?;
            Ok((Arc::new(peer) as Arc<dyn Connection>, offered))
        })
    }
}

struct Peer {
    service: RunningService<RoleClient, ClientConfig>,
    heard: Arc<Heard>,
}

impl Peer {
    async fn list(&self) -> Result<Vec<Offered>, Unanswered> {
        let mut offered = Vec::new();
        let mut cursor = None;
        let mut bytes = 0;
        for _ in 0..MOST_PAGES {
            let params =
                cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            self.heard.asked_again();
            let page = self.service.list_tools(params).await.map_err(|error| self.unanswered(error))?;
            bytes += page.tools.iter().map(size).sum::<usize>();
            offered.extend(page.tools.into_iter().map(|tool| Offered {
                name: tool.name.into_owned(),
                description: tool.description.map_or_else(String::new, std::borrow::Cow::into_owned),
                schema: Value::Object(tool.input_schema.as_ref().clone()),
            }));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(offered);
            }
            if offered.len() > MOST_OFFERED || bytes > MOST_LISTED {
                break;
            }
        }
        Err(Unanswered::Broken(format!("its list of tools does not end: {} so far", offered.len())))
    }

    fn unanswered(&self, error: ServiceError) -> Unanswered {
        match error {
            ServiceError::McpError(error) => Unanswered::Refused(said(&error.message)),
            other => broken(&self.heard, &other.to_string()),
        }
    }
}

/// Bytes of what a server says of a tool.
fn size(tool: &rmcp::model::Tool) -> usize {
    serde_json::to_vec(tool).map_or(MOST_LISTED, |json| json.len())
}

impl Connection for Peer {
    fn call<'a>(
        &'a self,
        tool: &'a str,
        args: &'a Map<String, Value>,
        cut: BoxFuture<'a, Cut>,
    ) -> BoxFuture<'a, Result<Reply, Unanswered>> {
        Box::pin(async move {
            let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args.clone());
            // Dropped before it is answered, it tells the server that nobody waits any more.
            self.heard.asked_again();
            let called = self.service.call_tool_once(params);
            let answer = tokio::select! {
                biased;
                answer = called => answer.map_err(|error| self.unanswered(error))?,
                cut = cut => return Err(Unanswered::Cut(cut)),
            };
            match answer {
                CallToolResponse::Complete(result) => Ok(reply::of(result)),
                CallToolResponse::InputRequired(_) => Err(Unanswered::Refused(
                    "it wants to ask somebody for more, and nobody is there".to_owned(),
                )),
                CallToolResponse::Task(_) => Err(Unanswered::Refused(
                    "it wants to go on with it later, which is not waited for".to_owned(),
                )),
                _ => Err(Unanswered::Broken("its answer is of an unknown kind".to_owned())),
            }
        })
    }
}

/// A connection that is no more: for what the reader gave it up, where it did, which the protocol's crate does not say.
fn broken(heard: &Heard, error: &str) -> Unanswered {
    Unanswered::Broken(heard.given_up().map_or_else(|| said(error), str::to_owned))
}

/// What a server says, in a sentence of ours.
fn said(text: &str) -> String {
    const LONGEST: usize = 500;
    crate::text::show::clip(&provost_core::text::visible(text, provost_core::text::Lines::Escape), LONGEST)
}
