//! One file a command.

mod agent_runtime;
mod answers;
mod attach;
mod brief;
mod cancel;
mod cost;
mod demo;
mod diff;
mod doctor;
mod export;
mod files;
mod fork;
mod held;
mod history;
mod image;
mod key;
mod keyring;
mod model_choice;
mod models;
mod output;
mod policy;
mod price;
mod providers;
mod queue;
mod rehearse;
mod resume;
mod rewind;
mod routing;
mod run;
mod selftest;
mod servers;
mod session;
mod setup;
mod status;
mod store;
mod terminal;
mod verify;

use crate::args::{Args, Command};
use crate::failure::Failure;
use crate::world::World;
pub(crate) use store::parse_date;

/// Runs a command and says what to exit with.
pub(crate) fn dispatch(args: Args) -> Result<u8, Failure> {
    let world = World::read();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    runtime.block_on(async {
        match args.command {
            Command::AgentRuntime(args) => agent_runtime::agent_runtime(&world, args).await,
            Command::Demo(args) => demo::demo(&world, args).await,
            Command::Run(args) => run::run(&world, args).await,
            Command::Resume(args) => resume::resume(&world, args).await,
            Command::Enqueue(args) => queue::enqueue(&world, args).await,
            Command::Worker(args) => queue::worker(&world, args).await,
            Command::Status(args) => status::status(&world, args).await,
            Command::Watch(args) => status::watch(&world, args).await,
            Command::Attach(args) => attach::attach(&world, args).await,
            Command::Cancel(args) => cancel::cancel(&world, args).await,
            Command::Settle(args) => resume::settle(&world, args).await,
            Command::Session(args) => session::session(&world, args).await,
            Command::Verify(args) => verify::verify(&world, &args),
            Command::Export(args) => export::export(&world, args).await,
            Command::Log(args) => history::log(&world, args).await,
            Command::Show(args) => history::show(&world, args).await,
            Command::Runs(args) => history::runs(&world, args).await,
            Command::Cost(args) => cost::cost(&world, args).await,
            Command::Diff(args) => diff::diff(&world, args).await,
            Command::Rewind(args) => rewind::rewind(&world, args).await,
            Command::Fork(args) => fork::fork(&world, args).await,
            Command::Store(args) => store::store(&world, args).await,
            Command::Image(args) => image::image(&world, args),
            Command::Rehearse(args) => rehearse::rehearse(args).await,
            Command::Providers(args) => Ok(providers::providers(&world, &args)),
            Command::Models(args) => models::models(&world, args).await,
            Command::Policy(args) => policy::policy(&world, args),
            Command::Doctor(args) => Ok(doctor::doctor(&world, &args)),
            Command::Sandbox(args) => selftest::sandbox(&world, &args),
            Command::Key(args) => key::key(&world, &args),
        }
    })
}
