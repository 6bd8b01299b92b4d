//! `provost resume` and `provost settle`.

use std::path::Path;

use provost::agent::{Answer, Drift, Says, lost_request, source_of};
use provost::core::event::{Settlement, Verdict};
use provost::core::id::ActId;
use provost::journal::Store;

use super::export::Wanted;
use super::model_choice::{Cassette, provider};
use super::output::Output;
use super::queue::model_of;
use super::routing::Models;
use super::run::committed_tree;
use super::session;
use super::setup::{Place, approver, interrupt, never_started, runtime};
use crate::args::{GoingOn, Resume, Settle, UnknownOutcome};
use crate::failure::Failure;
use crate::render::Preview;
use crate::world::World;

pub(crate) async fn resume(world: &World, args: Resume) -> Result<u8, Failure> {
    let answers: Vec<Answer> = [(&args.approve, Verdict::Approved), (&args.deny, Verdict::Denied)]
        .into_iter()
        .flat_map(|(acts, verdict)| {
            acts.iter().map(move |act| Answer { act: ActId(*act), says: Says::Verdict(verdict) })
        })
        .collect();
    go_on(world, args.going_on, &answers).await
}

pub(crate) async fn settle(world: &World, args: Settle) -> Result<u8, Failure> {
    let how = if args.happened {
        Settlement::Happened
    } else if args.did_not {
        Settlement::DidNot
    } else {
        Settlement::Again
    };
    let answer = Answer { act: ActId(args.act), says: Says::Settled(how) };
    go_on(world, args.going_on, &[answer]).await
}

async fn go_on(world: &World, args: GoingOn, answers: &[Answer]) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let (run, state) = place.state(&args.run).await?;
    let (fact, root, limits) = match (state.created(), state.queued()) {
        (Some(created), _) => (&created.model, &created.root, created.limits),
        (None, Some(queued)) => (&queued.model, &queued.root, queued.limits),
        (None, None) => {
            return Err(never_started(&run, &state));
        }
    };
    let export = args.export.as_deref().map(|dir| Wanted::check(world, dir, Path::new(root)));
    let export = export.transpose()?;
    if state.outcome().is_some() {
        eprintln!("`{run}` is over already; nothing is left to do");
    }
    let key_env = args.key_env.or_else(|| state.queued().and_then(|queued| queued.key_env.clone()));
    let mut model = model_of(fact, key_env.as_deref())?;
    model.cassette = match (fact.replayed, args.replay) {
        (false, None) => None,
        (true, Some(file)) => Some(Cassette::Replay(file)),
        // A live server would go on with a run that asked nobody.
        (true, None) if state.outcome().is_none() => {
            return Err(Failure::usage(format!("`{run}` is replayed from a cassette, and none is named"))
                .hint("give the same --replay FILE"));
        }
        (true, None) => None,
        (false, Some(_)) => {
            return Err(Failure::usage(format!("`{run}` asks `{}` and is no replay", model.name))
                .hint("leave --replay out"));
        }
    };
    if let Some(url) = args.base_url.filter(|url| *url != model.base_url) {
        let lost = lost_request(&place.spool, &state)?;
        if lost.is_some_and(|route| route.is_first()) && args.unknown_outcome == UnknownOutcome::AskAgain {
            return Err(Failure::usage(format!(
                "an answer of `{}` at {} was lost on its way and may be charged for; it would now be asked for at {url}",
                model.name, model.base_url
            ))
            .hint(
                "leave --base-url (PROVOST_BASE_URL counts as given) out to ask there again, or say `--unknown-outcome go-on`",
            ));
        }
        eprintln!("`{}` is asked at {url}", model.name);
        model.base_url = url;
        // It says by itself whose it is.
        model.provider = None;
    }
    if let Some(name) = &args.provider {
        model.provider = Some(provider(name)?);
    }
    let output = Output::new(args.json);
    if let Output::People(console) = &output {
        console.recall(&place.store.events(&run, 0).await?);
        if let (None, Some(queued)) = (state.created(), state.queued()) {
            let source = queued.repository.as_ref().and_then(|_| source_of(Path::new(&queued.root)).ok());
            let tree = source.and_then(|(source, root)| committed_tree(Some(&root), &source).ok().flatten());
            console.expect_tree(tree);
        }
        console.expect_model(&model.base_url, &model.name);
    }
    let approver = approver(args.yes.into(), Preview::new(root, limits));
    let routing = match (state.created(), state.queued()) {
        (Some(created), _) => created.routing.as_deref(),
        (None, queued) => queued.and_then(|queued| queued.routing.as_deref()),
    };
    let models = Models::of_run(model, routing)?;
    let mut runtime = runtime(world, &place, &models, Path::new(root), output.observer(), approver)?;
    runtime.pace = args.pace.pace.unwrap_or_default();
    if state.created().is_some_and(|created| created.authorized.is_some()) {
        // Whoever takes up a session's run is held to what it is held to.
        runtime.mandate = session::mandate(world, &run)?;
    }
    runtime.drift = if args.accept_drift { Drift::Accepted } else { Drift::Refused };
    let ending = runtime.resume(&run, answers, interrupt()?).await?;
    output.ended(&place, &run, &ending, export).await
}
