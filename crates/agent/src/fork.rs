//! A new run from the state that another had at one of its steps.
//!
//! The fork's journal is the other's up to that step, chained anew under its own name, with the same salt and content.
//! Files come first and the journal last, in one append: until that, there is no fork.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use provost_core::digest::Digest;
use provost_core::event::{Body, Draft, DriverDetached, Event, RunCreated};
use provost_core::fork;
use provost_core::history;
use provost_core::id::{AgentId, RunId};
use provost_core::outcome::Pause;
use provost_core::path::RelPath;
use provost_core::state::{Next, RunState};
use provost_evidence::chain::seal;
use provost_evidence::content::Salt;
use provost_evidence::git::Repository;
use provost_journal::{Blob, Head, Lease, StoreError};

use crate::error::RunError;
use crate::files::base_files;
use crate::fork_content::{copy, named_by};
use crate::fork_files::{Tree, failed, write_around};
use crate::lease::Held;
use crate::removal::remove_at;
use crate::rewind::no_step;
use crate::runtime::random;
use crate::undo::{Undo, fold};

/// A fork to make.
#[derive(Debug, Clone)]
pub struct ForkOrder {
    /// After so many steps; 0 is the start of the run.
    pub step: u32,
    /// Folder for its files: it must not exist or be empty.
    pub to: PathBuf,
    /// Its name; `None` for a fresh one.
    pub id: Option<RunId>,
    /// What kind of folder.
    pub place: ForkPlace,
}

/// What kind of folder a fork's files are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPlace {
    /// A work tree of the repository, where there is one and the run began with a commit of it.
    Worktree,
    /// A folder that no repository knows of.
    Folder,
}

/// A fork that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// Its name.
    pub run: RunId,
    /// Its workspace.
    pub root: PathBuf,
    /// How many files that has.
    pub files: u64,
    /// What kind of folder it is.
    pub place: ForkPlace,
}

/// What the parent has, as far as the fork takes it.
struct Parent {
    run: RunId,
    salt: Salt,
    events: Vec<Event>,
    created: RunCreated,
    /// How many events the fork begins with.
    count: usize,
}

impl Parent {
    /// The events that the fork begins with. That its parent waited in a queue is not the fork's story: no worker takes
    /// it.
    fn taken(&self) -> &[Event] {
        let events = &self.events[..self.count];
        let made = events.iter().position(|event| matches!(event.body, Body::RunCreated(_)));
        &events[made.unwrap_or(0)..]
    }
}

/// The folder of a fork.
struct Place {
    kind: ForkPlace,
    /// The workspace.
    root: PathBuf,
    /// The repository as the fork's journal names it.
    repository: Option<PathBuf>,
}

impl Undo {
    /// Makes a run from the state that `parent` had at a step. The parent is only read, and may be driven meanwhile.
    pub async fn fork(&self, parent: &RunId, order: &ForkOrder) -> Result<Forked, RunError> {
        let parent = self.parent(parent, order.step).await?;
        let run = match &order.id {
            Some(id) => id.clone(),
            None => RunId::from_parts((self.clock)(), random()?),
        };
        match self.store.head(&run).await {
            Err(StoreError::NoSuchRun { .. }) => {}
            Ok(_) => return Err(StoreError::Exists { run }.into()),
            Err(error) => return Err(error.into()),
        }
        let to = std::path::absolute(&order.to).map_err(|error| failed(&order.to, &error))?;
        check_folder(&to, Path::new(&parent.created.root))?;

        // Where the repository is gone, the journal may still have all that is needed.
        let repository =
            parent.created.repository.as_deref().map(|path| Repository::discover(Path::new(path)));
        let repository = match (repository, order.place) {
            (None, _) | (Some(Err(_)), ForkPlace::Folder) => None,
            (Some(Ok(repository)), _) => Some(repository),
            (Some(Err(error)), ForkPlace::Worktree) => {
                return Err(RunError::Undo(format!("{error}; --no-worktree makes a plain folder")));
            }
        };
        let root = Path::new(&parent.created.root);
        let mut tree = Tree::new(self.store.as_ref(), &parent.run, &parent.salt, repository.as_ref(), root);
        let manifest = self.blob(&parent, parent.created.manifest).await?;
        tree.find(base_files(&manifest)?, &parent.events, parent.count)?;

        let made = async {
            let place = make_place(&parent, repository.as_ref(), order.place, &to)?;
            tree.write(&place.root).await?;
            let root = place.root.canonicalize().map_err(|error| failed(&place.root, &error))?;
            let place = Place { root, ..place };
            self.write_journal(&parent, &run, &place).await?;
            Ok(place)
        };
        match made.await {
            Ok(place) => Ok(Forked { run, root: place.root, files: tree.len(), place: place.kind }),
            Err(error) => {
                // What is half made is of no use, and in the way of another try.
                let _ = remove_at(&to);
                let _ = repository.as_ref().map(Repository::prune_worktrees);
                Err(error)
            }
        }
    }

    async fn parent(&self, run: &RunId, step: u32) -> Result<Parent, RunError> {
        let salt = self.salt(run).await?;
        let events = self.store.events(run, 0).await?;
        let (created, _) = fold(run, &events)?;
        let count = cut(run, &events, step)?;
        Ok(Parent { run: run.clone(), salt, events, created, count })
    }

    async fn blob(&self, parent: &Parent, digest: Digest) -> Result<Vec<u8>, RunError> {
        let bytes = self.store.blob(&parent.run, digest).await?;
        bytes.ok_or_else(|| RunError::Gone(format!("content {} of `{}`", digest.short(), parent.run)))
    }

    async fn write_journal(&self, parent: &Parent, run: &RunId, place: &Place) -> Result<(), RunError> {
        let taken = &parent.events[..parent.count];
        let state = RunState::fold(parent.run.clone(), taken)
            .map_err(|violation| RunError::Unsound { run: parent.run.to_string(), violation })?;
        // Drivers of the parent's stand in the fork's journal, and its own must be newer.
        self.store.create_after(run, parent.salt.clone(), state.generation(), (self.clock)()).await?;
        let held = Held::briefly(self.store.clone(), run, self.clock.clone()).await?;
        let written = self.append(parent, &state, place, &held.lease).await;
        held.give_back().await;
        written
    }

    async fn append(
        &self,
        parent: &Parent,
        state: &RunState,
        place: &Place,
        lease: &Lease,
    ) -> Result<(), RunError> {
        let taken = parent.taken();
        let mut digests: BTreeSet<Digest> = taken.iter().flat_map(named_by).collect();
        let manifest = self.blob(parent, parent.created.manifest).await?;
        digests.extend(base_files(&manifest)?.iter().filter_map(|file| file.content));
        copy(self.store.as_ref(), &parent.run, lease, &parent.salt, digests).await?;

        let system = self.blob(parent, parent.created.system).await?;
        let root = place.root.display().to_string();
        // The one sentence of the system prompt that names the folder.
        let named = |root: &str| format!("Workspace: `{root}`.");
        let system = String::from_utf8_lossy(&system).replace(&named(&parent.created.root), &named(&root));
        let system = Blob::new(&parent.salt, system.into_bytes());
        let created = RunCreated {
            root,
            system: system.digest(),
            repository: place.repository.as_ref().map(|path| path.display().to_string()),
            forked: Some(fork::Forked {
                run: parent.run.clone(),
                events: taken.len() as u64,
                head: taken.last().map_or(Digest::ZERO, |event| event.hash),
                of: parent.created.forked.clone().map(Box::new),
            }),
            ..parent.created.clone()
        };
        let mut drafts: Vec<Draft> = taken
            .iter()
            .map(|event| Draft { at_ms: event.at_ms, agent: event.agent, body: event.body.clone() })
            .collect();
        if let Some(first) = drafts.first_mut() {
            first.body = Body::RunCreated(Box::new(created));
        }
        if state.next() != Next::Attach {
            // The parent's driver does not drive the fork.
            let body = Body::DriverDetached(DriverDetached { why: Pause::Interrupted, act: None });
            drafts.push(Draft { at_ms: state.span_ms().1, agent: AgentId(0), body });
        }
        check_sound(&lease.run, &drafts)?;
        self.store.append(lease, &Head::empty(), drafts, vec![system]).await?;
        Ok(())
    }
}

/// Whether a fork with these events can be driven.
fn check_sound(run: &RunId, drafts: &[Draft]) -> Result<(), RunError> {
    let mut head = Head::empty();
    let events: Result<Vec<Event>, _> =
        drafts.iter().map(|draft| seal(run, &mut head, draft.clone())).collect();
    match RunState::fold(run.clone(), &events?) {
        Ok(_) => Ok(()),
        Err(violation) => Err(RunError::Internal(format!("the fork is not sound: {violation}"))),
    }
}

/// How many events a fork at `step` begins with: all up to the last moment of that step at which nothing was under way.
fn cut(run: &RunId, events: &[Event], step: u32) -> Result<usize, RunError> {
    let Some(end) = history::settled_after(events, step) else {
        return Err(RunError::Undo(no_step(events, step)));
    };
    let mut state = RunState::new(run.clone());
    let mut last = None;
    for (at, event) in events[..end].iter().enumerate() {
        state.apply(event).map_err(|violation| RunError::Unsound { run: run.to_string(), violation })?;
        // Before its answer the step is not under way either.
        if state.rests() && state.ledger().steps == step {
            last = Some(at + 1);
        }
    }
    last.ok_or_else(|| {
        RunError::Undo(format!(
            "step {step} is not over: an act of it waits, or is under way. Fork at step {}, or when it is over",
            step.saturating_sub(1)
        ))
    })
}

fn check_folder(to: &Path, workspace: &Path) -> Result<(), RunError> {
    let refuse = |why: &str| Err(RunError::Undo(format!("`{}` {why}", to.display())));
    let real = to.ancestors().find_map(|above| above.canonicalize().ok());
    let within = workspace.canonicalize().is_ok_and(|root| real.is_some_and(|real| real.starts_with(root)));
    if within {
        return refuse("lies in the workspace of the run that is forked: choose a folder outside of it");
    }
    match std::fs::read_dir(to).map(|mut entries| entries.next().is_some()) {
        Ok(true) => refuse("is not empty: choose a new folder"),
        Ok(false) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(to, &error)),
    }
}

fn make_place(
    parent: &Parent,
    repository: Option<&Repository>,
    kind: ForkPlace,
    to: &Path,
) -> Result<Place, RunError> {
    let source = &parent.created.source;
    let (Some(repository), Some(commit), ForkPlace::Worktree) = (repository, source.commit(), kind) else {
        let repository = parent.created.repository.as_ref().map(PathBuf::from);
        return Ok(Place { kind: ForkPlace::Folder, root: to.to_owned(), repository });
    };
    if let Some(above) = to.parent() {
        std::fs::create_dir_all(above).map_err(|error| failed(above, &error))?;
    }
    let made = repository.add_worktree(to, commit)?;
    write_around(&made, commit, source.scope(), to)?;
    let scope: &RelPath = source.scope();
    let root = if scope.is_root() { to.to_owned() } else { to.join(scope.to_os()) };
    Ok(Place { kind: ForkPlace::Worktree, root, repository: Some(made.root().to_owned()) })
}
