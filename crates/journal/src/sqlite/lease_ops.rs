//! Taking, renewing and releasing leases. Each works inside an open transaction.

use std::path::Path;
use std::time::Duration;

use provost_core::id::RunId;
use rusqlite::{Connection, params};

use super::run_ops::{conflict, fenced, stored};
use super::{Failure, signed};
use crate::error::StoreError;
use crate::lease::Lease;
use crate::owner::Owner;

fn after(now_ms: u64, ttl: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
}

pub(super) fn acquire(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    owner: &Owner,
    now_ms: u64,
    ttl: Duration,
) -> Result<Lease, Failure> {
    let found = stored(conn, path, run)?;
    if let Some(holder) = found.row.holder.filter(|holder| holder.drives(owner, now_ms)) {
        return Err(conflict(run, holder).into());
    }
    let lease = Lease {
        run: run.clone(),
        generation: found.generation + 1,
        owner: owner.clone(),
        expires_ms: after(now_ms, ttl),
    };
    let json = serde_json::to_string(owner)
        .map_err(|error| StoreError::Io { path: path.to_owned(), detail: error.to_string() })?;
    conn.prepare_cached(
        "UPDATE run SET generation = ?2, holder = ?3, since_ms = ?4, until_ms = ?5 WHERE id = ?1",
    )?
    .execute(params![
        found.id,
        signed(lease.generation),
        json,
        signed(now_ms),
        signed(lease.expires_ms)
    ])?;
    Ok(lease)
}

pub(super) fn renew(
    conn: &Connection,
    path: &Path,
    lease: &Lease,
    now_ms: u64,
    ttl: Duration,
) -> Result<Lease, Failure> {
    let found = fenced(conn, path, lease)?;
    let renewed = Lease { expires_ms: after(now_ms, ttl), ..lease.clone() };
    conn.prepare_cached("UPDATE run SET until_ms = ?2 WHERE id = ?1")?
        .execute(params![found.id, signed(renewed.expires_ms)])?;
    Ok(renewed)
}

pub(super) fn release(conn: &Connection, path: &Path, lease: &Lease) -> Result<(), Failure> {
    let found = fenced(conn, path, lease)?;
    conn.prepare_cached("UPDATE run SET holder = NULL, since_ms = NULL, until_ms = NULL WHERE id = ?1")?
        .execute([found.id])?;
    Ok(())
}
