//! The open state: rows 2 and 3, and a clock that steps back.

use breakerbox_core::{Cause, CircuitStatus, Decision, LEASE_MARGIN, OverrideCommand, Refusal, Settlement};

use crate::rig::{Rig, at, failed, ms, ok, secs};

#[test]
fn row_02_an_ask_before_retry_at_is_told_when_to_come_back() {
    let mut rig = Rig::open();
    for (now, retry_in) in [(0, 30_000), (12_000, 18_000), (29_999, 1)] {
        rig.now = at(now);
        assert_eq!(rig.refusal(), Refusal::Open { retry_at: at(30_000), retry_in: ms(retry_in) });
    }
    assert_eq!((rig.status(), rig.changes.len()), (CircuitStatus::Open, 0));
}

#[test]
fn row_03_the_first_ask_from_retry_at_on_is_the_probe() {
    let mut rig = Rig::open();
    let before = rig.record();
    rig.now = at(30_000);
    let permit = rig.permit();
    assert!(permit.is_probe());
    assert_eq!(permit.deadline(), Some(at(40_000)));
    let change = rig.only_change();
    assert_eq!((change.from, change.to), (CircuitStatus::Open, CircuitStatus::HalfOpen));
    assert_eq!((&change.cause, change.retry_at), (&Cause::CoolOffOver, None));
    let record = rig.record();
    assert!(record.epoch > before.epoch && record.version != before.version);
    assert_eq!(record.probe_successes, 0);
    assert_eq!(record.lease.unwrap().expires_at, rig.now + secs(10) + LEASE_MARGIN);
}

#[test]
fn row_03_nobody_needs_to_come_on_time() {
    let mut rig = Rig::open();
    rig.now = at(86_400_000);
    assert!(rig.permit().is_probe());
}

#[test]
fn row_03_of_a_hundred_askers_one_probes() {
    let mut rig = Rig::open();
    rig.now = at(30_000);
    let probes = (0..100).filter(|_| matches!(rig.try_acquire(), Decision::Admitted(_))).count();
    assert_eq!(probes, 1);
}

#[test]
fn row_09_a_late_success_does_not_close() {
    let mut rig = Rig::new(crate::rig::simple());
    let late = rig.permit();
    rig.fail(3);
    let record = rig.record();
    assert_eq!(rig.settle(late, &ok()), Settlement::Late);
    assert_eq!(rig.record(), record);
}

#[test]
fn a_clock_that_steps_back_keeps_the_cool_off_as_long_as_it_was() {
    let mut rig = Rig::new(crate::rig::simple());
    rig.now = at(10_000_000);
    rig.fail(3);
    rig.now = at(1_000_000);
    let (epoch, version) = (rig.record().epoch, rig.record().version);
    assert_eq!(rig.refusal(), Refusal::Open { retry_at: at(1_030_000), retry_in: secs(30) });
    assert_eq!(rig.record().epoch, epoch, "no transition");
    assert_ne!(rig.record().version, version, "but a write");
    let expected = {
        let mut record = rig.record();
        record.opened_at = Some(at(1_000_000));
        record.retry_at = Some(at(1_030_000));
        record.last_success = None;
        record.failing_since = Some(at(1_000_000));
        record.changed_at = at(1_000_000);
        record
    };
    assert_eq!(rig.record(), expected);
    assert_eq!(rig.refusal().retry_at(), Some(at(1_030_000)), "shifted once");
    rig.now = at(1_030_000);
    assert!(rig.permit().is_probe());
    assert!(rig.record().epoch > epoch, "the epoch grows although the clock went back");
}

#[test]
fn a_clock_that_steps_back_does_not_disturb_a_closed_circuit() {
    let mut rig = Rig::new(crate::rig::simple());
    rig.now = at(10_000_000);
    rig.apply_override(OverrideCommand::Reset);
    rig.now = at(1_000);
    rig.fail(2);
    assert_eq!(rig.record().changed_at, at(1_000));
    rig.fail(1);
    assert_eq!(rig.record().retry_at, Some(at(31_000)));
}

#[test]
fn a_clock_that_steps_back_keeps_the_lease_as_long_as_it_was() {
    let (mut rig, probe) = Rig::half_open(crate::rig::simple());
    rig.now = at(1_000);
    assert_eq!(rig.refusal(), Refusal::Probing { retry_at: at(13_000), retry_in: secs(12) });
    assert_eq!(rig.settle(probe, &failed()), Settlement::Counted);
    assert_eq!(rig.status(), CircuitStatus::Open);
}
