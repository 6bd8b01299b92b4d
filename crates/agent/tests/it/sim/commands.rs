//! Commands without processes: a line says what is done to the workspace, and the world remembers that it ran.

use std::collections::BTreeMap;
use std::fs;
use std::future::ready;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use provost_agent::{Background, Contained, Executor, Served};
use provost_core::containment::{Guarantee, Receipt, Rung, Strength};
use provost_core::event::Body;
use provost_core::id::ActId;
use provost_journal::BoxFuture;
use provost_sandbox::{
    Cancel, Captured, Changes, Chunk, Command, Ended, ExitRecord, Failure, Profile, Publish, Ran as Staged,
    Recovered, RunError, RungChoice, Unavailable,
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
        engine: None,
        staged: None,
    }
}

fn record(ended: Ended) -> ExitRecord {
    ExitRecord {
        ended,
        duration_ms: 1,
        // Nothing that is found later was made later.
        ended_at_ns: u64::MAX,
        output: Captured {
            head: b"out\n".to_vec(),
            tail: Vec::new(),
            from: 0,
            total: 4,
            sha256: String::new(),
        },
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
        let mut receipt = receipt();
        if profile.changes != Changes::Direct {
            receipt.guarantees.insert(Guarantee::Staged, Strength::Enforced);
        }
        Ok(Arc::new(Ready { world: self.0.clone(), receipt, profile }))
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
        Box::pin(ready(Ok(self.do_it(&command, &carry_out))))
    }

    fn start(
        &self,
        command: Command,
        _: Option<Publish>,
    ) -> BoxFuture<'_, Result<Arc<dyn Background>, RunError>> {
        let act = act_of(&command.record_dir);
        let line = command.argv.last().unwrap().to_str().unwrap().to_owned();
        self.assert_durable(act);
        self.world.pass("before a background command");
        self.world.with(|state| {
            state.left.insert(act, Left::Nothing);
            state.ran.push(Ran { act, line: line.clone() });
        });
        carry_out(&self.profile.workspace, &line);
        self.world.pass("after a background command began");
        let going = Going { world: self.world.clone(), act, state: Mutex::default() };
        Box::pin(ready(Ok(Arc::new(going) as Arc<dyn Background>)))
    }

    fn serve(&self, command: Command) -> BoxFuture<'_, Result<Served, RunError>> {
        let started = self.start(command, None);
        Box::pin(async move {
            let (ours, _) = std::os::unix::net::UnixStream::pair().unwrap();
            Ok((started.await?, ours.into()))
        })
    }

    fn run_staged(&self, command: Command, _: Cancel) -> BoxFuture<'_, Result<Staged, RunError>> {
        let layer = self.world.root.with_file_name(format!("layer-{}", self.world.tick()));
        // The clock may have been put back, and the time come again.
        let _ = fs::remove_dir_all(&layer);
        fs::create_dir(&layer).unwrap();
        let record = self.do_it(&command, &|base, line| carry_out_in(&layer, base, line));
        let layer = fs::File::open(layer).unwrap().into();
        Box::pin(ready(Ok(Staged { record, layer })))
    }
}

/// A command that goes on until it is killed. It did what it does when it began.
struct Going {
    world: Arc<World>,
    act: ActId,
    state: Mutex<GoingState>,
}

#[derive(Default)]
struct GoingState {
    taken: u64,
    ended: Option<ExitRecord>,
}

impl Background for Going {
    fn news(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    fn take(&self) -> BoxFuture<'_, Result<Option<Chunk>, RunError>> {
        let mut state = self.state.lock().unwrap();
        let from = std::mem::replace(&mut state.taken, 4);
        let head = b"out\n"[from as usize..].to_vec();
        let part = Chunk { from, to: 4, head, tail: Vec::new() };
        Box::pin(ready(Ok(state.ended.is_none().then_some(part))))
    }

    fn kill(&self) {
        let mut state = self.state.lock().unwrap();
        let mut record = record(Ended::Cancelled);
        record.output.from = state.taken;
        record.output.head = b"out\n"[state.taken as usize..].to_vec();
        self.world.with(|world| world.left.insert(self.act, Left::Record(Box::new(record.clone()))));
        state.ended = Some(record);
        drop(state);
        self.world.pass("after a background command was killed");
    }

    fn has_ended(&self) -> bool {
        self.state.lock().unwrap().ended.is_some()
    }

    fn ended(&self) -> BoxFuture<'_, Result<ExitRecord, RunError>> {
        let ended = self.state.lock().unwrap().ended.clone();
        Box::pin(async move {
            match ended {
                Some(record) => Ok(record),
                None => std::future::pending().await,
            }
        })
    }
}

impl Ready {
    /// I2: what is carried out is durable before.
    fn assert_durable(&self, act: ActId) {
        self.world.with(|state| {
            let is = |event: &Body, of: &dyn Fn(&Body) -> Option<ActId>| of(event) == Some(act);
            let started = |body: &Body| match body {
                Body::ActStarted(started) => Some(started.act),
                _ => None,
            };
            let over = |body: &Body| match body {
                Body::ActFinished(finished) => Some(finished.act),
                _ => None,
            };
            let begun = state.events.iter().any(|event| is(&event.body, &started));
            let ended = state.events.iter().any(|event| is(&event.body, &over));
            assert!(begun && !ended, "act {act} runs, and the journal does not say that it may");
        });
    }

    /// Does what a command's line says, and passes the points at which it can be cut short.
    fn do_it(&self, command: &Command, carry_out: &dyn Fn(&Path, &str) -> i32) -> ExitRecord {
        let act = act_of(&command.record_dir);
        let line = command.argv.last().unwrap().to_str().unwrap().to_owned();
        self.assert_durable(act);
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
        // As a shell says it.
        let mut record = record(if code > 128 { Ended::Signalled(code - 128) } else { Ended::Exited(code) });
        if line.starts_with("check") {
            // As a runner of tests says it.
            let (passed, failed) = (1 - code, code);
            let said = format!("test result: so. {passed} passed; {failed} failed; 0 ignored\n");
            record.output.total = said.len() as u64;
            record.output.head = said.into_bytes();
        }
        self.world.with(|state| state.left.insert(act, Left::Record(Box::new(record.clone()))));
        self.world.pass("after a command");
        record
    }
}

/// The same in a layer over the workspace.
fn carry_out_in(layer: &Path, base: &Path, line: &str) -> i32 {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["append", file, text] => {
            let before = fs::read_to_string(base.join(file)).unwrap_or_default();
            fs::write(layer.join(file), format!("{before}{text}\n")).unwrap();
            // A second change, so that there are points between two.
            fs::write(layer.join(format!("also-{file}")), format!("{text}\n")).unwrap();
            0
        }
        ["crash", file, text] => 137 + carry_out_in(layer, base, &format!("append {file} {text}")),
        ["remove", file] if base.join(file).exists() => {
            let kind = rustix::fs::FileType::CharacterDevice;
            let place = layer.join(file);
            rustix::fs::mknodat(rustix::fs::CWD, place, kind, rustix::fs::Mode::empty(), 0).unwrap();
            0
        }
        ["remove", _] => 1,
        _ => carry_out(base, line),
    }
}

/// Does what a line says: `append FILE TEXT`, `crash FILE TEXT` (the same, and a signal ends it), `remove FILE`,
/// `check FILE TEXT`, `fail`.
pub(crate) fn carry_out(base: &Path, line: &str) -> i32 {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["append", file, text] => {
            let path = base.join(file);
            let before = fs::read_to_string(&path).unwrap_or_default();
            fs::write(&path, format!("{before}{text}\n")).unwrap();
            0
        }
        ["crash", file, text] => 137 + carry_out(base, &format!("append {file} {text}")),
        ["remove", file] => i32::from(fs::remove_file(base.join(file)).is_err()),
        ["check", file, text] => {
            i32::from(!fs::read_to_string(base.join(file)).unwrap_or_default().contains(text))
        }
        _ => 1,
    }
}
