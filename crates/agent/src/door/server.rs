//! Servers of tools: their start, what they offer, and that they are gone. Each is a background command that the contract
//! orders, in the memory of this driver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::act::{ActEnd, Intent, Recovery};
use provost_core::digest::Digest;
use provost_core::event::{Body, ServerAccepted, ServerListed};
use provost_core::id::{ActId, AgentId};
use provost_core::outcome::Pause;
use provost_core::server::{Server, came_not_up, starter};
use provost_core::transcript::ToolSpec;
use provost_sandbox::RunError as CommandError;
use provost_tools::mcp::{Connection, Cut, Fitted, ForeignTool, Met, Unanswered, fit};
use provost_tools::{CommandRequest, Effect, Exec, Registry, Tool};
use serde_json::json;
use tokio::net::UnixStream;

use super::background::Live;
use super::network::serve_dial;
use super::{ActResult, millis};
use crate::checkout::Place;
use crate::driver::Driver;
use crate::error::RunError;
use crate::runtime::Drift;
use crate::talk::{Asked, Talk};

/// Bytes of what a server wrote to standard error that are told where it did not come up.
const LAST_WORDS: usize = 800;

/// Servers that run under this driver, and why others do not.
#[derive(Default)]
pub(crate) struct Servers {
    pub(super) connections: BTreeMap<String, Arc<dyn Connection>>,
    pub(super) failed: BTreeMap<String, String>,
}

/// How it went to make a server's acquaintance.
type Came = Result<Met, String>;

impl Driver<'_> {
    fn server_named(&self, name: &str) -> Result<Server, RunError> {
        let server = self.recorder.state().server(name).cloned();
        server.ok_or_else(|| RunError::Internal(format!("the contract has no server `{name}`")))
    }

    /// Puts the start of a server before the policy, like any act.
    pub(crate) fn order_server(&mut self, name: &str) -> Result<(), RunError> {
        let args = json!({ "argv": self.server_named(name)?.argv });
        let cannot = |why: String| RunError::Server { server: name.to_owned(), why };
        let touches = self
            .in_context(&[], |ctx| Exec::default().touches(&args, ctx))
            .map_err(|bad| cannot(bad.to_string()))?;
        let act = self.put_before_policy(None, &starter(name), &args, touches, Recovery::Supervised)?;
        let open = self.open_act(act)?;
        if open.is_refused() {
            self.servers
                .failed
                .insert(name.to_owned(), format!("the policy does not allow it: {}", open.decision));
        }
        self.refuse_if_denied(act)
    }

    /// Starts a server and makes its acquaintance.
    pub(super) async fn perform_server(&mut self, act: ActId, server: &Server) -> Result<(), RunError> {
        let begun = Instant::now();
        let request = match self.server_request(server) {
            Ok(request) => request,
            Err(why) => {
                self.servers.failed.insert(server.name.clone(), why.clone());
                return self.fail(act, &format!("{why}. Nothing was run."));
            }
        };
        // It is there for all agents, so that it is held to what the contract says and to no orders of whoever calls first.
        self.look_before_command(AgentId::ROOT).await?;
        let place = Place { sandbox: self.sandbox.clone(), root: self.files.root().to_owned() };
        self.make_record(act)?;
        let (argv, cwd) = (request.argv.clone(), request.cwd.clone());
        self.start(act, Intent::Background { argv, cwd, limit_ms: None, publish: None }).await?;
        let mut command = self.command(act, &place, &request, Duration::MAX);
        let egress = self.give_network(act, &mut command, self.dials.0.clone());
        let channel = match place.sandbox.serve(command).await {
            Ok((command, channel)) => {
                self.background.insert(act, Live { command, egress, published: None });
                channel
            }
            Err(CommandError::NotStarted(failure)) => {
                self.servers.failed.insert(server.name.clone(), failure.to_string());
                self.fail(act, &format!("{failure}. Nothing was run."))?;
                self.discard_record(act);
                return Ok(());
            }
            Err(error) => return Err(RunError::Internal(error.to_string())),
        };
        let met = self.meet(act, server, channel).await?;
        let (connection, offered) = match met {
            Ok(met) => met,
            Err(why) => return self.server_came_not_up(act, server, &why, begun).await,
        };
        let Fitted { tools, left_out } = fit(server, offered);
        let mut text = format!("The server `{}` runs and offers {} tools.", server.name, tools.len());
        for why in &left_out {
            text.push_str(&format!("\n{why}"));
        }
        let mut result = ActResult::of(ActEnd::Done, text);
        result.duration_ms = millis(begun);
        self.end(act, result)?;
        self.servers.connections.insert(server.name.clone(), connection);
        self.listed(act, server, tools).await
    }

    /// What starts a server: its command at the workspace's root, with the variables that the person named.
    fn server_request(&self, server: &Server) -> Result<CommandRequest, String> {
        let args = json!({ "argv": server.argv });
        let mut request = match self.in_context(&[], |ctx| Exec::default().prepare(&args, ctx)) {
            Ok(Effect::Command(request)) => request,
            Ok(_) => return Err("it is not a command".to_owned()),
            Err(failure) => return Err(failure.to_string()),
        };
        for name in &server.env {
            let value = (self.runtime.variables)(name).ok_or_else(|| {
                format!("it is to get the environment variable `{name}`, which is not set here; set it, or take it out")
            })?;
            request.env.insert(name.clone(), value);
        }
        Ok(request)
    }

    /// Speaks with a server for the first time. It may end, or say nothing: neither is waited for without end.
    async fn meet(
        &mut self,
        act: ActId,
        server: &Server,
        channel: std::os::fd::OwnedFd,
    ) -> Result<Came, RunError> {
        let channel = std::os::unix::net::UnixStream::from(channel);
        let channel = channel
            .set_nonblocking(true)
            .and_then(|()| UnixStream::from_std(channel))
            .map_err(|error| RunError::Internal(format!("the channel of a server: {error}")))?;
        let Some(command) = self.background.get(&act).map(|live| live.command.clone()) else {
            return Err(RunError::Internal("a server runs, and is not there".to_owned()));
        };
        let client = self.runtime.client.clone();
        let limit = Duration::from_millis(server.timeout_ms);
        let limit = self.time_left().map_or(limit, |left| limit.min(left));
        let met = tokio::time::timeout(limit, client.connect(channel));
        let ended = command.ended();
        tokio::pin!(met, ended);
        loop {
            tokio::select! {
                biased;
                Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
                met = &mut met => return Ok(match met {
                    Ok(Ok(met)) => Ok(met),
                    Ok(Err(unanswered)) => Err(unanswered.to_string()),
                    Err(_) => Err(format!("it said nothing for {} s", limit.as_secs_f64())),
                }),
                _ = &mut ended => return Ok(Err("it ended before it said what it offers".to_owned())),
                () = self.interrupt.requested() => return Ok(Err(Unanswered::Cut(Cut::Interrupted).to_string())),
            }
        }
    }

    /// Ends a server that did not come up, and keeps what it wrote last.
    async fn server_came_not_up(
        &mut self,
        act: ActId,
        server: &Server,
        why: &str,
        begun: Instant,
    ) -> Result<(), RunError> {
        let text = format!("{}: {why}.", came_not_up(&server.name));
        let mut result = ActResult::of(ActEnd::Done, text);
        result.duration_ms = millis(begun);
        self.end(act, result)?;
        if let Some(live) = self.background.get(&act) {
            live.command.kill();
        }
        let ended = self.await_end(act).await?;
        let said = match &ended {
            Ok(record) => [record.output.head.as_slice(), record.output.tail.as_slice()].concat(),
            Err(failure) => failure.to_string().into_bytes(),
        };
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LAST_WORDS)..]).trim().to_owned();
        let why = if said.is_empty() { why.to_owned() } else { format!("{why}. It wrote last:\n{said}") };
        self.servers.failed.insert(server.name.clone(), why);
        self.process_ended(act, ended).await
    }

    /// Puts on record what a server offers. What the model is told of it is what the run took first.
    async fn listed(
        &mut self,
        act: ActId,
        server: &Server,
        tools: BTreeMap<String, ToolSpec>,
    ) -> Result<(), RunError> {
        let mut kept: BTreeMap<String, Digest> = BTreeMap::new();
        for (name, spec) in tools {
            let json = serde_json::to_vec(&spec).map_err(|error| RunError::Internal(error.to_string()))?;
            kept.insert(name, self.recorder.content(json));
        }
        let name = server.name.clone();
        let state = self.recorder.state();
        let first = state.listed(&name).is_none();
        let changed = state.measured(&name, &kept);
        let drifted = !changed.is_empty();
        self.recorder.record(Body::ServerListed(ServerListed {
            server: name.clone(),
            act,
            tools: kept,
            changed,
        }))?;
        if drifted && self.runtime.drift == Drift::Accepted {
            self.accept_tools(&name)?;
            return self.tell_anew().await;
        }
        if first { self.tell_anew().await } else { Ok(()) }
    }

    fn accept_tools(&mut self, server: &str) -> Result<(), RunError> {
        let (server, by) = (server.to_owned(), "resume --accept-drift".to_owned());
        self.recorder.record(Body::ServerAccepted(ServerAccepted { server, by }))
    }

    /// Where the person takes servers' tools as they are now, says so of those that the journal knows to have changed.
    pub(crate) fn accept_drift(&mut self) -> Result<(), RunError> {
        if self.runtime.drift != Drift::Accepted || self.recorder.state().cancelled().is_some() {
            return Ok(());
        }
        let state = self.recorder.state();
        let servers = state.created().map(|created| created.servers.clone()).unwrap_or_default();
        let changed = |server: &&Server| self.recorder.state().changed_tools(&server.name).next().is_some();
        let names: Vec<String> = servers.iter().filter(changed).map(|server| server.name.clone()).collect();
        names.iter().try_for_each(|name| self.accept_tools(name))
    }

    /// Takes the tools of the run's servers as the journal has them, beside its own.
    pub(crate) async fn take_tools(&mut self) -> Result<(), RunError> {
        let state = self.recorder.state();
        let servers = state.created().map(|created| created.servers.clone()).unwrap_or_default();
        let mut tools: Registry = self.runtime.tools.clone();
        let mut specs = self.own_specs.clone();
        for server in &servers {
            let listed = self.recorder.state().listed(&server.name).cloned().unwrap_or_default();
            for (name, digest) in listed {
                let spec: ToolSpec =
                    serde_json::from_slice(&self.recorder.bytes(&digest).await?).map_err(|error| {
                        RunError::Gone(format!("a tool of `{}` does not parse: {error}", server.name))
                    })?;
                specs.push(spec.clone());
                tools
                    .add(Arc::new(ForeignTool::new(server, &name, spec)))
                    .map_err(|bad| RunError::Gone(format!("the tools of `{}`: {bad}", server.name)))?;
            }
        }
        self.tools = tools;
        self.root_prelude.tools.clone_from(&specs);
        self.prelude.tools = specs;
        Ok(())
    }

    /// Tells the model of its tools anew, and then all that was said.
    async fn tell_anew(&mut self) -> Result<(), RunError> {
        self.show_model_what_is_durable().await?;
        self.take_tools().await?;
        let messages = self.recorder.all_messages(self.agent).await?;
        let asked = Asked::of(&self.recorder.events().await?).remove(&self.agent).unwrap_or_default();
        self.open_talk()?;
        self.say_again(&messages, &asked)
    }

    /// Begins the dialogue with whoever is asked, who is told of the tools as they are now.
    pub(crate) fn open_talk(&mut self) -> Result<(), RunError> {
        let (route, prelude) = (self.talk.route, self.prelude.clone());
        let provider = self.runtime.asked(route)?;
        self.talk = Talk::open(route, provider.as_ref(), prelude, self.recorder.salt());
        Ok(())
    }

    /// A run whose server has never said what it offers goes no further: the model would be told of too little.
    pub(crate) async fn stop_without_servers(&mut self) -> Result<(), RunError> {
        let state = self.recorder.state();
        let servers = state.created().map(|created| created.servers.as_slice()).unwrap_or_default();
        let Some(missing) = servers.iter().find(|server| state.listed(&server.name).is_none()) else {
            return Ok(());
        };
        let server = missing.name.clone();
        let why = self.servers.failed.get(&server).cloned();
        self.detach(Pause::Interrupted, None).await?;
        let why = why.unwrap_or_else(|| "it did not say what it offers".to_owned());
        Err(RunError::Server { server, why })
    }
}
