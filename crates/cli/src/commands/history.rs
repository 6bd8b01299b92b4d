//! `provost log`, `provost show` and `provost runs`.

use provost::agent::Ending;
use provost::core::act::{Intent, show_argv};
use provost::core::contract::Gate;
use provost::core::event::{Body, Event};
use provost::core::history;
use provost::core::id::{ActId, RunId};
use provost::core::lifecycle::Stage;
use provost::core::state::{OpenAct, RunState};
use provost::core::text::{Lines, visible};
use provost::journal::{RunRow, Store};
use serde_json::json;

use super::answers::Answered;
use super::brief::brief_words;
use super::diff::{names, since_the_end};
use super::held::{self, Held};
use super::output::{answer, failed_gate};
use super::run::committed;
use super::setup::{Place, never_started};
use super::status::Glance;
use crate::args::{Log, Runs, Show};
use crate::failure::Failure;
use crate::render::{
    Changed, Console, JsonLines, cost, counted, duration, ending_line, going_on, say, standing, tokens, words,
};
use crate::world::World;

/// Characters of a goal in the list of runs.
const GOAL: usize = 50;

pub(crate) async fn log(world: &World, args: Log) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
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
    if place.store.salt(&run).await?.is_none() {
        console.line(
            "its words were dropped (`provost store archive`): what was said, read and written is not shown",
        );
    }
    for event in &events {
        if let Body::RunCreated(created) = &event.body {
            console.expect_tree(committed(created));
        }
        let words = words_of(&place, &run, event).await?;
        console.show(event, &words);
    }
    let (_, state) = place.state(run.as_str()).await?;
    console.open_acts(&state);
    if let Some(last) = last_line(&place, &run, &state).await? {
        say!("{last}");
    }
    Ok(0)
}

/// How the run ended, or how it stands and what can be done.
pub(super) async fn last_line(
    place: &Place,
    run: &RunId,
    state: &RunState,
) -> Result<Option<String>, Failure> {
    let named = place.named(run);
    let waits = state.waiting_acts().next();
    if let Some(answered) = Answered::about(place, run, waits).await? {
        return Ok(Some(answered.line()));
    }
    Ok(match (ending_of(state), state.stage()) {
        (Some(Ending::Over(finished)), _) => Some(ending_line(&named, &Ending::Over(finished), state)),
        // Why, stands above.
        (_, Stage::Held | Stage::Withdrawn) => {
            let resume = going_on(&named, state);
            Some(format!("held: no worker takes it. `provost resume {resume}` goes on with it"))
        }
        (_, Stage::Cancelled) => Some("cancelled before it began".to_owned()),
        (Some(ending), _) => Some(ending_line(&named, &ending, state)),
        (None, _) => Glance::at(place, run).await?.next(&named),
    })
}

/// How the run ended or why it waits; `None` while a driver works on it or died.
pub(super) fn ending_of(state: &RunState) -> Option<Ending> {
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
                say!("what it was given:");
                body.args
            }
            Body::ActFinished(body) if body.act == act => {
                say!("what came back:");
                body.result
            }
            Body::ProcessEnded(body) if body.act == act => {
                say!("what came of it in the background:");
                body.report
            }
            _ => continue,
        };
        found = true;
        let text = held::text(place, run, content).await?;
        for line in words::behind("  ", text.as_deref().unwrap_or("(dropped)")) {
            say!("{line}");
        }
    }
    if found { Ok(0) } else { Err(Failure::usage(format!("the run has no act {act}"))) }
}

/// The content that an event's line shows.
pub(super) async fn words_of(place: &Place, run: &RunId, event: &Event) -> Result<Held, Failure> {
    let wanted = match &event.body {
        Body::RunQueued(body) => Some(body.goal),
        Body::RunHeld(body) => Some(body.why),
        Body::ModelAnswered(body) => Some(body.answer),
        Body::ModelFailed(body) => Some(body.message),
        Body::CallInvalid(body) => Some(body.result),
        Body::ActFinished(body) => Some(body.result),
        Body::ActStarted(body) => match &body.intent {
            Intent::Spawn(spawn) => Some(spawn.goal),
            _ => None,
        },
        Body::AgentEnded(body) => Some(body.result),
        Body::Note(body) => Some(body.text),
        Body::ContextFolded(body) => Some(body.text),
        Body::Submitted(body) => Some(body.summary),
        _ => None,
    };
    let reasons = match &event.body {
        Body::Submitted(body) => body.wrong,
        _ => None,
    };
    Held::of(place, run, wanted.into_iter().chain(reasons)).await
}

pub(crate) async fn show(world: &World, args: Show) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let (run, state) = place.state(&args.run).await?;
    let Some(created) = state.created().cloned() else {
        return unbegun(&place, &run, &state, args.json).await;
    };
    let goal = held::text(&place, &run, created.goal).await?;
    let answer = answer(&place, &run, &state).await?;
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
            "forked": created.forked,
            "put_back": since_the_end(&state).collect::<Vec<_>>(),
            "state": state.stage().word(),
            "steps": ledger.steps,
            "usage": ledger.usage,
            "price": created.price,
            "cost_micros": if created.model.replayed { Some(0) } else { ledger.cost() },
            "estimated_calls": ledger.estimated_calls,
            "time_ms": ledger.time_ms,
            "rate_limits": state.rate_limits().map(|(at_ms, limits)| json!({ "at_ms": at_ms, "said": limits })),
            "acts": counts.acts,
            "refused": counts.refused,
            "agents": state.agents().skip(1).map(|(id, agent)| json!({
                "agent": id,
                "name": agent.name(),
                "parent": agent.parent(),
                "steps": agent.steps(),
                "end": agent.end().map(|ended| ended.end.word()),
            })).collect::<Vec<_>>(),
            "answer": answer,
            "open_acts": state.open_acts().keys().collect::<Vec<_>>(),
            "gate": state.last_gate(),
            "changes": state.net_changes().values().collect::<Vec<_>>(),
            "verify": created.gate,
            "brief": created.brief,
            "routing": created.routing,
            "asked_now": state.asked_now().map(|(id, why)| json!({ "route": id, "why": why.to_string() })),
            "policy": created.policy.layers.iter().map(|layer| &layer.name).collect::<Vec<_>>(),
            "budget": created.budget,
            "started_ms": state.span_ms().0,
            "newest_ms": state.span_ms().1,
        }));
        return Ok(0);
    }
    let shown = |text: &str| visible(text, Lines::Escape);
    say!("run {run}");
    let goal = words::behind("      ", goal.as_deref().unwrap_or("(dropped)").trim());
    say!("goal: {}", goal.join("\n").trim_start());
    if let Some(forked) = &created.forked {
        let events = place.store.events(&run, 0).await?;
        let taken = events.len().min(usize::try_from(forked.events).unwrap_or(usize::MAX));
        say!("forked from {} at step {}", forked.run, history::steps(&events[..taken]));
    }
    say!("workspace: {}", shown(&created.root));
    match created.source.commit() {
        Some(commit) => say!("commit: {commit}, scope `{}`", shown(created.source.scope().as_str())),
        None => say!("commit: none"),
    }
    say!("model: {}", words::model(&created.model));
    if created.model.replayed {
        say!("replayed from a cassette: nobody was asked, and it cost nothing");
    }
    for line in created.routing.as_deref().map(crate::render::routing_lines).unwrap_or_default() {
        say!("  {line}");
    }
    if let Some((id, why)) = state.asked_now().filter(|_| created.routing.is_some()) {
        let name = state.model_of(id).map_or("?", |(model, _)| &model.name);
        say!("asked now: {} ({why})", shown(name));
    }
    if let Some(brief) = brief_words(created.brief.as_deref()) {
        say!("asked for: {brief}");
    }
    say!("price: {}", created.price.as_ref().map_or("unknown".to_owned(), words::price));
    say!("policy: {}", words::policy(&created.policy));
    say!("verification: {}", created.gate.as_ref().map_or("none".to_owned(), gate_words));
    say!("budget: {}", words::budget(&created.budget));
    let (first, newest) = state.span_ms();
    say!(
        "started: {} UTC, newest event {} later",
        words::moment(first),
        duration(newest.saturating_sub(first))
    );
    say!(
        "did: {}, {}, {}, {} driven; {}, {} refused",
        counted(ledger.steps, "step"),
        tokens(ledger),
        if created.model.replayed { words::dollars(0) } else { cost(ledger) },
        duration(ledger.time_ms),
        counted(counts.acts, "act"),
        counts.refused
    );
    if let Some((at_ms, limits)) = state.rate_limits() {
        say!("limits: {}", words::rate_limits(at_ms, limits));
    }
    if let Some(answer) = answer {
        say!("answer: {}", shown(&answer.to_string()));
    }
    for (id, agent) in state.agents().skip(1) {
        say!("agent {id}: {}", words::agent(agent));
    }
    for (id, act) in state.open_acts() {
        say!("open: act {id}, {} ({})", act_words(act), standing(*id, act, &state));
    }
    for line in Changed::lines(&held::changed(&place, &run, &state).await?, usize::MAX) {
        say!("{line}");
    }
    let since: Vec<_> = since_the_end(&state).collect();
    if !since.is_empty() {
        say!("put back since it ended: {}", names(since.into_iter()));
    }
    if matches!(ending, Some(Ending::Over(_))) {
        for line in failed_gate(&place, &run, &place.store.events(&run, 0).await?, &state).await? {
            say!("{line}");
        }
    }
    if let Some(last) = last_line(&place, &run, &state).await? {
        say!("{last}");
    }
    Ok(0)
}

/// A run that nobody has begun: what was queued.
async fn unbegun(place: &Place, run: &RunId, state: &RunState, json: bool) -> Result<u8, Failure> {
    let Some(queued) = state.queued() else {
        return Err(never_started(run, state));
    };
    let goal = held::text(place, run, queued.goal).await?;
    if json {
        JsonLines::say(&json!({
            "run": run.as_str(),
            "goal": goal,
            "model": queued.model,
            "root": queued.root,
            "state": state.stage().word(),
            "verify": queued.gate,
            "policy": queued.policy.layers.iter().map(|layer| &layer.name).collect::<Vec<_>>(),
            "budget": queued.budget,
            "queued_ms": state.span_ms().0,
        }));
        return Ok(0);
    }
    let shown = |text: &str| visible(text, Lines::Escape);
    say!("run {run}: {}", state.stage());
    let goal = words::behind("      ", goal.as_deref().unwrap_or("(dropped)").trim());
    say!("goal: {}", goal.join("\n").trim_start());
    say!("workspace: {}", shown(&queued.root));
    say!("model: {} ({}, {})", shown(&queued.model.name), queued.model.wire, shown(&queued.model.endpoint));
    say!("policy: {}", words::policy(&queued.policy));
    say!("verification: {}", queued.gate.as_ref().map_or("none".to_owned(), gate_words));
    say!("budget: {}", words::budget(&queued.budget));
    say!("queued: {} UTC", words::moment(state.span_ms().0));
    if let Some(held) = state.held() {
        let why = held::text(place, run, held.why).await?.unwrap_or_default();
        say!("held by {}: {}", shown(&held.by), shown(&why));
    }
    Ok(0)
}

/// The gate's command, and what it sees beside the tree.
fn gate_words(gate: &Gate) -> String {
    let argv = visible(&show_argv(&gate.argv), Lines::Escape);
    let with: Vec<String> = gate.with.iter().map(|path| visible(path.as_str(), Lines::Escape)).collect();
    if with.is_empty() { argv } else { format!("{argv} (with {})", with.join(", ")) }
}

/// An act and all that it touches.
fn act_words(act: &OpenAct) -> String {
    let touches = act.touches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    // `exec` is a tool and an access.
    if touches.starts_with(&format!("{} ", act.tool)) { touches } else { format!("{} {touches}", act.tool) }
}

pub(crate) async fn runs(world: &World, args: Runs) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let rows = place.store.runs().await?;
    if rows.is_empty() && !args.json {
        eprintln!("no runs yet");
    }
    let width = widest(&rows);
    for row in rows {
        let goal = match row.goal {
            Some(goal) => held::text(&place, &row.run, goal).await?,
            None => None,
        };
        if args.json {
            JsonLines::say(&json!({
                "run": row.run.as_str(),
                "created_ms": row.created_ms,
                "state": row.stage.word(),
                "steps": row.steps,
                "tokens": row.tokens,
                "goal": goal,
            }));
        } else {
            say!("{}", row_line(&row, width, goal.as_deref()));
        }
    }
    Ok(0)
}

/// Characters of the longest name in a list.
pub(super) fn widest(rows: &[RunRow]) -> usize {
    rows.iter().map(|row| row.run.as_str().len()).max().unwrap_or_default()
}

/// A run in a list whose longest name has `width` characters.
pub(super) fn row_line(row: &RunRow, width: usize, goal: Option<&str>) -> String {
    format!(
        "{:<width$}  {}  {:<20} {:>9} {:>16}  {}",
        row.run.as_str(),
        words::moment(row.created_ms),
        row.stage.word(),
        counted(row.steps, "step"),
        counted(row.tokens, "token"),
        words::first_line(goal.unwrap_or_default(), GOAL)
    )
}
