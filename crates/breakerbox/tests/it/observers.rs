//! Observers receive every change after it has happened, and cannot do harm.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::{Breakerbox, CircuitStatus, Settlement};

use crate::service::{Service, fail, secs, simple};

#[test]
fn an_observer_may_use_the_circuit_that_changed() {
    let breakers: Arc<Mutex<Option<Breakerbox>>> = Arc::default();
    let (inside, seen) = (Arc::clone(&breakers), Arc::new(Mutex::new(Vec::new())));
    let event = Arc::clone(&seen);
    let service = Service::with(&simple(), |builder| {
        builder.observer(move |change| {
            let breakers = inside.lock().unwrap().clone().unwrap();
            let circuit = breakers.circuit(&change.key).unwrap();
            event.lock().unwrap().push((circuit.status(), circuit.try_acquire().is_ok()));
        })
    });
    *breakers.lock().unwrap() = Some(service.breakers.clone());
    service.tripped("e1");
    assert_eq!(*seen.lock().unwrap(), [(CircuitStatus::Open, false)], "no lock is held");
    *breakers.lock().unwrap() = None;
}

#[test]
fn an_observer_that_panics_harms_nobody() {
    let service = Service::with(&simple(), |builder| {
        builder.observer(|_| std::panic::resume_unwind(Box::new("an observer"))).observer(|_| ())
    });
    service.tripped("e1");
    assert_eq!(service.breakers.counts().observer_panics, 1);
    let other = service.circuit("e2");
    fail(&other, 3);
    assert_eq!(service.changes().len(), 2);
}

/// A panic payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("the panic's own payload"));
        }
    }
}

#[test]
fn an_observer_that_panics_as_a_probe_is_given_out_costs_no_lease() {
    let throw_text: fn() = || std::panic::resume_unwind(Box::new("an observer"));
    let throw_bomb: fn() = || std::panic::resume_unwind(Box::new(Bomb));
    for panic in [throw_text, throw_bomb] {
        let service = Service::with(&simple(), |builder| builder.observer(move |_| panic()).observer(|_| ()));
        let circuit = service.tripped("e1");
        service.clock.advance(secs(30));
        let probe = circuit.try_acquire().unwrap();
        assert!(probe.is_probe(), "the asker has its probe");
        assert_eq!((probe.success(), circuit.status()), (Settlement::Counted, CircuitStatus::Closed));
        assert_eq!(service.breakers.counts().observer_panics, 3, "it heard of all three changes");
        assert_eq!(service.changes().len(), 3);
    }
}

#[test]
fn who_hears_of_dry_run_may_panic_in_every_state() {
    let service =
        Service::with(&simple(), |builder| builder.dry_run(|_, _| std::panic::resume_unwind(Box::new(Bomb))));
    let circuit = service.tripped("e1");
    assert_eq!(circuit.try_acquire().unwrap().failure(), Settlement::Uncounted);
    service.clock.advance(secs(30));
    let probe = circuit.try_acquire().unwrap();
    assert_eq!(circuit.try_acquire().unwrap().failure(), Settlement::Uncounted, "somebody else probes");
    assert_eq!((probe.success(), circuit.status()), (Settlement::Counted, CircuitStatus::Closed));
    assert_eq!(service.breakers.counts().observer_panics, 2);
}

#[test]
fn an_observer_may_panic_while_the_callers_code_does() {
    let service = Service::with(&simple().cancel_grace(Duration::ZERO), |builder| {
        builder.observer(|_| std::panic::resume_unwind(Box::new("an observer")))
    });
    let circuit = service.circuit("e1");
    for _ in 0..3 {
        let call =
            || circuit.call_blocking(|| -> Result<(), ()> { std::panic::resume_unwind(Box::new("a call")) });
        let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(thrown.downcast_ref(), Some(&"a call"), "the caller gets its own panic back");
    }
    assert_eq!((circuit.status(), service.breakers.counts().observer_panics), (CircuitStatus::Open, 1));
}
