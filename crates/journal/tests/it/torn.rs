//! Torn and altered files: the same events, a beginning of what was committed, or an error that names the file. Never a
//! panic, never other events.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use provost_core::event::{Draft, Event};
use provost_journal::{Blob, Head, Retention, RunRow, SqliteStore, Store, StoreError};

use crate::support::{Place, driven, note, run, salt, step, wait};

/// What the transaction of this number appends.
type Transaction = fn(u32) -> (Vec<Draft>, Vec<Blob>);

/// One small event with content of half a page: thousands of cuts are read in some seconds.
fn small(n: u32) -> (Vec<Draft>, Vec<Blob>) {
    (vec![note(n.into())], vec![Blob::new(&salt(), n.to_string().repeat(2000).into_bytes())])
}

/// A run in a store, as bytes: the file and the write-ahead log beside it.
struct Whole {
    transaction: Transaction,
    file: Vec<u8>,
    log: Vec<u8>,
    events: Vec<Event>,
}

/// Whether the store was closed, and its log folded in.
enum Taken {
    Closed,
    /// As a power cut would leave it.
    Open,
}

impl Whole {
    fn new(transactions: u32, transaction: Transaction, taken: &Taken) -> Self {
        let place = Place::new();
        let store = place.open();
        let lease = driven(&store, "run-a");
        let mut events = Vec::new();
        wait(async {
            let mut head = Head::empty();
            for n in 0..transactions {
                let (drafts, blobs) = transaction(n);
                let appended = store.append(&lease, &head, drafts, blobs).await.expect("appends");
                head = appended.head;
                events.extend(appended.events);
            }
        });
        match taken {
            Taken::Closed => {
                drop(store);
                Self { transaction, file: fs::read(place.file()).expect("reads"), log: vec![], events }
            }
            Taken::Open => {
                // By another program: a descriptor closed here would drop the locks of the handle.
                let copy = |end: &str| {
                    let copy = place.folder.path().join("copy");
                    let from = format!("{}{end}", place.file().display());
                    assert!(Command::new("cp").arg(from).arg(&copy).status().expect("runs").success());
                    fs::read(copy).expect("reads")
                };
                Self { transaction, file: copy(""), log: copy("-wal"), events }
            }
        }
    }

    /// What a reader finds in these files, and that it is sound: how many events, or why not.
    fn found(&self, desk: &Desk, file: &[u8], log: &[u8]) -> Result<usize, StoreError> {
        desk.lay(file, log);
        let seen = SqliteStore::open(desk.path()).and_then(|store| wait(read(&store, self.transaction)));
        let events = match seen {
            Ok(events) => events,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&*desk.path().to_string_lossy()), "the file is not named: {text}");
                return Err(error);
            }
        };
        assert_eq!(events, self.events[..events.len()], "other events");
        Ok(events.len())
    }
}

/// All that is read of a run: its events both ways, the content that each transaction brought, the list, the sizes.
async fn read(store: &SqliteStore, transaction: Transaction) -> Result<Vec<Event>, StoreError> {
    let run = run("run-a");
    let events = store.events(&run, 0).await?;
    let lines = store.events_json(&run).await?;
    assert_eq!(events.len(), lines.len());
    for n in 0..(events.len() / transaction(0).0.len()) as u32 {
        for blob in transaction(n).1 {
            let found = store.blob(&run, blob.digest()).await?;
            // Content that is not found is told as dropped, other content is not.
            assert!(found.is_none_or(|found| found == blob.bytes()), "other content");
        }
    }
    let _: Vec<RunRow> = store.runs().await?;
    store.usage(&run).await?;
    Ok(events)
}

/// Where damaged files are laid to be opened: in memory where there is such a folder, since each of thousands of logs is
/// folded in with two waits for the disk.
struct Desk(Place);

impl Desk {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        Self(tempfile::tempdir_in(memory).map_or_else(|_| Place::new(), |folder| Place { folder }))
    }

    fn path(&self) -> PathBuf {
        self.0.file()
    }

    fn lay(&self, file: &[u8], log: &[u8]) {
        let beside = |end: &str| format!("{}{end}", self.path().display());
        let _ = fs::remove_file(beside("-shm"));
        let _ = fs::remove_file(beside("-wal"));
        fs::write(self.path(), file).expect("writes");
        if !log.is_empty() {
            fs::write(beside("-wal"), log).expect("writes");
        }
    }
}

/// Does `each` for all of `cases`, on two threads with a desk each.
fn on_two_desks<T: Sync>(cases: &[T], each: impl Fn(&Desk, &T) + Sync) {
    thread::scope(|scope| {
        for half in cases.chunks(cases.len().div_ceil(2)) {
            let each = &each;
            scope.spawn(move || {
                let desk = Desk::new();
                for case in half {
                    each(&desk, case);
                }
            });
        }
    });
}

/// Case D5: the file ends early, at any byte of its last 4 KiB or at any page. SQLite reads a torn last page as if NULs
/// followed, so this is found only where that page is read.
#[test]
fn d5_a_file_that_ends_early_gives_the_same_events_or_an_error() {
    let whole = Whole::new(6, small, &Taken::Closed);
    let desk = Desk::new();
    assert_eq!(whole.found(&desk, &whole.file, &[]).expect("the control"), whole.events.len());
    let tail = whole.file.len() - 4096;
    let cuts: Vec<usize> = (4096..tail).step_by(4096).chain(tail..whole.file.len()).collect();
    on_two_desks(&cuts, |desk, cut| match whole.found(desk, &whole.file[..*cut], &[]) {
        Ok(events) => assert!(events == whole.events.len() && *cut > tail, "{cut}"),
        Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "{cut}: {error}"),
    });
}

/// Case D5: the log ends early, at any byte of its last 4 KiB and at some of every page before: what was committed up to
/// there is left.
#[test]
fn d5_a_log_that_ends_early_leaves_what_was_committed() {
    let whole = Whole::new(6, small, &Taken::Open);
    let desk = Desk::new();
    assert_eq!(whole.found(&desk, &whole.file, &whole.log).expect("the control"), whole.events.len());
    let tail = whole.log.len() - 4096;
    let cuts: Vec<usize> = (1..tail).step_by(997).chain(tail..whole.log.len()).collect();
    on_two_desks(&cuts, |desk, cut| match whole.found(desk, &whole.file, &whole.log[..*cut]) {
        Ok(events) => {
            assert!(events < whole.events.len(), "{cut}: the last transaction lacks a part");
            assert!(*cut < tail || events == whole.events.len() - 1, "{cut}: only the last is torn");
        }
        // Not even the run's making is left.
        Err(StoreError::NoSuchRun { .. }) => assert!(*cut < tail, "{cut}"),
        Err(other) => panic!("{cut}: {other}"),
    });
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// One place of a file, altered: a bit, some bytes, a stretch of NULs, a page that is another page's.
fn alter(bytes: &mut [u8], dice: &mut Dice) -> String {
    let pages = bytes.len() / 4096;
    // Each page is as likely, and its beginning, where its structure lies, likelier than the rest.
    let page = dice.below(pages);
    let within = if dice.below(2) == 0 { 4096 } else { 128 };
    let at = page * 4096 + dice.below(within);
    let most = bytes.len() - at;
    match dice.below(4) {
        0 => {
            let bit = dice.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        1 => {
            let length = (1 + dice.below(64)).min(most);
            bytes[at..at + length].iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
            format!("{length} random bytes at {at}")
        }
        2 => {
            let length = (1 + dice.below(512)).min(most);
            bytes[at..at + length].fill(0);
            format!("{length} NULs at {at}")
        }
        _ => {
            let from = dice.below(pages);
            bytes.copy_within(from * 4096..(from + 1) * 4096, page * 4096);
            format!("page {page} is page {from}")
        }
    }
}

/// Case D9: something in the file is other than it was written.
#[test]
fn d9_an_altered_file_gives_the_same_events_or_an_error() {
    let whole = Whole::new(6, step, &Taken::Closed);
    let seeds: Vec<u64> = (1..=400).collect();
    let refused = std::sync::atomic::AtomicUsize::new(0);
    on_two_desks(&seeds, |desk, seed| {
        let mut file = whole.file.clone();
        let what = alter(&mut file, &mut Dice::seeded(*seed));
        match whole.found(desk, &file, &[]) {
            Ok(events) => assert_eq!(events, whole.events.len(), "seed {seed}: {what}"),
            Err(_) => {
                refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    let refused = refused.into_inner();
    println!("{refused} of {} alterations were refused, the others were read past", seeds.len());
    assert!(refused > 50);
}

/// Case D9: something in the log is other than it was written. Its frames have checksums: what comes after is not read.
#[test]
fn d9_an_altered_log_gives_whole_transactions() {
    let whole = Whole::new(6, step, &Taken::Open);
    let seeds: Vec<u64> = (1..=200).collect();
    on_two_desks(&seeds, |desk, seed| {
        let mut log = whole.log.clone();
        let what = alter(&mut log, &mut Dice::seeded(*seed));
        match whole.found(desk, &whole.file, &log) {
            Ok(events) => assert!(events.is_multiple_of(3), "seed {seed}: {what}"),
            Err(StoreError::NoSuchRun { .. }) => {}
            Err(other) => panic!("seed {seed}: {what}: {other}"),
        }
    });
}

/// A head that says less than there is must not make a shorter run of it.
#[test]
fn d9_a_head_that_was_set_back_is_found() {
    // The last two are such as a page would be that was never written again.
    let third = "(SELECT unhex(json ->> '$.hash') FROM event WHERE key & 4294967295 = 2)";
    for (next, hash) in [("0", "hash"), ("3", "hash"), ("19", "hash"), ("0", "zeroblob(32)"), ("3", third)] {
        let whole = Whole::new(6, step, &Taken::Closed);
        let desk = Desk::new();
        desk.lay(&whole.file, &[]);
        rusqlite::Connection::open(desk.path())
            .expect("opens")
            .execute_batch(&format!("UPDATE run SET next = {next}, hash = {hash}"))
            .expect("alters");
        let store = SqliteStore::open(desk.path()).expect("opens");
        let found = wait(store.events(&run("run-a"), 0));
        assert!(matches!(found, Err(StoreError::Corrupt { .. })), "{next}, {hash}: {found:?}");
    }
}

/// The control of the content check in [`read`]: a blob is found where nothing is damaged.
#[test]
fn undamaged_content_is_found() {
    for transaction in [small, step] {
        let whole = Whole::new(3, transaction, &Taken::Open);
        let desk = Desk::new();
        desk.lay(&whole.file, &whole.log);
        let store = SqliteStore::open(desk.path()).expect("opens");
        for blob in (0..3).flat_map(|n| transaction(n).1) {
            let found = wait(store.blob(&run("run-a"), blob.digest())).expect("reads");
            assert_eq!(found.as_deref(), Some(blob.bytes()));
        }
    }
}
