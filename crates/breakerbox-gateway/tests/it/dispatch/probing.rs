//! How often an endpoint that stays dead is probed, in virtual time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::{Change, CircuitStatus, Policy};
use breakerbox_gateway::dispatch::Settings;
use breakerbox_model::notifications::{CircuitContext, News, notifications};
use breakerbox_model::objects::Priority;
use breakerbox_storage::Queue;

use super::site::{MILLISECOND, Site, answered, ok};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// The number of attempts of the default retry schedule.
const ATTEMPTS: usize = 8;

/// A policy with which every failure opens the circuit for a second.
fn quick() -> Policy {
    let policy = Policy::builder().consecutive_failures(1).cool_off(SECOND).cool_off_factor(1.0);
    policy.disable_after(None).probe_timeout(17 * SECOND).build().unwrap().without_jitter()
}

#[tokio::test(start_paused = true)]
async fn a_quiet_zombie_gets_at_most_twice_the_requests_of_its_retries() {
    let site = Site::new(quick(), Settings::default());
    let acme = site.tenant("acme");
    site.endpoint(&acme, "dead", |_| (MILLISECOND, answered(500)));
    let events = 30;
    for _ in 0..events {
        site.submit(&acme, "dead", 1, Priority::Medium).await;
        tokio::time::sleep(2 * HOUR).await;
    }
    tokio::time::sleep(48 * HOUR).await;
    assert_eq!(site.queue.waiting(), 0, "every delivery used its attempts, and failed");
    let mut requests_of = HashMap::<_, usize>::new();
    for settlement in &site.queue.held().settled {
        *requests_of.entry(settlement.id).or_default() += 1;
    }
    assert_eq!(requests_of.len(), events);
    // The last attempt has no wait after it.
    let most = requests_of.values().max().unwrap();
    assert!(*most < 2 * ATTEMPTS, "{most} requests for one delivery");
    let pulled = site.requests("dead") - events * ATTEMPTS;
    assert!(pulled > 0, "some were pulled forward");
}

/// One event in two hours, and the endpoint is dead for ever. All numbers are the gateway's defaults.
#[tokio::test(start_paused = true)]
async fn a_quiet_zombie_trips_at_once_and_is_disabled_after_three_days() {
    let policy = Policy::builder().disable_after(10).probe_timeout(17 * SECOND).build().unwrap();
    let changes = Arc::<Mutex<Vec<Change>>>::default();
    let heard = Arc::clone(&changes);
    let site = Site::with(policy.clone(), Settings::default(), |builder| {
        builder.observer(move |change| heard.lock().unwrap().push(change.change.clone()))
    });
    let acme = site.tenant("acme");
    site.endpoint(&acme, "dead", |_| (MILLISECOND, answered(500)));
    let mut tripped = None;
    for _ in 0..40 {
        site.submit(&acme, "dead", 1, Priority::Medium).await;
        tokio::time::sleep(2 * HOUR).await;
        if tripped.is_none() && site.circuit("dead").status() != CircuitStatus::Closed {
            tripped = Some(site.elapsed());
        }
    }
    // The first event is tried after 0 s, 5 s, 5 min, 35 min and 2 h 35 min.
    assert!(tripped.is_some_and(|after| after <= 4 * HOUR), "{tripped:?}");
    assert_eq!(site.circuit("dead").status(), CircuitStatus::Disabled);
    let changes = changes.lock().unwrap();
    let (first, last) = (&changes[0], changes.last().unwrap());
    assert_eq!((first.to, last.to), (CircuitStatus::Open, CircuitStatus::Disabled));
    let failing = last.at.since(last.failing_since.unwrap());
    assert!((72 * HOUR..76 * HOUR).contains(&failing), "disabled after {failing:?}");
    let known = CircuitContext { policy: &policy, endpoints: &[], last: None, is_unreported_outage: false };
    let news = notifications("acme https://dead.example", last, &known);
    assert!(
        matches!(&news[..], [notification] if matches!(notification.news, News::Disabled(_))),
        "{news:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lane_with_much_waiting_is_probed_whenever_its_cool_off_ends() {
    let site = Site::new(quick(), Settings::default());
    let acme = site.tenant("acme");
    site.endpoint(&acme, "dead", |_| (MILLISECOND, answered(500)));
    site.submit(&acme, "dead", 500, Priority::Medium).await;
    site.until(10 * SECOND, |site| site.circuit("dead").status() == CircuitStatus::Open).await;
    let before = site.requests("dead");
    tokio::time::sleep(100 * SECOND).await;
    let probes = site.requests("dead") - before;
    assert!((90..=100).contains(&probes), "one in each second: {probes}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_waits_for_its_retry_notices_the_recovery_once() {
    let site = Site::new(quick(), Settings::default());
    let acme = site.tenant("acme");
    let lane = site.endpoint(&acme, "ill", |_| (MILLISECOND, answered(500)));
    site.submit(&acme, "ill", 1, Priority::Medium).await;
    // The attempt, one pull, the retry after 5 s, one pull. Then it waits for five minutes.
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(site.requests("ill"), 4);
    assert!(!site.queue.probe_supply(lane).await.unwrap().can_probe);
    let claims = site.queue.held().claims;
    site.answers("ill", |_| (MILLISECOND, ok()));
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!((site.requests("ill"), site.queue.held().claims), (4, claims), "it waits for its retry");
    site.submit(&acme, "ill", 1, Priority::Medium).await;
    site.until(SECOND, |site| site.requests("ill") == 5).await;
    site.until(300 * SECOND, |site| site.queue.waiting() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_without_a_probe_lets_another_lane_of_its_circuit_probe() {
    let site = Site::new(quick(), Settings::default());
    let acme = site.tenant("acme");
    // The trailing slash is not part of a circuit's key, so both endpoints share a circuit.
    let quiet = site.settings(&acme, "ill");
    site.answers("ill", |_| (MILLISECOND, answered(500)));
    site.put(quiet);
    site.submit(&acme, "ill", 1, Priority::Medium).await;
    tokio::time::sleep(60 * SECOND).await;
    let before = site.requests("ill");
    let mut busy = site.settings(&acme, "ill");
    busy.settings.filter = breakerbox_model::objects::Filter::any_of(["busy"]).unwrap();
    site.put(busy);
    site.answers("ill", |_| (MILLISECOND, ok()));
    site.submit(&acme, "busy", 20, Priority::Medium).await;
    site.until(5 * SECOND, |site| site.requests("ill") == before + 20).await;
}
