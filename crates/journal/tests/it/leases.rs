//! Leases: one driver, and no writing by one that was replaced (I12).

use std::thread;
use std::time::Duration;

use provost_journal::{Head, Owner, Store, StoreError};

use crate::support::{Place, TTL, append_notes, assert_chain, driven, me, note, run, salt, wait};

#[test]
fn i12_a_stale_owner_cannot_write_renew_or_release() {
    let place = Place::new();
    let store = place.open();
    let old = driven(&store, "run-a");
    wait(async {
        let head = append_notes(&store, &old, 1).await.expect("appends");
        let later = old.expires_ms;
        let new = store.acquire(&old.run, me(), later, TTL).await.expect("takes over at expiry");
        assert_eq!(new.generation, 2);
        let fenced = |end: StoreError| matches!(end, StoreError::Fenced { held: 1, current: 2, .. });
        assert!(fenced(store.append(&old, &head, vec![note(1)], vec![]).await.expect_err("fenced")));
        assert!(fenced(store.renew(&old, later, TTL).await.expect_err("fenced")));
        assert!(fenced(store.release(&old).await.expect_err("fenced")));
        store.append(&new, &head, vec![note(1)], vec![]).await.expect("the new one writes");
    });
    assert_eq!(assert_chain(&store, &old.run).len(), 2);
}

#[test]
fn a_live_holder_is_named_to_the_second() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    wait(async {
        let refused = store.acquire(&lease.run, me(), 2, TTL).await.expect_err("held");
        let StoreError::Conflict { host, pid, since_ms, until_ms, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!((host, pid, since_ms, until_ms), (me().host, std::process::id(), 1, 60_001));
        let renewed = store.renew(&lease, 50_000, TTL).await.expect("renews");
        assert_eq!(renewed.expires_ms, 110_000);
        assert!(store.acquire(&lease.run, me(), 60_001, TTL).await.is_err());
        store.release(&lease).await.expect("releases");
        assert!(matches!(
            store.append(&lease, &Head::empty(), vec![note(1)], vec![]).await,
            Err(StoreError::Fenced { .. })
        ));
        assert_eq!(store.acquire(&lease.run, me(), 3, TTL).await.expect("free").generation, 2);
    });
}

/// Case D11: the pid of a dead driver belongs to another process now.
#[test]
fn d11_a_recycled_pid_is_no_owner() {
    let place = Place::new();
    let store = place.open();
    wait(async {
        store.create(&run("run-a"), salt(), 1).await.expect("creates");
        let before = Owner { pid_start: me().pid_start - 1, ..me() };
        store.acquire(&run("run-a"), before, 1, TTL).await.expect("acquires");
        assert_eq!(store.acquire(&run("run-a"), me(), 2, TTL).await.expect("at once").generation, 2);
    });
}

#[test]
fn a_dead_local_owner_is_replaced_at_once_a_remote_one_at_expiry() {
    let place = Place::new();
    let store = place.open();
    let mut child = std::process::Command::new("true").spawn().expect("spawns");
    let pid = child.id();
    wait(async {
        store.create(&run("run-a"), salt(), 1).await.expect("creates");
        let gone = Owner { pid, ..me() };
        child.wait().expect("waits");
        store.acquire(&run("run-a"), gone.clone(), 1, TTL).await.expect("acquires");
        let lease = store.acquire(&run("run-a"), me(), 2, TTL).await.expect("at once");
        store.release(&lease).await.expect("releases");

        let remote = Owner { host: "elsewhere".into(), ..gone };
        store.acquire(&run("run-a"), remote, 1, TTL).await.expect("acquires");
        assert!(matches!(
            store.acquire(&run("run-a"), me(), 60_000, TTL).await,
            Err(StoreError::Conflict { host, .. }) if host == "elsewhere"
        ));
        store.acquire(&run("run-a"), me(), 60_001, TTL).await.expect("lapsed");
    });
}

/// A zombie holds nothing: its driver was killed and nobody reaped it yet.
#[test]
fn a_killed_driver_that_nobody_reaped_is_no_owner() {
    let place = Place::new();
    let store = place.open();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("spawns");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("proc");
    let start = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).expect("field");
    let owner = Owner { pid: child.id(), pid_start: start.parse().expect("number"), ..me() };
    wait(async {
        store.create(&run("run-a"), salt(), 1).await.expect("creates");
        store.acquire(&run("run-a"), owner, 1, TTL).await.expect("acquires");
        assert!(store.acquire(&run("run-a"), me(), 2, TTL).await.is_err());
    });
    child.kill().expect("kills");
    thread::sleep(Duration::from_millis(100));
    wait(store.acquire(&run("run-a"), me(), 2, TTL)).expect("at once");
    child.wait().expect("reaps");
}

#[test]
fn fifty_threads_race_for_a_run_and_one_wins() {
    let place = Place::new();
    let stores: Vec<_> = (0..5).map(|_| place.open()).collect();
    wait(stores[0].create(&run("run-a"), salt(), 1)).expect("creates");
    let won = thread::scope(|scope| {
        let racers: Vec<_> = (0..50)
            .map(|n| {
                let store = &stores[n % 5];
                scope.spawn(move || wait(store.acquire(&run("run-a"), me(), 1, TTL)))
            })
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().expect("thread"))
            .filter(|end| match end {
                Ok(_) => true,
                Err(StoreError::Conflict { .. }) => false,
                Err(other) => panic!("{other}"),
            })
            .count()
    });
    assert_eq!(won, 1);
}

/// A fork begins with events in which its parent's drivers appear: its own are newer.
#[test]
fn i12_a_run_that_begins_with_drivers_of_another_has_newer_ones() {
    let place = Place::new();
    let store = place.open();
    wait(async {
        let fork = run("run-fork");
        store.create_after(&fork, salt(), 7, 1).await.expect("makes it");
        let lease = store.acquire(&fork, me(), 1, TTL).await.expect("free");
        assert_eq!(lease.generation, 8);
        append_notes(&store, &lease, 1).await.expect("writes");
    });
}
