//! Carrying a session out: an ordinary run, under the session's name and what was signed.

use provost_agent::{Ending, Interrupt, Order, Runtime, Session};
use provost_core::contract::Contract;
use provost_core::session::Request;
use provost_evidence::canonical::sha256;
use provost_journal::{Store, StoreError};

use crate::SessionError;
use crate::folder::Folder;
use crate::prepare::Prepared;

/// The run that a request asks for.
pub fn order_of(folder: &Folder, request: &Request) -> Result<Order, SessionError> {
    let task = folder.task()?;
    if sha256(&task) != request.task {
        return Err(SessionError::Unclear {
            path: folder.at("task.md"),
            why: "it is not the task that was asked for".to_owned(),
        });
    }
    let goal = String::from_utf8(task)
        .map_err(|_| SessionError::Refused("the task is not UTF-8 text".to_owned()))?;
    let mut contract = Contract::new(goal).policy(request.policy.clone()).budget(request.budget);
    contract.price.clone_from(&request.price);
    contract.gate.clone_from(&request.gate);
    contract.limits = request.limits;
    contract.routing = request.routing.as_deref().cloned().unwrap_or_default();
    Ok(Order {
        contract,
        workspace: folder.workspace(),
        source: request.source.clone(),
        repository: Some(folder.whereabouts()?.repository),
    })
}

/// Whether anything of the session's run is on record.
pub async fn has_begun(store: &dyn Store, folder: &Folder) -> Result<bool, SessionError> {
    match store.events(folder.session(), 0).await {
        Ok(events) => Ok(!events.is_empty()),
        Err(StoreError::NoSuchRun { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Begins the session's run, and drives it until it is over or pauses.
pub async fn begin(
    runtime: &Runtime,
    folder: &Folder,
    prepared: &Prepared,
    interrupt: Interrupt,
) -> Result<Ending, SessionError> {
    let order = order_of(folder, &prepared.authorization.request)?;
    let run = folder.session().clone();
    let session = Session { run, authorized: prepared.authorization.fact(prepared.payload) };
    Ok(runtime.start_session(order, session, interrupt).await?)
}

/// Goes on with a session's run that has begun, until it is over or pauses. One that is over is not begun again, and nobody
/// is asked anything for it.
pub async fn go_on(runtime: &Runtime, folder: &Folder, interrupt: Interrupt) -> Result<Ending, SessionError> {
    Ok(runtime.resume(folder.session(), &[], interrupt).await?)
}
