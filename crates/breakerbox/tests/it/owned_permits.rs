//! Owned permits behave like borrowed ones.

use breakerbox::{Breakerbox, CircuitStatus, Outcome, OwnedPermit, Refusal, Settlement};

use crate::service::{Service, secs, simple};

#[test]
fn it_is_settled_once_whichever_way() {
    type Settle = fn(OwnedPermit) -> Settlement;
    let table: [(&str, Settle, Settlement, (u64, u64)); 5] = [
        ("success", OwnedPermit::success, Settlement::Counted, (1, 0)),
        ("failure", OwnedPermit::failure, Settlement::Counted, (0, 1)),
        ("retry_after", |permit| permit.failure_with_retry_after(secs(1)), Settlement::Counted, (0, 1)),
        ("ignored", OwnedPermit::ignored, Settlement::Uncounted, (0, 0)),
        ("outcome", |permit| permit.settle(Outcome::failure(secs(1))), Settlement::Counted, (0, 1)),
    ];
    for (name, settle, settlement, counted) in table {
        let service = Service::new(&simple());
        let circuit = service.circuit("e1");
        assert_eq!(settle(circuit.try_acquire_owned().unwrap()), settlement, "{name}");
        let totals = circuit.totals();
        assert_eq!((totals.successes, totals.failures), counted, "{name}");
    }
}

#[test]
fn the_destinations_word_is_heard() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    for _ in 0..3 {
        circuit.try_acquire_owned().unwrap().failure_with_retry_after(secs(120));
    }
    assert!(
        matches!(circuit.try_acquire_owned(), Err(Refusal::Open { retry_in, .. }) if retry_in == secs(120))
    );
}

#[test]
fn it_outlives_its_handle_and_moves_to_another_thread() {
    let service = Service::new(&simple());
    let permit = service.tripped_and_cooled("e1").try_acquire_owned().unwrap();
    assert!(permit.is_probe());
    assert_eq!(permit.time_left(), Some(secs(10)));
    assert!(matches!(service.circuit("e1").try_acquire_owned(), Err(Refusal::Probing { .. })));
    std::thread::spawn(move || permit.success()).join().unwrap();
    assert_eq!(service.circuit("e1").status(), CircuitStatus::Closed);
}

#[test]
fn dropped_it_is_cancelled_or_a_failure() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    for (waits, failures) in [(0, 0), (1, 1)] {
        let permit = circuit.try_acquire_owned().unwrap();
        service.clock.advance(secs(waits));
        drop(permit);
        assert_eq!(circuit.totals().failures, failures);
    }
    let circuit = service.tripped_and_cooled("e2");
    drop(circuit.try_acquire_owned().unwrap());
    assert!(
        circuit.try_acquire_owned().unwrap().is_probe(),
        "a probe that was dropped at once left its lease"
    );
}

#[test]
fn without_room_for_a_circuit_it_counts_nowhere() {
    let breakers = Breakerbox::builder().max_circuits(0).build();
    let permit = breakers.circuit("e1").unwrap().try_acquire_owned().unwrap();
    assert!(!permit.circuit().is_controlled());
    assert_eq!(permit.failure(), Settlement::Uncounted);
}
