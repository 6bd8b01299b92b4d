//! Runs for later: the contract goes on record now, a worker begins it.

use std::path::{Path, PathBuf};

use provost_core::brief::Brief;
use provost_core::contract::{Contract, Source};
use provost_core::event::{Body, Draft, Event, ModelFact, Questions, RunQueued};
use provost_core::id::{AgentId, RunId};
use provost_core::state::RunState;
use provost_evidence::content::Salt;
use provost_evidence::git::{GitError, Repository};
use provost_journal::{Blob, Head, Lease, Store, StoreError};

use crate::brief;
use crate::error::RunError;
use crate::lease::Held;
use crate::runtime::{self, Clock, Order, new_run, random};

/// A run to queue.
#[derive(Debug, Clone)]
pub struct Queued {
    /// What is to be done.
    pub contract: Contract,
    /// The folder it is done in. It is looked at when the run begins, not now.
    pub workspace: PathBuf,
    /// The repository that it lies in; `None` to take it without one.
    pub repository: Option<PathBuf>,
    /// The model.
    pub model: ModelFact,
    /// Name of the environment variable that holds the key, in the worker's environment; `None` for the usual one.
    pub key_env: Option<String>,
    /// What becomes of questions.
    pub questions: Questions,
}

/// What became of a run that was to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the queue.
    Now,
    /// It was there already, with the same contract.
    Before,
}

/// Where a folder lies in its repository, and the repository's root.
pub fn source_of(workspace: &Path) -> Result<(Source, PathBuf), GitError> {
    let repository = Repository::discover(workspace)?;
    let commit = repository.head()?;
    let scope = repository.prefix(workspace)?;
    Ok((Source::Directory { commit, scope }, repository.root().to_owned()))
}

/// Takes a run's name, for a contract that is given later ([`enqueue`]). However often and from however many processes at
/// once: one of them is told [`Enqueued::Now`].
pub async fn reserve(
    store: &std::sync::Arc<dyn Store>,
    clock: &Clock,
    run: &RunId,
) -> Result<Enqueued, RunError> {
    match store.create(run, Salt::new(random()?), clock()).await {
        Ok(()) => Ok(Enqueued::Now),
        Err(StoreError::Exists { .. }) => Ok(Enqueued::Before),
        Err(error) => Err(error.into()),
    }
}

/// Puts a run into the queue. The same name with the same contract is the same run, however often and from however many
/// processes it is queued; with another contract it is refused ([`RunError::Taken`]).
pub async fn enqueue(
    store: &std::sync::Arc<dyn Store>,
    clock: &Clock,
    id: Option<RunId>,
    order: &Queued,
) -> Result<(RunId, Enqueued), RunError> {
    runtime::check(&order.contract)?;
    let run = match id {
        Some(id) => id,
        None => new_run(clock)?,
    };
    // Whoever made it may have died before it was queued, or be about to queue it.
    reserve(store, clock, &run).await?;
    if let Some(events) = some(store.events(&run, 0).await?) {
        let salt = salt(store, &run).await?;
        return same(&events, &fact(order, &salt)).map(|()| (run, Enqueued::Before));
    }
    let held = match Held::briefly(store.clone(), &run, clock.clone()).await {
        Ok(held) => held,
        // Somebody queues the same at this moment.
        Err(RunError::Store(StoreError::Conflict { .. })) => {
            return Box::pin(after_the_other(store, run, order)).await;
        }
        Err(error) => return Err(error),
    };
    let queued = put(store, clock, &held.lease, order).await;
    held.give_back().await;
    queued.map(|how| (run, how))
}

/// Waits until the other has queued it, as it is doing.
async fn after_the_other(
    store: &std::sync::Arc<dyn Store>,
    run: RunId,
    order: &Queued,
) -> Result<(RunId, Enqueued), RunError> {
    const LOOKS: u32 = 200;
    let mut wait = tokio::time::interval(std::time::Duration::from_millis(10));
    for _ in 0..LOOKS {
        wait.tick().await;
        if let Some(events) = some(store.events(&run, 0).await?) {
            let salt = salt(store, &run).await?;
            return same(&events, &fact(order, &salt)).map(|()| (run, Enqueued::Before));
        }
    }
    Err(RunError::Contract(format!("`{run}` is being queued by another process, which does not get on")))
}

async fn put(
    store: &std::sync::Arc<dyn Store>,
    clock: &Clock,
    lease: &Lease,
    order: &Queued,
) -> Result<Enqueued, RunError> {
    let salt = salt(store, &lease.run).await?;
    let fact = fact(order, &salt);
    // Read again under the lease.
    if let Some(events) = some(store.events(&lease.run, 0).await?) {
        return same(&events, &fact).map(|()| Enqueued::Before);
    }
    let body = Body::RunQueued(Box::new(fact));
    let draft = Draft { at_ms: clock(), agent: AgentId(0), body };
    let mut blobs = vec![Blob::new(&salt, order.contract.goal.clone().into_bytes())];
    brief::fact(&order.contract.brief, |bytes| {
        blobs.push(Blob::new(&salt, bytes.to_vec()));
        salt.digest(bytes)
    });
    store.append(lease, &Head::empty(), vec![draft], blobs).await?;
    Ok(Enqueued::Now)
}

fn some(events: Vec<Event>) -> Option<Vec<Event>> {
    (!events.is_empty()).then_some(events)
}

async fn salt(store: &std::sync::Arc<dyn Store>, run: &RunId) -> Result<Salt, RunError> {
    store.salt(run).await?.ok_or_else(|| RunError::Gone(format!("the salt of `{run}`")))
}

/// Whether the run in the store is the one that is to be queued.
fn same(events: &[Event], wanted: &RunQueued) -> Result<(), RunError> {
    let Some(first) = events.first() else { return Ok(()) };
    let taken =
        |differs: &str| Err(RunError::Taken { run: first.stream.to_string(), differs: differs.to_owned() });
    let found = match &first.body {
        Body::RunQueued(found) => found,
        Body::RunCancelled(cancelled) => {
            let (run, by) = (first.stream.to_string(), cancelled.by.clone());
            return Err(RunError::Dropped { run, by });
        }
        _ => return taken("it was not queued"),
    };
    let parts = [
        ("the goal", found.goal == wanted.goal),
        ("the workspace", found.root == wanted.root && found.repository == wanted.repository),
        ("the model", found.model == wanted.model && found.key_env == wanted.key_env),
        ("what is asked beside the model", found.routing == wanted.routing),
        ("the policy", found.policy == wanted.policy && found.questions == wanted.questions),
        ("the budget", found.budget == wanted.budget && found.price == wanted.price),
        ("the servers of tools", found.servers == wanted.servers),
        ("the verification", found.gate == wanted.gate),
        ("the limits", found.limits == wanted.limits),
        ("what is asked of the model", found.brief == wanted.brief),
    ];
    match parts.iter().find(|(_, same)| !same) {
        Some((part, _)) => taken(&format!("{part} differs")),
        None => Ok(()),
    }
}

fn fact(order: &Queued, salt: &Salt) -> RunQueued {
    let contract = &order.contract;
    RunQueued {
        provost: env!("CARGO_PKG_VERSION").to_owned(),
        goal: salt.digest(contract.goal.as_bytes()),
        policy: contract.policy.clone(),
        budget: contract.budget,
        price: contract.price.clone(),
        gate: contract.gate.clone(),
        limits: contract.limits,
        model: order.model.clone(),
        routing: contract.routing.clone().kept(),
        servers: contract.servers.clone(),
        brief: brief::fact(&contract.brief, |bytes| salt.digest(bytes)),
        key_env: order.key_env.clone(),
        root: order.workspace.display().to_string(),
        repository: order.repository.as_ref().map(|path| path.display().to_string()),
        questions: order.questions,
    }
}

/// The order that was queued, with the workspace as it is now.
pub(crate) fn order(queued: &RunQueued, goal: String, brief: Brief) -> Result<Order, RunError> {
    let contract = Contract {
        goal,
        brief,
        policy: queued.policy.clone(),
        budget: queued.budget,
        gate: queued.gate.clone(),
        price: queued.price.clone(),
        routing: queued.routing.as_deref().cloned().unwrap_or_default(),
        limits: queued.limits,
        servers: queued.servers.clone(),
    };
    let workspace = PathBuf::from(&queued.root);
    let Some(repository) = &queued.repository else {
        let source = Source::Directory { commit: None, scope: provost_core::path::RelPath::root() };
        return Ok(Order { contract, workspace, source, repository: None });
    };
    if !workspace.is_dir() {
        let reason = "there is no such folder any more".to_owned();
        return Err(RunError::Workspace { path: workspace, reason });
    }
    let (source, root) = source_of(&workspace)?;
    if root != Path::new(repository) {
        let reason =
            format!("it lies in the repository `{}` now, and was queued in `{repository}`", root.display());
        return Err(RunError::Workspace { path: workspace, reason });
    }
    Ok(Order { contract, workspace, source, repository: Some(root) })
}

/// Folds a run's journal.
pub(crate) fn fold(run: &RunId, events: &[Event]) -> Result<RunState, RunError> {
    RunState::fold(run.clone(), events)
        .map_err(|violation| RunError::Unsound { run: run.to_string(), violation })
}
