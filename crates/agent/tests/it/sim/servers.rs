//! A server of tools without a process: it does what a call says, and the world counts each.

use std::sync::Arc;

use provost_core::act::Intent;
use provost_core::event::Body;
use provost_core::server::Server;
use provost_tools::mcp::{BoxFuture, Client, Connection, Cut, Met, Offered, Reply, Unanswered};
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;

use super::commands::carry_out;
use super::world::{Ran, World};

pub(crate) const SERVER: &str = "post";

/// A server whose tool `mail` has an effect and whose tool `look` has none.
pub(crate) fn server() -> Server {
    let mut server = Server::new(SERVER, vec!["sh".into(), "-c".into(), "serve".into()]);
    server.reads.insert("look".to_owned());
    server
}

pub(crate) struct SimClient(pub(crate) Arc<World>);

struct Peer(Arc<World>);

fn offered(name: &str) -> Offered {
    let schema =
        json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    Offered { name: name.to_owned(), description: format!("the tool {name}"), schema }
}

impl Client for SimClient {
    fn connect(&self, _: UnixStream) -> BoxFuture<'_, Result<Met, Unanswered>> {
        self.0.pass("before a server said what it offers");
        let peer = Arc::new(Peer(self.0.clone())) as Arc<dyn Connection>;
        Box::pin(std::future::ready(Ok((peer, vec![offered("mail"), offered("look")]))))
    }
}

impl Connection for Peer {
    fn call<'a>(
        &'a self,
        tool: &'a str,
        args: &'a Map<String, Value>,
        _: BoxFuture<'a, Cut>,
    ) -> BoxFuture<'a, Result<Reply, Unanswered>> {
        let line = args["text"].as_str().unwrap().to_owned();
        // I2: the call that is made is the newest that the journal says begins.
        let started = self.0.with(|state| {
            let newest = state.events.iter().rev().find_map(|event| match &event.body {
                Body::ActFinished(body) => Some((body.act, None)),
                Body::ActStarted(body) => Some((body.act, Some(body.intent.clone()))),
                _ => None,
            });
            newest.unwrap()
        });
        let call = Intent::Call { server: SERVER.to_owned(), tool: tool.to_owned() };
        assert_eq!(started.1, Some(call), "a tool is called, and the journal does not say that it may be");
        self.0.pass("before a call");
        if tool == "mail" {
            self.0.with(|state| state.ran.push(Ran { act: started.0, line: line.clone() }));
            carry_out(&self.0.root, &line);
        }
        self.0.pass("after a call whose answer is lost");
        Box::pin(std::future::ready(Ok(Reply { text: "sent".to_owned(), is_error: false })))
    }
}
