//! Many processes write runs into one file: none fails, and none is starved.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    let waits = Waits::of(&place.file());
    println!("{waits}");
    // Nobody waits while others commit again and again: not a bound on time, but on turns.
    assert!(waits.overtaken <= 16 * PROCESSES, "somebody was overtaken: {waits}");
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

/// What the longest append of all waited for.
struct Waits {
    /// How long it took, and the longest step from one commit to the next meanwhile.
    took: Duration,
    longest_gap: Duration,
    /// The most commits of others that one append saw go by, and the mean.
    overtaken: usize,
    mean: f64,
}

impl Waits {
    fn of(file: &std::path::Path) -> Self {
        let mut appends: Vec<(u64, u64)> = Vec::new();
        for n in 0..PROCESSES {
            let text = std::fs::read_to_string(times(file, &format!("run-{n}"))).expect("its times");
            appends.extend(text.lines().map(|line| {
                let (begun, ended) = line.split_once(' ').expect("two");
                (begun.parse::<u64>().expect("a time"), ended.parse::<u64>().expect("a time"))
            }));
        }
        let mut ends: Vec<u64> = appends.iter().map(|(_, ended)| *ended).collect();
        ends.sort_unstable();
        let within = |&(begun, ended): &(u64, u64)| {
            &ends[ends.partition_point(|end| *end <= begun)..ends.partition_point(|end| *end < ended)]
        };
        let longest = appends.iter().max_by_key(|(begun, ended)| ended - begun).expect("some");
        let stops = [&[longest.0], within(longest), &[longest.1]].concat();
        let gap = stops.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        let seen = |append: &(u64, u64)| within(append).len();
        Self {
            took: Duration::from_micros(longest.1 - longest.0),
            longest_gap: Duration::from_micros(gap),
            overtaken: appends.iter().map(seen).max().unwrap_or_default(),
            mean: appends.iter().map(seen).sum::<usize>() as f64 / appends.len() as f64,
        }
    }
}

impl std::fmt::Display for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the longest append took {:?}, within which the longest step from one commit to the next was {:?}; an append \
             saw {:.1} commits of others go by, at most {}",
            self.took, self.longest_gap, self.mean, self.overtaken
        )
    }
}

fn times(file: &std::path::Path, name: &str) -> std::path::PathBuf {
    file.with_extension(format!("{name}.times"))
}

/// Microseconds, the same in all processes.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    u64::try_from(since.as_micros()).expect("microseconds")
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
    let mut noted = String::new();
    wait(async {
        let mut head = store.head(&lease.run).await.expect("head");
        while Instant::now() < end {
            let (drafts, blobs) = step(count);
            let (begun, from) = (Instant::now(), now());
            head = store.append(&lease, &head, drafts, blobs).await.expect("appends").head;
            longest = longest.max(begun.elapsed());
            writeln!(noted, "{from} {}", now()).expect("into memory");
            count += 1;
            if count.is_multiple_of(20) {
                store.runs().await.expect("lists");
                let last = store.events(&lease.run, head.next - 3).await.expect("reads");
                assert_eq!(last.len(), 3);
            }
        }
    });
    std::fs::write(times(path, name), noted).expect("writes");
    println!("did {count} appends, longest {} ms", longest.as_millis());
}
