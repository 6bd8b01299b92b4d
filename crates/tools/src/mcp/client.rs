//! The protocol itself, by the crate that its authors keep. Both ways of making acquaintance: `server/discover`, and
//! `initialize` where a server does not know that.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService, ServiceError};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::UnixStream;

use super::{BoxFuture, Client, Connection, Cut, Met, Offered, Reply, Unanswered, reply};

/// Longest message of a server, in bytes. The rest of a server's words is not held for it.
const LONGEST_MESSAGE: usize = 8 * 1024 * 1024;

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
            let service = client
                .serve_with_lifecycle((Bounded { inner: read, line: 0 }, write), lifecycle)
                .await
                .map_err(|error| Unanswered::Broken(said(&error.to_string())))?;
            let offered = list(&service).await?;
            Ok((Arc::new(Peer(service)) as Arc<dyn Connection>, offered))
        })
    }
}

struct Peer(RunningService<RoleClient, ClientConfig>);

async fn list(service: &RunningService<RoleClient, ClientConfig>) -> Result<Vec<Offered>, Unanswered> {
    let mut offered = Vec::new();
    let mut cursor = None;
    let mut bytes = 0;
    for _ in 0..MOST_PAGES {
        let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let page = service.list_tools(params).await.map_err(unanswered)?;
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
            let called = self.0.call_tool_once(params);
            let answer = tokio::select! {
                biased;
                answer = called => answer.map_err(unanswered)?,
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

fn unanswered(error: ServiceError) -> Unanswered {
    match error {
        ServiceError::McpError(error) => Unanswered::Refused(said(&error.message)),
        other => Unanswered::Broken(said(&other.to_string())),
    }
}

/// What a server says, in a sentence of ours.
fn said(text: &str) -> String {
    const LONGEST: usize = 500;
    crate::text::show::clip(&provost_core::text::visible(text, provost_core::text::Lines::Escape), LONGEST)
}

/// A reader whose lines have an end.
struct Bounded<R> {
    inner: R,
    /// Bytes since the last line ended.
    line: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = polled {
            let read = &buf.filled()[before..];
            self.line = match memchr::memrchr(b'\n', read) {
                Some(end) => read.len() - end - 1,
                None => self.line + read.len(),
            };
            if self.line > LONGEST_MESSAGE {
                let why = format!("a message has more than {LONGEST_MESSAGE} bytes");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
            }
        }
        polled
    }
}
