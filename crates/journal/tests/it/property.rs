//! Any interleaving of appends gives dense places and a chain that verifies.

use std::collections::BTreeMap;

use proptest::prelude::*;
use provost_journal::{Head, Store, StoreError};

use crate::support::{Place, TTL, assert_chain, driven, me, note, wait};

#[derive(Debug, Clone)]
enum Step {
    /// Append so many events to a run, together with the same for others in one round.
    Append(Vec<(usize, usize)>),
    /// Append on a head that is not the run's.
    Stale(usize),
    /// Another driver takes a run.
    TakeOver(usize),
    /// Append under the lease from before the last takeover.
    Fenced(usize),
    /// Close the store and open it again.
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        6 => prop::collection::vec((0..3_usize, 0..4_usize), 1..6).prop_map(Step::Append),
        1 => (0..3_usize).prop_map(Step::Stale),
        1 => (0..3_usize).prop_map(Step::TakeOver),
        1 => (0..3_usize).prop_map(Step::Fenced),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(one, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_gives_dense_places_and_a_verifying_chain(steps in steps()) {
        let place = Place::new();
        let mut store = place.open();
        let mut leases: Vec<_> = (0..3).map(|n| driven(&store, &format!("run-{n}"))).collect();
        let mut old: Vec<_> = leases.clone();
        let mut heads = vec![Head::empty(); 3];
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Append(round) => {
                    // In one round all are handed over before any is awaited; for one run only the first fits.
                    let ends = wait(async {
                        let mut waiting = Vec::new();
                        for (run, events) in &round {
                            let drafts = (0..*events as u64).map(note).collect();
                            waiting.push(store.append(&leases[*run], &heads[*run], drafts, vec![]));
                        }
                        join_all(waiting).await
                    });
                    let mut moved = [false; 3];
                    for ((run, events), end) in round.into_iter().zip(ends) {
                        if moved[run] {
                            let stale = matches!(end, Err(StoreError::StaleHead { .. }));
                            prop_assert!(stale);
                        } else {
                            heads[run] = end.expect("fits").head;
                            *counts.entry(run).or_default() += events;
                            moved[run] = events > 0;
                        }
                    }
                }
                Step::Stale(run) => {
                    let wrong = Head { next: heads[run].next + 1, ..heads[run].clone() };
                    let end = wait(store.append(&leases[run], &wrong, vec![note(1)], vec![]));
                    let stale = matches!(end, Err(StoreError::StaleHead { .. }));
                    prop_assert!(stale);
                }
                Step::TakeOver(run) => {
                    old[run] = leases[run].clone();
                    let now = leases[run].expires_ms;
                    leases[run] = wait(store.acquire(&old[run].run, me(), now, TTL)).expect("lapsed");
                }
                Step::Fenced(run) => {
                    if old[run].generation < leases[run].generation {
                        let end = wait(store.append(&old[run], &heads[run], vec![note(1)], vec![]));
                        let fenced = matches!(end, Err(StoreError::Fenced { .. }));
                        prop_assert!(fenced);
                    }
                }
                Step::Reopen => {
                    drop(store);
                    store = place.open();
                }
            }
        }
        for (run, lease) in leases.iter().enumerate() {
            let events = assert_chain(&store, &lease.run);
            prop_assert_eq!(events.len(), counts.get(&run).copied().unwrap_or(0));
            prop_assert!(events.iter().enumerate().all(|(place, event)| event.seq == place as u64));
        }
    }
}

/// Polls all until each is done; the first poll of each hands its work over.
async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut ends: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        for (future, end) in futures.iter_mut().zip(&mut ends) {
            if end.is_none()
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(cx)
            {
                *end = Some(output);
            }
        }
        if ends.iter().all(Option::is_some) {
            std::task::Poll::Ready(std::mem::take(&mut ends).into_iter().flatten().collect())
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}
