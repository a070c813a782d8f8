//! The half-open state: rows 4 to 9. One probe at a time, and only its own result counts.

use breakerbox_core::{Cause, CircuitStatus, Epoch, Outcome, RandomBits, Refusal, Settlement};

use crate::rig::{Rig, at, failed, ok, secs, simple};

#[test]
fn row_04_while_a_probe_is_under_way_everyone_else_waits() {
    let (mut rig, _probe) = Rig::half_open(simple());
    for (now, retry_in) in [(30_000, 12_000), (41_999, 1)] {
        rig.now = at(now);
        let expected =
            Refusal::Probing { retry_at: at(42_000), retry_in: std::time::Duration::from_millis(retry_in) };
        assert_eq!(rig.refusal(), expected);
    }
    assert!(rig.changes.is_empty());
}

#[test]
fn row_05_an_expired_lease_goes_to_the_next_asker_with_a_new_nonce() {
    let (mut rig, _lost) = Rig::half_open(simple());
    let (epoch, version, lease) = (rig.record().epoch, rig.record().version, rig.record().lease.unwrap());
    rig.now = at(42_000);
    let next = rig.permit();
    assert!(next.is_probe());
    assert_eq!(next.deadline(), Some(at(52_000)));
    assert_ne!(rig.record().lease.unwrap().nonce, lease.nonce);
    assert_ne!(rig.record().version, version);
    assert_eq!((rig.record().epoch, rig.changes.len()), (epoch, 0), "not a transition");
}

#[test]
fn row_05_a_released_lease_goes_to_the_next_asker_at_once() {
    let (mut rig, probe) = Rig::half_open(simple());
    rig.settle(probe, &Outcome::ignored());
    assert!(rig.permit().is_probe());
}

#[test]
fn row_06_enough_successes_close() {
    let (mut rig, probe) = Rig::half_open(simple().probes(3));
    let epoch = rig.record().epoch;
    let version = rig.record().version;
    assert_eq!(rig.settle(probe, &ok()), Settlement::Counted);
    assert_eq!((rig.status(), rig.record().probe_successes), (CircuitStatus::HalfOpen, 1));
    assert_eq!((rig.record().lease, rig.record().epoch), (None, epoch));
    assert_ne!(rig.record().version, version);
    rig.succeed(1);
    assert_eq!((rig.status(), rig.changes.len()), (CircuitStatus::HalfOpen, 0));
    rig.succeed(1);
    let change = rig.only_change();
    assert_eq!((change.from, change.to), (CircuitStatus::HalfOpen, CircuitStatus::Closed));
    assert_eq!((&change.cause, change.trips), (&Cause::ProbesSucceeded, 1));
    assert!(rig.record().epoch > epoch);
    assert_eq!(rig.ramp(), (0, 1), "the ramp begins");
    assert_eq!(rig.circuit.totals(rig.now).calls(), 0, "the window is empty");
    assert_eq!(rig.record().last_success, Some(rig.now));
}

#[test]
fn row_06_a_success_at_the_leases_last_moment_counts() {
    let (mut rig, probe) = Rig::half_open(simple());
    rig.now = at(41_999);
    assert_eq!(rig.settle(probe, &ok()), Settlement::Counted);
    assert_eq!(rig.status(), CircuitStatus::Closed);
}

#[test]
fn row_06_a_restart_of_half_open_counts_successes_from_zero() {
    let (mut rig, probe) = Rig::half_open(simple().probes(2));
    rig.settle(probe, &ok());
    rig.fail(1);
    rig.now = rig.record().retry_at.unwrap();
    rig.succeed(1);
    assert_eq!(rig.status(), CircuitStatus::HalfOpen);
    rig.succeed(1);
    assert_eq!(rig.status(), CircuitStatus::Closed);
}

#[test]
fn row_07_a_failed_probe_opens_for_longer() {
    let (mut rig, probe) = Rig::half_open(simple());
    assert_eq!(rig.settle(probe, &failed()), Settlement::Counted);
    let change = rig.only_change();
    assert_eq!((change.from, change.to), (CircuitStatus::HalfOpen, CircuitStatus::Open));
    assert_eq!((&change.cause, change.trips), (&Cause::ProbeFailed, 2));
    assert_eq!(change.retry_at, Some(at(30_000) + secs(60)));
    assert_eq!(rig.record().lease, None);
}

#[test]
fn row_07_retry_after_is_heard_from_a_probe_too() {
    let (mut rig, probe) = Rig::half_open(simple());
    rig.settle(probe, &failed().with_retry_after(secs(500)));
    assert_eq!(rig.record().retry_at, Some(at(530_000)));
}

#[test]
fn row_08_an_ignored_probe_frees_the_lease_and_counts_nothing() {
    let (mut rig, probe) = Rig::half_open(simple());
    let before = rig.record();
    assert_eq!(rig.settle(probe, &Outcome::ignored()), Settlement::Uncounted);
    let after = rig.record();
    assert_eq!((after.lease, after.probe_successes), (None, 0));
    assert_eq!((after.epoch, after.last_success), (before.epoch, before.last_success));
    assert_ne!(after.version, before.version);
    assert!(rig.changes.is_empty());
}

#[test]
fn row_08_needs_the_nonce_and_no_live_lease() {
    let (mut rig, probe) = Rig::half_open(simple());
    rig.now = at(50_000);
    assert_eq!(rig.settle(probe, &Outcome::ignored()), Settlement::Uncounted);
    assert_eq!(rig.record().lease, None);
}

#[test]
fn row_09_a_record_knows_an_old_epoch_by_itself() {
    let (rig, _probe) = Rig::half_open(simple());
    let (record, nonce) = (rig.record(), rig.record().lease.unwrap().nonce);
    let settle = |epoch| record.settle_probe(epoch, nonce, &ok(), &rig.policy, RandomBits(9), rig.now);
    assert!(settle(record.epoch).is_some());
    assert_eq!(settle(Epoch(record.epoch.0 - 1)), None);
}

#[test]
fn row_08_a_cancelled_probe_frees_the_lease() {
    let (mut rig, probe) = Rig::half_open(simple());
    rig.now = at(30_999);
    assert_eq!(rig.drop_permit(probe), Settlement::Uncounted);
    assert_eq!(rig.status(), CircuitStatus::HalfOpen);
    assert!(rig.permit().is_probe());
}

#[test]
fn row_07_a_probe_dropped_after_the_grace_has_failed() {
    let (mut rig, probe) = Rig::half_open(simple());
    rig.now = at(31_000);
    assert_eq!(rig.drop_permit(probe), Settlement::Counted);
    assert_eq!(rig.status(), CircuitStatus::Open);
}

#[test]
fn row_09_a_result_after_the_lease_changes_nothing_whether_or_not_somebody_asked_meanwhile() {
    for outcome in [ok(), failed()] {
        for somebody_asks in [false, true] {
            let (mut rig, probe) = Rig::half_open(simple());
            rig.now = at(42_000);
            let _next = somebody_asks.then(|| rig.permit());
            let before = rig.record();
            assert_eq!(rig.settle(probe, &outcome), Settlement::Late);
            assert_eq!(rig.record(), before);
            assert!(rig.changes.is_empty());
        }
    }
}

#[test]
fn row_09_the_probe_of_an_earlier_round_changes_nothing() {
    for outcome in [ok(), failed(), Outcome::ignored()] {
        let (mut rig, first) = Rig::half_open(simple());
        rig.now = at(42_000);
        rig.fail(1);
        rig.now = rig.record().retry_at.unwrap();
        let _second = rig.permit();
        let before = rig.record();
        assert_eq!(rig.settle(first, &outcome), Settlement::Late);
        assert_eq!(rig.record(), before);
    }
}

#[test]
fn row_09_calls_admitted_while_closed_do_not_decide_a_recovery() {
    let mut rig = Rig::new(simple());
    let (old_success, old_failure) = (rig.permit(), rig.permit());
    rig.fail(3);
    rig.now = at(30_000);
    let _probe = rig.permit();
    let before = rig.record();
    assert_eq!(rig.settle(old_success, &ok()), Settlement::Late);
    assert_eq!(rig.settle(old_failure, &failed()), Settlement::Late);
    assert_eq!(rig.record(), before);
}

#[test]
fn what_tripped_it_is_known_until_it_closes() {
    let mut rig = Rig::new(simple());
    rig.succeed(2);
    rig.fail(3);
    let tripped = rig.only_change().evidence.clone().expect("it tripped by a rule");
    assert_eq!((tripped.successes, tripped.failures, tripped.failure_run), (2, 3, 3));
    for outcome in [failed(), ok()] {
        rig.now = rig.record().retry_at.unwrap();
        let probe = rig.permit();
        assert_eq!(rig.record().evidence, Some(tripped.clone()));
        rig.settle(probe, &outcome);
    }
    assert_eq!((rig.status(), rig.record().evidence), (CircuitStatus::Closed, None));
}
