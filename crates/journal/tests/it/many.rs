//! Many processes write runs into one file: none fails, and none is starved.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use provost_journal::{SqliteStore, Store};

use crate::support::{Place, as_child, assert_chain, child, driven, run, step, wait};

const PROCESSES: usize = 16;

/// How long they write, in seconds. `PROVOST_MANY_SECONDS` makes it longer; 60 is the long form.
const SECONDS: u64 = 3;

/// Case D1.
#[test]
fn d1_sixteen_processes_write_into_one_file() {
    if let Some((path, word)) = as_child() {
        return write(&path, &word);
    }
    let place = Place::new();
    drop(place.open());
    let test = "many::d1_sixteen_processes_write_into_one_file";
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|n| {
            child(test, &place.file(), &format!("run-{n}"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("spawns")
        })
        .collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().expect("stdout")).lines())
        .collect();
    let mut next = |n: usize, word: &str| {
        let line = outputs[n].by_ref().map_while(Result::ok).find(|line| line.starts_with(word));
        line.unwrap_or_else(|| panic!("process {n} failed before it was {word}: see its standard error"))
    };
    // All begin when the last is there.
    for n in 0..PROCESSES {
        next(n, "ready");
    }
    for child in &mut children {
        child.stdin.take().expect("stdin").write_all(b"go\n").expect("begins");
    }
    let mut counts = Vec::new();
    let mut longest = Vec::new();
    for (n, mut child) in children.into_iter().enumerate() {
        let line = next(n, "did");
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(child.wait().expect("waits").success(), "process {n}");
        counts.push(numbers[0]);
        longest.push(numbers[1]);
    }
    let total: u64 = counts.iter().sum();
    let (least, most) = (counts.iter().min().expect("some"), counts.iter().max().expect("some"));
    longest.sort_unstable();
    // A disk that stalls is seen by all of them; one that was overtaken again and again, by that one alone.
    println!(
        "{PROCESSES} processes: {total} appends, {least} to {most} each; the longest of each took {} to {} ms",
        longest[0],
        longest[PROCESSES - 1]
    );
    // Not a bound on time: the shares of what all did, whatever that was.
    assert!(least * PROCESSES as u64 * 5 >= total, "one was starved: {counts:?}");

    let store = place.open();
    for (n, count) in counts.iter().enumerate() {
        assert_eq!(assert_chain(&store, &run(&format!("run-{n}"))).len() as u64, 3 * count);
    }
    wait(store.check()).expect("sound");
}

/// Appends steps until the time is over, looking at its own run and at the list now and then, as drivers and people do.
fn write(path: &std::path::Path, name: &str) {
    let store = SqliteStore::open(path).expect("opens");
    let lease = driven(&store, name);
    // The runner has begun a line already.
    println!("\nready");
    std::io::stdin().read_line(&mut String::new()).expect("is told");
    let seconds =
        std::env::var("PROVOST_MANY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut count, mut longest) = (0, Duration::ZERO);
    wait(async {
        let mut head = store.head(&lease.run).await.expect("head");
        while Instant::now() < end {
            let (drafts, blobs) = step(count);
            let begun = Instant::now();
            head = store.append(&lease, &head, drafts, blobs).await.expect("appends").head;
            longest = longest.max(begun.elapsed());
            count += 1;
            if count.is_multiple_of(20) {
                store.runs().await.expect("lists");
                let last = store.events(&lease.run, head.next - 3).await.expect("reads");
                assert_eq!(last.len(), 3);
            }
        }
    });
    println!("did {count} appends, longest {} ms", longest.as_millis());
}
