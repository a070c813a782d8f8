//! The closed state: rows 1, 9, 10 and 11, every trip rule, and the window.

use breakerbox_core::{
    CircuitStatus, Decision, Mode, Outcome, OverrideCommand, Policy, Settlement, Timestamp, TripRule,
};

use crate::rig::{Rig, at, failed, ms, ok, secs, simple};

#[test]
fn row_01_a_trip_opens_clears_the_window_and_starts_a_new_epoch() {
    let mut rig = Rig::new(simple());
    rig.now = at(5_000);
    let epoch = rig.record().epoch;
    rig.fail(2);
    assert_eq!((rig.status(), rig.changes.len()), (CircuitStatus::Closed, 0));
    rig.fail(1);
    let change = rig.only_change();
    assert_eq!((change.from, change.to, change.at), (CircuitStatus::Closed, CircuitStatus::Open, at(5_000)));
    assert_eq!(change.retry_at, Some(at(35_000)));
    assert_eq!((change.trips, change.epoch), (1, rig.record().epoch));
    assert!(rig.record().epoch > epoch);
    assert_eq!(rig.record().opened_at, Some(at(5_000)));
    assert_eq!(rig.circuit.totals(rig.now).calls(), 0);
}

#[test]
fn row_01_each_rule_trips_by_its_own_name() {
    let none = || Policy::builder().failure_rate(None).consecutive_failures(None).min_calls(4);
    let slow_ok = Outcome::success(ms(500));
    let table = [
        (none().failure_rate(50), vec![ok(), ok(), failed(), failed()], TripRule::FailureRate),
        (none().failures(2), vec![failed(), ok(), failed()], TripRule::Failures),
        (
            none().consecutive_failures(2),
            vec![failed(), ok(), failed(), failed()],
            TripRule::ConsecutiveFailures,
        ),
        (none().mean_latency(ms(500)), vec![slow_ok; 4], TripRule::MeanLatency),
        (none().slow_call(ms(500)).slow_rate(50), vec![slow_ok, slow_ok, ok(), ok()], TripRule::SlowRate),
    ];
    for (policy, outcomes, rule) in table {
        let mut rig = Rig::new(policy);
        let (last, before) = outcomes.split_last().unwrap();
        for outcome in before {
            rig.call(outcome);
            assert_eq!(rig.status(), CircuitStatus::Closed, "{rule}");
        }
        rig.call(last);
        assert_eq!((rig.status(), rig.rule()), (CircuitStatus::Open, rule));
    }
}

#[test]
fn row_01_a_success_can_complete_the_evidence() {
    let policy = Policy::builder().min_calls(4).failure_rate(75).consecutive_failures(None);
    let mut rig = Rig::new(policy);
    rig.fail(3);
    assert_eq!(rig.status(), CircuitStatus::Closed, "only three calls");
    rig.succeed(1);
    assert_eq!(rig.rule(), TripRule::FailureRate);
}

#[test]
fn row_01_retry_after_counts_if_it_is_longer_and_never_beyond_the_maximum() {
    let table = [(None, 30), (Some(10), 30), (Some(30), 30), (Some(90), 90), (Some(86_400), 600)];
    for (retry_after, expected) in table {
        let mut rig = Rig::new(simple());
        rig.fail(2);
        let outcome = retry_after.map_or(failed(), |after| failed().with_retry_after(secs(after)));
        rig.call(&outcome);
        assert_eq!(rig.record().retry_at, Some(at(expected * 1_000)), "retry after {retry_after:?} s");
    }
}

#[test]
fn row_01_an_earlier_retry_after_is_not_remembered() {
    let mut rig = Rig::new(simple());
    rig.call(&failed().with_retry_after(secs(500)));
    rig.fail(2);
    assert_eq!(rig.record().retry_at, Some(at(30_000)));
}

#[test]
fn row_01_cool_off_grows_with_each_trip() {
    let mut rig = Rig::new(simple());
    for expected in [30, 60, 120, 240, 480, 600, 600] {
        let failures = if rig.status() == CircuitStatus::Closed { 3 } else { 1 };
        rig.fail(failures);
        let retry_at = rig.record().retry_at.unwrap();
        assert_eq!(retry_at.since(rig.now), secs(expected));
        rig.now = retry_at;
    }
}

#[test]
fn row_01_the_circuit_stays_open_at_least_as_long_as_the_call_took() {
    // Latency of the call that trips, the cool-off in seconds, and the maximum cool-off.
    for (latency, expected, max) in [(10, 30, 600), (29_000, 30, 600), (45_000, 45, 600), (45_000, 40, 40)] {
        let mut rig = Rig::new(simple().cool_off_max(secs(max)));
        rig.fail(2);
        rig.call(&Outcome::failure(ms(latency)));
        assert_eq!(rig.record().retry_at, Some(at(expected * 1_000)), "{latency} ms");
    }
    let mut rig = Rig::new(simple());
    rig.call(&Outcome::failure(secs(90)));
    rig.fail(2);
    assert_eq!(rig.record().retry_at, Some(at(30_000)), "only the call that trips counts");
    let slow =
        Policy::builder().failure_rate(None).consecutive_failures(None).mean_latency(secs(5)).jitter(0);
    let mut rig = Rig::new(slow.min_calls(1));
    rig.call(&Outcome::success(secs(7)));
    assert_eq!(rig.record().retry_at, Some(at(7_000)), "a success that trips is a call too");
}

#[test]
fn row_07_a_probe_that_takes_long_to_fail_is_not_repeated_at_once() {
    let (mut rig, probe) = Rig::half_open(simple().cool_off(secs(1)).cool_off_factor(1.5));
    rig.now = rig.now + secs(9);
    rig.settle(probe, &Outcome::failure(secs(9)));
    assert_eq!(rig.record().retry_at, Some(rig.now + secs(9)), "cool_off(2) is 1.5 s");
}

#[test]
fn row_10_a_trip_from_closed_waits_for_at_most_30_s() {
    // The first cool-off, the number of failed probes, and the cool-off of the next trip from closed.
    for (cool_off, failed_probes, expected) in
        [(secs(1), 2, ms(3_375)), (secs(1), 12, secs(30)), (secs(20), 1, secs(30)), (secs(45), 3, secs(45))]
    {
        let mut rig = Rig::new(simple().cool_off(cool_off).cool_off_factor(1.5));
        rig.fail(3);
        for _ in 0..failed_probes {
            rig.now = rig.record().retry_at.unwrap();
            rig.fail(1);
        }
        rig.now = rig.record().retry_at.unwrap();
        rig.succeed(1);
        rig.fail(3);
        assert_eq!(rig.record().trips, failed_probes + 2, "it flaps");
        let from_closed = rig.record().retry_at.unwrap().since(rig.now);
        assert_eq!(from_closed, expected, "{cool_off:?}");
        rig.now = rig.record().retry_at.unwrap();
        rig.fail(1);
        let after_probe = rig.record().retry_at.unwrap().since(rig.now);
        assert!(after_probe > from_closed, "only a failed probe goes beyond: {after_probe:?}");
    }
    let mut rig = Rig::new(simple());
    rig.fail(2);
    rig.call(&failed().with_retry_after(secs(90)));
    assert_eq!(rig.record().retry_at, Some(at(90_000)), "a retry-after may be longer");
}

#[test]
fn row_09_a_failure_in_flight_at_the_trip_moves_no_deadline() {
    let mut rig = Rig::new(simple());
    let before = rig.permit();
    rig.fail(3);
    let record = rig.record();
    rig.now = at(10_000);
    assert_eq!(rig.settle(before, &failed().with_retry_after(secs(500))), Settlement::Late);
    assert_eq!(rig.record(), record);
    assert_eq!(rig.changes.len(), 1);
}

#[test]
fn row_09_outcomes_of_before_a_recovery_do_not_count_after_it() {
    let mut rig = Rig::new(simple());
    let old: Vec<_> = (0..5).map(|_| rig.permit()).collect();
    rig.fail(3);
    rig.now = at(30_000);
    rig.succeed(1);
    assert_eq!(rig.status(), CircuitStatus::Closed);
    for permit in old {
        assert_eq!(rig.settle(permit, &failed()), Settlement::Late);
    }
    assert_eq!((rig.status(), rig.circuit.totals(rig.now).calls()), (CircuitStatus::Closed, 0));
}

/// Trips the circuit, lets it recover at once, and returns the time at which it closed.
fn tripped_once(rig: &mut Rig) -> Timestamp {
    rig.fail(3);
    rig.now = rig.record().retry_at.unwrap();
    rig.succeed(1);
    assert_eq!((rig.status(), rig.record().trips), (CircuitStatus::Closed, 1));
    rig.now
}

#[test]
fn row_10_trips_are_forgiven_after_a_long_time_closed() {
    // Ten cool-offs of 30 s, or `forgive_after` if that is shorter.
    for (policy, forgiven) in [(simple(), secs(300)), (simple().forgive_after(secs(120)), secs(120))] {
        for (closed_for, trips) in [(forgiven - ms(1), 2), (forgiven, 1)] {
            let mut rig = Rig::new(policy.clone());
            let closed_at = tripped_once(&mut rig);
            rig.now = closed_at + closed_for;
            rig.fail(3);
            assert_eq!(rig.record().trips, trips, "after {closed_for:?}");
            assert_eq!(rig.record().retry_at, Some(rig.now + secs(30)), "at most 30 s from closed");
        }
    }
}

#[test]
fn row_10_ten_of_the_last_cool_off_without_its_jitter() {
    for (failed_probes, closed_ms, trips) in [
        (0, 9_999, 2),
        (0, 10_000, 1),
        (1, 14_999, 3),
        (1, 15_000, 1),
        (2, 22_499, 4),
        (2, 22_500, 1),
        (20, 599_999, 22),
        (20, 600_000, 1),
    ] {
        let mut rig = Rig::new(simple().cool_off(secs(1)).cool_off_factor(1.5).jitter(50));
        rig.fail(3);
        for _ in 0..failed_probes {
            rig.now = rig.record().retry_at.unwrap();
            rig.fail(1);
        }
        rig.now = rig.record().retry_at.unwrap();
        rig.succeed(1);
        rig.now = rig.now + ms(closed_ms);
        rig.fail(3);
        assert_eq!(rig.record().trips, trips, "{failed_probes} failed probes, closed for {closed_ms} ms");
    }
}

#[test]
fn row_10_a_circuit_that_flaps_keeps_its_trips() {
    let mut rig = Rig::new(simple());
    let closed_at = tripped_once(&mut rig);
    rig.now = closed_at + secs(299);
    rig.fail(3);
    assert_eq!(rig.record().trips, 2);
    rig.now = rig.record().retry_at.unwrap();
    rig.fail(1);
    assert_eq!(rig.record().retry_at, Some(rig.now + secs(120)), "the third trip");
}

#[test]
fn row_10_only_time_spent_closed_forgives() {
    let (mut rig, _lost) = Rig::half_open(simple());
    rig.now = at(700_000);
    rig.fail(1);
    assert_eq!(rig.record().trips, 2, "more than ten minutes half-open forgive nothing");
}

#[test]
fn row_11_the_trip_that_reaches_the_limit_disables_at_once() {
    let mut rig = Rig::new(simple().disable_after(2));
    rig.fail(3);
    rig.now = at(30_000);
    rig.changes.clear();
    rig.fail(1);
    let last = rig.changes.last().unwrap();
    assert_eq!((last.from, last.to, last.retry_at), (CircuitStatus::HalfOpen, CircuitStatus::Disabled, None));
    let Mode::Disabled(by) = &rig.record().mode else { panic!("{:?}", rig.record().mode) };
    assert_eq!((by.actor(), by.reason()), ("breakerbox", "2 trips, and no success for 30s"));
    rig.now = at(10_000_000);
    assert_eq!(rig.refusal().name(), "disabled");
}

#[test]
fn row_11_from_closed_it_is_one_change() {
    let mut rig = Rig::new(simple().disable_after(1));
    rig.fail(3);
    assert_eq!(
        (rig.only_change().from, rig.only_change().to),
        (CircuitStatus::Closed, CircuitStatus::Disabled)
    );
    assert_eq!(rig.rule(), TripRule::ConsecutiveFailures);
}

#[test]
fn row_11_it_must_have_failed_for_disable_min() {
    for (trips_at, to) in [(159_999, CircuitStatus::Open), (160_000, CircuitStatus::Disabled)] {
        let mut rig = Rig::new(simple().window(secs(3_600)).disable_after(1).disable_min(secs(60)));
        rig.succeed(1);
        rig.now = at(100_000);
        rig.fail(1);
        rig.now = at(trips_at);
        rig.fail(2);
        assert_eq!(rig.status(), to, "failing since 100 s; the success long before does not count");
        let record = rig.record();
        assert_eq!((record.last_success, record.failing_since), (Some(at(0)), Some(at(100_000))));
    }
    // An endpoint that is used once a week and was down for a minute must not be disabled.
    let mut rig = Rig::new(simple().disable_after(1).disable_min(secs(3_600)));
    rig.succeed(1);
    rig.now = at(7 * 86_400_000);
    rig.fail(3);
    assert_eq!(rig.status(), CircuitStatus::Open);
}

#[test]
fn a_success_ends_what_began_before_it() {
    let mut rig = Rig::new(simple().disable_after(1).disable_min(secs(60)));
    rig.fail(2);
    rig.now = at(50_000);
    rig.succeed(1);
    let record = rig.record();
    assert_eq!((record.last_success, record.failing_since), (Some(at(50_000)), None));
    rig.now = at(61_000);
    rig.fail(3);
    assert_eq!(rig.status(), CircuitStatus::Open);
}

#[test]
fn enable_and_reset_forget_since_when_it_fails() {
    for (command, kept) in [
        (OverrideCommand::Release, Some(at(0))),
        (OverrideCommand::Enable, None),
        (OverrideCommand::Reset, None),
        (OverrideCommand::ForceOpen, Some(at(0))),
    ] {
        let mut rig = Rig::new(simple());
        rig.fail(3);
        rig.apply_override(OverrideCommand::Disable);
        rig.now = at(1_000);
        rig.apply_override(command);
        assert_eq!(rig.record().failing_since, kept, "{command:?}");
    }
}

#[test]
fn row_11_until_there_is_a_success_the_first_failure_counts() {
    let mut rig = Rig::new(simple().disable_after(2).disable_min(secs(60)));
    rig.now = at(1_000_000);
    rig.fail(3);
    rig.now = rig.now + secs(30);
    rig.fail(1);
    assert_eq!((rig.status(), rig.record().trips), (CircuitStatus::Open, 2), "failing since 30 s ago");
    assert_eq!(rig.record().last_success, None, "there was none");
    rig.now = rig.now + secs(60);
    rig.fail(1);
    assert_eq!(rig.status(), CircuitStatus::Disabled);
}

#[test]
fn row_11_a_first_failure_that_is_a_probe_counts_too() {
    let mut rig = Rig::new(simple().disable_after(1).disable_min(secs(60)));
    rig.apply_override(OverrideCommand::ForceOpen);
    rig.apply_override(OverrideCommand::Release);
    rig.fail(1);
    let record = rig.record();
    assert_eq!(
        (rig.status(), record.last_success, record.failing_since),
        (CircuitStatus::Open, None, Some(at(0)))
    );
}

#[test]
fn ignored_outcomes_count_nowhere() {
    let mut rig = Rig::new(simple());
    for _ in 0..3 {
        assert_eq!(rig.call(&Outcome::ignored()), Settlement::Uncounted);
        rig.fail(1);
    }
    assert_eq!(rig.status(), CircuitStatus::Open, "and they do not break a run of failures");
}

#[test]
fn the_window_slides_after_a_long_healthy_time() {
    let mut rig = Rig::new(Policy::builder().window(secs(1)).consecutive_failures(None));
    rig.succeed(10_000);
    rig.now = at(1_100);
    rig.fail(9);
    assert_eq!(rig.status(), CircuitStatus::Closed);
    rig.fail(1);
    assert_eq!(rig.rule(), TripRule::FailureRate, "the 10,000 successes have left the window");
}

#[test]
fn a_burst_of_failures_in_a_millisecond_trips() {
    let mut rig = Rig::new(Policy::builder().consecutive_failures(None));
    rig.succeed(3_000);
    let mut permits: Vec<_> = (0..3_000).map(|_| rig.permit()).collect();
    rig.now = at(1);
    while rig.status() == CircuitStatus::Closed {
        rig.settle(permits.pop().expect("trips before the burst is over"), &failed());
    }
    assert!(permits.is_empty(), "at exactly half");
}

#[test]
fn a_policy_change_keeps_state_and_counts_and_applies_from_the_next_outcome() {
    let mut rig = Rig::new(simple());
    rig.fail(2);
    rig.policy = simple().consecutive_failures(2).build().unwrap();
    assert!(matches!(rig.try_acquire(), Decision::Admitted(_)), "nothing trips by itself");
    assert_eq!(rig.circuit.totals(rig.now).failures, 2);
    rig.fail(1);
    assert_eq!(rig.status(), CircuitStatus::Open);
    let retry_at = rig.record().retry_at;
    rig.policy = simple().cool_off(secs(1)).build().unwrap();
    rig.now = at(29_999);
    assert_eq!(rig.refusal().retry_at(), retry_at, "no deadline moves");
}

#[test]
fn a_policy_change_of_the_window_keeps_the_counts() {
    // The run of failures does not depend on the window.
    let counting = || simple().consecutive_failures(None).failures(3);
    let mut rig = Rig::new(counting());
    rig.fail(1);
    rig.now = at(50_000);
    rig.policy = counting().window(secs(3_600)).build().unwrap();
    rig.fail(1);
    rig.now = at(3_000_000);
    rig.fail(1);
    assert_eq!(rig.status(), CircuitStatus::Open, "a minute would have forgotten the first two");

    let mut rig = Rig::new(counting());
    rig.fail(2);
    rig.now = at(61_000);
    rig.policy = counting().window(secs(3_600)).build().unwrap();
    rig.fail(1);
    assert_eq!(rig.circuit.totals(rig.now).failures, 1, "what the old window had lost stays lost");

    let mut rig = Rig::new(counting());
    rig.fail(2);
    rig.now = at(7_000);
    rig.policy = counting().window(secs(5)).build().unwrap();
    rig.fail(1);
    assert_eq!(rig.circuit.totals(rig.now).failures, 1, "too old for the new window");
}

#[test]
fn jitter_spreads_the_cool_off() {
    let mut rig = Rig::new(simple().jitter(10));
    rig.fail(3);
    // The rig uses small numbers as random bits, which give the lowest jitter.
    assert_eq!(rig.record().retry_at, Some(at(27_000)));
}

#[test]
fn a_closed_circuit_without_memory_is_forgettable() {
    let mut rig = Rig::new(simple());
    rig.fail(2);
    assert!(rig.record().is_forgettable(&rig.policy, rig.now));
    let closed_at = {
        rig.succeed(1);
        tripped_once(&mut rig)
    };
    assert!(!rig.record().is_forgettable(&rig.policy, closed_at + secs(299)), "it remembers a trip");
    assert!(rig.record().is_forgettable(&rig.policy, closed_at + secs(300)));
    rig.fail(3);
    assert!(!rig.record().is_forgettable(&rig.policy, rig.now + secs(6_000)), "it is open");
}
