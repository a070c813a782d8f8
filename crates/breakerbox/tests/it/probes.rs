//! One probe at a time, whatever the number of threads, and whatever becomes of the probes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use breakerbox::{Circuit, Refusal, Status, Verdict};

use crate::service::{Service, secs, simple, succeed};

const THREADS: usize = 8;
const ASKERS: usize = 100;

/// What becomes of a probe.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Success,
    Failure,
    Dropped,
    Panics,
    /// Nobody ever hears of it; its lease must end first.
    Lost,
}

/// Lets a hundred askers on many threads ask at once, and returns how many probes there were.
fn ask_at_once(circuit: &Circuit, fate: Fate) -> u32 {
    let probes = AtomicU32::new(0);
    let start = Barrier::new(THREADS);
    let asked = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (probes, start, asked) = (&probes, &start, &asked);
            scope.spawn(move || {
                start.wait();
                let mine = (thread..ASKERS).step_by(THREADS);
                let permits: Vec<_> = mine.map(|_| circuit.ask()).collect();
                // Everybody has asked before the first probe is settled.
                asked.wait();
                for permit in permits {
                    let Ok(permit) = permit else { continue };
                    assert!(permit.is_probe());
                    probes.fetch_add(1, Ordering::Relaxed);
                    match fate {
                        Fate::Success => assert_eq!(permit.success(), Verdict::Counted),
                        Fate::Failure => assert_eq!(permit.failure(), Verdict::Counted),
                        Fate::Dropped => drop(permit),
                        Fate::Panics => {
                            let call = std::panic::AssertUnwindSafe(|| {
                                let _permit = permit;
                                std::panic::resume_unwind(Box::new("the caller's code"));
                            });
                            assert!(std::panic::catch_unwind(call).is_err());
                        }
                        Fate::Lost => std::mem::forget(permit),
                    }
                }
            });
        }
    });
    probes.into_inner()
}

#[test]
fn of_a_hundred_askers_exactly_one_probes_whatever_becomes_of_it() {
    let service = Service::new(&simple().cool_off_factor(1.0));
    let circuit = service.tripped("e1");
    let fates = [Fate::Success, Fate::Failure, Fate::Dropped, Fate::Panics, Fate::Lost];
    for round in 0..500 {
        let fate = fates[round % fates.len()];
        if circuit.status() == Status::Closed {
            crate::service::fail(&circuit, 3);
        }
        // Past the cool-off, and past a lost probe's lease.
        service.clock.advance(secs(30));
        assert_eq!(ask_at_once(&circuit, fate), 1, "round {round}: {fate:?}");
    }
}

#[test]
fn a_dropped_probe_blocks_nothing() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    for _ in 0..10 {
        assert!(circuit.ask().unwrap().is_probe(), "dropped within the grace: the next one probes at once");
    }
    succeed(&circuit, 1);
    assert_eq!(circuit.status(), Status::Closed);
}

#[test]
fn a_lost_probe_blocks_until_its_lease_ends_and_its_result_is_late() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let lost = circuit.ask().unwrap();
    service.clock.advance(secs(11));
    assert!(matches!(circuit.ask(), Err(Refusal::Probing { retry_in, .. }) if retry_in == secs(1)));
    service.clock.advance(secs(1));
    assert_eq!(lost.time_left(), Some(secs(0)), "too late to start");
    let next = circuit.ask().unwrap();
    lost.success();
    assert_eq!(circuit.status(), Status::HalfOpen, "a stale success closes nothing");
    next.success();
    assert_eq!(circuit.status(), Status::Closed);
}
