//! `provost status` and `provost watch`: how runs stand, read from the list of runs and the end of the journal. Nothing
//! is replayed, so it takes no longer for a long run.

use std::collections::BTreeMap;

use provost::agent::system_clock;
use provost::core::event::{ActDecided, Body, Event, RateLimitFact};
use provost::core::id::{ActId, AgentId, RunId};
use provost::core::lifecycle::Stage;
use provost::core::spend::{Account, KINDS};
use provost::core::text::{Lines, visible};
use provost::journal::{Holder, Owner, RunRow, Store};
use serde_json::{Value, json};

use super::answers::Answered;
use super::held;
use super::history::{row_line, widest};
use super::setup::Place;
use crate::args::{Status, Watch};
use crate::failure::Failure;
use crate::render::words::{act_title, duration, first_line, moment, rate_limits};
use crate::render::{JsonLines, say};
use crate::world::World;

/// How often a watch looks at most.
const SHORTEST: std::time::Duration = std::time::Duration::from_millis(100);

/// Events that are read at a time, from the end on, for the act that waits.
const TAIL: u64 = 32;
/// Events that are read at most. The act that waits is among the last of a run.
const MOST: u64 = 4096;

pub(crate) async fn status(world: &World, args: Status) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    for line in lines(&place, &args).await? {
        say!("{line}");
    }
    Ok(0)
}

pub(crate) async fn watch(world: &World, args: Watch) -> Result<u8, Failure> {
    let place = Place::existing(world, args.status.store.store.as_deref())?;
    let mut shown = Vec::new();
    let mut ticks = tokio::time::interval(args.every.max(SHORTEST));
    loop {
        ticks.tick().await;
        let lines = lines(&place, &args.status).await?;
        if lines != shown {
            // On a terminal the old lines give way; in a file what changed follows what was.
            if World::stdout_is_terminal() && !args.status.json {
                crate::render::put("\x1b[H\x1b[2J");
            }
            for line in &lines {
                say!("{line}");
            }
            shown = lines;
        }
        if let Some(name) = &args.status.run {
            let run = place.store.find(name).await?;
            if place.store.row(&run).await?.stage.is_over() {
                return Ok(0);
            }
        }
        if crate::render::closed() {
            return Ok(0);
        }
    }
}

async fn lines(place: &Place, args: &Status) -> Result<Vec<String>, Failure> {
    let asker = Owner::this_process().map_err(Failure::internal)?;
    if let Some(name) = &args.run {
        let run = place.store.find(name).await?;
        let mut glance = Glance::of(place, place.store.row(&run).await?, &asker).await?;
        glance.limits = limits(place, &glance.row).await?;
        glance.asked = asked(place, &glance.row).await?;
        return Ok(if args.json { vec![glance.json().to_string()] } else { glance.lines(place) });
    }
    let mut lines = Vec::new();
    let rows = place.store.unfinished().await?;
    let width = widest(&rows);
    for row in rows {
        let run = row.run.clone();
        let glance = match Glance::of(place, row, &asker).await {
            Ok(glance) => glance,
            // What is wrong with one run is no reason to say nothing of the others.
            Err(failure) => {
                lines.push(if args.json {
                    json!({ "run": run.as_str(), "damaged": failure.message() }).to_string()
                } else {
                    format!(
                        "{:<width$}  damaged: {}",
                        run.as_str(),
                        visible(failure.message(), Lines::Escape)
                    )
                });
                continue;
            }
        };
        if args.json {
            lines.push(glance.json().to_string());
        } else {
            lines.push(format!("{}{}", row_line(&glance.row, width, glance.goal.as_deref()), glance.note()));
        }
    }
    if !args.json {
        lines.push(over(&place.store.runs().await?));
    }
    Ok(lines)
}

/// How many are over, and how.
fn over(rows: &[RunRow]) -> String {
    let mut counts: BTreeMap<Stage, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.stage.is_over()) {
        *counts.entry(row.stage).or_default() += 1;
    }
    let each: Vec<String> = counts.iter().map(|(stage, count)| format!("{count} {stage}")).collect();
    format!("over: {}", if each.is_empty() { "none".to_owned() } else { each.join(", ") })
}

/// Characters of a reason in a list.
const REASON: usize = 60;

/// How one run stands.
pub(super) struct Glance {
    row: RunRow,
    goal: Option<String>,
    newest: Option<Event>,
    waits: Option<ActDecided>,
    /// What somebody has said of the act that waits.
    answered: Option<Answered>,
    /// Why no worker takes it.
    reason: Option<String>,
    /// The driver, and whether it lives.
    driver: Option<(Holder, Life)>,
    /// What the vendor last said of its limits, if that is among the newest events.
    limits: Option<(u64, RateLimitFact)>,
    /// Who was asked last, where that is worth a word.
    asked: Option<String>,
    /// Whether going on with it takes its cassette.
    replayed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive,
    Dead,
}

impl Glance {
    /// How a run stands now.
    pub(super) async fn at(place: &Place, run: &RunId) -> Result<Self, Failure> {
        let asker = Owner::this_process().map_err(Failure::internal)?;
        Self::of(place, place.store.row(run).await?, &asker).await
    }

    async fn of(place: &Place, row: RunRow, asker: &Owner) -> Result<Self, Failure> {
        let goal = match row.goal {
            Some(goal) => held::text(place, &row.run, goal).await?,
            None => None,
        };
        let newest = match row.last_seq {
            Some(last) => place.store.events(&row.run, last).await?.pop(),
            None => None,
        };
        let waits = match newest.as_ref().map(|event| &event.body) {
            Some(Body::DriverDetached(detached)) => match detached.act {
                Some(act) => decided(place, &row, act).await?,
                None => None,
            },
            // A driver that asks at its terminal has the question as its newest event.
            Some(Body::ActDecided(body)) if body.decision.effect == provost::core::policy::Effect::Ask => {
                Some(body.clone())
            }
            _ => None,
        };
        let answered = Answered::about(place, &row.run, waits.as_ref().map(|act| act.act)).await?;
        let reason = match newest.as_ref().map(|event| &event.body) {
            Some(Body::RunHeld(body)) => held::text(place, &row.run, body.why).await?,
            Some(Body::ModelFailed(body)) => held::text(place, &row.run, body.message).await?,
            _ => None,
        };
        let created = place.store.events_of(&row.run, &["run.created"]).await?.pop();
        let replayed =
            matches!(created.map(|event| event.body), Some(Body::RunCreated(body)) if body.model.replayed);
        let now_ms = system_clock()();
        let driver = row.holder.clone().map(|holder| {
            let life = if holder.drives(asker, now_ms) { Life::Alive } else { Life::Dead };
            (holder, life)
        });
        Ok(Self { row, goal, newest, waits, answered, reason, driver, limits: None, asked: None, replayed })
    }

    fn is_driven(&self) -> bool {
        self.driver.as_ref().is_some_and(|(_, life)| *life == Life::Alive)
    }

    fn json(&self) -> Value {
        json!({
            "run": self.row.run.as_str(),
            "state": self.row.stage.word(),
            "over": self.row.stage.is_over(),
            "goal": self.goal,
            "steps": self.row.steps,
            "tokens": self.row.tokens,
            "events": self.row.last_seq.map_or(0, |last| last + 1),
            "created_ms": self.row.created_ms,
            "newest_ms": self.newest.as_ref().map(|event| event.at_ms),
            "newest": self.newest.as_ref().map(|event| event.body.kind()),
            "agent": self.newest.as_ref().map(|event| event.agent),
            "driver": self.driver.as_ref().map(|(holder, life)| json!({
                "host": holder.owner.host,
                "pid": holder.owner.pid,
                "since_ms": holder.since_ms,
                "until_ms": holder.until_ms,
                "alive": *life == Life::Alive,
            })),
            "waiting": self.waits.as_ref().map(|act| json!({
                "act": act.act.0,
                "tool": act.tool,
                "touches": act.touches,
                "rule": act.decision.to_string(),
                "answered": self.answered.as_ref().map(|answered| json!({
                    "verdict": answered.word(),
                    "by": answered.by,
                })),
            })),
            "reason": self.reason,
            "asked": self.asked,
            "rate_limits": self.limits.as_ref().map(|(at_ms, limits)| json!({ "at_ms": at_ms, "said": limits })),
        })
    }

    /// What a list says behind the goal.
    fn note(&self) -> String {
        if let Some(answered) = &self.answered {
            return format!("  (act {} is {})", answered.act, answered.word());
        }
        if let Some(reason) = &self.reason {
            return format!("  ({})", first_line(reason, REASON));
        }
        match (&self.waits, &self.driver) {
            (Some(act), _) => format!("  (act {})", act.act),
            (None, Some((holder, Life::Alive))) => format!("  (process {})", holder.owner.pid),
            (None, _) if self.row.stage == Stage::Running => "  (its driver died)".to_owned(),
            (None, _) => String::new(),
        }
    }

    fn lines(&self, place: &Place) -> Vec<String> {
        let named = place.named(&self.row.run);
        let mut out = vec![format!("run {}: {}", self.row.run, self.row.stage)];
        if let Some(goal) = &self.goal {
            out.push(format!("goal: {}", crate::render::words::first_line(goal, 100)));
        }
        out.push(format!(
            "did: {}, {}, {}",
            crate::render::counted(self.row.steps, "step"),
            crate::render::counted(self.row.tokens, "token"),
            crate::render::counted(self.row.last_seq.map_or(0, |last| last + 1), "event")
        ));
        if let Some(event) = &self.newest {
            let ago = system_clock()().saturating_sub(event.at_ms);
            let whose = match event.agent {
                AgentId::ROOT => String::new(),
                agent => format!(" of agent {agent}"),
            };
            out.push(format!(
                "newest event: {}{whose} at {} UTC, {} ago",
                event.body.kind(),
                moment(event.at_ms),
                duration(ago / 1000 * 1000)
            ));
        }
        if let Some((holder, life)) = &self.driver {
            let how = match life {
                Life::Alive => "at work",
                Life::Dead => "gone",
            };
            out.push(format!(
                "driver: process {} on host `{}` since {} UTC, {how}",
                holder.owner.pid,
                visible(&holder.owner.host, Lines::Escape),
                moment(holder.since_ms)
            ));
        }
        if let Some(act) = &self.waits {
            out.push(format!(
                "act {}: {} ({})",
                act.act,
                act_title(&act.tool, &act.touches),
                visible(&act.decision.to_string(), Lines::Escape)
            ));
        }
        out.extend(self.asked.as_ref().map(|asked| format!("asked last: {}", visible(asked, Lines::Escape))));
        if let Some((at_ms, limits)) = &self.limits {
            out.push(format!("limits: {}", rate_limits(*at_ms, limits)));
        }
        if let Some(reason) = &self.reason {
            out.push(format!("why: {}", first_line(reason, 200)));
        }
        out.extend(self.answered.as_ref().map(Answered::line));
        out.extend(self.next(&named));
        out
    }

    /// What can be done.
    pub(super) fn next(&self, named: &str) -> Option<String> {
        let act = self.waits.as_ref().map_or("ACT".to_owned(), |act| act.act.to_string());
        let resumed = if self.replayed { format!("{named} --replay FILE") } else { named.to_owned() };
        let words = match self.row.stage {
            stage if stage.is_over() => return None,
            _ if self.is_driven() && self.waits.is_some() => {
                format!("`provost attach {named} --approve {act}` or `--deny {act}` answers")
            }
            _ if self.is_driven() => format!("`provost attach {named}` follows it"),
            Stage::New => "nothing has happened".to_owned(),
            Stage::Queued => format!("`provost worker` takes it, or `provost resume {resumed}`"),
            Stage::WaitingForApproval if self.answered.is_some() => {
                format!("a worker goes on with it if it was queued, or `provost resume {resumed}`")
            }
            Stage::WaitingForApproval => {
                format!("`provost resume {resumed} --approve {act}` or `--deny {act}`")
            }
            Stage::WaitingForDecision => format!(
                "look at the workspace, then `provost settle {resumed} --act {act}` with --happened, --did-not or --again"
            ),
            Stage::Cancelling => format!("`provost cancel {named}` closes it"),
            Stage::Running => format!(
                "its driver is gone; a worker goes on with it if it was queued, or `provost resume {resumed}`"
            ),
            Stage::Interrupted | Stage::ProviderFailed => {
                format!("a worker goes on with it if it was queued, or `provost resume {resumed}`")
            }
            _ => format!("`provost resume {resumed}` goes on with it"),
        };
        Some(format!("next: {words}"))
    }
}

/// Who was asked last, of several who may be asked, or that nobody is.
async fn asked(place: &Place, row: &RunRow) -> Result<Option<String>, Failure> {
    let account = Account::of(&place.store.events_of(&row.run, &KINDS).await?);
    let replayed = account.routes.first().is_some_and(|route| route.model.replayed);
    if replayed {
        return Ok(Some("nobody: it is replayed from a cassette".to_owned()));
    }
    let last = account.calls.last().filter(|_| account.routes.len() > 1);
    Ok(last.and_then(|call| account.asked(call)).map(|route| route.model.name.clone()))
}

/// What the vendor last said of its limits. Looked for among the newest events and no further.
async fn limits(place: &Place, row: &RunRow) -> Result<Option<(u64, RateLimitFact)>, Failure> {
    let end = row.last_seq.map_or(0, |last| last + 1);
    let newest = place.store.events(&row.run, end.saturating_sub(TAIL * 4)).await?;
    Ok(newest.into_iter().rev().find_map(|event| match event.body {
        Body::ModelAnswered(body) => body.rate_limits.map(|limits| (event.at_ms, limits)),
        Body::ModelFailed(body) => body.rate_limits.map(|limits| (event.at_ms, limits)),
        _ => None,
    }))
}

/// The decision on an act, looked for from the end of the journal on.
async fn decided(place: &Place, row: &RunRow, act: ActId) -> Result<Option<ActDecided>, Failure> {
    let end = row.last_seq.map_or(0, |last| last + 1);
    let mut back = TAIL;
    loop {
        let from = end.saturating_sub(back);
        let found =
            place.store.events(&row.run, from).await?.into_iter().rev().find_map(|event| match event.body {
                Body::ActDecided(body) if body.act == act => Some(body),
                _ => None,
            });
        if found.is_some() || from == 0 || back >= MOST {
            return Ok(found);
        }
        back *= 4;
    }
}

/// Prints one run's standing as an object for programs.
pub(super) async fn say_json(place: &Place, run: &RunId) -> Result<(), Failure> {
    JsonLines::say(&Glance::at(place, run).await?.json());
    Ok(())
}
