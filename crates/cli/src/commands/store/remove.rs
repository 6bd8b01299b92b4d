//! Deleting runs, and dropping their words.

use std::io;
use std::time::Duration;

use provost::core::id::RunId;
use provost::journal::{Content, Lease, Owner, Retention, RunUsage, Standing, Store, StoreError};

use super::{held, now_ms, this_process, usages};
use crate::commands::setup::Place;
use crate::failure::Failure;
use crate::render::say;
use crate::render::words::{counted, moment};

/// How long a run is held for what is done to it. Nobody drives it meanwhile.
const TTL: Duration = Duration::from_mins(1);

/// Whether `--force` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// What can still be resumed is refused.
    OnlyOver,
    /// It is done all the same.
    Anyway,
}

impl From<bool> for Force {
    fn from(flag: bool) -> Self {
        if flag { Self::Anyway } else { Self::OnlyOver }
    }
}

/// Whether a sweep deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Delete,
    /// It only says what it would delete.
    Try,
}

/// Removes runs, or their words, from a store.
pub(crate) struct Remover {
    place: Place,
    owner: Owner,
}

impl Remover {
    pub(crate) fn new(place: Place) -> Result<Self, Failure> {
        Ok(Self { place, owner: this_process()? })
    }

    pub(crate) async fn delete(&self, name: &str, force: Force) -> Result<(), Failure> {
        let run = self.place.store.find(name).await?;
        let lease = self.take(&run).await?;
        let usage = self.allowed(&lease, force, "delete").await?;
        self.remove(&lease).await?;
        say!(
            "deleted {run}: {}; {}",
            held(usage.events, "event", usage.event_bytes),
            held(usage.blobs, "blob", usage.blob_bytes)
        );
        self.empty_log();
        Ok(())
    }

    pub(crate) async fn archive(&self, name: &str, force: Force) -> Result<(), Failure> {
        let store = &self.place.store;
        let run = store.find(name).await?;
        let lease = self.take(&run).await?;
        let usage = self.allowed(&lease, force, "archive").await?;
        // Also where the store has no words any more: what was interrupted may have left some in the spool.
        self.discard_spool(&run)?;
        store.forget(&run).await?;
        store.release(&lease).await?;
        match usage.content {
            Content::Dropped => say!("{run} held no words any more"),
            Content::Kept => {
                say!(
                    "archived {run}: its words are gone ({}), and it can be exported no more",
                    held(usage.blobs, "blob", usage.blob_bytes)
                );
                say!("left: {}, with their chain", held(usage.events, "event", usage.event_bytes));
            }
        }
        self.empty_log();
        Ok(())
    }

    pub(crate) async fn sweep(&self, before_ms: u64, mode: Mode) -> Result<(), Failure> {
        let (deletes, keeps) = match mode {
            Mode::Delete => ("deleted", "kept"),
            Mode::Try => ("would delete", "would keep"),
        };
        let (mut gone, mut bytes, mut kept) = (0_u64, 0, 0_u64);
        for usage in usages(&self.place).await? {
            let run = &usage.row.run;
            match self.sweep_one(&usage, before_ms, mode).await? {
                Swept::Young => {}
                Swept::Kept(why) => {
                    kept += 1;
                    say!("{keeps} {run}: {why}");
                }
                Swept::Gone => {
                    gone += 1;
                    bytes += usage.event_bytes + usage.blob_bytes;
                    let newest = usage.last_ms.map_or(String::new(), moment);
                    say!("{deletes} {run}: {}, newest event {newest} UTC", usage.row.stage.word());
                }
            }
        }
        say!(
            "{deletes} {}, {}; {keeps} {} of before {} UTC",
            counted(gone, "run"),
            counted(bytes, "byte"),
            counted(kept, "run"),
            moment(before_ms)
        );
        if mode == Mode::Delete && gone > 0 {
            self.empty_log();
        }
        Ok(())
    }

    async fn sweep_one(&self, usage: &RunUsage, before_ms: u64, mode: Mode) -> Result<Swept, Failure> {
        let Some(last_ms) = usage.last_ms else {
            return Ok(Swept::Kept("its newest event cannot be read, so its age is not known".to_owned()));
        };
        if last_ms >= before_ms {
            return Ok(Swept::Young);
        }
        if usage.row.standing() == Standing::Resumable {
            let named = self.place.named(&usage.row.run);
            return Ok(Swept::Kept(format!(
                "it is not over ({}); `provost store delete {named} --force` deletes it all the same",
                usage.row.stage.word()
            )));
        }
        if mode == Mode::Try {
            return Ok(Swept::Gone);
        }
        match self.place.store.acquire(&usage.row.run, self.owner.clone(), now_ms(), TTL).await {
            Ok(lease) => self.remove(&lease).await.map(|()| Swept::Gone),
            Err(error @ StoreError::Conflict { .. }) => Ok(Swept::Kept(error.to_string())),
            // Somebody else deleted it.
            Err(StoreError::NoSuchRun { .. }) => Ok(Swept::Young),
            Err(error) => Err(error.into()),
        }
    }

    async fn take(&self, run: &RunId) -> Result<Lease, Failure> {
        Ok(self.place.store.acquire(run, self.owner.clone(), now_ms(), TTL).await?)
    }

    /// What the run takes up, if `verb` may be done to it. Gives it back otherwise.
    async fn allowed(&self, lease: &Lease, force: Force, verb: &str) -> Result<RunUsage, Failure> {
        let usage = self.place.store.usage(&lease.run).await?;
        if usage.row.standing() != Standing::Resumable || force == Force::Anyway {
            return Ok(usage);
        }
        self.place.store.release(lease).await?;
        let named = self.place.named(&lease.run);
        Err(Failure::usage(format!("`{}` is not over ({}): it can be resumed", lease.run, usage.row.stage.word()))
            .hint(format!("`provost resume {named}` goes on with it; `provost store {verb} {named} --force` does it all the same")))
    }

    /// Deletes the run that is held, its spool first: a spool whose run is gone would never be found again.
    async fn remove(&self, lease: &Lease) -> Result<(), Failure> {
        self.discard_spool(&lease.run)?;
        Ok(self.place.store.delete(lease).await?)
    }

    /// Records of commands, and checkouts, that a driver which died left beside the store.
    fn discard_spool(&self, run: &RunId) -> Result<(), Failure> {
        let folder = self.place.spool.join(run.as_str());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::internal(format!(
                "spool `{}`: {error}; remove it and try again",
                folder.display()
            ))),
            _ => Ok(()),
        }
    }

    /// What was dropped may still lie in the write-ahead log.
    fn empty_log(&self) {
        if let Err(error) = self.place.store.checkpoint() {
            eprintln!(
                "note: what is gone may lie in the write-ahead log until all who have the store open close it ({error})"
            );
        }
    }
}

/// What a sweep did with a run.
enum Swept {
    /// It is not from before the date.
    Young,
    /// It stays, and why.
    Kept(String),
    /// It is deleted, or would be.
    Gone,
}
