//! Writes a small store of the current format, and its events beside it, into a folder:
//! `cargo run -p provost-journal --example fixture -- crates/journal/tests/fixtures`.
//!
//! Run it once for each new format, before anything else changes, and never write an old format's files again: they are
//! what stores out there look like.

#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod support;

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::{Body, Draft, RunFinished};
use provost_core::outcome::Outcome;
use provost_journal::{Head, Owner, SqliteStore, Store};
use support::{note, run, salt, step, wait};

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("name the folder to write into")?.into();
    let fresh = folder.join("format-new.db");
    {
        let store = SqliteStore::open(&fresh)?;
        wait(fill(&store))?;
    }
    let format: u32 =
        rusqlite::Connection::open(&fresh)?.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let mut lines = Vec::new();
    {
        let store = SqliteStore::open(&fresh)?;
        for row in wait(store.runs())? {
            for line in wait(store.events_json(&row.run))? {
                lines.extend(line);
                lines.push(b'\n');
            }
        }
    }
    fs::rename(&fresh, folder.join(format!("format-{format}.db")))?;
    fs::write(folder.join(format!("format-{format}.ndjson")), lines)?;
    println!("wrote format {format}");
    Ok(())
}

/// A run that is over, one that a driver elsewhere holds, and one whose words are dropped.
async fn fill(store: &SqliteStore) -> Result<(), Box<dyn Error>> {
    let owner = Owner {
        host: "elsewhere".to_owned(),
        boot_id: "00000000-0000-0000-0000-000000000000".to_owned(),
        pid_namespace: 1,
        pid: 77,
        pid_start: 1,
    };
    for name in ["run-over", "run-held", "run-forgotten"] {
        let run = run(name);
        store.create(&run, salt(), 1_796_000_000_000).await?;
        let lease = store.acquire(&run, owner.clone(), 1_796_000_000_000, Duration::from_mins(1)).await?;
        let mut head = Head::empty();
        for n in 0..2 {
            let (drafts, blobs) = step(n);
            head = store.append(&lease, &head, drafts, blobs).await?.head;
        }
        match name {
            "run-over" => {
                let tree = TreeDigest {
                    sha1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned(),
                    sha256: Digest::ZERO,
                };
                let body = Body::RunFinished(RunFinished {
                    outcome: Outcome::Done,
                    verified: false,
                    tree,
                    needed: None,
                });
                let end = Draft { body, ..note(1_796_000_000_009) };
                store.append(&lease, &head, vec![end], vec![]).await?;
                store.release(&lease).await?;
            }
            "run-forgotten" => {
                store.release(&lease).await?;
                store.forget(&run).await?;
            }
            _ => {}
        }
    }
    Ok(())
}
