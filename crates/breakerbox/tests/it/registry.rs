//! Many keys: bounds, eviction, and what is never forgotten.

use breakerbox::Status;

use crate::service::{Service, fail, secs, simple, succeed};

#[test]
fn the_same_key_is_the_same_circuit() {
    let service = Service::new(&simple());
    fail(&service.circuit("e1"), 2);
    fail(&service.circuit("e1"), 1);
    assert_eq!(service.circuit("e1").status(), Status::Open);
    assert_eq!((service.circuit("e2").status(), service.breakers.len()), (Status::Closed, 2));
}

#[test]
fn idle_circuits_go_and_open_ones_stay() {
    let service = Service::with(&simple(), |builder| builder.max_circuits(1_000));
    for n in 0..1_000 {
        let circuit = service.circuit(&format!("key {n}"));
        if n % 2 == 0 { fail(&circuit, 3) } else { succeed(&circuit, 3) }
    }
    assert_eq!(service.circuit("one more").key(), None, "all are in use");
    service.clock.advance(secs(61));
    for n in 0..400 {
        assert!(
            service.circuit(&format!("new {n}")).key().is_some(),
            "of 500 idle ones none went for new {n}"
        );
    }
    assert!(service.breakers.len() <= 1_000);
    for n in (0..1_000).step_by(2) {
        assert_eq!(
            service.circuit(&format!("key {n}")).status(),
            Status::Open,
            "key {n} forgot its failures"
        );
    }
}

#[test]
fn a_circuit_in_somebodys_hands_is_not_evicted() {
    let service = Service::with(&simple(), |builder| builder.max_circuits(64));
    let held: Vec<_> = (0..64).map(|n| service.circuit(&format!("held {n}"))).collect();
    service.clock.advance(secs(3_600));
    assert_eq!(service.circuit("one more").key(), None);
    fail(&held[0], 2);
    fail(&service.circuit("held 0"), 1);
    assert_eq!(held[0].status(), Status::Open, "it is still the one circuit of its key");
}

#[test]
fn without_room_calls_are_admitted_and_counted_as_such() {
    let service = Service::with(&simple(), |builder| builder.max_circuits(0));
    let circuit = service.circuit("e1");
    fail(&circuit, 10);
    succeed(&circuit, 1);
    assert_eq!((circuit.status(), circuit.record()), (Status::Closed, None));
    assert_eq!(service.breakers.counts().uncontrolled, 1);
}

#[test]
fn trips_are_forgotten_when_they_are_forgiven_and_not_before() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    succeed(&circuit, 1);
    let epoch = circuit.record().unwrap().epoch;
    service.clock.advance(secs(599));
    service.breakers.tidy();
    assert_eq!(circuit.record().unwrap().trips, 1);
    service.clock.advance(secs(1));
    service.breakers.tidy();
    let record = circuit.record().unwrap();
    assert_eq!(record.trips, 0);
    assert!(record.epoch >= epoch, "epochs only grow");
}

#[test]
fn many_threads_find_one_circuit() {
    let service = Service::new(&simple());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..1_000 {
                    succeed(&service.circuit(&format!("key {}", n % 100)), 1);
                }
            });
        }
    });
    assert_eq!(service.breakers.len(), 100);
    let total: u64 = (0..100).map(|n| service.circuit(&format!("key {n}")).totals().successes).sum();
    assert_eq!(total, 8_000, "no success is lost between threads");
}

#[test]
fn threads_in_each_others_way_lose_nothing() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| succeed(&circuit, 50_000));
        }
    });
    assert_eq!(circuit.totals().successes, 400_000);
}
