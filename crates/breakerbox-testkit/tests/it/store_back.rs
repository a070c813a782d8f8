//! A fleet whose store recovers: decisions made while disconnected, by any clock, and what observers receive.

use std::time::Duration;

use breakerbox::store::Store;
use breakerbox::{CircuitStatus, Record, Refusal, StoreHealth};
use breakerbox_testkit::faults::Fault;
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{Fleet, Process, ms, simple};

/// The timeout for steps that have their own time limit, so that a test can't hang.
const LIMIT: Duration = Duration::from_secs(30);

fn is_lost(process: &Process) -> bool {
    process.breakers.store_health() != Some(StoreHealth::Connected)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < limit, "{what}");
        sleep(ms(1)).await;
    }
}

/// Disconnects the process from the store, and waits until the process detects the loss.
async fn lose_store(process: &Process) {
    process.way.set(Fault::Refuses);
    let limit = Instant::now() + LIMIT;
    while !is_lost(process) {
        assert!(Instant::now() < limit, "the loss is noticed");
        let _ = process.succeed().await;
        let other = process.breakers.circuit("another").unwrap();
        let _ = other.call(async { Ok::<_, ()>(()) }).await;
        sleep(ms(50)).await;
    }
}

async fn stored(fleet: &Fleet) -> Option<Record> {
    fleet.store.read(&["e1".into()]).await.unwrap().all().unwrap().value.remove(0)
}

/// Returns the states that a process's observers received. Checks that each change starts at the previous
/// state, and that the epochs grow.
fn heard_in_order(process: &Process) -> Vec<CircuitStatus> {
    let changes = process.changes.lock().unwrap();
    let event: Vec<_> =
        changes.iter().filter(|change| &*change.key == "e1").map(|event| &event.change).collect();
    for pair in event.windows(2) {
        assert!(pair[0].epoch < pair[1].epoch && pair[0].to == pair[1].from, "{event:#?}");
    }
    assert!(event.iter().all(|change| change.from != change.to), "{event:#?}");
    event.iter().map(|change| change.to).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_alone_is_not_undone_when_publishing_fails_and_the_store_goes_again() {
    let fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    let process = &fleet.processes[0];
    lose_store(process).await;
    sleep(Duration::from_secs(31)).await;
    process.succeed().await.unwrap();
    assert_eq!(process.circuit.status(), CircuitStatus::Closed, "by itself");
    let alone = process.circuit.record().epoch;
    for _ in 0..3 {
        // The store responds that it is up, and then with its records. The next write does not get through.
        process.way.delay(ms(100));
        process.way.set(Fault::None);
        until("the store is back", || !is_lost(process)).await;
        sleep(ms(150)).await;
        process.way.set(Fault::Refuses);
        process.way.delay(ms(0));
        lose_store(process).await;
        assert_eq!(
            (process.circuit.status(), process.circuit.record().epoch),
            (CircuitStatus::Closed, alone)
        );
        assert_eq!(stored(&fleet).await.map(|record| record.status()), Some(CircuitStatus::Open));
    }
    process.way.set(Fault::None);
    fleet.all_become(CircuitStatus::Closed, Duration::from_secs(5)).await;
    assert_eq!(
        stored(&fleet).await.map(|record| (record.status(), record.epoch)),
        Some((CircuitStatus::Closed, alone))
    );
    assert_eq!(
        heard_in_order(process),
        [CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Closed]
    );
    assert_eq!(heard_in_order(&fleet.processes[1]), [CircuitStatus::Open, CircuitStatus::Closed]);
}

#[tokio::test(start_paused = true)]
async fn who_has_never_heard_the_stores_time_does_not_publish_its_own() {
    let fleet = Fleet::new(3, &simple());
    let [first, second, late] = &fleet.processes[..] else { panic!("three") };
    for process in [first, second] {
        process.way.set(Fault::Refuses);
    }
    // The clocks are an hour apart, and far from the store's.
    for _ in 0..3 {
        first.fail().await;
    }
    assert_eq!(first.circuit.status(), CircuitStatus::Open, "by itself");
    sleep(Duration::from_secs(10)).await;
    for process in [first, second] {
        process.way.set(Fault::None);
    }
    for process in [second, late] {
        let _ = process.succeed().await;
    }
    fleet.all_become(CircuitStatus::Open, Duration::from_secs(5)).await;
    let (record, now) = (stored(&fleet).await.unwrap(), fleet.store.read(&[]).await.unwrap().now);
    let opened = now.since(record.changed_at);
    assert!(ms(10_000) <= opened && opened <= ms(16_000), "{opened:?} ago");
    assert_eq!(record.retry_at, Some(record.changed_at + Duration::from_secs(30)));
    assert!(record.epoch.0 >= record.changed_at.as_micros(), "{record:?}");
    let refusal = late.circuit.try_acquire().map(drop).unwrap_err();
    assert!(matches!(refusal, Refusal::Open { retry_in, .. } if retry_in <= ms(20_000)), "{refusal:?}");
}

#[tokio::test(start_paused = true)]
async fn observers_hear_of_no_change_that_is_none_and_of_every_one_that_is() {
    let fleet = Fleet::new(3, &simple());
    for process in &fleet.processes {
        process.succeed().await.unwrap();
        lose_store(process).await;
    }
    // Each process opens the circuit on its own; the last one is the first to reconnect.
    for process in &fleet.processes {
        for _ in 0..3 {
            process.fail().await;
        }
        assert_eq!(process.circuit.status(), CircuitStatus::Open);
        sleep(ms(100)).await;
    }
    for process in &fleet.processes {
        process.way.set(Fault::None);
        until("the store is back", || !is_lost(process)).await;
        sleep(ms(700)).await;
    }
    let record = stored(&fleet).await.unwrap();
    for process in &fleet.processes {
        assert_eq!(process.circuit.record().epoch, record.epoch, "all agree");
        assert_eq!(heard_in_order(process), [CircuitStatus::Open], "and it was open all the time");
    }
    sleep(Duration::from_secs(31)).await;
    fleet.processes[1].succeed().await.unwrap();
    fleet.all_become(CircuitStatus::Closed, Duration::from_secs(5)).await;
    let joins = Process::new(7, &fleet.store, &simple());
    joins.succeed().await.unwrap();
    assert_eq!(joins.circuit.record().epoch, stored(&fleet).await.unwrap().epoch);
    assert_eq!(heard_in_order(&joins), [], "closed is what it thought");
    for process in &fleet.processes {
        assert_eq!(heard_in_order(process).last(), Some(&CircuitStatus::Closed));
    }
}
