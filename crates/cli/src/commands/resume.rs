//! `provost resume`.

use provost::agent::Answer;
use provost::core::event::Verdict;
use provost::core::id::ActId;
use provost::journal::Store;

use super::run::{Output, check_free, export_if_over};
use super::setup::{ModelChoice, Place, approver, interrupt, runtime};
use crate::args::{Resume, Wire};
use crate::failure::Failure;
use crate::world::World;

pub(crate) async fn resume(world: &World, args: Resume) -> Result<u8, Failure> {
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
    let answers: Vec<Answer> = [(&args.approve, Verdict::Approved), (&args.deny, Verdict::Denied)]
        .into_iter()
        .flat_map(|(acts, verdict)| acts.iter().map(move |act| Answer { act: ActId(*act), verdict }))
        .collect();
    let output = Output::new(args.json);
    output.recall(&place.store.events(&run, 0).await?);
    let runtime = runtime(world, &place, &model, output.observer(), approver(args.yes.into()))?;
    let ending = runtime.resume(&run, &answers, interrupt()?).await?;
    output.ending(&place, &run, &ending).await?;
    export_if_over(world, &place, &run, &ending, args.export.as_deref(), &output).await?;
    Ok(ending.exit_code())
}
