//! What one run costs to look at in a large store: `cargo bench -p provost-journal --bench million`, or `-- 10000` for a
//! smaller one.
//!
//! 1,000,000 events, in 200 runs of as many steps each, appended through the store in large pieces, so that each chain is
//! whole. Then a handle is opened as a command opens it, and asked. It asserts no duration.

#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod support;

use std::time::{Duration, Instant};

use provost_core::id::RunId;
use provost_core::spend::KINDS;
use provost_journal::{Head, SqliteStore, Store};
use support::{Place, driven, step, wait};

const EVENTS: u64 = 1_000_000;
const RUNS: u64 = 200;
/// Steps of one append: about 3 MB.
const PIECE: u64 = 1000;
const ROUNDS: usize = 21;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let events: u64 = args.next().and_then(|text| text.parse().ok()).unwrap_or(EVENTS);
    let place = Place { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder") };
    let begun = Instant::now();
    let runs = build(&place, events / RUNS);
    let built = begun.elapsed();
    let size = std::fs::metadata(place.file()).map_or(0, |meta| meta.len());
    println!("## One run in a store of {events} events, {RUNS} runs, {} MB (aim: 20 ms)\n", size >> 20);
    println!("made in {:.1} s\n", built.as_secs_f64());

    let mut rows = Rows::default();
    for round in 0..ROUNDS {
        let run = &runs[(round * 37) % runs.len()];
        look(&place, run, &mut rows);
    }
    // All that `provost cost` reads for sums over the whole store.
    let store = place.open();
    let begun = Instant::now();
    let calls: usize = runs.iter().map(|run| wait(store.events_of(run, &KINDS)).expect("reads").len()).sum();
    println!(
        "the {calls} calls of all runs, as `provost cost` reads them: {:.2} s\n",
        begun.elapsed().as_secs_f64()
    );
    println!("| what | p50 ms | p90 ms | longest |");
    println!("| --- | --- | --- | --- |");
    for (what, mut times) in rows.0 {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
        println!("| {what} | {:.2} | {:.2} | {:.2} |", at(50), at(90), at(100));
    }
}

#[derive(Default)]
struct Rows(Vec<(&'static str, Vec<Duration>)>);

impl Rows {
    fn add(&mut self, what: &'static str, time: Duration) {
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, times)) => times.push(time),
            None => self.0.push((what, vec![time])),
        }
    }

    fn time<T>(&mut self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.add(what, begun.elapsed());
        done
    }
}

/// All that is asked about one run by a process that comes for that.
fn look(place: &Place, run: &RunId, rows: &mut Rows) {
    let begun = Instant::now();
    let store = rows.time("open the store", || place.open());
    let found = rows.time("find the run", || wait(store.find(run.as_str())).expect("finds"));
    let head = rows.time("its head", || wait(store.head(&found)).expect("head"));
    let last =
        rows.time("its last event, verified", || wait(store.events(&found, head.next - 1)).expect("reads"));
    assert_eq!(last.len(), 1);
    // The rest of what `provost status RUN` asks.
    rows.time("its row", || wait(store.row(&found)).expect("row"));
    rows.time("its letters", || wait(store.letters(&found)).expect("letters"));
    rows.add("**all of that**", begun.elapsed());
    let listed = rows.time("list all runs", || wait(store.runs()).expect("lists"));
    assert_eq!(listed.len() as u64, RUNS);
    let events = rows
        .time("for comparison: all its events, verified", || wait(store.events(&found, 0)).expect("reads"));
    assert_eq!(events.len() as u64, head.next);
    let calls = rows.time("for comparison: its calls alone, as `provost cost RUN` reads them", || {
        wait(store.events_of(&found, &KINDS)).expect("reads")
    });
    assert!(calls.len() as u64 >= head.next / 4);
    rows.time("close the store", || drop(store));
}

fn build(place: &Place, events: u64) -> Vec<RunId> {
    let store = place.open();
    let runs: Vec<RunId> = (0..RUNS)
        .map(|n| {
            let lease = driven(&store, &format!("r{n:012x}-0102030405"));
            let (mut head, mut made) = (Head::empty(), 0);
            while made < events.div_ceil(3) {
                let steps = PIECE.min(events.div_ceil(3) - made);
                let (mut drafts, mut blobs) = (Vec::new(), Vec::new());
                for n in made..made + steps {
                    let (step_drafts, step_blobs) = step(n as u32);
                    drafts.extend(step_drafts);
                    blobs.extend(step_blobs);
                }
                drafts.truncate((events - head.next) as usize);
                head = wait(store.append(&lease, &head, drafts, blobs)).expect("appends").head;
                made += steps;
            }
            assert_eq!(head.next, events);
            lease.run
        })
        .collect();
    finish(store);
    runs
}

/// The last handle folds the log into the file.
fn finish(store: SqliteStore) {
    store.checkpoint().expect("folds the log");
    drop(store);
}
