//! The presets behave like the systems that they are named after, without those systems' faults.

use breakerbox_core::{
    Cause, CircuitBy, CircuitStatus, Outcome, Policy, PolicyBuilder, Preset, Refusal, Sample, Settlement,
    TripRule,
};

use crate::rig::{Rig, at, failed, ms, ok, secs};

fn preset(preset: Preset) -> PolicyBuilder {
    Policy::builder().preset(preset).jitter(0)
}

#[test]
fn the_numbers() {
    let policy = |p| preset(p).build().unwrap();
    let rules = |p: &Policy| {
        (p.failure_rate(), p.failures(), p.consecutive_failures(), p.mean_latency(), p.slow_rate())
    };

    let convoy = policy(Preset::Convoy);
    assert_eq!(rules(&convoy), (Some(70), None, None, None, None));
    assert_eq!((convoy.window(), convoy.min_calls(), convoy.cool_off()), (secs(300), 10, secs(30)));
    assert_eq!((convoy.recovery_rate(), convoy.disable_after()), (5, Some(10)));

    let reminders = policy(Preset::Reminders);
    assert_eq!(rules(&reminders), (None, Some(20), Some(5), Some(secs(5)), None));
    assert_eq!((reminders.window(), reminders.cool_off()), (secs(60), secs(300)));
    assert_eq!(Preset::Reminders.circuit_by(), CircuitBy::Tenant);

    let redis_lua = policy(Preset::RedisLua);
    assert_eq!(rules(&redis_lua), (None, Some(5), None, None, None));
    assert_eq!((redis_lua.window(), redis_lua.cool_off()), (secs(60), secs(30)));
    assert_eq!(redis_lua.probe_timeout(), secs(5));

    let stoplight = policy(Preset::Stoplight);
    assert_eq!(rules(&stoplight), (None, None, Some(3), None, None));
    assert_eq!((stoplight.window(), stoplight.cool_off()), (Policy::default().window(), secs(60)));

    for p in Preset::ALL {
        assert_eq!((policy(p).cool_off_factor(), policy(p).probes()), (1.0, 1), "{p}");
        assert_eq!(p.name().parse(), Ok(p));
    }
}

#[test]
fn convoy_disables_a_zombie() {
    let mut rig = Rig::with_policy(preset(Preset::Convoy).build_for_sampling().unwrap());
    let mut states = vec![];
    for tick in 0..200 {
        rig.now = at(tick * 15_000);
        states.extend(rig.sample(0, 20).map(|change| change.to));
    }
    assert_eq!(states.iter().filter(|status| **status == CircuitStatus::Open).count(), 9);
    assert_eq!(states.last(), Some(&CircuitStatus::Disabled));
}

#[test]
fn reminders_opens_a_slow_tenant_and_one_with_many_errors() {
    let mut slow = Rig::new(preset(Preset::Reminders));
    for _ in 0..10 {
        slow.call(&Outcome::success(secs(5)));
    }
    assert_eq!(slow.rule(), TripRule::MeanLatency);
    assert_eq!(slow.record().retry_at, Some(at(300_000)));

    let mut failing = Rig::new(preset(Preset::Reminders));
    for _ in 0..19 {
        failing.succeed(3);
        failing.fail(1);
    }
    assert_eq!(failing.status(), CircuitStatus::Closed);
    failing.fail(1);
    assert_eq!(failing.rule(), TripRule::Failures);

    let mut quiet = Rig::new(preset(Preset::Reminders));
    for hour in 0..5 {
        quiet.now = at(hour * 3_600_000);
        assert_eq!(quiet.status(), CircuitStatus::Closed);
        quiet.fail(1);
    }
    assert_eq!(quiet.rule(), TripRule::ConsecutiveFailures);
}

#[test]
fn reminders_tests_with_one_call_instead_of_letting_the_flood_back_in() {
    let mut rig = Rig::new(preset(Preset::Reminders));
    rig.fail(5);
    rig.now = at(300_000);
    let probe = rig.permit();
    assert!((0..1_000).all(|_| matches!(rig.refusal(), Refusal::Probing { .. })));
    rig.settle(probe, &failed());
    assert_eq!(rig.record().retry_at, Some(at(600_000)), "its cool-off does not grow");
}

#[test]
fn reminders_counts_every_call_of_a_millisecond() {
    let mut rig = Rig::new(preset(Preset::Reminders).failures(5_000).consecutive_failures(None));
    rig.fail(4_999);
    assert_eq!(rig.circuit.totals(rig.now).failures, 4_999, "no collisions, whatever the rate");
}

#[test]
fn redis_lua_trips_at_the_fifth_failure_in_its_window() {
    let mut rig = Rig::new(preset(Preset::RedisLua));
    for second in [0, 20, 40, 59] {
        rig.now = at(second * 1_000);
        rig.fail(1);
        rig.succeed(5);
    }
    rig.now = at(59_999);
    rig.fail(1);
    assert_eq!(rig.rule(), TripRule::Failures);
}

#[test]
fn redis_lua_forgets_what_left_the_window_but_no_more() {
    let mut rig = Rig::new(preset(Preset::RedisLua));
    rig.fail(1);
    rig.now = at(59_000);
    rig.fail(3);
    rig.now = at(61_000);
    rig.fail(1);
    assert_eq!(rig.status(), CircuitStatus::Closed, "the first failure has left");
    rig.fail(1);
    assert_eq!(rig.status(), CircuitStatus::Open, "the three of two seconds ago have not");
}

#[test]
fn redis_lua_gives_one_probe_token_for_as_long_as_the_probe_may_take() {
    let mut rig = Rig::new(preset(Preset::RedisLua));
    rig.fail(5);
    rig.now = at(30_000);
    let lost = rig.permit();
    rig.now = at(36_999);
    assert_eq!(rig.refusal().name(), "probing");
    rig.now = at(37_000);
    assert!(rig.permit().is_probe());
    assert_eq!(rig.settle(lost, &ok()), Settlement::Late, "an old token's result changes nothing");
}

#[test]
fn stoplight_trips_at_three_in_a_row_and_a_success_starts_the_count_again() {
    let mut rig = Rig::new(preset(Preset::Stoplight));
    for _ in 0..10 {
        rig.fail(2);
        rig.succeed(1);
    }
    rig.fail(2);
    assert_eq!(rig.status(), CircuitStatus::Closed);
    rig.fail(1);
    assert_eq!(rig.rule(), TripRule::ConsecutiveFailures);
    assert_eq!(rig.record().retry_at, Some(at(60_000)));
}

#[test]
fn stoplight_counts_failures_that_are_far_apart() {
    let mut rig = Rig::new(preset(Preset::Stoplight));
    for day in [0, 2, 4] {
        rig.now = at(day * 24 * 3_600_000);
        rig.fail(1);
    }
    assert_eq!(rig.status(), CircuitStatus::Open);
}

#[test]
fn stoplight_serialises_recovery_and_a_crashed_prober_costs_a_lease_and_not_a_cool_off() {
    let mut rig = Rig::new(preset(Preset::Stoplight));
    rig.fail(3);
    rig.now = at(60_000);
    let crashed = rig.permit();
    rig.now = at(72_000);
    let next = rig.permit();
    assert!(next.is_probe(), "12 s after the first probe, well before another 60 s");
    rig.settle(next, &ok());
    assert_eq!(rig.status(), CircuitStatus::Closed);
    assert_eq!(rig.settle(crashed, &failed()), Settlement::Late);
}

#[test]
fn a_preset_turns_the_other_rules_off() {
    let mut rig = Rig::new(preset(Preset::RedisLua).failures(20));
    rig.fail(19);
    assert_eq!(rig.status(), CircuitStatus::Closed, "neither half of the calls nor five in a row matter");
    let mut rig = Rig::new(preset(Preset::Stoplight));
    for _ in 0..50 {
        rig.call(&Outcome::success(ms(60_000)));
    }
    assert_eq!(rig.status(), CircuitStatus::Closed);
}

#[test]
fn convoy_half_open_is_limited() {
    let mut rig = Rig::with_policy(preset(Preset::Convoy).build_for_sampling().unwrap());
    rig.sample(0, 10);
    rig.now = at(30_000);
    let admitted =
        (0..100).filter(|_| matches!(rig.try_acquire(), breakerbox_core::Decision::Admitted(_))).count();
    assert_eq!(admitted, 1);
    let sample = Sample::new(0, 1);
    let draw = rig.draw();
    let change = rig.circuit.sample(&sample, &rig.policy, draw, rig.now).unwrap().unwrap();
    assert_eq!(change.cause, Cause::RecoveryRateMissed);
}
