//! Sampling mode: the rules for one tick, in every state.

use std::time::Duration;

use breakerbox_core::{
    Cause, Circuit, CircuitStatus, MissingLatencySum, Outcome, OverrideCommand, Policy, PolicyBuilder,
    Preset, RandomBits, RecentSample, Sample, Settlement, Span, TripRule,
};

use crate::rig::{Rig, at, ms, secs};

fn sampled(policy: PolicyBuilder) -> Rig {
    Rig::with_policy(policy.jitter(0).build_for_sampling().unwrap())
}

fn convoy() -> Rig {
    sampled(Policy::builder().preset(Preset::Convoy))
}

/// Returns a circuit that opened at time 0 and cools off until 30 s.
fn opened() -> Rig {
    let mut rig = convoy();
    assert_eq!(rig.sample(3, 7).unwrap().to, CircuitStatus::Open);
    rig
}

/// Returns a circuit that turned half-open at 30 s.
fn half_opened() -> Rig {
    let mut rig = opened();
    rig.now = at(30_000);
    assert_eq!(rig.sample(0, 50).unwrap().to, CircuitStatus::HalfOpen, "this tick's totals are not used");
    rig
}

#[test]
fn closed_trips_by_the_totals_of_the_tick() {
    for (successes, failures, trips) in
        [(3, 7, true), (4, 6, false), (0, 9, false), (0, 10, true), (0, 0, false)]
    {
        let change = convoy().sample(successes, failures);
        assert_eq!(change.is_some(), trips, "{successes} / {failures}");
        if let Some(change) = change {
            assert_eq!((change.to, change.retry_at), (CircuitStatus::Open, Some(at(30_000))));
            assert_eq!(change.cause, Cause::Rule(TripRule::FailureRate));
        }
    }
}

#[test]
fn ticks_are_not_added_up() {
    let mut rig = convoy();
    for _ in 0..10 {
        assert_eq!(rig.sample(0, 9), None, "a sampler's totals are already those of the window");
    }
}

#[test]
fn open_waits_for_its_time_and_then_turns_half_open_without_a_lease() {
    let mut rig = opened();
    rig.now = at(29_999);
    assert_eq!(rig.sample(100, 0), None);
    rig.now = at(30_000);
    let change = rig.sample(0, 100).unwrap();
    assert_eq!((change.to, change.cause), (CircuitStatus::HalfOpen, Cause::CoolOffOver));
    assert_eq!(rig.record().lease, None);
}

#[test]
fn half_open_closes_when_successes_reach_the_recovery_rate() {
    for (successes, failures, to) in
        [(1, 0, CircuitStatus::Closed), (1, 19, CircuitStatus::Closed), (1, 20, CircuitStatus::Open)]
    {
        let mut rig = half_opened();
        let change = rig.sample(successes, failures).unwrap();
        assert_eq!(change.to, to, "{successes} / {failures}");
    }
    let mut rig = half_opened();
    assert_eq!(rig.sample(1, 0).unwrap().cause, Cause::RecoveryRateMet);
    let mut rig = half_opened();
    let change = rig.sample(0, 1).unwrap();
    assert_eq!((change.cause, change.trips), (Cause::RecoveryRateMissed, 2));
}

#[test]
fn half_open_without_enough_traffic_stays_however_long() {
    let policy = Policy::builder().preset(Preset::Convoy).probes(5);
    let mut rig = sampled(policy);
    rig.sample(0, 10);
    rig.now = at(30_000);
    rig.sample(0, 0);
    for hour in 1..100 {
        rig.now = at(hour * 3_600_000);
        assert_eq!(rig.sample(0, 0), None);
        assert_eq!(rig.sample(2, 2), None);
    }
    assert_eq!(rig.status(), CircuitStatus::HalfOpen);
    assert_eq!(rig.sample(5, 0).unwrap().to, CircuitStatus::Closed);
}

#[test]
fn after_recovery_the_circuit_can_trip_again_by_the_next_window() {
    let mut rig = half_opened();
    rig.sample(10, 0);
    rig.now = at(60_000);
    assert_eq!(rig.sample(1, 30).unwrap().trips, 2, "and remembers its trips");
}

#[test]
fn repeated_trips_disable() {
    let mut rig = opened();
    for trip in 2..=10 {
        rig.now = rig.record().retry_at.unwrap();
        rig.sample(0, 0);
        let change = rig.sample(0, 5).unwrap();
        assert_eq!(change.trips, trip);
        assert_eq!(change.to, if trip < 10 { CircuitStatus::Open } else { CircuitStatus::Disabled });
    }
    rig.now = rig.now + secs(1_000_000);
    assert_eq!(rig.sample(100, 0), None, "until somebody enables it");
    rig.apply_override(OverrideCommand::Enable);
    assert_eq!(rig.sample(0, 0).unwrap().to, CircuitStatus::HalfOpen);
}

#[test]
fn a_recent_success_prevents_disabling() {
    for (trips_at, to) in [(69_999, CircuitStatus::Open), (70_000, CircuitStatus::Disabled)] {
        let mut rig = sampled(convoy_that_gives_up());
        rig.sample(0, 1);
        rig.now = at(5_000);
        rig.sample(1, 0);
        rig.now = at(10_000);
        rig.sample(0, 1);
        rig.now = at(trips_at);
        assert_eq!(rig.sample(0, 10).unwrap().to, to, "{trips_at}");
    }
}

#[test]
fn a_success_in_the_tick_that_trips_is_recent_too() {
    let mut rig = sampled(convoy_that_gives_up());
    rig.sample(1, 0);
    rig.now = at(100_000);
    assert_eq!(rig.sample(3, 7).unwrap().to, CircuitStatus::Open);
}

/// A policy that disables the circuit at the first trip, if it has failed for a minute.
fn convoy_that_gives_up() -> PolicyBuilder {
    Policy::builder().preset(Preset::Convoy).disable_after(1).disable_min(secs(60))
}

#[test]
fn until_there_is_a_success_the_first_sample_counts() {
    for (trips_at, to) in [(60_999, CircuitStatus::Open), (61_000, CircuitStatus::Disabled)] {
        let mut rig = sampled(convoy_that_gives_up());
        rig.now = at(1_000);
        rig.sample(0, 1);
        rig.now = at(trips_at);
        assert_eq!(rig.sample(0, 10).unwrap().to, to, "{trips_at}");
    }
}

#[test]
fn an_old_success_since_half_open_does_not_stay_new() {
    let mut rig = sampled(convoy_that_gives_up().disable_after(2).probes(5).recovery_rate(50));
    rig.sample(0, 10);
    rig.now = at(30_000);
    rig.sample(0, 0);
    for hour in 1..100 {
        rig.now = at(hour * 3_600_000);
        assert_eq!(rig.sample(1, 0), None, "the one success of the first hour, again and again");
    }
    assert_eq!(rig.record().last_success, Some(at(30_000)), "at the transition or later: nobody knows");
    assert_eq!(rig.sample(1, 10).unwrap().to, CircuitStatus::Disabled);
}

#[test]
fn what_must_not_count_leaves_no_trace() {
    let unchanged = |rig: &mut Rig, sample: Sample| {
        let (before, draw) = (rig.record(), rig.draw());
        let sampled = rig.circuit.sample(&sample, &rig.policy, draw, rig.now);
        assert_eq!(rig.record(), before);
        sampled
    };
    let good = Sample::new(9, 0);
    let mut overridden = convoy();
    overridden.apply_override(OverrideCommand::ForceClosed);
    assert_eq!(unchanged(&mut overridden, good), Ok(None));
    let mut cooling = opened();
    cooling.now = at(10_000);
    assert_eq!(unchanged(&mut cooling, good), Ok(None), "this tick's totals are not used");
    let mut latency = sampled(Policy::builder().preset(Preset::Reminders));
    assert_eq!(unchanged(&mut latency, good), Err(MissingLatencySum));
    assert_eq!(unchanged(&mut latency, Sample::default()), Ok(None), "no calls need no latencies");
}

#[test]
fn a_rarely_sampled_zombie_is_disabled_too() {
    let mut rig = sampled(Policy::builder().preset(Preset::Convoy).min_calls(1).disable_after(3));
    rig.sample(0, 1);
    for _ in 0..2 {
        rig.now = rig.now + secs(3_600);
        rig.sample(0, 1);
        rig.sample(0, 1);
    }
    assert_eq!(rig.status(), CircuitStatus::Disabled);
}

#[test]
fn overrides_hold_against_samples() {
    let mut rig = convoy();
    rig.apply_override(OverrideCommand::ForceClosed);
    assert_eq!(rig.sample(0, 1_000), None);
}

#[test]
fn mean_latency_needs_latencies() {
    let mut rig = sampled(Policy::builder().preset(Preset::Reminders));
    let draw = rig.draw();
    let mut sample = Sample::new(12, 0);
    let refused = rig.circuit.sample(&sample, &rig.policy, draw, rig.now);
    assert_eq!(refused, Err(MissingLatencySum));
    sample.latency_sum = Some(secs(60));
    let change = rig.circuit.sample(&sample, &rig.policy, draw, rig.now).unwrap().unwrap();
    assert_eq!(change.cause, Cause::Rule(TripRule::MeanLatency));
}

#[test]
fn workers_ask_as_ever_and_one_at_a_time_probes() {
    let mut rig = opened();
    rig.now = at(30_000);
    let probe = rig.permit();
    assert!(probe.is_probe(), "nobody waits for a tick");
    assert_eq!(rig.refusal().name(), "probing");
    assert_eq!(rig.settle(probe, &Outcome::ignored()), Settlement::Uncounted, "settling releases the lease");
    assert!(rig.permit().is_probe());
    assert_eq!(rig.sample(1, 0).unwrap().to, CircuitStatus::Closed, "the leader's tick decides");
    assert!(rig.circuit.ramp().is_none());
}

#[test]
fn nothing_counts_that_came_before_a_transition() {
    let over =
        |rig: &Rig, age: Duration| rig.record().sampled_over(&rig.policy, rig.record().changed_at + age);
    let window = Policy::builder().preset(Preset::Convoy).build().unwrap().window();
    let new = convoy();
    assert_eq!(over(&new, secs(1)), Span::Window, "nothing has happened to it");
    let mut rig = half_opened();
    assert_eq!(over(&rig, secs(1)), Span::StartedWithin(secs(1)));
    assert_eq!(over(&rig, window * 9), Span::StartedWithin(window * 9), "however long");
    rig.sample(1, 0);
    assert_eq!(rig.status(), CircuitStatus::Closed);
    assert_eq!(over(&rig, secs(1)), Span::FinishedWithin(secs(1)));
    assert_eq!(over(&rig, window - secs(1)), Span::FinishedWithin(window - secs(1)));
    assert_eq!(over(&rig, window), Span::Window, "then the window slides");
    assert_eq!(over(&opened(), secs(1)), Span::Unused);
    let mut overridden = half_opened();
    overridden.apply_override(OverrideCommand::ForceClosed);
    assert_eq!(over(&overridden, secs(1)), Span::Unused);
}

#[test]
fn nobody_settles_so_there_is_no_ramp() {
    let policy = Policy::builder().ramp_cap(8).build_for_sampling().unwrap();
    assert_eq!(policy.ramp_cap(), None);
    let mut rig = half_opened();
    rig.sample(1, 0);
    let elsewhere = Circuit::from_record(rig.record(), &rig.policy, rig.now);
    assert!(elsewhere.ramp().is_none(), "nor where the circuit is read from a store");
}

#[test]
fn a_healthy_past_does_not_hide_a_dead_destination() {
    let dead = RecentSample::new(0, 12);
    let sample = {
        let mut sample = Sample::new(500, 12);
        sample.recent = Some(dead);
        sample
    };
    let mut rig = convoy();
    let opened = rig.circuit.sample(&sample, &rig.policy, RandomBits(1), rig.now).unwrap().unwrap();
    assert_eq!((opened.to, opened.cause), (CircuitStatus::Open, Cause::Rule(TripRule::FailureRate)));
    let few = {
        let mut sample = sample;
        sample.recent = Some({
            let mut recent = dead;
            recent.failures = 9;
            recent
        });
        sample
    };
    assert_eq!(
        convoy().circuit.sample(&few, &rig.policy, RandomBits(1), rig.now),
        Ok(None),
        "min_calls is 10"
    );
    let off = sampled(Policy::builder().preset(Preset::Convoy).sample_recent(None));
    assert_eq!(convoy().circuit.sample(&sample, &off.policy, RandomBits(1), rig.now), Ok(None));
    let unknown = {
        let mut sample = sample;
        sample.recent = None;
        sample
    };
    assert_eq!(convoy().circuit.sample(&unknown, &rig.policy, RandomBits(1), rig.now), Ok(None));
}

#[test]
fn the_recent_part_needs_latencies_too() {
    let slow = {
        let mut recent = RecentSample::new(10, 0);
        recent.latency_sum = Some(secs(60));
        recent
    };
    let sample = {
        let mut sample = Sample::new(100, 0);
        sample.latency_sum = Some(secs(100));
        sample.recent = Some(slow);
        sample
    };
    let mut rig = sampled(Policy::builder().preset(Preset::Reminders));
    let missing = {
        let mut sample = sample;
        sample.recent = Some({
            let mut recent = slow;
            recent.latency_sum = None;
            recent
        });
        sample
    };
    assert_eq!(rig.circuit.sample(&missing, &rig.policy, RandomBits(1), rig.now), Err(MissingLatencySum));
    let opened = rig.circuit.sample(&sample, &rig.policy, RandomBits(1), rig.now).unwrap().unwrap();
    assert_eq!(opened.cause, Cause::Rule(TripRule::MeanLatency));
}

#[test]
fn runs_count_where_the_sampler_returns_them() {
    let policy = Policy::builder().build_for_sampling_with_runs().unwrap();
    assert_eq!(policy.consecutive_failures(), Some(5), "the default");
    assert!(Policy::builder().preset(Preset::Stoplight).build_for_sampling_with_runs().is_ok());
    let run = |length| {
        let mut sample = Sample::new(500, length);
        sample.failure_run = Some(length);
        sample
    };
    for (length, trips) in [(4, false), (5, true)] {
        let mut rig = Rig::with_policy(policy.clone());
        let change = rig.circuit.sample(&run(length), &policy, RandomBits(1), rig.now).unwrap();
        assert_eq!(
            change.map(|change| change.cause),
            trips.then_some(Cause::Rule(TripRule::ConsecutiveFailures))
        );
    }
}

#[test]
fn samples_know_neither_order_nor_slowness() {
    let error = |builder: PolicyBuilder| builder.build_for_sampling().unwrap_err().to_string();
    assert_eq!(
        error(Policy::builder().consecutive_failures(3)),
        "consecutive_failures: has no input in sampling mode, unless the sampler returns runs of failures (SqlTable::count_runs); omit it, or set it to \"off\""
    );
    assert_eq!(error(Policy::builder().slow_call(ms(1)).slow_rate(10)).split(':').next(), Some("slow_rate"));
    assert!(Policy::builder().consecutive_failures(None).slow_rate(None).build_for_sampling().is_ok());
    assert!(error(Policy::builder().preset(Preset::Stoplight)).starts_with("policy: no trip rule"));
    let policy = Policy::builder().build_for_sampling().unwrap();
    assert_eq!((policy.failure_rate(), policy.consecutive_failures()), (Some(50), None));
}
