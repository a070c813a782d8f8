//! Processes that end: what a flush, a close, a dropped handle and a runtime's shutdown report to the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox::store::{MemoryStore, Store};
use breakerbox::{
    Breakerbox, BreakerboxBuilder, CallError, Circuit, CircuitStatus, Consistency, FlushError, Policy,
    Refusal,
};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::runtime::Runtime;

use crate::fleet_rig::{Fleet, ms, simple};

const KEY: &str = "acme https://hooks.acme.example/in";

/// The maximum duration of any step.
const LIMIT: Duration = Duration::from_secs(30);

fn current_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Returns a builder for a job that uses this store. Without an explicit flush, the job's reports are sent only
/// after an hour.
fn job(store: &Arc<impl Store>) -> BreakerboxBuilder {
    let policy = Policy::builder().failure_rate(None).consecutive_failures(5).jitter(0);
    let policy = policy.cool_off(Duration::from_secs(30)).build().unwrap();
    Breakerbox::builder().policy(policy).store(Arc::clone(store)).flush_every(Duration::from_secs(3_600))
}

/// Makes one failing call. Returns whether the call was sent.
async fn call(circuit: &Circuit) -> bool {
    match circuit.call(async { Err::<(), _>("down") }).await {
        Err(CallError::Failed(_)) => true,
        Err(CallError::Refused(Refusal::Open { .. })) => false,
        other => panic!("{other:?}"),
    }
}

/// Runs ten jobs with one call each. Returns the number of calls sent.
fn sent(ends: impl Fn(&Arc<MemoryStore>, Consistency) -> bool, consistency: Consistency) -> usize {
    let store = Arc::new(MemoryStore::new());
    (0..10).filter(|_| ends(&store, consistency)).count()
}

#[test]
fn of_many_one_call_jobs_five_send_however_they_end() {
    type Job = fn(&Arc<MemoryStore>, Consistency) -> bool;
    let ends: [(&str, Job); 6] = [
        ("flush", |store, consistency| {
            current_thread().block_on(async {
                let breakers = job(store).consistency(consistency).build();
                let sent = call(&breakers.circuit(KEY).unwrap()).await;
                breakers.flush().await.unwrap();
                sent
            })
        }),
        ("close", |store, consistency| {
            multi_thread().block_on(async {
                let breakers = job(store).consistency(consistency).build();
                let sent = call(&breakers.circuit(KEY).unwrap()).await;
                breakers.close().await.unwrap();
                sent
            })
        }),
        ("drop in a runtime with one thread", |store, consistency| {
            current_thread().block_on(async {
                let breakers = job(store).consistency(consistency).build();
                let circuit = breakers.circuit(KEY).unwrap();
                drop(breakers);
                call(&circuit).await
            })
        }),
        ("drop in a task of a runtime with many", |store, consistency| {
            let builder = job(store).consistency(consistency);
            multi_thread().block_on(async move {
                let one_call = async move {
                    let breakers = builder.build();
                    call(&breakers.circuit(KEY).unwrap()).await
                };
                tokio::spawn(one_call).await.unwrap()
            })
        }),
        ("drop outside of any runtime", |store, consistency| {
            let breakers = job(store).consistency(consistency).build();
            current_thread().block_on(async { call(&breakers.circuit(KEY).unwrap()).await })
        }),
        ("shutdown of the runtime while handles are kept", |store, consistency| {
            let runtime = multi_thread();
            let (breakers, sent) = runtime.block_on(async {
                let breakers = job(store).consistency(consistency).build();
                let sent = call(&breakers.circuit(KEY).unwrap()).await;
                (breakers, sent)
            });
            drop(runtime);
            // Equivalent to a static variable: it is never dropped.
            std::mem::forget(breakers);
            sent
        }),
    ];
    for (name, end) in ends {
        for consistency in [Consistency::LocalFirst, Consistency::Strict] {
            assert_eq!(sent(end, consistency), 5, "{name}, {consistency:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_the_confirmation_of_a_trip_that_only_this_process_saw() {
    let fleet = Fleet::with(2, &simple(), |builder| builder.flush_every(Duration::from_secs(3_600)));
    let [one, _other] = &fleet.processes[..] else { panic!() };
    for _ in 0..3 {
        one.fail().await;
    }
    assert_eq!(one.circuit.status(), CircuitStatus::Closed, "it is only judged");
    one.breakers.flush().await.unwrap();
    let late = crate::fleet_rig::Process::new(9, &fleet.store, &simple());
    assert!(late.succeed().await.is_err(), "whoever comes later finds it open");
    assert_eq!((one.circuit.status(), late.circuit.status()), (CircuitStatus::Open, CircuitStatus::Open));
    fleet.all_become(CircuitStatus::Open, ms(3_000)).await;
}

/// A flush waits until a pending trip is decided, even if the background task is reading the circuit at that
/// moment. While a trip waits for confirmation, such a read may be in progress when the flush needs its result.
#[tokio::test(start_paused = true)]
async fn a_flush_follows_a_trip_through_whoever_looks_at_it() {
    for after in (0..700).step_by(10).map(ms) {
        let fleet = Fleet::new(2, &simple());
        let [one, _other] = &fleet.processes[..] else { panic!() };
        one.way.delay(ms(20));
        for _ in 0..3 {
            one.fail().await;
        }
        tokio::time::sleep(after).await;
        one.breakers.close().await.unwrap();
        let late = crate::fleet_rig::Process::new(9, &fleet.store, &simple());
        assert!(late.succeed().await.is_err(), "closed {after:?} after the failures, it is open");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_reports_successes_too_and_what_is_settled_meanwhile_does_not_hold_it_up() {
    let fleet = Fleet::new(1, &simple());
    let [one] = &fleet.processes[..] else { panic!() };
    for _ in 0..7 {
        one.succeed().await.unwrap();
    }
    one.breakers.flush().await.unwrap();
    assert_eq!(fleet.counted().await, (7, 0));
    one.way.delay(ms(20));
    let busy = async {
        loop {
            one.succeed().await.unwrap();
            tokio::time::sleep(ms(1)).await;
        }
    };
    one.succeed().await.unwrap();
    tokio::select! {
        flushed = one.breakers.flush() => flushed.unwrap(),
        () = busy => {}
    }
    assert!(fleet.counted().await.0 >= 8);
}

#[tokio::test(start_paused = true)]
async fn a_flush_says_what_the_store_did_not_hear_and_takes_no_longer_than_its_limit() {
    for fault in [Fault::BlackHole, Fault::Refuses, Fault::LosesAnswers] {
        let fleet = Fleet::new(1, &simple());
        let [one] = &fleet.processes[..] else { panic!() };
        one.succeed().await.unwrap();
        one.breakers.flush().await.unwrap();
        one.way.set(fault);
        one.fail().await;
        let start = tokio::time::Instant::now();
        let flushed = one.breakers.flush().await;
        assert_eq!(flushed, Err(FlushError::NotReported { circuits: 1 }), "{fault:?}");
        assert!(start.elapsed() <= ms(600), "{fault:?}: {:?}", start.elapsed());
        assert_eq!(one.breakers.counts().unanswered_reports, 1, "{fault:?}");
        one.way.set(Fault::None);
        one.fail().await;
        one.breakers.flush().await.unwrap();
        let (_, failures) = fleet.counted().await;
        let arrived = u64::from(fault == Fault::LosesAnswers);
        assert_eq!(failures, arrived + 1, "{fault:?}: what was lost is lost, and nothing is counted twice");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_store_did_not_hear_is_an_error_and_is_reported_after_its_return() {
    let fleet = Fleet::new(1, &simple());
    let [one] = &fleet.processes[..] else { panic!() };
    one.succeed().await.unwrap();
    one.breakers.flush().await.unwrap();
    one.way.set(Fault::Refuses);
    while one.health.lock().unwrap().is_empty() {
        one.succeed().await.unwrap();
        let _ = one.breakers.flush().await;
    }
    one.succeed().await.unwrap();
    assert_eq!(one.breakers.flush().await, Err(FlushError::NotReported { circuits: 1 }));
    let before = fleet.counted().await.0;
    one.way.set(Fault::None);
    tokio::time::sleep(ms(1_000)).await;
    one.breakers.flush().await.unwrap();
    assert!(fleet.counted().await.0 > before);
}

#[test]
fn a_drop_waits_for_a_silent_store_no_longer_than_its_bound_and_for_nothing_if_nothing_is_pending() {
    for runtime in [current_thread(), multi_thread()] {
        let way = FaultyStore::new(Arc::new(MemoryStore::new()));
        runtime.block_on(async {
            let breakers = job(&way).store_timeout(ms(50)).build();
            let circuit = breakers.circuit(KEY).unwrap();
            call(&circuit).await;
            breakers.flush().await.unwrap();
            way.set(Fault::BlackHole);
            let requests = way.requests();
            let start = Instant::now();
            drop((breakers, circuit));
            assert_eq!(way.requests(), requests, "nothing is pending, and nobody is asked");

            way.set(Fault::None);
            let breakers = job(&way).store_timeout(ms(50)).build();
            call(&breakers.circuit(KEY).unwrap()).await;
            way.set(Fault::BlackHole);
            drop(breakers);
            assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_registry_asks_the_store_nothing_and_leaves_no_task_behind() {
    let fleet = Fleet::new(1, &simple());
    let Fleet { store, mut processes } = fleet;
    let one = processes.pop().unwrap();
    one.fail().await;
    one.breakers.close().await.unwrap();
    let requests = one.way.requests();
    for _ in 0..3 {
        one.fail().await;
    }
    assert!(one.succeed().await.is_err(), "its circuits are its own from now on");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(one.way.requests(), requests);
    assert_eq!(one.breakers.flush().await, Ok(()), "nothing that the store should hear");
    assert_eq!(one.breakers.close().await, Ok(()));
    let way = Arc::downgrade(&one.way);
    drop(one);
    assert!(way.upgrade().is_none(), "no task holds the store");
    drop(store);
}

#[test]
fn a_flush_after_its_runtime_is_gone_is_made_elsewhere() {
    let store = Arc::new(MemoryStore::new());
    let first = current_thread();
    let breakers = first.block_on(async { job(&store).build() });
    drop(first);
    current_thread().block_on(async {
        assert!(call(&breakers.circuit(KEY).unwrap()).await);
        breakers.flush().await.unwrap();
    });
    assert_eq!(store.len(), 1);
}

#[test]
fn a_strict_outcome_that_nobody_waits_for_is_waited_for_by_a_flush() {
    current_thread().block_on(async {
        let store = Arc::new(MemoryStore::new());
        let way = FaultyStore::new(Arc::clone(&store) as Arc<dyn Store>);
        let breakers = job(&way).consistency(Consistency::Strict).build();
        let circuit = breakers.circuit(KEY).unwrap();
        way.delay(ms(20));
        circuit.acquire().await.unwrap().failure();
        assert_eq!(store.len(), 0, "it is on its way");
        breakers.flush().await.unwrap();
        assert_eq!(store.len(), 1);
    });
}
