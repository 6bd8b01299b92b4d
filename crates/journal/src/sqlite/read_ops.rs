//! Reads. Each sees one state of the file.

use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};

use provost_core::digest::Digest;
use provost_core::event::Event;
use provost_core::id::RunId;
use provost_core::lifecycle::Stage;
use provost_evidence::canonical::{sha256, to_canonical};
use provost_evidence::chain;
use provost_evidence::content::Salt;
use rusqlite::{Connection, OptionalExtension, params};

use super::run_ops::{COLUMNS, Stored, from_row, key, stored};
use super::{Failure, signed};
use crate::error::StoreError;
use crate::projection::RunRow;

fn corrupt(path: &Path, detail: String) -> Failure {
    StoreError::Corrupt { path: path.to_owned(), detail }.into()
}

/// The stored lines from `from_seq` on, each turned into something by `read` after checking that it is the one that was
/// written, that none is missing, and that the last is the one that the head names. So what a reader gets is the run, or
/// an error.
fn lines<T: Send>(
    conn: &Connection,
    path: &Path,
    run: &Stored,
    from_seq: u64,
    read: impl Fn(&[u8], u64) -> Result<(Link, T), Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let mut select = conn.prepare_cached(
        "SELECT key, CAST(json AS BLOB) FROM event WHERE key >= ?1 AND key < ?2 ORDER BY key",
    )?;
    // To the end of the run's keys: one behind the head says that the head is an old one.
    let rows = select.query([key(run.id, from_seq), key(run.id + 1, 0)])?;
    let rows = Rows { left: rows, first: key(run.id, from_seq), count: 0 };
    let read = |lines: &Lines| lines.read(from_seq, &read, &|place| altered(path, run, place));
    let parts = while_read(rows, &read)?;
    let count = parts.iter().flatten().flatten().map(|part| part.lines.len()).sum();
    let mut taken = Vec::with_capacity(count);
    let mut last = (from_seq == 0).then_some(Digest::ZERO);
    for part in parts {
        let Some(mut part) = part? else { continue };
        if last.is_some_and(|last| part.prev != last) {
            return Err(altered(path, run, from_seq + taken.len() as u64));
        }
        last = Some(part.hash);
        taken.append(&mut part.lines);
    }
    let place = from_seq + taken.len() as u64;
    if place < run.head.next {
        return Err(corrupt(path, format!("event {place} of run `{}` is missing", run.row.run)));
    }
    if place > run.head.next.max(from_seq) {
        return Err(corrupt(path, format!("run `{}` has events behind its head", run.row.run)));
    }
    if last.is_some_and(|last| last != run.head.hash) {
        return Err(corrupt(
            path,
            format!("run `{}` ends in another event than its head names", run.row.run),
        ));
    }
    Ok(taken)
}

fn altered(path: &Path, run: &Stored, place: u64) -> Failure {
    corrupt(path, format!("event {place} of run `{}` is not the one that was written", run.row.run))
}

/// Lines that are handed on together. A run that has no more is not worth a second thread.
const CHUNK: usize = 256;

/// Lines that follow each other without a gap, in one piece of memory: that is passed from thread to thread.
struct Lines {
    /// Place of the first, counted from the first that was asked for.
    from: u64,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Lines that were read, and follow each other in the chain.
struct Part<T> {
    lines: Vec<T>,
    /// What the first names as its predecessor.
    prev: Digest,
    /// The hash of the last.
    hash: Digest,
}

impl Lines {
    fn read<T>(
        &self,
        from_seq: u64,
        read: &impl Fn(&[u8], u64) -> Result<(Link, T), Failure>,
        altered: &impl Fn(u64) -> Failure,
    ) -> Result<Option<Part<T>>, Failure> {
        let mut lines = Vec::with_capacity(self.ends.len());
        let mut ends: Option<(Digest, Digest)> = None;
        let mut start = 0;
        for (place, end) in (from_seq + self.from..).zip(&self.ends) {
            let (link, line) = read(&self.bytes[start..*end], place)?;
            let prev = match ends {
                Some((_, last)) if link.prev != last => return Err(altered(place)),
                Some((prev, _)) => prev,
                None => link.prev,
            };
            ends = Some((prev, link.hash));
            lines.push(line);
            start = *end;
        }
        Ok(ends.map(|(prev, hash)| Part { lines, prev, hash }))
    }
}

/// The lines of a run that follow each other without a gap.
struct Rows<'a> {
    left: rusqlite::Rows<'a>,
    first: i64,
    count: u64,
}

impl Rows<'_> {
    /// The next lines; fewer than [`CHUNK`] are the last.
    fn chunk(&mut self) -> rusqlite::Result<Lines> {
        let mut lines = Lines { from: self.count, bytes: Vec::new(), ends: Vec::with_capacity(CHUNK) };
        while lines.ends.len() < CHUNK
            && let Some(row) = self.left.next()?
            && row.get::<_, i64>(0)? == self.first + self.count as i64
        {
            lines.bytes.extend_from_slice(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
            lines.ends.push(lines.bytes.len());
            self.count += 1;
        }
        Ok(lines)
    }
}

/// Reads lines on a second thread while SQLite finds the next ones, and on this one too once it has found all: reading is
/// pure computing, and takes longer than finding.
fn while_read<T: Send>(
    mut rows: Rows<'_>,
    read: &(impl Fn(&Lines) -> Result<T, Failure> + Sync),
) -> Result<Vec<Result<T, Failure>>, Failure> {
    let first = rows.chunk()?;
    if first.ends.len() < CHUNK {
        return Ok(vec![read(&first)]);
    }
    let (found, chunks) = mpsc::channel::<Lines>();
    let chunks = Mutex::new(chunks);
    let work = || {
        let mut done = Vec::new();
        // Not held while a chunk is read: the other thread takes the next.
        let next = || chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok(lines) = next() {
            done.push((lines.from, read(&lines)));
        }
        done
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut ends = None;
        let mut chunk = Ok(first);
        loop {
            match chunk {
                Ok(lines) if lines.ends.is_empty() => break,
                // Whoever would receive it is there until nothing more can come.
                Ok(lines) => drop(found.send(lines)),
                Err(error) => {
                    ends = Some(error);
                    break;
                }
            }
            chunk = rows.chunk();
        }
        drop(found);
        let mut done = work();
        match other.join() {
            Ok(others) => done.extend(others),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done.sort_unstable_by_key(|(from, _)| *from);
        match ends {
            Some(error) => Err(error.into()),
            None => Ok(done.into_iter().map(|(_, part)| part).collect()),
        }
    })
}

/// An event's place in the chain.
struct Link {
    prev: Digest,
    hash: Digest,
}

/// The link that `json` is, if it is one and its hash is right. Whatever kind of event it is: a run of a newer program
/// is no damage.
fn link_of(json: &[u8], run: &RunId, place: u64) -> Option<Link> {
    let mut value: serde_json::Value = serde_json::from_slice(json).ok()?;
    if to_canonical(&value).ok()? != json
        || value.get("stream")? != run.as_str()
        || *value.get("seq")? != place
    {
        return None;
    }
    let prev = value.get("prev")?.as_str()?.parse().ok()?;
    let hash = value.as_object_mut()?.remove("hash")?.as_str()?.parse().ok()?;
    (sha256(&to_canonical(&value).ok()?) == hash).then_some(Link { prev, hash })
}

pub(super) fn events(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    from_seq: u64,
) -> Result<Vec<Event>, Failure> {
    let found = stored(conn, path, run)?;
    lines(conn, path, &found, from_seq, |json, place| event(json, path, &found, run, place))
}

/// The event that a line is, and its place in the chain.
fn event(
    json: &[u8],
    path: &Path,
    found: &Stored,
    run: &RunId,
    place: u64,
) -> Result<(Link, Event), Failure> {
    if let Some(event) = chain::unseal_own(json)
        && event.stream == *run
        && event.seq == place
    {
        return Ok((Link { prev: event.prev, hash: event.hash }, event));
    }
    // Damage, or an event that this program does not know.
    let link = link_of(json, run, place).ok_or_else(|| altered(path, found, place))?;
    let event = Event::from_json(json).map_err(|error| StoreError::Unreadable {
        path: path.to_owned(),
        run: run.clone(),
        detail: error.to_string(),
    })?;
    Ok((link, event))
}

/// Bytes of the member `prev` in a line, with the comma before it.
const PREV: usize = ",\"prev\":\"".len() + 64 + 1;

pub(super) fn events_of(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    kinds: &[&str],
) -> Result<Vec<Event>, Failure> {
    let found = stored(conn, path, run)?;
    let marks: Vec<Vec<u8>> = kinds.iter().map(|kind| format!("\"kind\":\"{kind}\"").into_bytes()).collect();
    // What stands behind the kind is known to the byte, so nothing has to be searched. A line that ends otherwise is read.
    let is_one = |json: &[u8], place: u64| {
        let end = format!(",\"seq\":{place},\"stream\":\"{run}\",\"v\":1}}");
        let Some(before) = json.strip_suffix(end.as_bytes()) else { return true };
        let kind = before.get(..before.len().saturating_sub(PREV)).unwrap_or_default();
        marks.iter().any(|mark| kind.ends_with(mark))
    };
    let mut select = conn.prepare_cached(
        "SELECT key, CAST(json AS BLOB) FROM event WHERE key >= ?1 AND key < ?2 ORDER BY key",
    )?;
    let mut rows = select.query([key(found.id, 0), key(found.id, found.head.next)])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let json = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let place = u64::try_from(row.get::<_, i64>(0)? - key(found.id, 0)).unwrap_or_default();
        if is_one(json, place) {
            lines.push((place, json.to_vec()));
        }
    }
    let mut events = Vec::with_capacity(lines.len());
    for (place, json) in lines {
        let (_, event) = event(&json, path, &found, run, place)?;
        if kinds.contains(&event.body.kind()) {
            events.push(event);
        }
    }
    Ok(events)
}

pub(super) fn events_json(conn: &Connection, path: &Path, run: &RunId) -> Result<Vec<Vec<u8>>, Failure> {
    let found = stored(conn, path, run)?;
    lines(conn, path, &found, 0, |json, place| {
        let link = link_of(json, run, place).ok_or_else(|| altered(path, &found, place))?;
        Ok((link, json.to_vec()))
    })
}

pub(super) fn blob(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    digest: &Digest,
) -> Result<Option<Vec<u8>>, Failure> {
    Ok(blobs(conn, path, run, std::slice::from_ref(digest))?.pop().flatten())
}

pub(super) fn blobs(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    digests: &[Digest],
) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    let id = stored(conn, path, run)?.id;
    let Some(salt) = salt_of(conn, id)? else {
        return Ok(vec![None; digests.len()]);
    };
    let mut select = conn.prepare_cached("SELECT bytes FROM blob WHERE run = ?1 AND digest = ?2")?;
    let mut found = Vec::with_capacity(digests.len());
    for digest in digests {
        let bytes: Option<Vec<u8>> =
            select.query_row(params![id, digest.bytes()], |row| row.get(0)).optional()?;
        if bytes.as_ref().is_some_and(|bytes| salt.digest(bytes) != *digest) {
            // SQLite has no checksum over content: this is where a flipped bit shows.
            return Err(corrupt(path, format!("content {digest} of run `{run}` is not what was written")));
        }
        found.push(bytes);
    }
    Ok(found)
}

fn salt_of(conn: &Connection, id: i64) -> Result<Option<Salt>, Failure> {
    Ok(conn
        .prepare_cached("SELECT bytes FROM salt WHERE run = ?1")?
        .query_row([id], |row| row.get::<_, [u8; 32]>(0))
        .optional()?
        .map(Salt::new))
}

pub(super) fn salt(conn: &Connection, path: &Path, run: &RunId) -> Result<Option<Salt>, Failure> {
    let id = stored(conn, path, run)?.id;
    salt_of(conn, id)
}

pub(super) fn runs(conn: &Connection, _path: &Path) -> Result<Vec<RunRow>, Failure> {
    let mut select = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM run ORDER BY created_ms, name"))?;
    let rows = select.query_map([], |row| Ok(from_row(row)?.row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn unfinished(conn: &Connection) -> Result<Vec<RunRow>, Failure> {
    // The words are ours: none needs quoting.
    let words: Vec<String> = Stage::ALL
        .into_iter()
        .filter(|stage| !stage.is_over())
        .map(|stage| format!("'{}'", stage.key()))
        .collect();
    let mut select = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM run WHERE state IN ({}) ORDER BY created_ms, name",
        words.join(", ")
    ))?;
    let rows = select.query_map([], |row| Ok(from_row(row)?.row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn find(conn: &Connection, path: &Path, prefix: &str) -> Result<RunId, Failure> {
    /// How many candidates are worth naming.
    const SHOWN: u64 = 5;
    // Names are of a-z, 0-9 and `-`, all of which sort before `~`.
    let names: Vec<RunId> = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM run WHERE name >= ?1 AND name < ?1 || '~' ORDER BY name LIMIT ?2"
        ))?
        .query_map(params![prefix, signed(SHOWN)], |row| Ok(from_row(row)?.row.run))?
        .collect::<Result<_, _>>()?;
    match names.as_slice() {
        [] => Err(StoreError::NoSuchRun { path: path.to_owned(), run: prefix.to_owned() }.into()),
        [only] => Ok(only.clone()),
        [first, ..] if first.as_str() == prefix => Ok(first.clone()),
        _ => Err(StoreError::Ambiguous { prefix: prefix.to_owned(), runs: names }.into()),
    }
}

pub(super) fn check(conn: &Connection, path: &Path) -> Result<(), Failure> {
    let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    Err(corrupt(path, found))
}
