//! The throttle in front of a lane: it does not keep failures from the circuit, holds a lane for at most two seconds,
//! and releases it as soon as the receiver accepts again.

use std::sync::OnceLock;
use std::time::Duration;

use breakerbox::CircuitStatus;
use breakerbox_model::delivery::{Fault, Reply};
use breakerbox_model::objects::Priority;
use tokio::time::Instant;

use super::site::{MILLISECOND, answered, ok};
use super::{SECOND, site};

/// The maximum time that a throttle may hold a lane, plus some time for the turns.
const LONGEST_HOLD: Duration = Duration::from_millis(2_100);

#[tokio::test(start_paused = true)]
async fn a_new_endpoint_that_fails_opens_its_circuit_with_the_failure_that_its_policy_names() {
    let replies = [
        ("refused", Reply::Failed(Fault::Connect)),
        ("reset", Reply::Failed(Fault::Reset)),
        ("broken", Reply::Failed(Fault::Protocol)),
        ("timeout", Reply::Failed(Fault::Timeout)),
        ("status-500", answered(500)),
        ("status-503", answered(503)),
        ("status-504", answered(504)),
    ];
    for (host, reply) in replies {
        let site = site();
        let acme = site.tenant("acme");
        site.endpoint(&acme, host, move |_| (MILLISECOND, reply));
        site.submit(&acme, host, 6, Priority::Medium).await;
        site.until(SECOND, |site| site.circuit(host).status() == CircuitStatus::Open).await;
        assert!((5..=6).contains(&site.requests(host)), "{host}: {} requests", site.requests(host));
    }
}

#[tokio::test(start_paused = true)]
async fn one_429_holds_nothing_beyond_its_retry_after() {
    let site = site();
    let acme = site.tenant("acme");
    let busy = Reply::Answered { status: 429, retry_after: Some(5 * SECOND) };
    site.endpoint(&acme, "busy", move |before| (10 * MILLISECOND, if before == 0 { busy } else { ok() }));
    site.submit(&acme, "busy", 1, Priority::Medium).await;
    site.until(SECOND, |site| site.requests("busy") == 1).await;
    tokio::time::sleep(20 * MILLISECOND).await;
    site.submit(&acme, "busy", 99, Priority::Medium).await;
    // The first one is due at its retry, shortly after the others.
    site.until(20 * SECOND, |site| site.queue.waiting() == 0).await;
    let times = site.seen("busy", |receiver| receiver.requests.clone());
    assert!(times[1] - times[0] >= 5 * SECOND, "{:?}", times[1]);
    let late = times[1..].iter().filter(|at| **at - times[0] > 5_700 * MILLISECOND).count();
    assert!(late <= 1, "{late} of 99 came late: {times:?}");
}

/// The receiver rejects everything in flight, asks for a pause, and insists on it.
#[tokio::test(start_paused = true)]
async fn a_lane_in_full_swing_goes_on_after_a_retry_after() {
    for pause in [1, 2, 3, 5, 10].map(Duration::from_secs) {
        let site = site();
        let acme = site.tenant("acme");
        let busy_since = OnceLock::new();
        site.endpoint(&acme, "busy", move |before| {
            let is_busy = before >= 400 && busy_since.get_or_init(Instant::now).elapsed() < pause;
            let busy = Reply::Answered { status: 429, retry_after: Some(pause) };
            (20 * MILLISECOND, if is_busy { busy } else { ok() })
        });
        site.submit(&acme, "busy", 1_000, Priority::Medium).await;
        site.until(60 * SECOND, |site| site.requests("busy") >= 1_000).await;
        let times = site.seen("busy", |receiver| receiver.requests.clone());
        let took = (times[999] - times[400]).saturating_sub(pause);
        assert!(took < 2 * SECOND, "after a pause of {pause:?} the rest took {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_was_down_for_a_moment_is_not_held_afterwards() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "late", |_| (MILLISECOND, Reply::Failed(Fault::Connect)));
    site.submit(&acme, "late", 3, Priority::Medium).await;
    tokio::time::sleep(1_100 * MILLISECOND).await;
    site.answers("late", |_| (MILLISECOND, ok()));
    let before = site.requests("late");
    site.submit(&acme, "late", 20, Priority::Medium).await;
    site.until(SECOND, |site| site.requests("late") == before + 20).await;
}

/// Nothing is ever accepted, and the circuit stays closed: requests continue at a low rate.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_accepted_a_request_is_made_every_two_seconds_at_the_least() {
    for gap in [5 * MILLISECOND, 50 * MILLISECOND, 500 * MILLISECOND, 2 * SECOND] {
        let site = site();
        let acme = site.tenant("acme");
        site.endpoint(&acme, "busy", |_| (MILLISECOND, answered(429)));
        let began = site.elapsed();
        while site.elapsed() - began < 40 * SECOND {
            site.submit(&acme, "busy", 1, Priority::Low).await;
            tokio::time::sleep(gap).await;
        }
        assert_eq!(site.circuit("busy").status(), CircuitStatus::Closed);
        let times = site.seen("busy", |receiver| receiver.requests.clone());
        let longest = times.windows(2).map(|two| two[1] - two[0]).max().unwrap();
        // A hold begins when an event is due and not sent.
        assert!(longest <= LONGEST_HOLD + gap, "an event each {gap:?}: nothing for {longest:?}");

        // The receiver accepts again: soon everything is sent.
        site.answers("busy", |_| (MILLISECOND, ok()));
        let before = site.requests("busy");
        site.until(LONGEST_HOLD, |site| site.requests("busy") > before).await;
        site.submit(&acme, "busy", 20, Priority::Low).await;
        site.until(SECOND, |site| site.requests("busy") >= before + 21).await;
    }
}
