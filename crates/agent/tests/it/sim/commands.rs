//! Commands without processes: a line says what is done to the workspace, and the world remembers that it ran.

use std::collections::BTreeMap;
use std::fs;
use std::future::ready;
use std::io;
use std::path::Path;
use std::sync::Arc;

use provost_agent::{Contained, Executor};
use provost_core::containment::{Receipt, Rung};
use provost_core::event::Body;
use provost_core::id::ActId;
use provost_journal::BoxFuture;
use provost_sandbox::{
    Cancel, Captured, Command, Ended, ExitRecord, Failure, Profile, Recovered, RunError, RungChoice,
    Unavailable,
};

use super::world::{Left, Ran, World};

/// `ENOENT`.
const NOT_FOUND: i32 = 2;

pub(crate) struct SimExecutor(pub(crate) Arc<World>);

struct Ready {
    world: Arc<World>,
    receipt: Receipt,
    profile: Profile,
}

fn receipt() -> Receipt {
    Receipt {
        rung: Rung::R3,
        guarantees: BTreeMap::new(),
        kernel: "sim".to_owned(),
        landlock_abi: None,
        image: None,
    }
}

fn record(ended: Ended) -> ExitRecord {
    ExitRecord {
        ended,
        duration_ms: 1,
        // Nothing that is found later was made later.
        ended_at_ns: u64::MAX,
        output: Captured { head: b"out\n".to_vec(), tail: Vec::new(), total: 4, sha256: String::new() },
        receipt: receipt(),
        survivors: 0,
        caps: Vec::new(),
        unprotected: Vec::new(),
    }
}

/// The act whose record folder this is.
fn act_of(folder: &Path) -> ActId {
    let name = folder.file_name().unwrap().to_str().unwrap();
    ActId(name.strip_prefix("act-").unwrap().parse().unwrap())
}

impl Executor for SimExecutor {
    fn contain(&self, profile: Profile, _: RungChoice) -> Result<Arc<dyn Contained>, Unavailable> {
        Ok(Arc::new(Ready { world: self.0.clone(), receipt: receipt(), profile }))
    }

    fn recover<'a>(&'a self, record_dir: &'a Path) -> BoxFuture<'a, io::Result<Recovered>> {
        let left = self.0.with(|state| state.left.get(&act_of(record_dir)).cloned());
        Box::pin(ready(Ok(match left {
            None => Recovered::NotStarted(Failure {
                step: "started".to_owned(),
                errno: NOT_FOUND,
                detail: String::new(),
            }),
            Some(Left::Nothing) => Recovered::Unknown,
            Some(Left::Record(record)) => Recovered::Finished(record),
        })))
    }
}

impl Contained for Ready {
    fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    fn run(&self, command: Command, _: Cancel) -> BoxFuture<'_, Result<ExitRecord, RunError>> {
        let act = act_of(&command.record_dir);
        let line = command.argv[2].to_str().unwrap().to_owned();
        // I2: what is carried out is durable before.
        self.world.with(|state| {
            let started = state
                .events
                .iter()
                .any(|event| matches!(&event.body, Body::ActStarted(started) if started.act == act));
            let over = state
                .events
                .iter()
                .any(|event| matches!(&event.body, Body::ActFinished(finished) if finished.act == act));
            assert!(started && !over, "act {act} runs, and the journal does not say that it may");
        });
        self.world.pass("before a command");
        let base = self.profile.workspace.clone();
        self.world.with(|state| {
            state.left.insert(act, Left::Nothing);
            state.ran.push(Ran { act, line: line.clone() });
        });
        let code = carry_out(&base, &line);
        self.world.pass("after a command, its record lost");
        self.world.with(|state| state.left.insert(act, Left::Record(Box::new(record(Ended::DriverLost)))));
        self.world.pass("after a command that its supervisor killed");
        let record = record(Ended::Exited(code));
        self.world.with(|state| state.left.insert(act, Left::Record(Box::new(record.clone()))));
        self.world.pass("after a command");
        Box::pin(ready(Ok(record)))
    }
}

/// Does what a line says: `append FILE TEXT`, `remove FILE`, `check FILE TEXT`, `fail`.
fn carry_out(base: &Path, line: &str) -> i32 {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["append", file, text] => {
            let path = base.join(file);
            let before = fs::read_to_string(&path).unwrap_or_default();
            fs::write(&path, format!("{before}{text}\n")).unwrap();
            0
        }
        ["remove", file] => i32::from(fs::remove_file(base.join(file)).is_err()),
        ["check", file, text] => {
            i32::from(!fs::read_to_string(base.join(file)).unwrap_or_default().contains(text))
        }
        _ => 1,
    }
}
