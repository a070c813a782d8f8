//! A process whose probe failed lets the others probe first, for no longer than the retry time in its refusals.

use std::time::Duration;

use breakerbox_core::fleet::Consistency;
use breakerbox_core::{CircuitStatus, Record, Refusal};

use crate::fleet_rig::Fleet;
use crate::rig::{failed, ms, ok, secs, simple};

const BOTH: [Consistency; 2] = [Consistency::LocalFirst, Consistency::Strict];

/// Returns a fleet whose circuit is open for `cool_off` because the first process's probe failed.
fn reopened(consistency: Consistency, cool_off: Duration) -> Fleet {
    let policy = simple().probes(3).cool_off(cool_off).cool_off_factor(1.0);
    let mut fleet = Fleet::with(3, &policy, consistency);
    fleet.trip();
    fleet.pass(cool_off);
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &failed());
    fleet.all_read();
    assert_eq!(fleet.status(1), CircuitStatus::Open);
    fleet
}

#[test]
fn a_broken_process_that_asks_most_often_keeps_nobody_from_recovering() {
    for consistency in BOTH {
        for cool_off in [secs(1), secs(30)] {
            let mut fleet = reopened(consistency, cool_off);
            let deadline = fleet.now + cool_off + secs(2);
            let mut broken_probes = 0;
            while fleet.store.record.as_ref().map(Record::status) != Some(CircuitStatus::Closed) {
                assert!(fleet.now < deadline, "{consistency:?}, {cool_off:?}: {broken_probes} failed probes");
                fleet.pass(ms(1));
                if let Ok(permit) = fleet.try_acquire(0) {
                    broken_probes += 1;
                    fleet.settle(0, permit, &failed());
                }
                // The others acquire every 20 ms, one after another.
                let tick = fleet.now.as_micros() / 1_000;
                if tick.is_multiple_of(10)
                    && let n = if tick.is_multiple_of(20) { 1 } else { 2 }
                    && let Ok(permit) = fleet.try_acquire(n)
                {
                    fleet.settle(n, permit, &ok());
                }
            }
            assert_eq!(broken_probes, 0, "{consistency:?}, {cool_off:?}");
        }
    }
}

#[test]
fn it_stands_back_for_a_tenth_of_the_cool_off_within_bounds() {
    for consistency in BOTH {
        for (cool_off, delay) in [
            (ms(400), ms(200)),
            (secs(1), ms(250)),
            (secs(10), secs(1)),
            (secs(20), secs(2)),
            (secs(600), secs(2)),
        ] {
            let mut fleet = reopened(consistency, cool_off);
            let may_ask_at = fleet.now + cool_off + delay;
            fleet.pass(cool_off);
            let Err(Refusal::Open { retry_at, retry_in }) = fleet.try_acquire(0) else {
                panic!("{consistency:?}, {cool_off:?}")
            };
            assert_eq!((retry_at, retry_in), (may_ask_at, delay));
            fleet.pass(retry_in - ms(1));
            assert!(fleet.try_acquire(0).is_err(), "{consistency:?}, {cool_off:?}");
            fleet.pass(ms(1));
            // No other process acquired, so all probes are its own, one directly after another.
            for _ in 0..3 {
                let probe = fleet.try_acquire(0).unwrap();
                assert!(probe.is_probe());
                fleet.settle(0, probe, &ok());
            }
            assert_eq!(fleet.status(0), CircuitStatus::Closed, "{consistency:?}, {cool_off:?}");
        }
    }
}

#[test]
fn it_stands_back_longest_once_a_probe_of_another_process_succeeded() {
    for consistency in BOTH {
        let mut fleet = reopened(consistency, secs(10));
        fleet.pass(secs(12));
        // Another process turned the circuit half-open long after the cool-off, and has probed once.
        let probe = fleet.try_acquire(1).unwrap();
        fleet.settle(1, probe, &ok());
        fleet.read(0);
        let Err(Refusal::Probing { retry_in, .. }) = fleet.try_acquire(0) else { panic!("{consistency:?}") };
        assert_eq!(retry_in, secs(2), "{consistency:?}");
        fleet.pass(retry_in);
        assert!(fleet.try_acquire(0).unwrap().is_probe(), "{consistency:?}: nobody else came");
    }
}

#[test]
fn only_the_process_whose_probe_failed_last_stands_back() {
    for consistency in BOTH {
        let mut fleet = reopened(consistency, secs(10));
        fleet.pass(secs(10));
        let probe = fleet.try_acquire(1).unwrap();
        fleet.settle(1, probe, &failed());
        fleet.all_read();
        fleet.pass(secs(10));
        assert!(fleet.try_acquire(1).is_err(), "{consistency:?}");
        assert!(fleet.try_acquire(0).unwrap().is_probe(), "{consistency:?}");
    }
}

#[test]
fn nobody_stands_back_where_there_are_no_others() {
    // No other process uses the store.
    let policy = simple().cool_off(secs(10)).cool_off_factor(1.0);
    let mut fleet = Fleet::new(2, &policy);
    fleet.members[0] = fleet.members[0].clone().exclusive();
    fleet.trip();
    fleet.pass(secs(10));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &failed());
    fleet.pass(secs(10));
    assert!(fleet.try_acquire(0).unwrap().is_probe());

    // The store becomes unavailable before the next half-open state, or was unavailable when the probe failed.
    let mut fleet = reopened(Consistency::LocalFirst, secs(10));
    fleet.members[0].leave();
    for _ in 0..2 {
        fleet.pass(secs(10));
        let probe = fleet.try_acquire(0).unwrap();
        assert!(probe.is_probe());
        fleet.settle(0, probe, &failed());
    }
}
