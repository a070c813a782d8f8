//! One process of a fleet whose own network is broken: the others are not affected, and the process is
//! protected itself.

use std::time::Duration;

use breakerbox::{BreakerboxBuilder, CallError, CircuitStatus, Consistency, Policy, PolicyBuilder, Refusal};
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{Fleet, Process, ms, simple};

fn settings(consistency: Consistency) -> fn(BreakerboxBuilder) -> BreakerboxBuilder {
    match consistency {
        Consistency::Strict => |builder| builder.consistency(Consistency::Strict),
        _ => |builder| builder,
    }
}

const BOTH: [Consistency; 2] = [Consistency::LocalFirst, Consistency::Strict];

#[tokio::test(start_paused = true)]
async fn a_broken_process_that_asks_most_often_does_not_keep_the_destination_shut() {
    for consistency in BOTH {
        let policy = simple().probes(3).cool_off(Duration::from_secs(2)).cool_off_factor(1.0);
        let fleet = Fleet::with(8, &policy, settings(consistency));
        // The first two have reported failures; the last one is broken, and acquires ten times as often as the
        // others.
        fleet.trip().await;
        for n in 0..8 {
            let circuit = fleet.processes[n].circuit.clone();
            let is_broken = n == 7;
            tokio::spawn(async move {
                loop {
                    let result = if is_broken { Err("no route") } else { Ok(()) };
                    let _ = circuit.call(async { result }).await;
                    sleep(if is_broken { ms(5) } else { ms(50) }).await;
                }
            });
        }
        // The broken process may win the first half-open period. After the next one, the circuit is closed.
        let limit = Instant::now() + 2 * (policy.build().unwrap().cool_off() + Duration::from_secs(2));
        while fleet.processes[0].circuit.status() != CircuitStatus::Closed {
            assert!(Instant::now() < limit, "{consistency:?}: {:?}", fleet.statuses());
            sleep(ms(1)).await;
        }
        assert!(fleet.processes[0].circuit.record().trips <= 2, "{consistency:?}");
    }
}

/// The counts of a process's calls in a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Calls {
    made: u32,
    refused: u32,
}

/// Makes each process call every 50 ms for this time. If `is_broken`, the last process's calls fail.
async fn traffic(fleet: &Fleet, is_broken: bool, time: Duration) -> Vec<Calls> {
    let mut calls = vec![Calls::default(); fleet.processes.len()];
    let last = fleet.processes.len() - 1;
    let end = Instant::now() + time;
    while Instant::now() < end {
        for (n, process) in fleet.processes.iter().enumerate() {
            let result = if is_broken && n == last { Err("no route") } else { Ok(()) };
            match process.circuit.call(async { result }).await {
                Err(CallError::Refused(_)) => calls[n].refused += 1,
                Ok(()) | Err(_) => calls[n].made += 1,
            }
        }
        sleep(ms(50)).await;
    }
    calls
}

fn is_refused_here(process: &Process, result: Result<(), CallError<&'static str>>) -> bool {
    process.circuit.is_open_locally()
        && matches!(result, Err(CallError::Refused(Refusal::OpenLocally { .. })))
}

#[tokio::test(start_paused = true)]
async fn a_broken_process_makes_a_dozen_calls_and_the_others_notice_nothing() {
    // Each policy with the time for which the process was healthy before: a rate rule has to outweigh that.
    let policies: [(PolicyBuilder, u64); 3] = [
        (Policy::builder(), 5),
        (Policy::builder().failure_rate(None), 5),
        (Policy::builder().consecutive_failures(None), 0),
    ];
    for consistency in BOTH {
        for (policy, well_for) in &policies {
            let policy = policy.clone().jitter(0).cool_off(Duration::from_secs(30));
            let fleet = Fleet::with(8, &policy, settings(consistency));
            traffic(&fleet, false, Duration::from_secs(*well_for)).await;
            let calls = traffic(&fleet, true, Duration::from_secs(25)).await;
            let (broken, others) = calls.split_last().unwrap();
            assert!(broken.made <= 12 && broken.refused > 400, "{consistency:?}, {policy:?}: {broken:?}");
            assert!(others.iter().all(|calls| calls.refused == 0), "{consistency:?}: {others:?}");
            assert_eq!(fleet.statuses(), [CircuitStatus::Closed; 8], "{consistency:?}");
            let (last, healthy) = fleet.processes.split_last().unwrap();
            assert!(is_refused_here(last, last.succeed().await), "{consistency:?}");
            assert_eq!(last.breakers.counts().opened_locally, 1, "{consistency:?}");
            for process in healthy {
                assert!(!process.circuit.is_open_locally() && process.breakers.counts().opened_locally == 0);
            }
            assert!(fleet.processes.iter().all(|process| process.observed().is_empty()), "no event");

            // The process's network is repaired. It detects this with its own probes, without intervention.
            traffic(&fleet, false, Duration::from_secs(35)).await;
            assert!(!last.circuit.is_open_locally(), "{consistency:?}");
            let calls = traffic(&fleet, false, Duration::from_secs(1)).await;
            assert!(calls.iter().all(|calls| calls.refused == 0), "{consistency:?}: {calls:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_is_woken_when_its_own_circuit_lets_it_probe() {
    let policy = simple().cool_off(Duration::from_secs(3));
    let fleet = Fleet::new(2, &policy);
    let [well, broken] = &fleet.processes[..] else { panic!("two") };
    while !broken.circuit.is_open_locally() {
        well.succeed().await.unwrap();
        broken.fail().await;
        sleep(ms(100)).await;
    }
    let start = Instant::now();
    let permit = broken.circuit.acquire_within(Duration::from_secs(10)).await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(3), "{:?}", start.elapsed());
    let next = tokio::spawn({
        let circuit = broken.circuit.clone();
        async move { circuit.acquire_owned_within(Duration::from_secs(10)).await.map(drop) }
    });
    sleep(ms(10)).await;
    permit.success();
    let start = Instant::now();
    next.await.unwrap().unwrap();
    assert!(start.elapsed() < ms(100), "woken, and not when the probe would be given up");
}

#[tokio::test(start_paused = true)]
async fn with_a_store_of_its_own_a_process_has_no_other_circuit_beside() {
    let fleet = Fleet::with(1, &simple(), BreakerboxBuilder::exclusive_store);
    let process = &fleet.processes[0];
    for _ in 0..3 {
        process.fail().await;
    }
    fleet.all_become(CircuitStatus::Open, ms(1_000)).await;
    assert!(!process.circuit.is_open_locally());
    assert_eq!(process.breakers.counts().opened_locally, 0);
}
