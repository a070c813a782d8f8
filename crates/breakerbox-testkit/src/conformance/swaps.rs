//! Swaps: one winner, deadlines, complete records.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{StoreEvent, Swap, Swapped};
use breakerbox::{
    Attribution, Cause, CircuitStatus, Lease, Mode, Nonce, OverrideCommand, State, Timestamp, Totals, Version,
};

use super::{AnyStore, WAIT_LIMIT, at_once, put, read, record, swap, unique_key, won};

async fn swap_if(store: &AnyStore, swap: &Swap) -> Swapped {
    store.swap_if(swap).await.expect("the store answers").value
}

/// A swap fails if it expects a record and there is none, or expects none and there is one. So a process
/// can't replace a record that it has not read.
pub async fn the_first_record_needs_that_there_is_none(store: AnyStore) {
    let key = unique_key("first");
    let first = record(CircuitStatus::Open, 5, 1);
    assert_eq!(read(&store, &key).await, None);
    let answer = swap_if(&store, &swap(&key, Some(9), first.clone())).await;
    assert_eq!(answer, Swapped::Lost(None), "there is nothing to replace");
    put(&store, &key, None, first.clone()).await;
    let answer = swap_if(&store, &swap(&key, None, record(CircuitStatus::Closed, 6, 2))).await;
    assert_eq!(answer, Swapped::Lost(Some(first)));
}

/// Every field of a record survives a round trip through the store, with its smallest and largest values.
pub async fn a_record_comes_back_whole(store: AnyStore) {
    let key = unique_key("whole \u{1f50c} key");
    let by = Attribution::new("Zo\u{eb} \"ops\"", "line one\nline two: {}'\\ \0").expect("short");
    let modes = [
        Mode::Automatic,
        Mode::ForcedOpen(by.clone()),
        Mode::ForcedClosed(by.clone()),
        Mode::Disabled(Attribution::new("", "").expect("short")),
    ];
    // No store's clock ever exceeds this time: more than 250 years in microseconds.
    let latest = Timestamp::from_micros(1 << 53);
    let mut version = None;
    for (n, mode) in (1..).zip(modes) {
        let full = {
            let mut record =
                record(CircuitStatus::HalfOpen, 1_700_000_000_123_457 + n, u128::MAX - u128::from(n));
            record.state = State::HalfOpen;
            record.opened_at = Some(Timestamp::from_micros(1));
            record.retry_at = Some(latest);
            record.trips = u32::MAX;
            record.last_success = Some(Timestamp::from_micros(1_700_000_000_123_456));
            record.failing_since = Some(Timestamp::from_micros(1_700_000_000_123_457));
            record.lease = Some(Lease { nonce: Nonce(u128::MAX), expires_at: latest });
            record.probe_successes = 3;
            record.mode = mode;
            record.changed_at = Timestamp::from_micros(1_700_000_000_123_457);
            record.cause = Some(Cause::Override { command: OverrideCommand::ForceOpen, by: by.clone() });
            record.evidence = Some(Arc::new({
                let mut totals = Totals::default();
                totals.successes = n;
                totals.failures = u64::MAX;
                totals
            }));
            record.tenant = Some("acme".into());
            record
        };
        put(&store, &key, version, full.clone()).await;
        assert_eq!(read(&store, &key).await, Some(full.clone()));
        version = Some(full.version.0);
    }
    let bare = record(CircuitStatus::Closed, 1_800_000_000_000_000, 0);
    put(&store, &key, version, bare.clone()).await;
    assert_eq!(read(&store, &key).await, Some(bare), "and what was there is gone");
}

/// A swap replaces only the newest version of a record.
pub async fn a_swap_needs_the_version_that_is_there(store: AnyStore) {
    let key = unique_key("versions");
    put(&store, &key, None, record(CircuitStatus::Open, 5, 1)).await;
    let second = record(CircuitStatus::HalfOpen, 6, 2);
    put(&store, &key, Some(1), second.clone()).await;
    for stale in [None, Some(1), Some(3)] {
        let answer = swap_if(&store, &swap(&key, stale, record(CircuitStatus::Closed, 7, 4))).await;
        assert_eq!(answer, Swapped::Lost(Some(second.clone())), "expecting {stale:?}");
    }
    assert_eq!(read(&store, &key).await, Some(second));
}

/// A swap that arrives after its deadline, for example because its process was paused, writes nothing.
pub async fn a_swap_after_its_deadline_writes_nothing(store: AnyStore) {
    let key = unique_key("deadlines");
    let now = store.read(&[]).await.expect("the store answers").now;
    let past = Timestamp::from_micros(now.as_micros() - 1);
    let late = Swap { not_after: past, ..swap(&key, None, record(CircuitStatus::Open, 5, 1)) };
    assert_eq!(swap_if(&store, &late).await, Swapped::TooLate(None));
    assert_eq!(read(&store, &key).await, None);
    let in_time = Swap { not_after: now + Duration::from_secs(60), ..late };
    won(&swap_if(&store, &in_time).await);
    let late = Swap { not_after: past, ..swap(&key, Some(1), record(CircuitStatus::Closed, 6, 2)) };
    assert_eq!(swap_if(&store, &late).await, Swapped::TooLate(Some(in_time.record)));
}

/// A transition happens exactly once, however many processes detect that it is due.
pub async fn of_swaps_at_once_one_wins_and_all_see_it(store: AnyStore) {
    let key = unique_key("race");
    put(&store, &key, None, record(CircuitStatus::Open, 5, 0)).await;
    for round in 0..20_u64 {
        let before = read(&store, &key).await.expect("it is there").version;
        let answers = at_once(50, |n| {
            let (store, key) = (Arc::clone(&store), Arc::clone(&key));
            async move {
                let mine = record(CircuitStatus::Open, 6 + round, u128::from((round + 1) * 1_000 + n));
                let answer = swap_if(&store, &swap(&key, Some(before.0), mine.clone())).await;
                (mine, answer, read(&store, &key).await)
            }
        })
        .await;
        let winners: Vec<_> = answers.iter().filter(|(_, answer, _)| *answer == Swapped::Won).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        let winner = Some(winners[0].0.clone());
        for (_, answer, seen) in &answers {
            assert_eq!(*seen, winner);
            assert!(matches!(answer, Swapped::Won) || *answer == Swapped::Lost(winner.clone()));
        }
    }
}

/// If there is no record yet, exactly one of several concurrent swaps wins.
pub async fn of_first_records_at_once_one_wins(store: AnyStore) {
    for _ in 0..20 {
        let key = unique_key("first race");
        let answers = at_once(50, |n| {
            let (store, key) = (Arc::clone(&store), Arc::clone(&key));
            async move { swap_if(&store, &swap(&key, None, record(CircuitStatus::Open, 5, n.into()))).await }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| **answer == Swapped::Won).count(), 1);
    }
}

/// In a batch, each swap wins or loses independently, and the results are in the order of the swaps.
pub async fn of_many_swaps_each_stands_for_itself(store: AnyStore) {
    let answer = store.swap_all(&[]).await.expect("the store answers");
    assert_eq!(answer.value, [], "none at all");
    let keys: Vec<_> = (0..300).rev().map(|n| unique_key(&format!("many-{n}"))).collect();
    let there = record(CircuitStatus::Open, 5, 1);
    for key in keys.iter().step_by(3) {
        put(&store, key, None, there.clone()).await;
    }
    let past = Timestamp::from_micros(answer.now.as_micros() - 1);
    let swaps: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(n, key)| {
            let new = record(CircuitStatus::Closed, 6, 2 + n as u128);
            let swap = swap(key, None, new);
            if n % 3 == 2 { Swap { not_after: past, ..swap } } else { swap }
        })
        .collect();
    let mut listener = store.changes();
    let answer = store.swap_all(&swaps).await.expect("the store answers");
    assert!(answer.now > past && answer.value.len() == swaps.len());
    for (n, (swapped, swap)) in answer.value.iter().zip(&swaps).enumerate() {
        let (expected, found) = match n % 3 {
            0 => (Swapped::Lost(Some(there.clone())), Some(there.clone())),
            1 => (Swapped::Won, Some(swap.record.clone())),
            _ => (Swapped::TooLate(None), None),
        };
        assert_eq!(*swapped, Ok(expected), "{n}");
        assert_eq!(read(&store, &swap.key).await, found, "{n}");
    }
    let won: Vec<_> = swaps.iter().skip(1).step_by(3).map(|swap| Arc::clone(&swap.key)).collect();
    let mut not_received: std::collections::HashSet<_> = won.into_iter().collect();
    let receive_all = async {
        while !not_received.is_empty() {
            match listener.next().await.expect("the store is there") {
                StoreEvent::Changed { key, .. } => _ = not_received.remove(&key),
                // An event from another check on the same server.
                StoreEvent::ReportsWanted { .. } => {}
                _ => return,
            }
        }
    };
    tokio::time::timeout(WAIT_LIMIT, receive_all).await.expect("all winners are heard of");
}

/// Idle records expire, which does not count as a transition. Records that must be kept do not expire.
pub async fn an_idle_record_goes_and_one_to_keep_stays(store: AnyStore) {
    let (goes, stays) = (unique_key("goes"), unique_key("stays"));
    let brief = Some(Duration::from_millis(1));
    won(&swap_if(
        &store,
        &Swap { keep_for: brief, ..swap(&goes, None, record(CircuitStatus::Closed, 5, 1)) },
    )
    .await);
    won(&swap_if(
        &store,
        &Swap { keep_for: brief, ..swap(&stays, None, record(CircuitStatus::Closed, 5, 1)) },
    )
    .await);
    // The second record becomes one that must be kept, unless it has already expired.
    let reason = swap(&stays, Some(1), record(CircuitStatus::Open, 6, 2));
    if swap_if(&store, &reason).await != Swapped::Won {
        put(&store, &stays, None, record(CircuitStatus::Open, 6, 2)).await;
    }
    let limit = std::time::Instant::now() + WAIT_LIMIT;
    while read(&store, &goes).await.is_some() {
        assert!(std::time::Instant::now() < limit, "an idle record goes in the end");
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&store, &stays).await.map(|record| record.version), Some(Version(2)));
}
