//! Bad input yields a typed error that names the field, or a valid value, and never a panic.

use std::time::Duration;

use breakerbox::{
    Attribution, AttributionTooLong, CircuitBy, CircuitStatus, Clock, Key, KeyError, Outcome,
    OverrideCommand, Policy, PolicyBuilder, PolicyErrorReason, Refusal, Timestamp,
};

use crate::service::{Service, fail, secs, simple, succeed};

#[test]
fn keys_have_bounds() {
    let service = Service::new(&simple());
    let breakers = &service.breakers;
    assert_eq!(breakers.circuit("").unwrap_err(), KeyError::Empty);
    for length in [1_025, 10_000_000] {
        let key = "k".repeat(length);
        assert_eq!(breakers.circuit(&key).unwrap_err(), KeyError::TooLong { length });
        assert_eq!(Key::new(&key).unwrap_err(), KeyError::TooLong { length });
        assert_eq!(Key::of_tenant(&key).unwrap_err(), KeyError::TooLong { length });
    }
    assert!(breakers.is_empty(), "nothing is kept of a bad key");
    let (longest, strange) = ("k".repeat(1_024), "\0\n\u{202e} \u{fffd}");
    for key in [&longest, strange, " ", "tenant "] {
        fail(&service.circuit(key), 3);
        assert_eq!(
            service.circuit(key).status(),
            CircuitStatus::Open,
            "any other text is a key like any other"
        );
    }
}

#[test]
fn urls_have_bounds() {
    let key = |tenant: &str, url: &str| Key::of(tenant, url, CircuitBy::Endpoint).unwrap_err();
    let url = format!("https://example.com/{}", "x".repeat(10_000_000));
    assert_eq!(key("acme", &url), KeyError::UrlTooLong { length: url.len() });
    assert_eq!(key("acme", &url[..2_000]), KeyError::TooLong { length: 2_005 });
    assert_eq!(key("", "https://example.com"), KeyError::TenantEmpty);
    assert_eq!(key("a b", "https://example.com"), KeyError::TenantCharacter);
    assert!(matches!(key("acme", ""), KeyError::NoScheme));
}

#[test]
fn a_policy_for_a_key_that_can_not_be_is_an_error() {
    let service = Service::new(&simple());
    let strict = || Some(simple().consecutive_failures(1).build().unwrap());
    let huge = "k".repeat(10_000_000);
    let too_long = KeyError::TooLong { length: huge.len() };
    assert_eq!(service.breakers.set_key_policy("", strict()), Err(KeyError::Empty));
    assert_eq!(service.breakers.set_key_policy(&huge, strict()), Err(too_long));
    assert_eq!(service.breakers.set_tenant_policy("", strict()), Err(KeyError::TenantEmpty));
    assert_eq!(service.breakers.set_tenant_policy("a b", strict()), Err(KeyError::TenantCharacter));
    assert_eq!(service.breakers.set_tenant_policy(&huge, strict()), Err(too_long));
    fail(&service.circuit("e1"), 2);
    assert_eq!(service.circuit("e1").status(), CircuitStatus::Closed);
}

#[test]
fn every_number_of_a_policy_has_bounds() {
    let base = Policy::builder;
    let century = secs(36_500 * 86_400);
    let too_long = century + Duration::from_micros(1);
    let zero = Duration::ZERO;
    let table: [(&str, &str, PolicyBuilder); 37] = [
        ("window", "must be longer than zero, such as \"60s\"", base().window(zero)),
        ("window", "must be at least 1ms", base().window(Duration::from_nanos(1))),
        ("window", "is too long; the longest is 36500d", base().window(too_long)),
        ("window", "is too long; the longest is 36500d", base().window(Duration::MAX)),
        ("min_calls", "must be 1 to 1000000000, but is 0", base().min_calls(0)),
        ("failure_rate", "must be 1 to 100, but is 0", base().failure_rate(0)),
        ("failure_rate", "must be 1 to 100, but is 101", base().failure_rate(101)),
        ("failure_rate", "must be 1 to 100, but is 256", base().failure_rate(256)),
        ("failure_rate", "must be 1 to 100, but is 18446744073709551615", base().failure_rate(u64::MAX)),
        ("failures", "must be 1 to 1000000000, but is 0", base().failures(0)),
        ("consecutive_failures", "must be 1 to 1000000000, but is 0", base().consecutive_failures(0)),
        ("mean_latency", "must be longer than zero, such as \"5s\"", base().mean_latency(zero)),
        ("mean_latency", "is too long; the longest is 36500d", base().mean_latency(Duration::MAX)),
        ("slow_call", "must be longer than zero, such as \"2s\"", base().slow_call(zero)),
        ("slow_rate", "must be 1 to 100, but is 0", base().slow_call(secs(1)).slow_rate(0)),
        ("slow_rate", "must be 1 to 100, but is 101", base().slow_call(secs(1)).slow_rate(101)),
        ("cool_off", "must be longer than zero, such as \"30s\"", base().cool_off(zero)),
        ("cool_off", "must be at most cool_off_max (5m), but is 11m", base().cool_off(secs(660))),
        ("cool_off_max", "must be longer than zero, such as \"5m\"", base().cool_off_max(zero)),
        ("cool_off_max", "is too long; the longest is 36500d", base().cool_off_max(Duration::MAX)),
        ("cool_off_factor", "must be a number of at least 1, but is 0.5", base().cool_off_factor(0.5)),
        ("cool_off_factor", "must be a number of at least 1, but is -2", base().cool_off_factor(-2.0)),
        ("cool_off_factor", "must be a number of at least 1, but is NaN", base().cool_off_factor(f64::NAN)),
        (
            "cool_off_factor",
            "must be a number of at least 1, but is inf",
            base().cool_off_factor(f64::INFINITY),
        ),
        ("jitter", "must be 0 to 100, but is 101", base().jitter(101)),
        ("probes", "must be 1 to 1000000, but is 0", base().probes(0)),
        ("probes", "must be 1 to 1000000, but is 4294967296", base().probes(1 << 32)),
        ("probe_timeout", "must be longer than zero, such as \"10s\"", base().probe_timeout(zero)),
        ("probe_timeout", "is too long; the longest is 36500d", base().probe_timeout(Duration::MAX)),
        ("ramp_cap", "must be 1 to 1000000, but is 0", base().ramp_cap(0)),
        ("ramp_cap", "must be 1 to 1000000, but is 18446744073709551615", base().ramp_cap(u64::MAX)),
        ("forgive_after", "must be longer than zero, such as \"10s\"", base().forgive_after(zero)),
        ("disable_after", "must be 1 to 1000000, but is 0", base().disable_after(0)),
        ("disable_min", "is too long; the longest is 36500d", base().disable_min(Duration::MAX)),
        ("cancel_grace", "is too long; the longest is 36500d", base().cancel_grace(Duration::MAX)),
        ("recovery_rate", "must be 1 to 100, but is 0", base().recovery_rate(0)),
        ("recovery_rate", "must be 1 to 100, but is 101", base().recovery_rate(101)),
    ];
    for (field, reason, builder) in table {
        let error = builder.build().unwrap_err();
        assert_eq!((error.field(), error.reason().to_string().as_str()), (field, reason));
        assert_eq!(error.to_string(), format!("{field}: {reason}"));
    }
    let no_rule = base().failure_rate(None).consecutive_failures(None).build().unwrap_err();
    assert_eq!((no_rule.field(), no_rule.reason()), ("policy", &PolicyErrorReason::NoRule));
    let half_a_rule = base().slow_rate(50).build().unwrap_err();
    assert_eq!((half_a_rule.field(), half_a_rule.reason()), ("slow_rate", &PolicyErrorReason::NeedsSlowCall));
}

/// Covers policies with the minimum and maximum values, and extreme latencies.
#[test]
fn at_the_bounds_a_circuit_lives_its_whole_life() {
    let (shortest, longest) = (Duration::from_millis(1), secs(36_500 * 86_400));
    let least = Policy::builder()
        .window(shortest)
        .min_calls(1)
        .failure_rate(1)
        .mean_latency(shortest)
        .slow_call(shortest)
        .slow_rate(1)
        .cool_off(shortest)
        .cool_off_factor(1.0)
        .probe_timeout(shortest)
        .forgive_after(shortest);
    let most = Policy::builder()
        .window(longest)
        .failure_rate(100)
        .mean_latency(longest)
        .slow_call(longest)
        .slow_rate(100)
        .cool_off(longest)
        .cool_off_factor(f64::MAX)
        .cool_off_max(longest)
        .probe_timeout(longest)
        .forgive_after(longest)
        .disable_min(longest)
        .cancel_grace(longest);
    for policy in [least, most] {
        let service = Service::new(&policy.jitter(100).consecutive_failures(1).probes(1));
        let circuit = service.circuit("e1");
        circuit
            .try_acquire()
            .unwrap()
            .settle(Outcome::failure(Duration::MAX).with_retry_after(Duration::MAX));
        let Err(Refusal::Open { retry_in, .. }) = circuit.try_acquire() else { panic!("open") };
        assert!(retry_in <= circuit.policy().cool_off_max());
        service.clock.advance(retry_in);
        circuit.try_acquire().unwrap().settle(Outcome::success(Duration::MAX));
        assert_eq!(circuit.status(), CircuitStatus::Closed);
    }
}

#[test]
fn at_the_end_of_time_nothing_panics() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(Duration::MAX);
    assert_eq!(service.clock.now(), Timestamp::from_micros(u64::MAX));
    succeed(&circuit, 1);
    let closed = service.circuit("e2");
    succeed(&closed, 1);
    fail(&closed, 3);
    service.breakers.tidy();
    assert_eq!(closed.record().trips, 0);
}

#[test]
fn an_attribution_has_bounds() {
    let (huge, longest) = ("x".repeat(10_000_000), "x".repeat(1_024));
    let error = |actor: &str, reason: &str| Attribution::new(actor, reason).unwrap_err();
    assert_eq!(error(&huge, ""), AttributionTooLong { field: "actor", length: 10_000_000 });
    assert_eq!(error("ops", &huge), AttributionTooLong { field: "reason", length: 10_000_000 });
    let by = Attribution::new(&longest, "").unwrap();
    let circuit = Service::new(&simple()).circuit("e1");
    assert!(circuit.try_override(OverrideCommand::Disable, &by).unwrap().is_some());
    assert_eq!(circuit.status(), CircuitStatus::Disabled);
}
