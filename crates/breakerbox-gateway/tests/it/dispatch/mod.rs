//! Dispatch in virtual time: the order of gates, sleeping and waking lanes, the choice of the probe, and the paced
//! drain.

mod local_faults;
mod memory_queue;
mod own_outages;
mod probing;
mod scheduler;
mod site;
mod throttle;

use std::time::Duration;

use breakerbox::{Attribution, CircuitStatus, OverrideCommand, Policy};
use breakerbox_gateway::dispatch::Settings;
use breakerbox_model::delivery::{Fault, NextStep, Reply};
use breakerbox_model::objects::{DisabledBecause, FailReason, Priority, RateLimit};
use breakerbox_storage::Queue;

use self::site::{MILLISECOND, Site, answered, ok};

const SECOND: Duration = Duration::from_secs(1);

fn site() -> Site {
    Site::new(policy(), Settings::default())
}

fn policy() -> Policy {
    Policy::builder().probe_timeout(17 * SECOND).build().unwrap().without_jitter()
}

#[tokio::test(start_paused = true)]
async fn an_event_goes_straight_to_its_endpoints() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "one", |_| (MILLISECOND, ok()));
    site.endpoint(&acme, "two", |_| (MILLISECOND, ok()));
    site.submit(&acme, "all", 10, Priority::Medium).await;
    site.until(SECOND, |site| site.queue.waiting() == 0).await;
    assert_eq!((site.requests("one"), site.requests("two")), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_not_tried_again_and_what_fails_is() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "no", |_| (MILLISECOND, answered(422)));
    site.endpoint(&acme, "gone", |_| (MILLISECOND, answered(410)));
    site.endpoint(&acme, "later", |before| (MILLISECOND, if before == 0 { answered(500) } else { ok() }));
    site.submit(&acme, "all", 1, Priority::Medium).await;
    site.until(10 * SECOND, |site| site.queue.waiting() == 0).await;
    assert_eq!((site.requests("no"), site.requests("gone"), site.requests("later")), (1, 1, 2));
    let waited = site.seen("later", |receiver| receiver.requests[1] - receiver.requests[0]);
    assert!((4_500..=5_600).contains(&waited.as_millis()), "{waited:?}");
    let ends: Vec<_> = site.queue.held().settled.iter().map(|settlement| settlement.next).collect();
    assert!(ends.contains(&NextStep::Failed(FailReason::Rejected)));
    assert!(ends.contains(&NextStep::Failed(FailReason::Gone)));
    assert_eq!(site.written.0.lock().unwrap().len(), 1, "the one that is gone is disabled");
}

#[tokio::test(start_paused = true)]
async fn a_dead_endpoint_is_parked_and_costs_nothing() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "dead", |_| (30 * SECOND, ok()));
    site.endpoint(&acme, "well", |_| (5 * MILLISECOND, ok()));
    for _ in 0..120 {
        site.submit(&acme, "all", 10, Priority::Medium).await;
        tokio::time::sleep(SECOND).await;
    }
    site.until(SECOND, |site| site.requests("well") == 1_200).await;
    assert!(site.requests("dead") <= 12, "{}", site.requests("dead"));
    assert!(site.seen("dead", |receiver| receiver.most_in_flight) <= 2);
    let claims = site.queue.held().claims;
    assert!(claims < 200, "nobody looks for work behind an open circuit: {claims}");
    let used: u32 = site.queue.held().rows.values().map(|row| row.attempts).sum();
    assert!(usize::try_from(used).unwrap() <= site.requests("dead"), "a refusal uses no attempt");
}

#[tokio::test(start_paused = true)]
async fn a_trip_takes_place_at_once() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "dead", |_| (MILLISECOND, answered(500)));
    site.submit(&acme, "dead", 9, Priority::Medium).await;
    site.until(200 * MILLISECOND, |site| site.circuit("dead").record().trips == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_trip_a_failed_probe_and_a_closing_write_a_few_rows_however_much_is_parked() {
    let mut written = Vec::new();
    for parked in [10, 1_000] {
        let site = site();
        let acme = site.tenant("acme");
        site.endpoint(&acme, "dead", |_| (MILLISECOND, Reply::Failed(Fault::Connect)));
        site.submit(&acme, "dead", 8, Priority::Medium).await;
        site.until(30 * SECOND, |site| site.circuit("dead").status() == CircuitStatus::Open).await;
        site.submit(&acme, "dead", parked, Priority::Medium).await;
        let before = site.queue.held().writes;
        // Two probes fail.
        site.until(200 * SECOND, |site| site.circuit("dead").record().trips == 3).await;
        written.push(site.queue.held().writes - before);
    }
    assert_eq!(written[0], written[1], "{written:?}");
    assert!(written[0] <= 8, "a claim and a settlement for each probe: {written:?}");
}

#[tokio::test(start_paused = true)]
async fn a_recovery_is_probed_by_one_and_drained_step_by_step() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "ill", |_| (MILLISECOND, answered(500)));
    site.submit(&acme, "ill", 10, Priority::Medium).await;
    site.until(30 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Open).await;
    site.submit(&acme, "ill", 500, Priority::Medium).await;
    let before = site.requests("ill");
    site.answers("ill", |_| (20 * MILLISECOND, ok()));
    site.until(60 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Closed).await;
    let at_closing = site.requests("ill") - before;
    assert!((3..=4).contains(&at_closing), "three probes, one after the other: {at_closing}");
    site.until(60 * SECOND, |site| site.queue.waiting() == 0).await;
    let times = site.seen("ill", |receiver| receiver.requests[before..].to_vec());
    assert!(times[2] - times[0] < SECOND, "the next probe begins when the one before is over: {times:?}");
    let in_first = |limit: Duration| times.iter().filter(|at| **at < times[3] + limit).count() - 3;
    assert!(in_first(20 * MILLISECOND) <= 2, "one at first: {}", in_first(20 * MILLISECOND));
    assert!(in_first(70 * MILLISECOND) <= 16, "then growth: {}", in_first(70 * MILLISECOND));
    assert!(site.seen("ill", |receiver| receiver.most_in_flight) <= 64);
}

#[tokio::test(start_paused = true)]
async fn a_recovery_is_noticed_though_all_are_backing_off() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "ill", |_| (MILLISECOND, answered(500)));
    // Five fail, and wait for five minutes after their second attempt. There are no other deliveries.
    site.submit(&acme, "ill", 5, Priority::Medium).await;
    site.until(30 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Open).await;
    site.answers("ill", |_| (MILLISECOND, ok()));
    let attempts: u32 = site.queue.held().rows.values().map(|row| row.attempts).sum();
    site.until(120 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Closed).await;
    let after: u32 = site.queue.held().rows.values().map(|row| row.attempts).sum();
    assert_eq!(after, attempts, "who is pulled forward uses no attempt");
    site.until(600 * SECOND, |site| site.queue.waiting() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_poison_payload_does_not_keep_a_circuit_open() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "ill", |_| (MILLISECOND, answered(500)));
    site.submit(&acme, "ill", 20, Priority::Medium).await;
    site.until(30 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Open).await;
    // From now on, only the delivery that probes first fails.
    let first = site.requests("ill");
    let poison = std::sync::Mutex::new(None::<usize>);
    site.answers("ill", move |before| {
        let mut poison = poison.lock().unwrap();
        let first_probe = *poison.get_or_insert(before);
        (MILLISECOND, if before == first_probe { answered(500) } else { ok() })
    });
    site.until(300 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Closed).await;
    let probes = site.seen("ill", |receiver| receiver.payloads[first..].to_vec());
    assert!(probes.len() >= 4);
    assert_ne!(probes[0], probes[1], "another one probes after it failed");
}

#[tokio::test(start_paused = true)]
async fn a_disabled_endpoint_parks_and_drains_when_it_is_enabled() {
    let site = site();
    let acme = site.tenant("acme");
    site.answers("off", |_| (MILLISECOND, ok()));
    let mut endpoint = site.settings(&acme, "off");
    endpoint.disabled = Some(DisabledBecause::Owner);
    site.put(endpoint.clone());
    site.submit(&acme, "off", 20, Priority::Medium).await;
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!((site.requests("off"), site.queue.waiting()), (0, 20));
    let claims = site.queue.held().claims;
    assert!(claims <= 1, "{claims}");
    endpoint.disabled = None;
    site.put(endpoint);
    site.until(SECOND, |site| site.queue.waiting() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_and_an_in_flight_limit_hold() {
    let site = site();
    let acme = site.tenant("acme");
    for (host, rate, max) in
        [("paced", Some(RateLimit { per_second: 10.0, burst: 1 }), None), ("narrow", None, Some(1))]
    {
        site.answers(host, |_| (50 * MILLISECOND, ok()));
        let mut endpoint = site.settings(&acme, host);
        endpoint.settings.rate = rate;
        endpoint.settings.max_in_flight = max;
        site.put(endpoint);
    }
    site.submit(&acme, "all", 30, Priority::Medium).await;
    site.until(10 * SECOND, |site| site.queue.waiting() == 0).await;
    assert!(site.elapsed() >= Duration::from_millis(2_900), "{:?}", site.elapsed());
    assert!(site.elapsed() <= Duration::from_millis(4_000), "{:?}", site.elapsed());
    assert_eq!(site.seen("narrow", |receiver| receiver.most_in_flight), 1);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_asks_for_peace_gets_it() {
    let site = site();
    let acme = site.tenant("acme");
    let busy = Reply::Answered { status: 429, retry_after: Some(90 * SECOND) };
    site.endpoint(&acme, "busy", move |before| (MILLISECOND, if before == 0 { busy } else { ok() }));
    site.submit(&acme, "busy", 1, Priority::Medium).await;
    tokio::time::sleep(10 * MILLISECOND).await;
    site.submit(&acme, "busy", 5, Priority::High).await;
    site.until(200 * SECOND, |site| site.queue.waiting() == 0).await;
    let peace = site.seen("busy", |receiver| receiver.requests[1] - receiver.requests[0]);
    assert!(peace >= 90 * SECOND, "{peace:?}");
}

#[tokio::test(start_paused = true)]
async fn the_most_important_go_first() {
    let site = site();
    let acme = site.tenant("acme");
    site.answers("slow", |_| (100 * MILLISECOND, ok()));
    let mut endpoint = site.settings(&acme, "slow");
    endpoint.settings.max_in_flight = Some(1);
    site.put(endpoint);
    site.submit(&acme, "slow", 20, Priority::Low).await;
    site.submit(&acme, "slow", 20, Priority::High).await;
    site.until(10 * SECOND, |site| site.queue.waiting() == 0).await;
    let order = site.seen("slow", |receiver| receiver.payloads.clone());
    let low_among_first = order[1..21].iter().filter(|payload| payload.starts_with(b"low")).count();
    assert!((1..=2).contains(&low_among_first), "each level gets its turn, and no more: {low_among_first}");
    let high: Vec<_> = order.iter().filter(|payload| payload.starts_with(b"high")).collect();
    assert!(high.is_sorted_by_key(|payload| payload.len()), "and the oldest of them first");
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_not_sent() {
    let site = site();
    let acme = site.tenant("acme");
    site.answers("slow", |_| (2 * SECOND, ok()));
    let mut endpoint = site.settings(&acme, "slow");
    endpoint.settings.max_in_flight = Some(1);
    site.put(endpoint);
    let expires_at = site.queue.now() + 3 * SECOND;
    site.submit_until(&acme, "slow", 5, Some(expires_at)).await;
    site.until(20 * SECOND, |site| site.queue.waiting() == 0).await;
    assert_eq!(site.requests("slow"), 2, "at once, and after two seconds");
}

#[tokio::test(start_paused = true)]
async fn operators_are_obeyed_at_once() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "well", |_| (MILLISECOND, ok()));
    site.submit(&acme, "well", 1, Priority::Medium).await;
    site.until(SECOND, |site| site.queue.waiting() == 0).await;
    let by = Attribution::new("somebody", "maintenance").unwrap();
    site.circuit("well").apply_override(OverrideCommand::ForceOpen, &by).await.unwrap();
    site.submit(&acme, "well", 10, Priority::Medium).await;
    tokio::time::sleep(3_600 * SECOND).await;
    assert_eq!(site.requests("well"), 1);
    site.circuit("well").apply_override(OverrideCommand::Reset, &by).await.unwrap();
    site.until(SECOND, |site| site.queue.waiting() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_is_in_flight_and_begins_nothing() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "slow", |_| (10 * SECOND, ok()));
    site.submit(&acme, "slow", 5, Priority::Medium).await;
    tokio::time::sleep(SECOND).await;
    assert!(site.dispatch.stop(30 * SECOND).await);
    assert_eq!(site.requests("slow"), 2);
    assert_eq!(site.queue.waiting(), 3, "the two that were in flight are settled");
    assert_eq!(site.dispatch.running(), 0);
    site.submit(&acme, "slow", 1, Priority::Medium).await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(site.requests("slow"), 2, "what is accepted still waits for the next start");
}

#[tokio::test(start_paused = true)]
async fn thousands_of_dead_endpoints_do_not_delay_the_healthy() {
    let site = Site::new(policy(), Settings { slots: 64, ..Settings::default() });
    let (acme, bolt) = (site.tenant("acme"), site.tenant("bolt"));
    for number in 0..10 {
        site.endpoint(&bolt, &format!("well{number}"), |_| (5 * MILLISECOND, ok()));
    }
    site.submit(&bolt, "all", 5, Priority::Medium).await;
    site.until(SECOND, |site| site.queue.waiting() == 0).await;
    for number in 0..300 {
        site.endpoint(&acme, &format!("dead{number}"), |_| (60 * SECOND, ok()));
    }
    site.submit(&acme, "all", 4, Priority::High).await;
    for round in 0..20 {
        let before = site.requests("well3");
        let sent_at = site.elapsed();
        site.submit(&bolt, "all", 1, Priority::Low).await;
        site.until(SECOND, |site| site.requests("well3") > before).await;
        let late = site.elapsed() - sent_at;
        assert!(late <= 5 * MILLISECOND, "round {round}: {late:?}");
        tokio::time::sleep(3 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_circuit_is_not_half_open_without_a_delivery_to_probe_with() {
    let policy = Policy::builder().cool_off(30 * SECOND).probe_timeout(17 * SECOND).build().unwrap();
    let site = Site::new(policy.without_jitter(), Settings::default());
    let acme = site.tenant("acme");
    site.endpoint(&acme, "dead", |_| (MILLISECOND, answered(500)));
    let expires_at = site.queue.now() + 20 * SECOND;
    site.submit_until(&acme, "dead", 20, Some(expires_at)).await;
    site.until(10 * SECOND, |site| site.circuit("dead").status() == CircuitStatus::Open).await;
    let before = site.requests("dead");
    // All waiting deliveries have expired when the cool-off ends.
    for _ in 0..120 {
        tokio::time::sleep(SECOND).await;
        assert_eq!(site.circuit("dead").status(), CircuitStatus::Open, "{:?}", site.elapsed());
    }
    assert_eq!(site.requests("dead"), before);
    // Once there is a delivery to probe with, the circuit is probed.
    site.answers("dead", |_| (MILLISECOND, ok()));
    site.submit(&acme, "dead", 5, Priority::Medium).await;
    site.until(60 * SECOND, |site| site.circuit("dead").status() == CircuitStatus::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_a_circuit_gets_one_when_there_is_room() {
    let site = Site::with(policy(), Settings::default(), |builder| builder.max_circuits(1));
    let acme = site.tenant("acme");
    let one = site.endpoint(&acme, "one", |_| (MILLISECOND, ok()));
    site.endpoint(&acme, "two", |_| (MILLISECOND, answered(422)));
    site.submit(&acme, "one", 1, Priority::Medium).await;
    site.submit(&acme, "two", 20, Priority::Medium).await;
    site.until(SECOND, |site| site.queue.waiting() == 0).await;
    let key = "acme https://two.example";
    assert!(site.breakers.find(key).is_none(), "there is room for one, and another has it");
    site.directory.remove_endpoint(breakerbox_model::objects::EndpointId(one.0));
    tokio::time::sleep(120 * SECOND).await;
    site.submit(&acme, "two", 1, Priority::Medium).await;
    site.until(SECOND, |site| site.requests("two") == 21).await;
    assert!(site.breakers.find(key).is_some(), "the room is free");
}
