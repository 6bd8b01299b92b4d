//! Servers of tools: which run, what each offers, what of that is no longer what it was.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{Checked, must};
use super::{Next, OpenAct, RunState};
use crate::act::{ActEnd, Intent, Recovery, Touch};
use crate::digest::Digest;
use crate::event::{ActDecided, ActFinished, ProcessEnded, ServerAccepted, ServerListed};
use crate::id::ActId;
use crate::server::{MOST_TOOLS, Server, called, started_by};

/// What the events say of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Standing {
    /// What the model is told of: the server's first list, or the newest that a person accepted.
    listed: Option<BTreeMap<String, Digest>>,
    /// Its newest list, where that is another one.
    now: Option<BTreeMap<String, Digest>>,
    changed: BTreeSet<String>,
    /// The act that started it, as long as it runs and has said what it offers.
    running: Option<ActId>,
    /// It did not come up under this driver, which does not try again.
    failed: bool,
}

/// All servers, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Servers(BTreeMap<String, Standing>);

impl RunState {
    /// The contract's server of that name.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.created.as_ref()?.servers.iter().find(|server| server.name == name)
    }

    /// The tools of a server that the model is told of, and how it is told of each (blob); none where it has not said yet.
    pub fn listed(&self, server: &str) -> Option<&BTreeMap<String, Digest>> {
        self.servers.0.get(server)?.listed.as_ref()
    }

    /// Tools of a server that are not what the model was told.
    pub fn changed_tools(&self, server: &str) -> impl Iterator<Item = &str> {
        let changed = self.servers.0.get(server).map(|standing| &standing.changed);
        changed.into_iter().flatten().map(String::as_str)
    }

    /// The act that started a server, if it runs and has said what it offers.
    pub fn running_server(&self, server: &str) -> Option<ActId> {
        self.servers.0.get(server)?.running
    }

    /// The tools of a list that are not what the model was told. None of a first list.
    pub fn measured(&self, server: &str, tools: &BTreeMap<String, Digest>) -> Vec<String> {
        let Some(known) = self.listed(server) else {
            return Vec::new();
        };
        let all: BTreeSet<&String> = known.keys().chain(tools.keys()).collect();
        all.into_iter().filter(|tool| known.get(*tool) != tools.get(*tool)).cloned().collect()
    }

    /// The server that this act starts, if it is such an act.
    pub fn starts_server(&self, act: &OpenAct) -> Option<&Server> {
        act.call.is_none().then(|| started_by(&act.tool)).flatten().and_then(|name| self.server(name))
    }

    /// An act under way that starts a server comes before the call that needs it.
    pub(super) fn open_start(&self) -> Option<(ActId, &OpenAct)> {
        self.open.iter().find(|(_, act)| self.starts_server(act).is_some()).map(|(id, act)| (*id, act))
    }

    /// The server that has to be started before this act can be carried out.
    pub(super) fn server_needed(&self, act: &OpenAct) -> Option<String> {
        let (server, _) = self.callee(&act.touches)?;
        let standing = self.servers.0.get(&server.name);
        let there = standing.is_some_and(|standing| standing.running.is_some() || standing.failed);
        (!there).then(|| server.name.clone())
    }

    /// A server that has yet to say what it offers.
    pub(super) fn server_unlisted(&self) -> Option<String> {
        let servers = &self.created.as_ref()?.servers;
        let due = |server: &&Server| {
            let standing = self.servers.0.get(&server.name);
            standing.is_none_or(|standing| standing.listed.is_none() && !standing.failed)
        };
        servers.iter().find(due).map(|server| server.name.clone())
    }

    /// The server and tool that an act with these touches calls.
    fn callee(&self, touches: &[Touch]) -> Option<(&Server, String)> {
        let [Touch::Call { tool }] = touches else {
            return None;
        };
        let (server, tool) = tool.split_once('.')?;
        Some((self.server(server)?, tool.to_owned()))
    }

    /// Only the person's own word makes a call one that needs nobody's decision when it was cut short.
    pub(super) fn only_reads(&self, touches: &[Touch]) -> bool {
        self.callee(touches).is_some_and(|(server, tool)| server.offers_only_reading(&tool))
    }

    /// An act that no call asks for and that starts a server: the one that is due, as the contract has it.
    pub(super) fn check_server_act(&self, name: &str, body: &ActDecided) -> Checked {
        let Some(server) = self.server(name) else {
            return Err("it starts a server that the contract does not name".to_owned());
        };
        let as_ordered =
            matches!(body.touches.first(), Some(Touch::Exec { argv, .. }) if *argv == server.argv);
        must(as_ordered, "it starts a server by another command than the contract's")?;
        must(body.recovery == Recovery::Supervised, "a server is a command, and it is not declared one")?;
        must(self.next() == Next::StartServer(name.to_owned()), "that server is not to be started now")
    }

    /// A server is no command that is waited for.
    pub(super) fn check_server_start(&self, act: &OpenAct, intent: &Intent) -> Checked {
        let goes_on = matches!(intent, Intent::Background { .. });
        must(self.starts_server(act).is_none() || goes_on, "it starts a server, which goes on")
    }

    /// A call starts where the server runs and the tool is what the model was told.
    pub(super) fn check_call_start(&self, intent: &Intent) -> Checked {
        let Intent::Call { server, tool } = intent else {
            return Ok(());
        };
        must(self.running_server(server).is_some(), "the server that it calls does not run")?;
        let offered = self.listed(server).is_some_and(|listed| listed.contains_key(tool));
        must(offered, "it calls a tool that the model was not offered")?;
        let changed = self.changed_tools(server).any(|changed| changed == tool);
        must(!changed, "it calls a tool that is not what it was, and nobody has accepted it")
    }

    pub(super) fn server_listed(&mut self, body: &ServerListed) -> Checked {
        must(body.tools.len() <= MOST_TOOLS, "it offers more tools than a server can")?;
        let server = self.server(&body.server).ok_or("the contract names no such server")?;
        must(body.tools.keys().all(|tool| server.is_wanted(tool)), "it offers a tool that is not wanted")?;
        let process = self.process(body.act).filter(|process| process.is_open());
        let its_own = process.is_some_and(|process| process.server.as_deref() == Some(&*body.server));
        must(its_own, "no such server runs")?;
        must(self.running_server(&body.server).is_none(), "it has said so already")?;
        must(
            body.changed == self.measured(&body.server, &body.tools),
            "what it says that changed is not what did",
        )?;
        let standing = self.servers.0.entry(body.server.clone()).or_default();
        standing.running = Some(body.act);
        standing.changed = body.changed.iter().cloned().collect();
        if standing.listed.is_none() {
            standing.listed = Some(body.tools.clone());
        } else {
            standing.now = Some(body.tools.clone());
        }
        Ok(())
    }

    pub(super) fn server_accepted(&mut self, body: &ServerAccepted) -> Checked {
        let standing = self.servers.0.get_mut(&body.server).filter(|standing| !standing.changed.is_empty());
        let Some(standing) = standing else {
            return Err("its tools are what they were".to_owned());
        };
        if let Some(now) = standing.now.take() {
            standing.listed = Some(now);
        }
        standing.changed.clear();
        Ok(())
    }

    /// An act that was to start a server is over.
    pub(super) fn server_start_ended(&mut self, act: &OpenAct, body: &ActFinished) {
        if let Some(name) = started_by(&act.tool)
            && body.end != ActEnd::Done
        {
            // Cut short with its driver it may still come up under this one.
            let failed = body.end != ActEnd::Interrupted;
            self.servers.0.entry(name.to_owned()).or_default().failed |= failed;
        }
    }

    /// A background command is over: a server, where it was one. `lost`: with its driver.
    pub(super) fn server_ended(&mut self, body: &ProcessEnded, lost: bool) {
        let server = self.processes.get(&body.act).and_then(|process| process.server.clone());
        if let Some(name) = server {
            let standing = self.servers.0.entry(name).or_default();
            let came_up = standing.running.take().is_some();
            standing.failed |= !came_up && !lost;
        }
    }

    /// Another driver has the run: what ran under the last is gone, and what did not come up is tried again.
    pub(super) fn servers_left(&mut self) {
        for standing in self.servers.0.values_mut() {
            standing.running = None;
            standing.failed = false;
        }
    }
}

impl OpenAct {
    /// Whether this call is what was put before the policy.
    pub(super) fn calls(&self, server: &str, tool: &str) -> bool {
        matches!(self.touches.as_slice(), [Touch::Call { tool: put }] if *put == called(server, tool))
    }
}
