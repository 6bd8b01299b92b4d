//! The table of `status`.

use std::collections::{BTreeMap, HashMap};

use provost::core::id::RunId;
use provost::journal::{Owner, RunRow, Store};
use provost::model::agent_runtime::events_log::State;
use provost::model::agent_runtime::shapes::{self, Row};

use super::super::setup::Place;
use super::account::{Account, Differs, driven, standing};
use super::name;
use super::tasks::Tasks;
use crate::failure::Failure;

/// Makes tables; remembers what it read of journals that have not grown since.
#[derive(Default)]
pub(super) struct Table(HashMap<RunId, Read>);

/// What a journal said up to its event `last_seq`.
#[derive(Clone)]
struct Read {
    last_seq: Option<u64>,
    attempts: u32,
    differs: Differs,
    last: Option<(String, u64)>,
}

impl Table {
    pub(super) async fn of(&mut self, tasks: &Tasks) -> Result<String, Failure> {
        let asker = Owner::this_process().map_err(Failure::internal)?;
        let mut rows: BTreeMap<String, (State, Read)> = BTreeMap::new();
        if let Some(place) = tasks.place() {
            for row in place.store.runs().await? {
                let Some(id) = name::id(&row.run) else { continue };
                let read = self.read(place, &row).await?;
                let state = standing(row.stage, driven(&row, &asker), read.differs);
                rows.insert(id, (state, read));
            }
        }
        let logged = tasks.log().into_iter().flat_map(|log| &log.tasks);
        let mut all: BTreeMap<&str, Row<'_>> =
            logged.map(|(id, task)| (id.as_str(), Row::of(id, task))).collect();
        // What the store has of a task is newer.
        all.extend(rows.iter().map(|(id, (state, read))| {
            let last = read.last.as_ref().map(|(program, ms)| (program.as_str(), *ms));
            (id.as_str(), Row { id, state: *state, attempts: read.attempts, last })
        }));
        Ok(shapes::status(all.into_values()))
    }

    async fn read(&mut self, place: &Place, row: &RunRow) -> Result<Read, Failure> {
        if let Some(read) = self.0.get(&row.run).filter(|read| read.last_seq == row.last_seq) {
            return Ok(read.clone());
        }
        let account = Account::of(place, &row.run).await?;
        let read = Read {
            last_seq: row.last_seq,
            attempts: account.state.counts().drivers,
            differs: account.differs(),
            last: account.last,
        };
        self.0.insert(row.run.clone(), read.clone());
        Ok(read)
    }
}
