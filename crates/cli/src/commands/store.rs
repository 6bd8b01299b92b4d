//! `provost store`: what it takes up, and what may go.

mod date;
mod remove;

use std::time::{SystemTime, UNIX_EPOCH};

use provost::journal::{Content, Owner, Retention, RunUsage, Store as _, StoreError};
use serde_json::json;

use super::setup::Place;
use crate::args::{Store, StoreCommand};
use crate::failure::Failure;
use crate::render::words::{counted, grouped, moment};
use crate::render::{JsonLines, say};
use crate::world::World;
pub(crate) use date::parse_date;
use remove::{Mode, Remover};

pub(crate) async fn store(world: &World, args: Store) -> Result<u8, Failure> {
    let existing = |store: &crate::args::StoreArg| Place::existing(world, store.store.as_deref());
    match args.command {
        StoreCommand::Size { store, json: false } => size(&existing(&store)?).await?,
        StoreCommand::Size { store, json: true } => size_json(&existing(&store)?).await?,
        StoreCommand::Delete(args) => {
            Remover::new(existing(&args.store)?)?.delete(&args.run, args.force.into()).await?;
        }
        StoreCommand::Archive(args) => {
            Remover::new(existing(&args.store)?)?.archive(&args.run, args.force.into()).await?;
        }
        StoreCommand::Sweep { before, dry_run, store } => {
            let mode = if dry_run { Mode::Try } else { Mode::Delete };
            Remover::new(existing(&store)?)?.sweep(before, mode).await?;
        }
        StoreCommand::Compact { store } => compact(&existing(&store)?).await?,
    }
    Ok(0)
}

/// What each run takes up, oldest first.
async fn usages(place: &Place) -> Result<Vec<RunUsage>, Failure> {
    let mut usages = Vec::new();
    for row in place.store.runs().await? {
        match place.store.usage(&row.run).await {
            Ok(usage) => usages.push(usage),
            // Deleted since the list was read.
            Err(StoreError::NoSuchRun { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(usages)
}

async fn size(place: &Place) -> Result<(), Failure> {
    let size = place.store.size().await?;
    for usage in usages(place).await? {
        let content = match usage.content {
            Content::Kept => held(usage.blobs, "blob", usage.blob_bytes),
            Content::Dropped => "content dropped".to_owned(),
        };
        say!(
            "{}  {:<20}  {:>26}  {content:>26}  newest event {}",
            usage.row.run,
            usage.row.stage.word(),
            held(usage.events, "event", usage.event_bytes),
            usage.last_ms.map_or("unreadable".to_owned(), |ms| format!("{} UTC", moment(ms)))
        );
    }
    say!("store `{}`, format {}", place.store.path().display(), size.format);
    say!(
        "{} on the disk: {} in the file, {} in its write-ahead log",
        counted(size.bytes(), "byte"),
        grouped(size.file_bytes),
        grouped(size.wal_bytes)
    );
    let free = match size.free_pages {
        0 => "none is free".to_owned(),
        free => format!("{} free: `provost store compact` gives them back", grouped(free)),
    };
    say!("{} of {} bytes, {free}", counted(size.pages, "page"), grouped(size.page_bytes));
    Ok(())
}

async fn size_json(place: &Place) -> Result<(), Failure> {
    let size = place.store.size().await?;
    for usage in usages(place).await? {
        JsonLines::say(&json!({
            "kind": "run",
            "run": usage.row.run.as_str(),
            "state": usage.row.stage.word(),
            "events": usage.events,
            "event_bytes": usage.event_bytes,
            "blobs": usage.blobs,
            "blob_bytes": usage.blob_bytes,
            "content": match usage.content {
                Content::Kept => "kept",
                Content::Dropped => "dropped",
            },
            "newest_ms": usage.last_ms,
        }));
    }
    JsonLines::say(&json!({
        "kind": "store",
        "path": place.store.path().display().to_string(),
        "format": size.format,
        "file_bytes": size.file_bytes,
        "wal_bytes": size.wal_bytes,
        "page_bytes": size.page_bytes,
        "pages": size.pages,
        "free_pages": size.free_pages,
    }));
    Ok(())
}

/// `12 blobs, 3,456 bytes`.
fn held(count: u64, noun: &str, bytes: u64) -> String {
    format!("{}, {}", counted(count, noun), counted(bytes, "byte"))
}

async fn compact(place: &Place) -> Result<(), Failure> {
    let before = place.store.size().await?.bytes();
    place.store.compact(&this_process()?, now_ms())?;
    let after = place.store.size().await?.bytes();
    say!(
        "`{}`: {} before, {} after",
        place.store.path().display(),
        counted(before, "byte"),
        counted(after, "byte")
    );
    Ok(())
}

fn this_process() -> Result<Owner, Failure> {
    Owner::this_process().map_err(|error| Failure::internal(format!("who this process is: {error}")))
}

/// Milliseconds since the Unix epoch.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
