//! Servers of tools in the worlds: they start, say what they offer, and are not always what they were.

use super::*;
use provost_core::event::{ServerAccepted, ServerListed};
use provost_core::server::{Server, called, starter};

pub(super) const SERVER: &str = "post";

/// Every other contract has a server. Where changes are staged none can.
pub(super) fn servers(choices: &mut Choices, policy: &Policy) -> Vec<Server> {
    if policy.workspace.is_staged() || !choices.once_in(2) {
        return Vec::new();
    }
    let mut server = Server::new(SERVER, words(choices.of(&["serve post", "serve post", "rm post"])));
    server.reads.insert("look".to_owned());
    vec![server]
}

/// A call of one of the server's tools.
pub(super) fn call(choices: &mut Choices) -> (&'static str, Vec<Touch>, Recovery) {
    let (tool, recovery) = choices.of(&[
        ("mail", Recovery::Indeterminate),
        ("mail", Recovery::Indeterminate),
        ("mail", Recovery::Indeterminate),
        ("look", Recovery::Replayable),
        ("unheard_of", Recovery::Indeterminate),
    ]);
    ("post__tool", vec![Touch::Call { tool: called(SERVER, tool) }], recovery)
}

/// What of an act calls a tool.
fn callee(act: &OpenAct) -> Option<(String, String)> {
    let [Touch::Call { tool }] = act.touches.as_slice() else { return None };
    tool.split_once('.').map(|(server, tool)| (server.to_owned(), tool.to_owned()))
}

impl World {
    pub(super) fn start_server(&mut self, name: &str) {
        let argv = self.state.server(name).unwrap().argv.clone();
        let touches = vec![Touch::Exec { argv, program: None }];
        self.decide(None, &starter(name), digest(6), touches, Recovery::Supervised);
    }

    /// A server that came up says what it has, or ends without a word. False where none has anything to say.
    pub(super) fn server_speaks(&mut self) -> bool {
        let lost = self.state.lost_processes();
        let open = self.state.processes().find_map(|(act, process)| {
            let name = process.server.clone().filter(|_| process.is_open() && !lost.contains(&act))?;
            self.state.running_server(&name).is_none().then_some((act, name))
        });
        let Some((act, server)) = open.filter(|_| self.state.cancelled().is_none()) else {
            return false;
        };
        if self.choices.once_in(6) {
            self.end_process(act);
            return true;
        }
        let mail = digest(if self.choices.once_in(2) { 51 } else { 50 });
        let tools = BTreeMap::from([("mail".to_owned(), mail), ("look".to_owned(), digest(52))]);
        let changed = self.state.measured(&server, &tools);
        self.append(Body::ServerListed(ServerListed { server, act, tools, changed }));
        true
    }

    /// A person takes the tools as they are now, where they are not what they were.
    pub(super) fn accept(&mut self) -> bool {
        let changed = self.state.changed_tools(SERVER).next().is_some()
            && self.state.cancelled().is_none()
            && self.choices.once_in(2);
        if changed {
            let (server, by) = (SERVER.to_owned(), "world".to_owned());
            self.append(Body::ServerAccepted(ServerAccepted { server, by }));
        }
        changed
    }

    /// Calls a tool where that can be; where it cannot, the act fails without having started.
    pub(super) fn perform_call(&mut self, id: ActId, act: &OpenAct) {
        if let Some((server, tool)) = callee(act)
            && self.state.running_server(&server).is_some()
            && self.state.listed(&server).is_some_and(|listed| listed.contains_key(&tool))
            && !self.state.changed_tools(&server).any(|changed| changed == tool)
        {
            if let Some(process) = self.state.running_server(&server).filter(|_| self.choices.once_in(3)) {
                // It died meanwhile.
                return self.end_process(process);
            }
            let intent = Intent::Call { server, tool };
            return self.append(Body::ActStarted(ActStarted { act: id, intent }));
        }
        self.end(id, ActEnd::Failed, Vec::new(), Vec::new(), None);
    }

    /// Ends a call: with what the server said, or as a person says, or with nobody's word where it only reads.
    pub(super) fn settle_call(&mut self, id: ActId, act: &OpenAct) {
        let doubtful = self.state.indeterminate_act() == Some(id);
        if doubtful
            || (act.recovery == Recovery::Indeterminate && self.troubles > 0 && self.choices.once_in(5))
        {
            return self.ask_a_person(id);
        }
        let end = match act.settled {
            Some(_) => ActEnd::Interrupted,
            None => self.choices.of(&[
                ActEnd::Done,
                ActEnd::Done,
                ActEnd::Failed,
                ActEnd::TimedOut,
                ActEnd::Interrupted,
            ]),
        };
        self.end(id, end, Vec::new(), Vec::new(), None);
    }
}
