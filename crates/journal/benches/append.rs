//! What an append costs beside what the disk costs: `cargo bench -p provost-journal --bench append`.
//!
//! All rows are measured in turn, round by round, so that a busy machine slows all of them alike.

#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod support;

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use provost_journal::{Head, Lease, SqliteStore, Store};
use support::{Place, driven, step, wait};

const ROUNDS: u32 = 400;

fn main() {
    let place = Place::new();
    let store = place.open();
    let mut file = File::create(place.folder.path().join("bare")).expect("creates");
    let mut rows: [(&str, Vec<Duration>); 4] = [
        ("write of 4 kB and fdatasync, growing file", vec![]),
        ("append of one event", vec![]),
        ("append of a reading step (3 events, 3 blobs)", vec![]),
        ("16 runs append a step at once, until all are durable", vec![]),
    ];
    let mut one = (driven(&store, "run-one"), Head::empty());
    let mut steps = (driven(&store, "run-steps"), Head::empty());
    let mut many: Vec<_> = (0..16).map(|n| (driven(&store, &format!("run-{n:02}")), Head::empty())).collect();
    for n in 0..ROUNDS {
        let began = Instant::now();
        file.write_all(&[n as u8; 4096]).and_then(|()| file.sync_data()).expect("writes");
        rows[0].1.push(began.elapsed());

        let began = Instant::now();
        wait(async { one.1 = append(&store, &one.0, &one.1, n, 1).await });
        rows[1].1.push(began.elapsed());

        let began = Instant::now();
        wait(async { steps.1 = append(&store, &steps.0, &steps.1, n, 3).await });
        rows[2].1.push(began.elapsed());

        if n % 10 == 0 {
            let began = Instant::now();
            std::thread::scope(|scope| {
                for (lease, head) in &mut many {
                    let store = &store;
                    scope.spawn(move || wait(async { *head = append(store, lease, head, n, 3).await }));
                }
            });
            rows[3].1.push(began.elapsed());
        }
    }
    for (what, mut times) in rows {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_micros();
        println!("{:>7} us median {:>7} us p90 {:>7} us p99  {what}", at(50), at(90), at(99));
    }
    println!("{} commits for {} appends", store.commits(), 2 * ROUNDS + 16 * ROUNDS / 10);
}

async fn append(store: &SqliteStore, lease: &Lease, head: &Head, n: u32, events: usize) -> Head {
    let (mut drafts, mut blobs) = step(n);
    drafts.truncate(events);
    if events == 1 {
        blobs.clear();
    }
    store.append(lease, head, drafts, blobs).await.expect("appends").head
}
