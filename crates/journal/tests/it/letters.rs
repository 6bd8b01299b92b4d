//! Letters: the first of each subject waits for the driver, whoever writes them and however many at once.

use std::thread;

use provost_core::event::Verdict;
use provost_core::id::ActId;
use provost_journal::{Letter, Posted, Retention, Store, StoreError, Word};

use crate::support::{Place, TTL, driven, me, run, wait};

fn verdict(by: &str, act: u32, verdict: Verdict) -> Letter {
    Letter { by: by.to_owned(), at_ms: 5, says: Word::Verdict { act: ActId(act), verdict } }
}

#[test]
fn of_many_who_answer_at_once_one_is_first_and_the_others_are_told_who() {
    let place = Place::new();
    let lease = driven(&place.open(), "run-a");
    let run = &lease.run;
    let place = &place;
    let told: Vec<(String, Posted)> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || {
                    let by = format!("writer-{n}");
                    let letter =
                        verdict(&by, 3, if n % 2 == 0 { Verdict::Approved } else { Verdict::Denied });
                    let posted = wait(place.open().post(run, letter)).expect("posts");
                    (by, posted)
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("joins")).collect()
    });
    let first: Vec<&String> =
        told.iter().filter(|(_, posted)| *posted == Posted::Waits).map(|(by, _)| by).collect();
    assert_eq!(first.len(), 1, "{told:?}");
    let waits = wait(place.open().letters(run)).expect("reads");
    assert_eq!(waits.iter().map(|letter| &letter.by).collect::<Vec<_>>(), first);
    for (_, posted) in told.iter().filter(|(_, posted)| *posted != Posted::Waits) {
        assert_eq!(*posted, Posted::TooLate(waits[0].clone()));
    }
}

#[test]
fn letters_wait_until_the_driver_has_read_them_and_no_stale_driver_throws_them_away() {
    let place = Place::new();
    let store = place.open();
    let stale = driven(&store, "run-a");
    let other = driven(&store, "run-b");
    wait(async {
        let hold = Letter { by: "somebody".to_owned(), at_ms: 7, says: Word::Hold };
        assert_eq!(store.post(&stale.run, hold.clone()).await.expect("posts"), Posted::Waits);
        let yes = verdict("somebody", 0, Verdict::Approved);
        assert_eq!(store.post(&stale.run, yes.clone()).await.expect("posts"), Posted::Waits);
        assert_eq!(place.open().letters(&stale.run).await.expect("reads"), [yes.clone(), hold]);
        assert_eq!(store.letters(&other.run).await.expect("reads"), []);

        store.release(&stale).await.expect("releases");
        let lease = store.acquire(&stale.run, me(), 1, TTL).await.expect("acquires");
        let refused = store.discard(&stale, vec![Word::Hold]).await;
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
        store.discard(&lease, vec![Word::Hold]).await.expect("discards");
        assert_eq!(store.letters(&lease.run).await.expect("reads"), [yes]);

        store.delete(&lease).await.expect("deletes");
        let gone = store.letters(&lease.run).await;
        assert!(matches!(gone, Err(StoreError::NoSuchRun { .. })), "{gone:?}");
        let unknown = store.post(&run("run-nobody"), verdict("x", 1, Verdict::Denied)).await;
        assert!(matches!(unknown, Err(StoreError::NoSuchRun { .. })), "{unknown:?}");
    });
}
