//! A model that plays a script: its next answer depends on nothing but how many it has given.

use std::future::ready;
use std::sync::Arc;

use provost_core::event::Body;
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
}

struct Playing {
    world: Arc<World>,
    script: Arc<Scripts>,
    refused_from: Option<usize>,
    goal: Option<String>,
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
        let Self { world, script, refused_from } = self;
        Box::new(Playing {
            world: world.clone(),
            script: script.clone(),
            refused_from: *refused_from,
            goal: None,
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
        self.world.with(|state| {
            let agent = agents::of_goal(state, &goal);
            let of_calls = |body: &Body| match body {
                Body::ActFinished(finished) => state.events.iter().any(|event| {
                    matches!(&event.body, Body::ActDecided(act) if act.act == finished.act && act.call.is_some())
                }),
                Body::CallInvalid(_) => true,
                _ => false,
            };
            let own = || state.events.iter().filter(|event| event.agent == agent);
            let durable = own().filter(|event| of_calls(&event.body)).count();
            assert_eq!(self.results, durable, "the model is shown what is in the journal, no more and no less");
            let answered = state.events.iter().filter(|event| matches!(event.body, Body::ModelAnswered(_))).count();
            let mine = own().filter(|event| matches!(event.body, Body::ModelAnswered(_))).count();
            assert_eq!(self.answers, mine);
            assert!(invocation.id.ends_with(&answered.to_string()), "{} after {answered}", invocation.id);
        });
        self.world.pass("before an answer");
        if self.refused_from.is_some_and(|from| self.answers >= from) {
            return Box::pin(ready(Err(Failure::new(FailureClass::Auth, "the key is refused"))));
        }
        let script = self.script.get(&goal);
        let mut answer = script
            .and_then(|script| script.get(self.answers))
            .cloned()
            .unwrap_or_else(|| Answer::text("done"));
        answer.usage = Some(Usage { input: 10, output: 5, ..Usage::default() });
        self.world.pass("after an answer");
        Box::pin(ready(Ok(answer)))
    }
}
