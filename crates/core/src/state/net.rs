//! What commands dial: decided by the policy and on record before it happens, and nothing else is dialled.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::RunState;
use super::check::{Checked, must};
use crate::act::{CommandFact, Intent};
use crate::address::{plain_host, private};
use crate::event::ActStarted;
use crate::id::ActId;
use crate::net::{MOST_ADDRESSES, MOST_DECISIONS, NetDecided, Traffic};
use crate::policy::{Decision, Effect, LOOKED_UP};

/// What was said of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// It may be dialled.
    Allowed,
    /// It was not.
    Refused,
}

/// What was decided for one command that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dials(BTreeMap<(String, u16), Said>);

impl RunState {
    /// What the policy decides of it, for an event that says what it decided.
    pub(super) fn decide_dial(&self, body: &NetDecided) -> Option<Decision> {
        let policy = self.policy_of(self.agent_of_command(body.act))?;
        Some(policy.decide_dial(&body.host, body.port, self.rung))
    }

    /// A command that this driver started dials from here on.
    pub(super) fn command_started(&mut self, body: &ActStarted) {
        if matches!(body.intent, Intent::Command { .. } | Intent::Background { .. }) {
            self.running.insert(body.act, Dials::default());
        }
    }

    pub(super) fn net_decided(&mut self, body: &NetDecided) -> Checked {
        must(plain_host(&body.host).as_deref() == Some(&body.host), "its host is not one")?;
        let has_ended = self.open.get(&body.act).is_some_and(|act| act.staged.is_some());
        must(!has_ended, "its command has ended: what it changed is staged")?;
        for address in &body.private {
            self.check_refused(body.act, *address, body.port)?;
        }
        must(body.private.len() <= MOST_ADDRESSES, "it names more addresses than are put on record")?;
        let key = (body.host.clone(), body.port);
        let allowed = body.decision.effect == Effect::Allow;
        let Some(dials) = self.running.get_mut(&body.act) else {
            return Err("no such command runs".to_owned());
        };
        let said = match (dials.0.get(&key), body.private.is_empty()) {
            (None, true) => {
                must(dials.0.len() < MOST_DECISIONS, "it is one decision more than a command can have")?;
                must(!allowed || body.port != LOOKED_UP, "it allows a name that was only looked up")?;
                if allowed { Said::Allowed } else { Said::Refused }
            }
            (Some(Said::Allowed), false) => Said::Refused,
            (Some(_), true) => return Err("it was decided on before".to_owned()),
            (_, false) => return Err("it was not allowed, so nobody asked for its addresses".to_owned()),
        };
        dials.0.insert(key, said);
        Ok(())
    }

    /// Only what lies on the private floor, and what the policy does not name, is refused for its address.
    fn check_refused(&self, act: ActId, address: IpAddr, port: u16) -> Checked {
        must(private(address).is_some(), "it refuses an address that is public")?;
        let policy = self.policy_of(self.agent_of_command(act));
        let named = policy.is_some_and(|policy| policy.names_address(address, port, self.rung));
        must(!named, "it refuses an address that the policy names")
    }

    /// What a command sent went where that was allowed.
    pub(super) fn check_traffic(&self, act: ActId, command: Option<&CommandFact>) -> Checked {
        let Some(Traffic { hosts, .. }) = command.and_then(|command| command.traffic.as_ref()) else {
            return Ok(());
        };
        let dials = self.running.get(&act);
        let mut before = None;
        for host in hosts {
            let key = (host.host.clone(), host.port);
            must(
                dials.and_then(|dials| dials.0.get(&key)) == Some(&Said::Allowed),
                "it dialled a host that was not allowed before",
            )?;
            must(before.as_ref() < Some(&key), "its hosts are not in order")?;
            before = Some(key);
        }
        Ok(())
    }
}
