//! Many keys: limits, eviction, and circuits that are never evicted.

use breakerbox::{Attribution, CircuitStatus, Mode, OverrideCommand, OverrideError, Refusal, TenantLimit};

use crate::service::{Service, fail, secs, simple, succeed};

#[test]
fn the_same_key_is_the_same_circuit() {
    let service = Service::new(&simple());
    fail(&service.circuit("e1"), 2);
    fail(&service.circuit("e1"), 1);
    assert_eq!(service.circuit("e1").status(), CircuitStatus::Open);
    assert_eq!((service.circuit("e2").status(), service.breakers.len()), (CircuitStatus::Closed, 2));
}

#[test]
fn idle_circuits_go_and_open_ones_stay() {
    let service = Service::with(&simple(), |builder| builder.max_circuits(1_000));
    for n in 0..1_000 {
        let circuit = service.circuit(&format!("key {n}"));
        if n % 2 == 0 { fail(&circuit, 3) } else { succeed(&circuit, 3) }
    }
    assert!(!service.circuit("one more").is_controlled(), "all are in use");
    service.clock.advance(secs(61));
    for n in 0..400 {
        assert!(
            service.circuit(&format!("new {n}")).is_controlled(),
            "of 500 idle ones none went for new {n}"
        );
    }
    assert!(service.breakers.len() <= 1_000);
    for n in (0..1_000).step_by(2) {
        assert_eq!(
            service.circuit(&format!("key {n}")).status(),
            CircuitStatus::Open,
            "key {n} forgot its failures"
        );
    }
}

#[test]
fn a_circuit_in_somebodys_hands_is_not_evicted() {
    let service = Service::with(&simple(), |builder| builder.max_circuits(64));
    let held: Vec<_> = (0..64).map(|n| service.circuit(&format!("held {n}"))).collect();
    service.clock.advance(secs(3_600));
    assert!(!service.circuit("one more").is_controlled());
    fail(&held[0], 2);
    fail(&service.circuit("held 0"), 1);
    assert_eq!(held[0].status(), CircuitStatus::Open, "it is still the one circuit of its key");
}

#[test]
fn without_room_calls_are_admitted_and_counted_as_such() {
    let service = Service::with(&simple(), |builder| builder.max_circuits(0));
    let circuit = service.circuit("e1");
    fail(&circuit, 10);
    succeed(&circuit, 1);
    assert_eq!(
        (circuit.status(), circuit.key(), circuit.is_controlled()),
        (CircuitStatus::Closed, "e1", false)
    );
    assert_eq!(service.breakers.counts().uncontrolled, 11);
    let by = Attribution::new("ops", "stop it").unwrap();
    assert_eq!(
        circuit.try_override(OverrideCommand::ForceOpen, &by),
        Err(OverrideError::NoRoom),
        "an order is not lost in silence"
    );
}

#[test]
fn overrides_survive_eviction() {
    let service = Service::with(&simple(), |builder| builder.max_circuits(64));
    let by = Attribution::new("ops", "maintenance").unwrap();
    let orders = [
        ("forced", OverrideCommand::ForceOpen),
        ("free", OverrideCommand::ForceClosed),
        ("off", OverrideCommand::Disable),
    ];
    for (key, command) in orders {
        service.circuit(key).try_override(command, &by).unwrap();
    }
    for n in 0..1_000 {
        assert!(service.circuit(&format!("passes by {n}")).is_controlled());
        service.clock.advance(secs(100));
    }
    assert_eq!(service.circuit("forced").try_acquire().unwrap_err(), Refusal::ForcedOpen);
    assert_eq!(service.circuit("off").try_acquire().unwrap_err(), Refusal::Disabled);
    assert!(matches!(service.circuit("free").record().mode, Mode::ForcedClosed(_)));
}

#[test]
fn all_circuits_can_be_gone_through() {
    let service = Service::new(&simple());
    for n in 0..200 {
        let circuit = service.circuit(&format!("key {n}"));
        if n % 10 == 0 {
            fail(&circuit, 3);
        }
    }
    let (mut all, mut open) = (0, 0);
    service.breakers.for_each(|circuit| {
        all += 1;
        // No lock is held, so a circuit can be looked up.
        open += u32::from(service.circuit(circuit.key()).status() == CircuitStatus::Open);
    });
    assert_eq!((all, open), (200, 20));
}

#[test]
fn trips_are_forgotten_when_they_are_forgiven_and_not_before() {
    let service = Service::new(&simple().forgive_after(secs(300)));
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    succeed(&circuit, 1);
    let epoch = circuit.record().epoch;
    service.clock.advance(secs(299));
    service.breakers.tidy();
    assert_eq!(circuit.record().trips, 1);
    service.clock.advance(secs(1));
    service.breakers.tidy();
    let record = circuit.record();
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

#[test]
fn a_tenant_beyond_its_limit_loses_its_own_idle_circuits_and_no_others() {
    let limit = TenantLimit { circuits: 100, bytes: usize::MAX };
    let service = Service::with(&simple(), |builder| builder.max_circuits(1_000).tenant_limit(limit));
    let key = |tenant: &str, n: u32| format!("{tenant} https://{n}.example");
    for n in 0..50 {
        succeed(&service.circuit(&key("quiet", n)), 1);
    }
    service.clock.advance(secs(61));
    for n in 0..100 {
        succeed(&service.circuit(&key("loud", n)), 1);
    }
    let over = service.circuit(&key("loud", 100));
    assert!(!over.is_controlled() && service.breakers.tenant_is_full(over.key()));
    assert!(service.circuit(&key("other", 0)).is_controlled(), "others have room");
    assert_eq!(service.breakers.len(), 151, "no idle circuit of another tenant went");
    service.clock.advance(secs(61));
    let fresh = (200..300).filter(|n| service.circuit(&key("loud", *n)).is_controlled()).count();
    assert!(fresh > 50, "its own idle ones went: {fresh}");
    let mut of = [0, 0];
    service.breakers.for_each(|circuit| of[usize::from(circuit.key().starts_with("loud "))] += 1);
    assert!(of[1] <= 100, "{of:?}");
    assert_eq!(of[0], 51, "and none of another's");
}

#[test]
fn a_tenant_is_limited_in_bytes_too() {
    let limit = TenantLimit { circuits: usize::MAX, bytes: 64 << 10 };
    let service = Service::with(&simple(), |builder| builder.tenant_limit(limit));
    let controlled = |length: usize| {
        let tenant = format!("t{length}");
        let key = |n: u32| format!("{tenant} {n} {}", "k".repeat(length));
        // The handles are kept, so that none of these circuits can be evicted.
        let circuits: Vec<_> = (0..100).map(|n| service.circuit(&key(n))).collect();
        circuits.iter().filter(|circuit| circuit.is_controlled()).count()
    };
    let (short, long) = (controlled(10), controlled(900));
    assert!((20..=32).contains(&short) && long * 2 < short, "{short} {long}");
}
