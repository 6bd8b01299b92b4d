//! `provost log`, `provost show` and `provost runs`.

use std::collections::HashMap;

use provost::agent::{Ending, Words};
use provost::core::digest::Digest;
use provost::core::event::{Body, Event};
use provost::core::id::{ActId, RunId};
use provost::core::state::RunState;
use provost::core::text::{Lines, visible};
use provost::journal::Store;
use serde_json::json;

use super::setup::Place;
use crate::args::{Log, Runs, Show};
use crate::failure::Failure;
use crate::render::{Console, JsonLines, cost, duration, ending_line, say, tokens};
use crate::world::World;

/// Content looked up ahead, since looking it up waits.
struct Held(HashMap<Digest, Vec<u8>>);

impl Words for Held {
    fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.0.get(digest).cloned()
    }
}

pub(crate) async fn log(world: &World, args: Log) -> Result<u8, Failure> {
    let place = Place::open(world, args.store.store.as_deref())?;
    let run = place.store.find(&args.run).await?;
    if args.json {
        for line in place.store.events_json(&run).await? {
            say!("{}", String::from_utf8_lossy(&line));
        }
        return Ok(0);
    }
    let events = place.store.events(&run, 0).await?;
    if let Some(act) = args.act {
        return one_act(&place, &run, &events, ActId(act)).await;
    }
    let console = Console::new();
    for event in &events {
        let words = words_of(&place, &run, event).await?;
        console.show(event, &words);
    }
    let (_, _, state) = place.load(run.as_str()).await?;
    if let Some(ending) = ending_of(&state) {
        say!("{}", ending_line(run.as_str(), &ending, &state));
    }
    Ok(0)
}

/// How the run ended or why it waits; `None` while a driver works on it or died.
fn ending_of(state: &RunState) -> Option<Ending> {
    match (state.outcome(), state.pause()) {
        (Some(finished), _) => Some(Ending::Over(finished.clone())),
        (None, Some(paused)) => Some(Ending::Paused(paused.clone())),
        (None, None) => None,
    }
}

/// An act's arguments and what the model was told of it.
async fn one_act(place: &Place, run: &RunId, events: &[Event], act: ActId) -> Result<u8, Failure> {
    let mut found = false;
    for event in events {
        let content = match &event.body {
            Body::ActDecided(body) if body.act == act => {
                say!("{} ({})", body.tool, visible(&body.decision.to_string(), Lines::Escape));
                body.args
            }
            Body::ActFinished(body) if body.act == act => body.result,
            _ => continue,
        };
        found = true;
        let words = place.store.blob(run, content).await?;
        let words =
            words.map_or("(dropped)".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        say!("{}", visible(&words, Lines::Keep));
    }
    if found { Ok(0) } else { Err(Failure::usage(format!("the run has no act {act}"))) }
}

/// The content that an event's line shows.
async fn words_of(place: &Place, run: &RunId, event: &Event) -> Result<Held, Failure> {
    let wanted = match &event.body {
        Body::ModelAnswered(body) => Some(body.answer),
        Body::ModelFailed(body) => Some(body.message),
        Body::CallInvalid(body) => Some(body.result),
        Body::ActFinished(body) => Some(body.result),
        Body::Note(body) => Some(body.text),
        Body::Submitted(body) => Some(body.summary),
        _ => None,
    };
    let mut held = HashMap::new();
    if let Some(digest) = wanted
        && let Some(bytes) = place.store.blob(run, digest).await?
    {
        held.insert(digest, bytes);
    }
    Ok(Held(held))
}

pub(crate) async fn show(world: &World, args: Show) -> Result<u8, Failure> {
    let place = Place::open(world, args.store.store.as_deref())?;
    let (run, created, state) = place.load(&args.run).await?;
    let goal = place.store.blob(&run, created.goal).await?;
    let goal = goal.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let ending = ending_of(&state);
    let ledger = state.ledger();
    let counts = state.counts();
    if args.json {
        JsonLines::say(&json!({
            "run": run.as_str(),
            "goal": goal,
            "model": created.model,
            "source": created.source,
            "root": created.root,
            "state": ending.as_ref().map_or("running", Ending::word),
            "steps": ledger.steps,
            "usage": ledger.usage,
            "cost_micros": ledger.price.map(|_| ledger.cost_micros),
            "time_ms": ledger.time_ms,
            "acts": counts.acts,
            "refused": counts.refused,
            "open_acts": state.open_acts().keys().collect::<Vec<_>>(),
            "gate": state.last_gate(),
            "changes": state.net_changes().values().collect::<Vec<_>>(),
        }));
        return Ok(0);
    }
    say!("run {run}");
    say!("goal: {}", visible(goal.as_deref().unwrap_or("(dropped)"), Lines::Keep));
    say!("workspace: {}", visible(&created.root, Lines::Escape));
    say!("model: {} ({}, {})", created.model.name, created.model.wire, created.model.endpoint);
    say!(
        "{} steps, {}, {}, {}; {} acts, {} refused",
        ledger.steps,
        tokens(ledger),
        cost(ledger),
        duration(ledger.time_ms),
        counts.acts,
        counts.refused
    );
    for (id, act) in state.open_acts() {
        say!(
            "open: act {id}, {} {}",
            act.tool,
            act.touches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        );
    }
    for change in state.net_changes().values() {
        let word = match (&change.before, &change.after) {
            (None, _) => "added",
            (_, None) => "deleted",
            _ => "changed",
        };
        say!("{word}: {}", visible(change.path.as_str(), Lines::Escape));
    }
    let last = ending.as_ref().map_or_else(
        || format!("not over: a driver works on it, or died. `provost resume {run}` finds out"),
        |ending| ending_line(run.as_str(), ending, &state),
    );
    say!("{last}");
    Ok(0)
}

pub(crate) async fn runs(world: &World, args: Runs) -> Result<u8, Failure> {
    let place = Place::open(world, args.store.store.as_deref())?;
    for row in place.store.runs().await? {
        if args.json {
            JsonLines::say(&json!({
                "run": row.run.as_str(),
                "created_ms": row.created_ms,
                "state": row.state,
                "steps": row.steps,
                "tokens": row.tokens,
            }));
        } else {
            say!("{}  {:<22} {:>4} steps {:>9} tokens", row.run, row.state, row.steps, row.tokens);
        }
    }
    Ok(0)
}
