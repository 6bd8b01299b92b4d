//! `provost attach`: follows a run of another process from the store, and answers its questions. The driver is told by
//! letter; it makes the events. The first answer wins, and whoever comes second is told so.

use std::path::Path;
use std::time::Duration;

use provost::agent::{Approver, Ending, Question, Word, system_clock};
use provost::core::event::{Body, Event, Verdict};
use provost::core::id::{ActId, RunId};
use provost::core::lifecycle::Stage;
use provost::core::state::{OpenAct, RunState};
use provost::journal::{Letter, Owner, Posted, Store, Word as Says};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::held;
use super::history::{ending_of, last_line, words_of};
use super::run::committed;
use super::setup::Place;
use super::status::say_json;
use super::terminal::Terminal;
use crate::args::Attach;
use crate::failure::Failure;
use crate::render::{Console, JsonLines, Preview, say};
use crate::world::World;

/// How often the store is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// As what the journal knows whoever answers here.
const ME: &str = "attach";

pub(crate) async fn attach(world: &World, args: Attach) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let run = place.store.find(&args.run).await?;
    let mut follower = Follower::new(&place, run)?;
    follower.read().await?;
    let given = [(args.approve, Verdict::Approved), (args.deny, Verdict::Denied)];
    if let Some((act, verdict)) = given.into_iter().find_map(|(act, verdict)| act.map(|act| (act, verdict))) {
        let code = follower.answer(ActId(act), verdict).await?;
        if args.json {
            say_json(&place, &follower.run).await?;
        }
        return Ok(code);
    }
    follower.follow(if args.json { Shown::Json } else { Shown::Lines }).await
}

/// The exit code of an answer that another was before.
const TOO_LATE: u8 = 7;

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Lines,
    Json,
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// The run goes on, or may.
    GoOn,
    /// The answer is kept for whoever goes on with the run.
    Kept,
}

/// Reads a run as it grows.
struct Follower<'a> {
    place: &'a Place,
    run: RunId,
    me: Owner,
    events: Vec<Event>,
    state: RunState,
    ticks: Interval,
}

impl<'a> Follower<'a> {
    fn new(place: &'a Place, run: RunId) -> Result<Self, Failure> {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let me = Owner::this_process().map_err(Failure::internal)?;
        Ok(Self { place, state: RunState::new(run.clone()), run, me, events: Vec::new(), ticks })
    }

    /// Reads what is new. The place of the first of it.
    async fn read(&mut self) -> Result<usize, Failure> {
        let known = self.events.len();
        let last = self.place.store.row(&self.run).await?.last_seq;
        if last.is_some_and(|last| last >= known as u64) {
            for event in self.place.store.events(&self.run, known as u64).await? {
                self.state.apply(&event).map_err(|violation| {
                    Failure::evidence(format!("the journal of `{}` is not sound: {violation}", self.run))
                })?;
                self.events.push(event);
            }
        }
        Ok(known)
    }

    /// Whether a driver has it.
    async fn is_driven(&self) -> Result<bool, Failure> {
        let row = self.place.store.row(&self.run).await?;
        Ok(row.holder.is_some_and(|holder| holder.drives(&self.me, system_clock()())))
    }

    /// Prints events as they come until nobody drives the run any more.
    async fn follow(&mut self, shown: Shown) -> Result<u8, Failure> {
        let console = Console::new();
        let mut printed = 0;
        let mut asked = None;
        loop {
            // Before the events: a driver that left has left all of them.
            let driven = self.is_driven().await?;
            self.read().await?;
            for event in &self.events[printed..] {
                if let Body::RunCreated(created) = &event.body {
                    console.expect_tree(committed(created));
                }
                match shown {
                    Shown::Json => JsonLines::print(event),
                    Shown::Lines => console.show(event, &words_of(self.place, &self.run, event).await?),
                }
            }
            printed = self.events.len();
            if crate::render::closed() {
                return Ok(0);
            }
            let waits = self.state.waiting_acts().next();
            if let Some(act) = waits.filter(|act| asked != Some(*act) && shown == Shown::Lines) {
                asked = Some(act);
                if World::can_ask() {
                    if self.ask(act).await? == Asked::Kept {
                        return Ok(0);
                    }
                } else if driven {
                    let named = self.place.named(&self.run);
                    say!(
                        "act {act} waits: `provost attach {named} --approve {act}` or `--deny {act}` answers"
                    );
                }
                continue;
            }
            if !driven && self.state.stage() != Stage::Queued {
                return self.left(shown).await;
            }
            self.ticks.tick().await;
        }
    }

    /// Nobody drives it: says why, and what to do.
    async fn left(&self, shown: Shown) -> Result<u8, Failure> {
        let ending = ending_of(&self.state);
        match shown {
            Shown::Json => say_json(self.place, &self.run).await?,
            Shown::Lines => {
                if let Some(last) = last_line(self.place, &self.run, &self.state).await? {
                    say!("{last}");
                }
            }
        }
        Ok(match (&ending, self.state.stage()) {
            (Some(ending), _) => Ending::exit_code(ending),
            (None, Stage::Cancelled) => 10,
            (None, _) => 130,
        })
    }

    fn open(&self, act: ActId) -> Option<&OpenAct> {
        self.state.open_acts().get(&act)
    }

    /// Asks the person here, until they or somebody else have answered.
    async fn ask(&mut self, act: ActId) -> Result<Asked, Failure> {
        let Some((open, created)) = self.open(act).cloned().zip(self.state.created().cloned()) else {
            return Ok(Asked::GoOn);
        };
        let args = held::text(self.place, &self.run, open.args).await?.unwrap_or_default();
        let asker = held::asker(self.place, &self.run, &self.state, open.agent).await?;
        let terminal = Terminal::new(Preview::new(Path::new(&created.root), created.limits));
        let question =
            Question { act, tool: open.tool, args, touches: open.touches, decision: open.decision, asker };
        let word = {
            let answer = terminal.decide(&question);
            tokio::pin!(answer);
            loop {
                tokio::select! {
                    word = &mut answer => break word,
                    _ = self.ticks.tick() => {
                        self.read().await?;
                        if !self.state.waiting_acts().any(|waits| waits == act) {
                            eprintln!();
                            return Ok(Asked::GoOn);
                        }
                    }
                }
            }
        };
        let verdict = match word {
            Word::Approve => Verdict::Approved,
            Word::Deny => Verdict::Denied,
            Word::Later => return Ok(Asked::GoOn),
        };
        self.answer(act, verdict).await?;
        // Where nobody drives the run there is nothing more to see.
        Ok(if self.answered(act).is_some() { Asked::GoOn } else { Asked::Kept })
    }

    /// Answers, and waits until it is known who was first. 0 where it was this answer, 7 where it was another.
    async fn answer(&mut self, act: ActId, verdict: Verdict) -> Result<u8, Failure> {
        if let Some(first) = self.answered(act) {
            return Ok(told(act, verdict, first));
        }
        if !self.state.waiting_acts().any(|waits| waits == act) {
            return Err(Failure::usage(format!("act {act} of `{}` does not wait for an answer", self.run)));
        }
        let says = Says::Verdict { act, verdict };
        let letter = Letter { by: ME.to_owned(), at_ms: system_clock()(), says };
        let posted = self.place.store.post(&self.run, letter.clone()).await?;
        loop {
            // Before the journal: a driver that has left reads no letter any more.
            let driven = self.is_driven().await?;
            self.read().await?;
            if let Some(first) = self.answered(act) {
                // Another letter with the same author may have been first.
                let mine = posted == Posted::Waits && first == (verdict, ME.to_owned());
                return Ok(if mine { accepted(act, verdict) } else { told(act, verdict, first) });
            }
            if self.state.stage().is_over() {
                return Err(Failure::usage(format!("`{}` is over: act {act} was never answered", self.run)));
            }
            match &posted {
                Posted::TooLate(first) if !driven => {
                    return Ok(match first.says {
                        Says::Verdict { verdict: word, .. } => told(act, verdict, (word, first.by.clone())),
                        Says::Cancel | Says::Hold => TOO_LATE,
                    });
                }
                Posted::Waits if !driven => {
                    let named = self.place.named(&self.run);
                    say!(
                        "act {act} {}; `provost resume {named}`, or a worker, goes on with it",
                        word(verdict)
                    );
                    return Ok(0);
                }
                _ => {}
            }
            self.ticks.tick().await;
        }
    }

    /// Who answered, if anybody did.
    fn answered(&self, act: ActId) -> Option<(Verdict, String)> {
        self.events.iter().rev().find_map(|event| match &event.body {
            Body::ActApproved(body) if body.act == act => Some((body.verdict, body.by.clone())),
            _ => None,
        })
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "approved",
        Verdict::Denied => "denied",
    }
}

fn accepted(act: ActId, verdict: Verdict) -> u8 {
    say!("act {act} {}", word(verdict));
    0
}

/// Says who was first.
fn told(act: ActId, mine: Verdict, (first, by): (Verdict, String)) -> u8 {
    let by = provost::core::text::visible(&by, provost::core::text::Lines::Escape);
    let (mine, first) = (word(mine), word(first));
    say!("too late: act {act} was {first} by {by} before; this answer ({mine}) has no effect");
    TOO_LATE
}
