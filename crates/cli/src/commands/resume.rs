//! `provost resume` and `provost settle`.

use provost::agent::{Answer, Says};
use provost::core::event::{Settlement, Verdict};
use provost::core::id::ActId;
use provost::journal::Store;

use super::run::{Output, check_free, export_if_over};
use super::setup::{ModelChoice, Place, approver, interrupt, runtime};
use crate::args::{GoingOn, Resume, Settle, Wire};
use crate::failure::Failure;
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
    let place = Place::open(world, args.store.store.as_deref())?;
    let (run, created, state) = place.load(&args.run).await?;
    if let Some(dir) = &args.export {
        check_free(dir)?;
    }
    if state.outcome().is_some() {
        eprintln!("`{run}` is over already; nothing is left to do");
    }
    let wire = Wire::from_word(&created.model.wire).ok_or_else(|| {
        Failure::usage(format!("the run's wire `{}` is not known here", created.model.wire))
    })?;
    let model = ModelChoice {
        wire,
        name: created.model.name.clone(),
        base_url: args.base_url.unwrap_or_else(|| created.model.endpoint.clone()),
        key_env: args.key_env,
    };
    let output = Output::new(args.json);
    output.recall(&place.store.events(&run, 0).await?);
    let runtime = runtime(world, &place, &model, output.observer(), approver(args.yes.into()))?;
    let ending = runtime.resume(&run, answers, interrupt()?).await?;
    output.ending(&place, &run, &ending).await?;
    export_if_over(world, &place, &run, &ending, args.export.as_deref(), &output).await?;
    Ok(ending.exit_code())
}
