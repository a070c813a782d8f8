//! Faults that were measured in other breakers. Each has a test, named after it, that verifies that this library does
//! not have it.
//!
//! The races are small here, for readability. `breakerbox-testkit` runs them ten thousand times for each way in which
//! a probe can end: `cargo xtask prove recovery`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use breakerbox::{Breakerbox, CallError, CircuitStatus, Policy, PolicyBuilder, Refusal, Settlement};
use tokio::sync::Barrier;

use crate::service::{Service, fail, secs, simple, succeed};

/// A hundred callers acquire at once after the cool-off. Other breakers admit all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stampede_after_the_open_time() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let all_have_asked = Arc::new(Barrier::new(100));
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (circuit, all_have_asked) = (circuit.clone(), Arc::clone(&all_have_asked));
            tokio::spawn(async move {
                let call = async {
                    all_have_asked.wait().await;
                    Ok::<_, ()>(())
                };
                let called = circuit.call(call).await;
                if called.is_err() {
                    all_have_asked.wait().await;
                }
                called
            })
        })
        .collect();
    let mut let_in = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(()) => let_in += 1,
            Err(error) => assert!(matches!(error, CallError::Refused(Refusal::Probing { .. })), "{error:?}"),
        }
    }
    assert_eq!((let_in, circuit.status()), (1, CircuitStatus::Closed));
}

/// Drops a probe. In other breakers, no later call ever probes.
#[test]
fn a_dropped_probe_that_blocks_for_ever() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    for _ in 0..10 {
        assert!(
            circuit.try_acquire().unwrap().is_probe(),
            "dropped within the grace: the next one probes at once"
        );
    }
    succeed(&circuit, 1);
    assert_eq!(circuit.status(), CircuitStatus::Closed);
}

/// A call that was admitted before a trip succeeds after it.
#[test]
fn a_stale_success_that_closes_a_half_open_circuit() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    let permits: Vec<_> = (0..4).map(|_| circuit.try_acquire().unwrap()).collect();
    let [while_open, failed_while_open, while_probing, failed_while_probing] = permits.try_into().unwrap();
    fail(&circuit, 3);

    let open = circuit.record();
    assert_eq!((while_open.success(), failed_while_open.failure()), (Settlement::Late, Settlement::Late));
    assert_eq!(circuit.record(), open);

    service.clock.advance(secs(30));
    let probe = circuit.try_acquire().unwrap();
    let probing = circuit.record();
    assert_eq!(
        (while_probing.success(), failed_while_probing.failure()),
        (Settlement::Late, Settlement::Late)
    );
    assert_eq!(circuit.record(), probing);
    assert_eq!(service.breakers.counts().late_results, 4);
    assert_eq!((probe.success(), circuit.status()), (Settlement::Counted, CircuitStatus::Closed));
}

/// Fails calls after ten thousand successes have left the window. In other breakers, it takes ten thousand failures to
/// outweigh them.
#[test]
fn a_window_that_does_not_slide() {
    let service = Service::new(&Policy::builder().window(secs(1)).consecutive_failures(None));
    let circuit = service.circuit("e1");
    succeed(&circuit, 10_000);
    service.clock.advance(secs(1));
    fail(&circuit, 9);
    assert_eq!(circuit.status(), CircuitStatus::Closed, "min_calls is 10");
    fail(&circuit, 1);
    assert_eq!(circuit.status(), CircuitStatus::Open);
}

/// Fails calls within a millisecond, in which a time-based moving average hardly changes. The table's last column is
/// the number of failures until the circuit trips.
#[test]
fn a_burst_that_is_missed() {
    let only_rate = || Policy::builder().consecutive_failures(None);
    let table: [(&str, PolicyBuilder, u32, u32); 5] = [
        ("the defaults, after nothing", Policy::builder(), 0, 5),
        ("the defaults, after good traffic", Policy::builder(), 10_000, 5),
        ("half, after nothing", only_rate(), 0, 10),
        ("half, after good traffic", only_rate(), 2_900, 2_900),
        ("a fifth, after much good traffic", only_rate().failure_rate(20), 10_000, 2_500),
    ];
    for (what, policy, before, trips_at) in table {
        let service = Service::new(&policy);
        let circuit = service.circuit("e1");
        for _ in 0..before / 100 {
            succeed(&circuit, 100);
            service.clock.advance(Duration::from_millis(500));
        }
        let burst = (1..=3_000).find(|_| {
            circuit.try_acquire().unwrap().failure();
            circuit.status() == CircuitStatus::Open
        });
        assert_eq!(burst, Some(trips_at), "{what}");
    }
}

#[test]
fn a_burst_that_is_missed_because_it_comes_from_many_threads() {
    let service = Service::new(&Policy::builder().consecutive_failures(None));
    let circuit = service.circuit("e1");
    succeed(&circuit, 2_900);
    // All calls are admitted before the first of them fails.
    let threads: Vec<_> =
        (0..8).map(|_| (0..375).map(|_| circuit.try_acquire().unwrap()).collect::<Vec<_>>()).collect();
    thread::scope(|scope| {
        for permits in threads {
            scope.spawn(|| {
                permits.into_iter().for_each(|permit| {
                    permit.failure();
                });
            });
        }
    });
    assert_eq!(circuit.status(), CircuitStatus::Open);
    let late = service.breakers.counts().late_results;
    assert_eq!(late, 100, "3,000 failures, of which the 2,900th tripped");
}

/// Verifies that no call is kept, so that the number of calls in the window does not matter. Other breakers keep every
/// call in the window, and go through all of them at each call.
#[test]
fn a_window_that_costs_more_with_every_record() {
    let latencies = || Policy::builder().mean_latency(secs(5)).slow_call(secs(5)).slow_rate(50);
    for policy in [Policy::builder(), latencies()] {
        let service = Service::new(&policy);
        let circuit = service.circuit("e1");
        let traffic = |rounds: u32| {
            for _ in 0..rounds {
                succeed(&circuit, 3);
                fail(&circuit, 2);
                service.clock.advance(Duration::from_millis(1));
            }
        };
        traffic(10);
        let used = allocation_counter::measure(|| traffic(10_000));
        assert_eq!(circuit.totals().calls(), 50_050, "all of it is in the window");
        assert_eq!((used.count_current, used.bytes_current), (0, 0), "nothing is kept of a call");
        assert!(used.bytes_max <= 256, "no more than a permit at a time: {used:?}");
    }
}

/// A process crashes while probing. In other breakers, its lock lasts for a whole cool-off.
#[test]
fn a_crash_that_holds_up_for_a_cool_off() {
    let service = Service::new(&simple().cool_off(secs(300)));
    let circuit = service.tripped("e1");
    service.clock.advance(secs(300));
    std::mem::forget(circuit.try_acquire().unwrap());
    let lease = circuit.policy().probe_timeout() + secs(2);
    assert!(matches!(circuit.try_acquire(), Err(Refusal::Probing { retry_in, .. }) if retry_in == lease));
    service.clock.advance(lease - Duration::from_micros(1));
    assert!(circuit.try_acquire().is_err());
    service.clock.advance(Duration::from_micros(1));
    succeed(&circuit, 1);
    assert_eq!(circuit.status(), CircuitStatus::Closed);
}

/// The first probe's lease expires, a second probe fails, and then the first one succeeds.
#[test]
fn a_late_success_that_closes_an_open_circuit() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let lost = circuit.try_acquire().unwrap();
    service.clock.advance(secs(12));
    assert_eq!(lost.time_left(), Some(secs(0)), "too late to start");
    let next = circuit.try_acquire().unwrap();
    next.failure();
    let open = circuit.record();
    assert_eq!(lost.success(), Settlement::Late);
    assert_eq!((circuit.record(), circuit.status()), (open, CircuitStatus::Open));
}

/// The first probe's lease expires, and the probe succeeds while a second one is in flight.
#[test]
fn a_late_success_that_closes_somebody_elses_half_open_circuit() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let lost = circuit.try_acquire().unwrap();
    service.clock.advance(secs(12));
    let next = circuit.try_acquire().unwrap();
    let probing = circuit.record();
    assert_eq!(lost.success(), Settlement::Late);
    assert_eq!((circuit.record(), circuit.status()), (probing, CircuitStatus::HalfOpen));
    assert_eq!((next.success(), circuit.status()), (Settlement::Counted, CircuitStatus::Closed));
}

/// Lets 48 threads race for a probe, by the real clock. Other breakers read the state, then take the lock, and do not
/// read the state again. In such a race, up to four threads probe one after another, although the first has closed the
/// circuit.
#[test]
fn a_state_that_is_not_read_again_after_the_lease_is_taken() {
    const RECOVERIES: u64 = 50;
    let (half_opened, recovered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (seen, closed) = (Arc::clone(&half_opened), Arc::clone(&recovered));
    let policy = simple().cool_off(Duration::from_millis(1)).cool_off_factor(1.0).build().unwrap();
    let breakers = Breakerbox::builder().policy(policy).observer(move |event| {
        seen.fetch_add(u64::from(event.change.to == CircuitStatus::HalfOpen), Ordering::SeqCst);
        closed.fetch_add(u64::from(event.change.to == CircuitStatus::Closed), Ordering::SeqCst);
    });
    let circuit = breakers.build().circuit("e1").unwrap();
    let probes = AtomicU64::new(0);
    let limit = Instant::now() + secs(60);
    thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(|| {
                while recovered.load(Ordering::SeqCst) < RECOVERIES && Instant::now() < limit {
                    match circuit.try_acquire() {
                        Err(_) => thread::yield_now(),
                        Ok(permit) if permit.is_probe() => {
                            probes.fetch_add(1, Ordering::SeqCst);
                            assert_eq!(
                                permit.success(),
                                Settlement::Counted,
                                "a second prober would be late"
                            );
                        }
                        // As soon as the circuit has closed, it is tripped again.
                        Ok(permit) => {
                            permit.failure();
                        }
                    }
                }
            });
        }
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    assert!(count(&recovered) >= RECOVERIES, "{} recoveries within a minute", count(&recovered));
    assert_eq!(count(&probes), count(&half_opened), "one probe for each recovery");
}
