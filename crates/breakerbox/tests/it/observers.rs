//! Observers hear of every change, after the fact, and can't do harm.

use std::sync::{Arc, Mutex};

use breakerbox::{Breakerbox, Status};

use crate::service::{Service, fail, simple};

#[test]
fn an_observer_may_use_the_circuit_that_changed() {
    let breakers: Arc<Mutex<Option<Breakerbox>>> = Arc::default();
    let (inside, seen) = (Arc::clone(&breakers), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&seen);
    let service = Service::with(&simple(), |builder| {
        builder.observer(move |change| {
            let breakers = inside.lock().unwrap().clone().unwrap();
            let circuit = breakers.circuit(&change.key).unwrap();
            heard.lock().unwrap().push((circuit.status(), circuit.ask().is_ok()));
        })
    });
    *breakers.lock().unwrap() = Some(service.breakers.clone());
    service.tripped("e1");
    assert_eq!(*seen.lock().unwrap(), [(Status::Open, false)], "no lock is held");
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

#[test]
fn who_hears_of_dry_run_may_panic_too() {
    let service = Service::with(&simple(), |builder| {
        builder.dry_run(|_, _| std::panic::resume_unwind(Box::new("an observer")))
    });
    let circuit = service.tripped("e1");
    assert!(circuit.ask().is_ok());
    assert_eq!(service.breakers.counts().observer_panics, 1);
}
