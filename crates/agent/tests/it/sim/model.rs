//! A model that plays a script: its next answer depends on nothing but how many it has given.

use std::future::ready;
use std::sync::Arc;

use provost_core::dialogue::{Dialogue as Said, Item};
use provost_core::event::{Body, NoteWhy};
use provost_core::transcript::{Message, Usage};
use provost_model::{
    Answer, BoxFuture, Dialogue, Failure, FailureClass, Invocation, Prelude, Provider, Sink,
};

use super::agents;
use super::scenario::Scripts;
use super::world::World;

pub(crate) struct SimModel {
    pub(crate) world: Arc<World>,
    /// What it answers, by what the dialogue is about.
    pub(crate) script: Arc<Scripts>,
    /// From how many answers on its key is refused.
    pub(crate) refused_from: Option<usize>,
    /// What it answers where it is asked for a summary.
    pub(crate) summary: Answer,
    /// Whether its vendor counts what it is sent, or says the same each time.
    pub(crate) counts: bool,
}

struct Playing {
    world: Arc<World>,
    script: Arc<Scripts>,
    refused_from: Option<usize>,
    goal: Option<String>,
    summary: Answer,
    counts: bool,
    answers: usize,
    results: usize,
}

impl Provider for SimModel {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn model(&self) -> &'static str {
        "sim"
    }

    fn endpoint(&self) -> &'static str {
        ""
    }

    fn open(&self, _: Prelude) -> Box<dyn Dialogue> {
        let Self { world, script, refused_from, summary, counts } = self;
        Box::new(Playing {
            world: world.clone(),
            script: script.clone(),
            refused_from: *refused_from,
            goal: None,
            summary: summary.clone(),
            counts: *counts,
            answers: 0,
            results: 0,
        })
    }
}

impl Dialogue for Playing {
    fn push(&mut self, message: &Message) {
        match message {
            Message::Assistant(_) => self.answers += 1,
            Message::Results { results } => self.results += results.len(),
            Message::User { text, .. } => drop(self.goal.get_or_insert_with(|| text.clone())),
        }
    }

    fn prompt_bytes(&self) -> usize {
        30 * (1 + self.answers + self.results)
    }

    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        _: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        // I2: what the model is shown is durable.
        let goal = self.goal.clone().unwrap_or_default();
        let (answered, in_script, for_summary) = self.world.with(|state| {
            let agent = agents::of_goal(state, &goal);
            let mut said = Said::of(agent);
            for event in &state.events {
                said.apply(event);
            }
            let (mut answers, mut results) = (0, 0);
            for item in said.items() {
                match item {
                    Item::Assistant(_) => answers += 1,
                    Item::Results(these) => results += these.len(),
                    Item::User(_) | Item::Shown(..) => {}
                }
            }
            assert_eq!(
                self.results, results,
                "the model is shown what is in the journal, no more and no less"
            );
            assert_eq!(self.answers, answers);
            let answered =
                state.events.iter().filter(|event| matches!(event.body, Body::ModelAnswered(_))).count();
            let (mut in_script, mut for_summary) = (0, false);
            for event in state.events.iter().filter(|event| event.agent == agent) {
                match &event.body {
                    Body::ModelAnswered(_) => in_script += usize::from(!for_summary),
                    Body::Note(body) if body.why == NoteWhy::ContextFull => for_summary = true,
                    Body::ContextFolded(_) => for_summary = false,
                    _ => {}
                }
            }
            assert!(invocation.id.ends_with(&answered.to_string()), "{} after {answered}", invocation.id);
            (answered, in_script, for_summary)
        });
        self.world.pass("before an answer");
        if self.refused_from.is_some_and(|from| answered >= from) {
            return Box::pin(ready(Err(Failure::new(FailureClass::Auth, "the key is refused"))));
        }
        let mut answer = if for_summary {
            self.summary.clone()
        } else {
            let script = self.script.get(&goal).and_then(|script| script.get(in_script));
            script.cloned().unwrap_or_else(|| Answer::text("done"))
        };
        // As much as is estimated, so that drivers that were told a count and such that were not see the same.
        let input = if self.counts { self.prompt_bytes() as u64 / 3 } else { 10 };
        let usage = Usage { input, output: 5, ..Usage::default() };
        answer.usage = Some(usage);
        self.world.with(|state| state.billed += usage.total());
        self.world.pass("after an answer");
        Box::pin(ready(Ok(answer)))
    }
}
