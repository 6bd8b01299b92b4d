//! `DIR`: the store of its tasks, and the log that the old program left.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use provost::agent::{Enqueued, reserve, system_clock};
use provost::core::id::RunId;
use provost::core::text::{Lines, visible};
use provost::journal::{Store, StoreError};
use provost::model::agent_runtime::events_log::{Log, Task};

use super::super::setup::Place;
use crate::failure::{AtPath, Failure};

/// Lines of an old log that are warned of one by one.
const MOST_WARNINGS: usize = 20;

/// The tasks of a folder.
pub(super) struct Tasks {
    place: Option<Place>,
    log: Option<Log>,
}

fn store_path(dir: &Path) -> Result<PathBuf, Failure> {
    Ok(std::path::absolute(dir).at(dir)?.join("provost.db"))
}

impl Tasks {
    /// For whoever makes tasks: the store is made where there is none.
    pub(super) fn open(dir: &Path) -> Result<Self, Failure> {
        Ok(Self { place: Some(Place::at(&store_path(dir)?)?), log: read_log(dir)? })
    }

    /// For whoever reads: what is not there is not made.
    pub(super) fn existing(dir: &Path) -> Result<Self, Failure> {
        let path = store_path(dir)?;
        let place = path.exists().then(|| Place::at(&path)).transpose()?;
        Ok(Self { place, log: read_log(dir)? })
    }

    /// The same after a while. A store that is open stays so.
    pub(super) fn again(self, dir: &Path) -> Result<Self, Failure> {
        match self.place {
            Some(place) => Ok(Self { place: Some(place), log: read_log(dir)? }),
            None => Self::existing(dir),
        }
    }

    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    pub(super) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// What the old log says of a task.
    pub(super) fn logged(&self, id: &str) -> Option<&Task> {
        self.log.as_ref()?.tasks.get(id)
    }

    /// Whether the store has the run.
    pub(super) async fn has(&self, run: &RunId) -> Result<bool, Failure> {
        let Some(place) = &self.place else { return Ok(false) };
        match place.store.row(run).await {
            Ok(_) => Ok(true),
            Err(StoreError::NoSuchRun { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the name of a run, from however many processes at once for exactly one of them.
    pub(super) async fn reserve(&self, run: &RunId) -> Result<Enqueued, Failure> {
        let Some(place) = &self.place else { return Err(Failure::internal("no store was opened")) };
        Ok(reserve(&place.shared(), &system_clock(), run).await?)
    }

    /// Says what is odd in the old log.
    pub(super) fn warn(&self) {
        let Some(log) = &self.log else { return };
        let problems = log.problems.iter().map(|problem| format!("events.log, {problem}"));
        let odd = log.tasks.iter().flat_map(|(id, task)| {
            task.warnings.iter().map(move |warning| format!("events.log, task `{id}`, {warning}"))
        });
        let mut said = 0;
        for line in problems.chain(odd).take(MOST_WARNINGS) {
            eprintln!("warning: {}", visible(&line, Lines::Escape));
            said += 1;
        }
        let all = log.problem_count + log.tasks.values().map(|task| task.warnings.len() as u64).sum::<u64>();
        if all > said {
            eprintln!("warning: events.log, and {} more", all - said);
        }
    }
}

fn read_log(dir: &Path) -> Result<Option<Log>, Failure> {
    let path = dir.join("events.log");
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(Log::read(&bytes))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error).at(&path),
    }
}

/// Of a task that the old log has as running: whether somebody still works on it cannot be told from there.
pub(super) fn runs_elsewhere(id: &str, dir: &Path) -> Failure {
    Failure::usage(format!(
        "`{}` says that task `{id}` runs: only the old program could reach its worker",
        dir.join("events.log").display()
    ))
    .hint("where that worker is gone, take a new task id")
}
