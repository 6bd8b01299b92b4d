//! What a simulated run is about, drawn from a seed.

use std::collections::BTreeMap;

use provost_core::budget::Budget;
use provost_core::contract::{Contract, Counted, Gate};
use provost_core::digest::Digest;
use provost_core::event::ModelFact;
use provost_core::policy::{Effect, Layer, Policy, Preset, WorkspaceMode};
use provost_core::route::{Escalate, Route, RouteId, Routing, Unresolved};
use provost_core::session::Authorized;
use provost_model::Answer;
use serde_json::json;

use super::world::BEGINNING;
use super::{agents, servers};
use crate::support::call;

/// Numbers from a seed (splitmix64, public domain).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// How a run comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// Somebody starts it.
    Ordered,
    /// It waits in a queue first.
    Queued,
    /// It does, and its driver finds a letter that cancels it.
    Cancelled,
}

/// What models answer, by what a dialogue is about.
pub(crate) type Scripts = BTreeMap<String, Vec<Answer>>;

pub(crate) struct Scenario {
    pub(crate) begins: Begins,
    pub(crate) contract: Contract,
    pub(crate) scripts: Scripts,
    /// From how many answers on the first model's key is refused; another stands in for it.
    pub(crate) refused_from: Option<usize>,
    /// Tokens that the models' windows hold, where what is said is to be folded.
    pub(crate) window: Option<u64>,
    /// What a model answers where it is asked for a summary.
    pub(crate) summary: Answer,
    /// What holds it, where it is a governed session.
    pub(crate) session: Option<Authorized>,
    /// Whether that may run out on the way.
    pub(crate) expires: bool,
}

/// What the root is to do.
pub(crate) const GOAL: &str = "simulate";

pub(crate) const FILES: [(&str, &str); 3] =
    [("a.txt", "one\ntwo\n"), ("b.txt", "bee\n"), ("sub/c.txt", "sea\n")];

impl Scenario {
    pub(crate) fn of(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let steps = 2 + draw.below(3);
        let mut script: Vec<Answer> = (0..steps).map(|step| answer(&mut draw, step)).collect();
        if draw.below(2) == 0 {
            script.push(Answer::calls(vec![call("submit", json!({ "summary": "done" }))]));
        }
        let asks = Layer::named("sim").rule(Effect::Ask, "write asked/**").unwrap();
        let mut contract = Contract::new(GOAL).policy(Policy::preset(Preset::Workspace).with(asks));
        // Drawn apart, so that a seed's script stays what it was.
        if Draw::new(seed ^ 0x5742).below(3) == 0 {
            contract.policy.workspace = WorkspaceMode::staged();
        }
        // Drawn apart, as everything below: of a command that was cut short nothing is kept.
        let mut rolls = Draw::new(seed ^ 0x726f_6c6c);
        let all_or_nothing = contract.policy.workspace.is_staged() && rolls.below(2) == 0;
        if all_or_nothing {
            contract.policy.workspace = WorkspaceMode::all_or_nothing();
            for place in 0..=rolls.below(2) {
                let mut call = call("exec", json!({ "argv": ["sh", "-c", "crash b.txt half"] }));
                call.id = format!("call-crash-{place}");
                script.insert(rolls.below(1 + script.len() as u64) as usize, Answer::calls(vec![call]));
            }
        }
        // Drawn apart, so that other seeds' scripts stay what they were.
        if Draw::new(seed ^ 0x6267).below(4) == 0 {
            let mut start = call("shell_start", json!({ "command": "append served.txt line" }));
            let mut poll = call("shell_poll", json!({ "id": "bg-0" }));
            start.id = "call-start".to_owned();
            poll.id = "call-poll".to_owned();
            script.insert(0, Answer::calls(vec![start]));
            script.insert(2, Answer::calls(vec![poll]));
        }
        // Drawn apart, as above. Where changes are staged there can be no server.
        let mut calls = Draw::new(seed ^ 0x6d63);
        if !contract.policy.workspace.is_staged() && calls.below(3) == 0 {
            contract.servers = vec![servers::server()];
            let rules = Layer::named("calls").rule(Effect::Allow, "call post.*").unwrap();
            contract.policy = contract.policy.with(rules);
            for place in 0..=calls.below(2) {
                let line = ["append posted.txt letter", "fail"][calls.below(2) as usize];
                let tool = ["post__mail", "post__mail", "post__look"][calls.below(3) as usize];
                let mut call = call(tool, json!({ "text": line }));
                call.id = format!("call-post-{place}");
                script.insert(calls.below(1 + script.len() as u64) as usize, Answer::calls(vec![call]));
            }
        }
        contract.budget = Budget {
            steps: Some(if draw.below(6) == 0 { 2 } else { 12 }),
            tokens: (draw.below(6) == 0).then_some(45),
            ..Budget::default()
        };
        match draw.below(4) {
            0 => {}
            // It passes, it never passes, or it passes once something was done.
            kind => {
                let line = ["check a.txt one", "check a.txt never", "check b.txt bee"][kind as usize - 1];
                let mut gate = Gate::command(vec!["sh".into(), "-c".into(), line.into()]);
                gate.attempts = 2;
                if Draw::new(seed ^ 0x636f_756e).below(2) == 0 {
                    gate.counted = Counted::AgainstBase;
                }
                contract.gate = Some(gate);
            }
        }
        // Drawn apart, so that a seed's script stays what it was.
        let begins = match Draw::new(!seed).below(6) {
            0 | 1 => Begins::Queued,
            2 => Begins::Cancelled,
            _ => Begins::Ordered,
        };
        // Drawn apart, as above.
        let mut times = Draw::new(seed ^ 0x7365_7373);
        let is_session = contract.policy.workspace.is_staged() && times.below(2) == 0;
        let expires = is_session && times.below(2) == 0;
        let session = (is_session && begins == Begins::Ordered).then(|| Authorized {
            payload: Digest::ZERO,
            not_before_ms: BEGINNING,
            expires_ms: if expires { BEGINNING + 10 * (80 + times.below(160)) } else { 1 << 52 },
            rollbacks: 1,
        });
        // Drawn apart, as above.
        let mut routes = Draw::new(seed ^ 0x726f);
        let refused_from = (routes.below(4) == 0).then(|| 1 + routes.below(2) as usize);
        if refused_from.is_some() {
            let route = |name: &str| Route { model: ModelFact::new("sim", name, ""), price: None };
            contract.routing = Routing {
                others: vec![route("fallback"), route("stronger")],
                fallback: vec![RouteId(1)],
                escalate: Some(Escalate { after: 1, to: RouteId(2) }),
                // A request that was lost on its way to the model that refuses would be waited for without end.
                unresolved: Unresolved::GoOn,
                ..Routing::default()
            };
        }
        // Drawn apart, as above.
        let mut folds = Draw::new(seed ^ 0x666f);
        let window = (folds.below(3) == 0).then(|| 40 + 10 * folds.below(4));
        if window.is_some() {
            contract.budget.tokens = None;
            contract.routing.others.iter_mut().for_each(|route| route.model.window = window);
        }
        let summary = match folds.below(3) {
            0 => Answer::calls(vec![call("read_file", json!({ "path": "a.txt" }))]),
            _ => Answer::text("what was done"),
        };
        // Drawn apart, as above.
        let mut scripts = Scripts::new();
        let mut tree = Draw::new(seed ^ 0x7472_6565);
        if tree.below(3) == 0 {
            agents::add(&mut tree, &mut script, &mut scripts);
        }
        scripts.insert(GOAL.to_owned(), script);
        Self { begins, contract, scripts, refused_from, window, summary, session, expires }
    }
}

/// One answer: one call or two.
pub(super) fn answer(draw: &mut Draw, step: u64) -> Answer {
    let calls = 1 + draw.below(2);
    let calls = (0..calls).map(|index| {
        let n = 10 * step + index;
        let shell = |line: String| call("exec", json!({ "argv": ["sh", "-c", line] }));
        let mut call = match draw.below(10) {
            0 => call("read_file", json!({ "path": "a.txt" })),
            1 => call("write_file", json!({ "path": format!("new-{n}.txt"), "content": "new\n" })),
            2 => {
                let made =
                    |name: &str| format!("--- /dev/null\n+++ b/{name}-{n}.txt\n@@ -0,0 +1 @@\n+{name}\n");
                let patch = format!(
                    "{}{}--- a/sub/c.txt\n+++ b/sub/c.txt\n@@ -1 +1,2 @@\n sea\n+more {n}\n",
                    made("x"),
                    made("dir/y")
                );
                call("apply_patch", json!({ "patch": patch }))
            }
            3 => shell(format!("append a.txt line-{n}")),
            4 => shell(format!("append made-{n}.txt line")),
            5 => shell("fail".to_owned()),
            6 => call("write_file", json!({ "path": ".git/config", "content": "evil\n" })),
            7 => call("write_file", json!({ "path": format!("asked/{n}.txt"), "content": "asked\n" })),
            8 => call("no_such_tool", json!({})),
            _ => shell(format!("append b.txt line-{n}")),
        };
        call.id = format!("call-{n}");
        call
    });
    Answer::calls(calls.collect())
}
