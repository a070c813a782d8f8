//! The ramp of a fleet, with the real library: several processes over one store, and never more concurrent
//! calls than the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use breakerbox::{
    BreakerboxBuilder, CircuitStatus, Consistency, OutcomeKind, OwnedPermit, PolicyBuilder, Refusal,
};
use breakerbox_testkit::faults::Fault;
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{Fleet, Process, ms, simple};

const COOL_OFF: Duration = Duration::from_secs(30);

fn policy() -> PolicyBuilder {
    simple().ramp_cap(16)
}

fn strictly(builder: BreakerboxBuilder) -> BreakerboxBuilder {
    builder.consistency(Consistency::Strict)
}

/// Returns a fleet whose circuit has just closed.
async fn closed(processes: u64, settings: fn(BreakerboxBuilder) -> BreakerboxBuilder) -> Fleet {
    let fleet = Fleet::with(processes, &policy(), settings);
    for process in &fleet.processes {
        process.succeed().await.unwrap();
    }
    sleep(ms(1_100)).await;
    for n in [0, 1, 0] {
        fleet.processes[n].fail().await;
        sleep(ms(150)).await;
    }
    fleet.all_become(CircuitStatus::Open, ms(3_000)).await;
    sleep(COOL_OFF).await;
    fleet.processes[0].succeed().await.unwrap();
    fleet.all_become(CircuitStatus::Closed, ms(1_000)).await;
    fleet
}

/// Counts the concurrent calls by all processes.
#[derive(Default)]
struct Receiver {
    now: AtomicU32,
    most: AtomicU32,
    calls: AtomicU32,
}

impl Receiver {
    async fn serve(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        sleep(ms(20)).await;
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns the ramp's limit after this number of successes.
fn limit_after(successes: u32) -> u32 {
    let (mut limit, mut left) = (1, successes);
    while left >= limit {
        left -= limit;
        limit *= 2;
    }
    limit
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_over_all_processes() {
    for settings in [(|builder| builder) as fn(BreakerboxBuilder) -> BreakerboxBuilder, strictly] {
        let fleet = closed(12, settings).await;
        let receiver = Arc::new(Receiver::default());
        let start = Instant::now();
        let callers: Vec<_> = fleet
            .processes
            .iter()
            .flat_map(|process| [process.circuit.clone(), process.circuit.clone(), process.circuit.clone()])
            .map(|circuit| {
                let receiver = Arc::clone(&receiver);
                tokio::spawn(async move {
                    loop {
                        let ended = receiver.calls.load(Ordering::SeqCst);
                        if ended >= 1 + 2 + 4 + 8 {
                            return;
                        }
                        let Ok(permit) = circuit.acquire_within(ms(5_000)).await else { continue };
                        let now = receiver.now.load(Ordering::SeqCst) + 1;
                        let allowed = limit_after(receiver.calls.load(Ordering::SeqCst));
                        assert!(now <= allowed || allowed > 8, "{now} at once after {ended} calls");
                        receiver.serve().await;
                        permit.success();
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        assert!(receiver.most.load(Ordering::SeqCst) >= 8, "and the limit is used");
        assert!(start.elapsed() < ms(2_000), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn there_is_no_request_once_it_is_over() {
    let fleet = closed(3, |builder| builder).await;
    for turn in 0..100 {
        let process = &fleet.processes[turn % 3];
        let permit = process.circuit.acquire_within(ms(5_000)).await.unwrap();
        permit.success();
        sleep(ms(10)).await;
    }
    sleep(ms(5_000)).await;
    let before: Vec<_> = fleet.processes.iter().map(|process| process.way.requests()).collect();
    for process in &fleet.processes {
        let permits: Vec<_> = (0..100).map(|_| process.circuit.try_acquire().unwrap()).collect();
        permits.into_iter().for_each(|permit| _ = permit.success());
    }
    let after: Vec<_> = fleet.processes.iter().map(|process| process.way.requests()).collect();
    assert_eq!(before, after);
    assert_eq!(fleet.statuses(), [CircuitStatus::Closed; 3]);
}

#[tokio::test(start_paused = true)]
async fn whoever_can_not_wait_gets_a_place_when_it_asks_again() {
    let fleet = closed(2, |builder| builder).await;
    let [one, other] = &fleet.processes[..] else { panic!() };
    assert!(matches!(one.circuit.try_acquire(), Err(Refusal::Ramping { .. })));
    sleep(ms(50)).await;
    let permit = one.circuit.try_acquire().expect("a place is held for it");
    assert_eq!(one.circuit.try_acquire().map(drop), Err(Refusal::Ramping { in_flight: 1, limit: 1 }));
    let refused = other.circuit.acquire().await.map(drop);
    assert_eq!(refused, Err(Refusal::Ramping { in_flight: 1, limit: 1 }), "the fleet's, not its own");
    permit.success();
    sleep(ms(200)).await;
    let _two = [other.circuit.acquire().await.unwrap(), one.circuit.acquire().await.unwrap()];
    assert!(matches!(one.circuit.acquire().await, Err(Refusal::Ramping { in_flight: 2, limit: 2 })));
}

/// A call's slot is released however the call ends, and even if it never ends.
#[tokio::test(start_paused = true)]
async fn every_place_comes_back() {
    let fleet = closed(2, |builder| builder).await;
    let [one, other] = &fleet.processes[..] else { panic!() };
    let place = async |process: &Process| -> OwnedPermit {
        process.circuit.acquire_owned_within(ms(400)).await.expect("the place is free")
    };
    drop(place(one).await);
    place(other).await.ignored();
    place(one).await.settled_elsewhere(OutcomeKind::Ignored);
    let late = place(other).await;
    sleep(ms(1_500)).await;
    drop(late);
    assert_eq!(other.circuit.totals().failures, 1, "dropped late, it failed");
    // A caller that stops waiting does not keep a slot either.
    let busy = place(one).await;
    let waiting = tokio::time::timeout(ms(30), other.circuit.acquire_within(ms(5_000))).await;
    assert!(waiting.is_err());
    busy.ignored();
    let start = Instant::now();
    let _place = place(one).await;
    assert!(start.elapsed() < ms(100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_place_of_a_process_that_is_gone_expires() {
    let fleet = closed(2, |builder| builder).await;
    let [one, other] = &fleet.processes[..] else { panic!() };
    let kept = one.circuit.acquire_owned_within(ms(400)).await.unwrap();
    one.way.set(Fault::BlackHole);
    drop(kept);
    let start = Instant::now();
    let permit = other.circuit.acquire_within(Duration::from_secs(30)).await;
    assert!(permit.is_ok(), "{permit:?}");
    assert!(start.elapsed() < Duration::from_secs(13), "probe_timeout and the margin: {:?}", start.elapsed());
    assert!(start.elapsed() > Duration::from_secs(11), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_new_process_joins_the_ramp_as_it_is() {
    let fleet = closed(2, |builder| builder).await;
    let permit = fleet.processes[0].circuit.acquire_within(ms(400)).await.unwrap();
    let new = Process::new(9, &fleet.store, &policy());
    assert!(matches!(new.circuit.acquire().await, Err(Refusal::Ramping { in_flight: 1, limit: 1 })));
    permit.success();
    sleep(ms(100)).await;
    let _two = [new.circuit.acquire().await.unwrap(), new.circuit.acquire().await.unwrap()];
    assert!(matches!(new.circuit.acquire().await, Err(Refusal::Ramping { in_flight: 2, limit: 2 })));
}

#[tokio::test(start_paused = true)]
async fn without_the_store_each_process_has_a_ramp_of_its_own() {
    let fleet = closed(2, |builder| builder).await;
    for process in &fleet.processes {
        process.way.set(Fault::Refuses);
    }
    for process in &fleet.processes {
        let limit = Instant::now() + ms(5_000);
        let permit = loop {
            match process.circuit.acquire_within(ms(100)).await {
                Ok(permit) => break permit,
                Err(refusal) => assert!(Instant::now() < limit, "{refusal:?}"),
            }
        };
        let refused = process.circuit.acquire().await.map(drop);
        assert_eq!(refused, Err(Refusal::Ramping { in_flight: 1, limit: 1 }));
        permit.success();
        let _two = [process.circuit.try_acquire().unwrap(), process.circuit.try_acquire().unwrap()];
    }
}

#[tokio::test(start_paused = true)]
async fn a_trip_ends_the_ramp_and_those_who_wait_hear_of_it() {
    let fleet = closed(2, |builder| builder).await;
    let [one, other] = &fleet.processes[..] else { panic!() };
    for process in [one, other, one] {
        process.circuit.acquire_within(ms(1_000)).await.unwrap().failure();
        sleep(ms(150)).await;
    }
    fleet.all_become(CircuitStatus::Open, ms(3_000)).await;
    assert!(matches!(other.circuit.acquire().await, Err(Refusal::Open { .. })));
}
