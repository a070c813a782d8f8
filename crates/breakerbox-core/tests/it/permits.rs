//! Permits: drops, deadlines, and dry-run.

use breakerbox_core::{CircuitStatus, Outcome, Refusal, Settlement};

use crate::rig::{Rig, at, failed, ms, ok, simple};

#[test]
fn a_permit_dropped_within_the_grace_is_cancelled() {
    let mut rig = Rig::new(simple());
    let permit = rig.permit();
    rig.now = at(999);
    assert_eq!(rig.drop_permit(permit), Settlement::Uncounted);
    assert_eq!(rig.circuit.totals(rig.now).calls(), 0);
}

#[test]
fn a_permit_dropped_later_is_a_failure_that_took_that_long() {
    let mut rig = Rig::new(simple().mean_latency(ms(9_000)));
    let permit = rig.permit();
    rig.now = at(1_000);
    assert_eq!(rig.drop_permit(permit), Settlement::Counted);
    let totals = rig.circuit.totals(rig.now);
    assert_eq!((totals.failures, totals.latency_sum), (1, ms(1_000)));
}

#[test]
fn without_a_grace_every_dropped_permit_is_a_failure() {
    let mut rig = Rig::new(simple().cancel_grace(ms(0)));
    for _ in 0..3 {
        let permit = rig.permit();
        assert_eq!(rig.drop_permit(permit), Settlement::Counted);
    }
    assert_eq!(rig.status(), CircuitStatus::Open);
}

#[test]
fn a_hanging_destination_trips_although_every_call_is_given_up() {
    let mut rig = Rig::new(simple());
    let permits: Vec<_> = (0..3).map(|_| rig.permit()).collect();
    rig.now = at(5_000);
    permits.into_iter().for_each(|permit| assert_eq!(rig.drop_permit(permit), Settlement::Counted));
    assert_eq!(rig.status(), CircuitStatus::Open);
}

#[test]
fn a_probe_says_when_it_is_too_late_to_start() {
    let (_, probe) = Rig::half_open(simple());
    assert_eq!(probe.started_at(), at(30_000));
    assert!(!probe.is_past_deadline(at(39_999)));
    assert!(probe.is_past_deadline(at(40_000)));
    let ordinary = Rig::new(simple()).permit();
    assert!(!ordinary.is_past_deadline(at(u64::MAX)));
}

#[test]
fn dry_run_admits_what_it_would_refuse_and_does_not_count_it() {
    let mut rig = Rig::open();
    let before = rig.circuit.clone();
    let (permit, refused) = rig.try_acquire().observe_only(rig.now);
    assert!(matches!(refused, Some(Refusal::Open { .. })));
    assert_eq!(rig.settle(permit, &ok()), Settlement::Uncounted);
    assert_eq!(rig.circuit, before);
}

#[test]
fn dry_run_lives_the_whole_life_of_a_circuit() {
    let mut rig = Rig::new(simple());
    for second in 0..100 {
        rig.now = at(second * 1_000);
        let broken = second < 20;
        let (permit, _) = rig.try_acquire().observe_only(rig.now);
        rig.settle(permit, &if broken { failed() } else { ok() });
    }
    let states: Vec<_> = rig.changes.iter().map(|change| change.to).collect();
    assert_eq!(states, [CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Closed]);
}

#[test]
fn dry_run_counts_what_it_would_admit() {
    let mut rig = Rig::new(simple());
    let (permit, refused) = rig.try_acquire().observe_only(rig.now);
    assert_eq!(refused, None);
    assert_eq!(rig.settle(permit, &Outcome::failure(ms(1))), Settlement::Counted);
}
