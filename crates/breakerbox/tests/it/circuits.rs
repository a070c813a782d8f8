//! One circuit's public API: counting, tripping, recovering, dropping, overriding.

use std::time::Duration;

use breakerbox::{
    Attribution, CircuitStatus, Outcome, OverrideCommand, Policy, Refusal, Settlement, TripRule,
};

use crate::service::{Service, fail, secs, simple, succeed};

#[test]
fn a_whole_life() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    assert!(matches!(circuit.try_acquire(), Err(Refusal::Open { retry_in, .. }) if retry_in == secs(30)));
    service.clock.advance(secs(30));
    let probe = circuit.try_acquire().unwrap();
    assert!(probe.is_probe());
    assert_eq!(probe.time_left(), Some(secs(10)));
    assert!(matches!(circuit.try_acquire(), Err(Refusal::Probing { .. })));
    assert_eq!(probe.success(), Settlement::Counted);
    assert_eq!(circuit.status(), CircuitStatus::Closed);
    let states: Vec<_> = service.changes().into_iter().map(|(_, status)| status).collect();
    assert_eq!(states, [CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Closed]);
}

#[test]
fn every_success_is_counted_whatever_the_way() {
    let service = Service::new(&Policy::builder());
    let circuit = service.circuit("e1");
    succeed(&circuit, 200_000);
    assert_eq!(circuit.totals().successes, 200_000, "more than one tally holds");
    service.clock.advance(secs(30));
    succeed(&circuit, 5);
    assert_eq!(circuit.totals().successes, 200_005);
    service.clock.advance(secs(30));
    assert_eq!(circuit.totals().successes, 5);
}

#[test]
fn a_success_can_complete_the_evidence() {
    let service = Service::new(&Policy::builder().min_calls(4).failure_rate(75).consecutive_failures(None));
    let circuit = service.circuit("e1");
    fail(&circuit, 3);
    assert_eq!(circuit.status(), CircuitStatus::Closed);
    succeed(&circuit, 1);
    assert_eq!(circuit.status(), CircuitStatus::Open);
}

#[test]
fn old_successes_that_leave_the_window_let_a_success_trip() {
    let service = Service::new(&Policy::builder().consecutive_failures(None));
    let circuit = service.circuit("e1");
    succeed(&circuit, 100);
    service.clock.advance(secs(50));
    fail(&circuit, 60);
    assert_eq!(circuit.status(), CircuitStatus::Closed, "60 of 160");
    service.clock.advance(secs(12));
    succeed(&circuit, 1);
    assert_eq!(circuit.status(), CircuitStatus::Open, "60 of 61");
}

#[test]
fn slow_successes_are_noticed() {
    let slow = Policy::builder().min_calls(4).slow_call(secs(1)).slow_rate(50).ramp_cap(None);
    let mean = Policy::builder().min_calls(4).mean_latency(secs(1)).ramp_cap(None);
    for (policy, rule) in [(slow, TripRule::SlowRate), (mean, TripRule::MeanLatency)] {
        let service = Service::new(&policy);
        let circuit = service.circuit("e1");
        for millis in [100, 100, 2_000, 2_000] {
            assert_eq!(circuit.status(), CircuitStatus::Closed);
            let permit = circuit.try_acquire().unwrap();
            service.clock.advance(Duration::from_millis(millis));
            permit.success();
        }
        assert_eq!(circuit.status(), CircuitStatus::Open, "{rule}");
    }
}

#[test]
fn quick_successes_count_for_the_mean() {
    let service = Service::new(&Policy::builder().min_calls(2).mean_latency(secs(1)));
    let circuit = service.circuit("e1");
    for _ in 0..10 {
        let permit = circuit.try_acquire().unwrap();
        service.clock.advance(Duration::from_millis(100));
        permit.success();
    }
    assert_eq!(circuit.totals().latency_sum, secs(1));
    let permit = circuit.try_acquire().unwrap();
    service.clock.advance(secs(9));
    permit.success();
    assert_eq!(circuit.status(), CircuitStatus::Closed, "ten seconds in eleven calls");
}

#[test]
fn dropped_permits_are_cancelled_or_failures() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    drop(circuit.try_acquire());
    assert_eq!(circuit.totals().calls(), 0);
    for _ in 0..3 {
        let permit = circuit.try_acquire();
        service.clock.advance(secs(1));
        drop(permit);
    }
    assert_eq!(circuit.status(), CircuitStatus::Open);
}

#[test]
fn outcomes_can_be_settled_as_measured() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    assert_eq!(circuit.try_acquire().unwrap().ignored(), Settlement::Uncounted);
    assert_eq!(circuit.try_acquire().unwrap().settle(Outcome::failure(secs(1))), Settlement::Counted);
    fail(&circuit, 1);
    circuit.try_acquire().unwrap().failure_with_retry_after(secs(90));
    assert!(matches!(circuit.try_acquire(), Err(Refusal::Open { retry_in, .. }) if retry_in == secs(90)));
}

#[test]
fn operators_are_obeyed() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    let by = Attribution::new("ops", "a drill").unwrap();
    assert!(circuit.try_override(OverrideCommand::ForceOpen, &by).unwrap().is_some());
    assert_eq!(circuit.try_acquire().unwrap_err(), Refusal::ForcedOpen);
    assert!(circuit.try_override(OverrideCommand::ForceClosed, &by).unwrap().is_some());
    assert_eq!(circuit.try_acquire().unwrap().failure(), Settlement::Uncounted);
    assert_eq!(circuit.try_acquire().unwrap().success(), Settlement::Uncounted);
    assert!(circuit.try_override(OverrideCommand::Reset, &by).unwrap().is_some());
    assert!(circuit.try_override(OverrideCommand::Release, &by).unwrap().is_none());
    assert_eq!(service.changes().len(), 3);
}

#[test]
fn traffic_comes_back_by_the_ramp() {
    let service = Service::new(&simple().ramp_cap(8));
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    succeed(&circuit, 1);
    for limit in [1, 2, 4] {
        let permits: Vec<_> = (0..limit).map(|_| circuit.try_acquire().unwrap()).collect();
        assert_eq!(circuit.try_acquire().unwrap_err(), Refusal::Ramping { in_flight: limit, limit });
        permits.into_iter().for_each(|permit| assert_eq!(permit.success(), Settlement::Counted));
    }
    let all: Vec<_> = (0..100).map(|_| circuit.try_acquire().unwrap()).collect();
    assert_eq!(all.len(), 100);
}

#[test]
fn dry_run_reports_and_refuses_nothing() {
    use std::sync::{Arc, Mutex};
    let refused = Arc::new(Mutex::new(Vec::new()));
    let event = Arc::clone(&refused);
    let service = Service::with(&simple(), |builder| {
        builder.dry_run(move |key, refusal| event.lock().unwrap().push((key.to_string(), refusal.name())))
    });
    let circuit = service.tripped("e1");
    assert_eq!(circuit.try_acquire().unwrap().failure(), Settlement::Uncounted);
    assert_eq!(*refused.lock().unwrap(), [("e1".to_string(), "open")]);
    service.clock.advance(secs(30));
    succeed(&circuit, 1);
    assert_eq!(circuit.status(), CircuitStatus::Closed, "it lives its whole life");
}

#[test]
fn a_call_on_a_closed_circuit_allocates_nothing() {
    let service = Service::new(&breakerbox::Policy::builder());
    let circuit = service.circuit("e1");
    succeed(&circuit, 10);
    let used = allocation_counter::measure(|| succeed(&circuit, 1_000));
    assert_eq!(used.count_total, 0);
}

#[test]
fn a_seed_makes_it_happen_again() {
    let versions = |seed: u64| {
        let service = Service::with(&simple(), |builder| builder.seed(seed));
        let circuits = ["c", "a", "b"].map(|key| service.tripped(key));
        let mut keys = Vec::new();
        service.breakers.for_each(|circuit| keys.push(circuit.key().to_owned()));
        assert_eq!(keys, ["a", "b", "c"], "gone through in order");
        circuits.map(|circuit| circuit.record().version)
    };
    assert_eq!(versions(7), versions(7));
    assert_ne!(versions(7), versions(8));
}
