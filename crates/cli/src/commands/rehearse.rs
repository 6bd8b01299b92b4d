//! `provost rehearse`.

use provost::model::rehearse::{Script, Server};

use super::setup::Stop;
use crate::args::Rehearse;
use crate::failure::Failure;
use crate::render::say;

pub(crate) async fn rehearse(args: Rehearse) -> Result<u8, Failure> {
    let script = Script::load(&args.script).map_err(Failure::usage)?;
    if !args.listen.ip().is_loopback() {
        return Err(Failure::usage(format!("--listen {}: only a loopback address is served", args.listen)));
    }
    let mut server = Server::bind(args.listen, script)
        .map_err(|error| Failure::usage(format!("--listen {}: {error}", args.listen)))?;
    if let Some(log) = args.log {
        server = server.log_to(&log).map_err(|error| Failure::usage(format!("--log {error}")))?;
    }
    // The first line of output is for whoever started this: where it listens.
    say!("http://{}/v1", server.addr);
    let mut stop = Stop::new()?;
    server.serve(async move { stop.asked().await }).await.map_err(Failure::internal)?;
    Ok(0)
}
