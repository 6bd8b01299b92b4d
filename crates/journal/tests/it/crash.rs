//! Processes that are killed while they write.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use provost_journal::{SqliteStore, Store};

use crate::support::{Place, TTL, append_notes, as_child, assert_chain, child, driven, me, step, wait};

#[test]
fn a_writer_killed_in_its_loop_leaves_a_valid_chain_and_all_it_was_told_is_durable() {
    if let Some((path, word)) = as_child() {
        let store = SqliteStore::open(path).expect("opens");
        let lease = driven(&store, &word);
        wait(async {
            let mut head = store.head(&lease.run).await.expect("head");
            for n in 0..u32::MAX {
                let (drafts, blobs) = step(n);
                head = store.append(&lease, &head, drafts, blobs).await.expect("appends").head;
                println!("at {}", head.next);
            }
        });
        return;
    }
    let place = Place::new();
    for round in 0..4 {
        let name = format!("round-{round}");
        let test = "crash::a_writer_killed_in_its_loop_leaves_a_valid_chain_and_all_it_was_told_is_durable";
        let mut child = child(test, &place.file(), &name)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("spawns");
        let mut told = 0_u64;
        for line in BufReader::new(child.stdout.take().expect("stdout")).lines() {
            let Some(n) = line.ok().and_then(|line| line.strip_prefix("at ").map(str::to_owned)) else {
                continue;
            };
            told = n.parse().expect("number");
            if told >= 3 * (20 + 17 * round) {
                // SIGKILL at once; what the pipe still holds was told before.
                let _ = child.kill();
            }
        }
        child.wait().expect("reaps");
        let store = place.open();
        let run = name.parse().expect("run id");
        assert!(assert_chain(&store, &run).len() as u64 >= told);
        // The next driver goes on at once.
        wait(async {
            let lease = store.acquire(&run, me(), 2, TTL).await.expect("takes over");
            append_notes(&store, &lease, 3).await.expect("appends");
        });
        assert_chain(&store, &run);
        wait(store.check()).expect("sound");
    }
}
