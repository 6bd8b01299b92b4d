//! A new run from the state that another had at one of its steps.
//!
//! The fork's journal is the other's up to that step, chained anew under its own name, with the same salt and content.
//! Files come first and the journal last, in one append: until that, there is no fork.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

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
use crate::fork_files::{Made, Tree, failed, refused, write_around};
use crate::lease::Held;
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
        self.check_free(&run, &parent).await?;
        let to = real_place(&order.to)?;
        let repository = repository_of(&parent, order.place)?;
        check_outside(&to, &parent.created, repository.as_ref())?;

        let root = Path::new(&parent.created.root);
        let mut tree = Tree::new(self.store.as_ref(), &parent.run, &parent.salt, repository.as_ref(), root);
        let manifest = self.blob(&parent, parent.created.manifest).await?;
        tree.find(base_files(&manifest)?, &parent.events, parent.count)?;

        let mut made = Made::default();
        let place = async {
            let place = make_place(&parent, repository.as_ref(), order.place, &to, &mut made)?;
            tree.write(&place.root, &mut made).await?;
            self.write_journal(&parent, &run, &place).await?;
            Ok(place)
        };
        match place.await {
            Ok(place) => Ok(Forked { run, root: place.root, files: tree.len(), place: place.kind }),
            Err(error) => {
                // What is half made is of no use, and in the way of another try.
                made.remove();
                Err(error)
            }
        }
    }

    /// Whether the fork can have this name: it is free, or was taken by a fork that died before it had an event.
    async fn check_free(&self, run: &RunId, parent: &Parent) -> Result<(), RunError> {
        match self.store.head(run).await {
            Err(StoreError::NoSuchRun { .. }) => return Ok(()),
            Ok(head) if head == Head::empty() => {}
            Ok(_) => return Err(StoreError::Exists { run: run.clone() }.into()),
            Err(error) => return Err(error.into()),
        }
        // The digests in the parent's events are made with its salt.
        match self.store.salt(run).await? {
            Some(salt) if salt == parent.salt => Ok(()),
            _ => Err(reserved(run)),
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
        let made =
            self.store.create_after(run, parent.salt.clone(), state.generation(), (self.clock)()).await;
        match made {
            Ok(()) => {}
            Err(StoreError::Exists { .. }) => self.check_free(run, parent).await?,
            Err(error) => return Err(error.into()),
        }
        let held = Held::briefly(self.store.clone(), run, self.clock.clone()).await?;
        let written = if held.lease.generation > state.generation() {
            self.append(parent, &state, place, &held.lease).await
        } else {
            // The fork that died was to begin at an earlier step.
            Err(reserved(run))
        };
        held.give_back().await;
        match written {
            // Another fork of that name came first.
            Err(RunError::Store(StoreError::StaleHead { run, .. })) => Err(StoreError::Exists { run }.into()),
            other => other,
        }
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
            // What was signed is that run and no other.
            authorized: None,
            ..parent.created.clone()
        };
        let mut drafts: Vec<Draft> = taken
            .iter()
            .map(|event| Draft { at_ms: event.at_ms, agent: event.agent, body: event.body.clone() })
            .collect();
        if let Some(first) = drafts.first_mut() {
            first.body = Body::RunCreated(Box::new(created));
        }
        // One that had a command in the background is as if it had died: whoever takes the fork finds that gone.
        if state.next() != Next::Attach && state.open_processes().is_empty() {
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

fn reserved(run: &RunId) -> RunError {
    RunError::Undo(format!(
        "`{run}` is in the store without an event, and not for this fork: choose another --id, or remove it with \
         `provost store delete {run}`"
    ))
}

/// The repository that a fork needs. Where it is gone, the journal may still have all that is needed.
fn repository_of(parent: &Parent, kind: ForkPlace) -> Result<Option<Repository>, RunError> {
    let Some(path) = &parent.created.repository else { return Ok(None) };
    match (Repository::discover(Path::new(path)), kind) {
        (Ok(repository), _) => Ok(Some(repository)),
        (Err(_), ForkPlace::Folder) => Ok(None),
        (Err(error), ForkPlace::Worktree) => {
            Err(RunError::Undo(format!("{error}; --no-worktree makes a plain folder")))
        }
    }
}

/// Where `to` really is, whether or not it is there yet. No link at its place is followed: it is somebody's.
fn real_place(to: &Path) -> Result<PathBuf, RunError> {
    let whole = std::path::absolute(to).map_err(|error| failed(to, &error))?;
    // A slash at the end would follow a link.
    let whole: PathBuf = whole.components().collect();
    if whole.is_symlink() {
        return Err(refused(to, "is a symbolic link: name the folder itself, or a new one"));
    }
    let there = whole.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let (above, mut place) = there.ok_or_else(|| refused(to, "cannot be reached: choose another folder"))?;
    let missing = whole.strip_prefix(above).unwrap_or(Path::new(""));
    if missing.components().any(|part| part == Component::ParentDir) {
        return Err(refused(to, "has `..` after a folder that is not there: name the folder without it"));
    }
    place.extend(missing);
    Ok(place)
}

/// A fork lies in nothing that is its parent's: not in the files that the parent's driver watches, nor in what git reads.
fn check_outside(to: &Path, created: &RunCreated, repository: Option<&Repository>) -> Result<(), RunError> {
    let within = |folder: &Path| folder.canonicalize().is_ok_and(|real| to.starts_with(real));
    if within(Path::new(&created.root)) {
        return Err(refused(
            to,
            "lies in the workspace of the run that is forked: choose a folder outside of it",
        ));
    }
    let named = created.repository.iter().map(PathBuf::from);
    let found = repository.map(Repository::folders).transpose()?;
    if named.chain(found.into_iter().flatten()).any(|folder| within(&folder)) {
        return Err(refused(
            to,
            "lies in the repository of the run that is forked: choose a folder outside of it",
        ));
    }
    Ok(())
}

fn make_place<'a>(
    parent: &Parent,
    repository: Option<&'a Repository>,
    kind: ForkPlace,
    to: &Path,
    made: &mut Made<'a>,
) -> Result<Place, RunError> {
    made.claim(to)?;
    let source = &parent.created.source;
    let (Some(repository), Some(commit), ForkPlace::Worktree) = (repository, source.commit(), kind) else {
        let repository = parent.created.repository.as_ref().map(PathBuf::from);
        return Ok(Place { kind: ForkPlace::Folder, root: to.to_owned(), repository });
    };
    let tree = repository.add_worktree(to, commit)?;
    made.worktree(repository, to);
    write_around(&tree, commit, source.scope(), to, made)?;
    let scope: &RelPath = source.scope();
    let root = if scope.is_root() { to.to_owned() } else { to.join(scope.to_os()) };
    Ok(Place { kind: ForkPlace::Worktree, root, repository: Some(tree.root().to_owned()) })
}
