//! Local faults: they use no attempt, count against no circuit and no throttle, and are retried at a limited pace.

use std::time::Duration;

use breakerbox::CircuitStatus;
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use breakerbox_model::objects::Priority;

use super::site::{MILLISECOND, answered, ok};
use super::{SECOND, site};

const NO_DESCRIPTOR: Reply = Reply::Failed(Fault::Local(LocalFault::Descriptors));

#[tokio::test(start_paused = true)]
async fn a_local_fault_uses_no_attempt_and_counts_nowhere() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "well", |before| (MILLISECOND, if before < 200 { NO_DESCRIPTOR } else { ok() }));
    site.submit(&acme, "well", 20, Priority::Medium).await;
    site.until(300 * SECOND, |site| site.queue.waiting() == 0).await;
    let held = site.queue.held();
    assert_eq!(held.settled.len(), 20, "only what was answered is an attempt");
    assert!(held.settled.iter().all(|settle| settle.attempt.status == Some(200)));
    drop(held);
    let record = site.circuit("well").record();
    assert_eq!((record.trips, site.circuit("well").status()), (0, CircuitStatus::Closed));
    // None was shed either: at the end all are sent at once.
    let times = site.seen("well", |receiver| receiver.requests[200..].to_vec());
    assert!(times[times.len() - 1] - times[0] < SECOND, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn lanes_with_a_local_fault_try_again_soon_and_at_a_bounded_pace() {
    let site = site();
    let acme = site.tenant("acme");
    let hosts: Vec<_> = (0..50).map(|number| format!("host{number}")).collect();
    for host in &hosts {
        site.endpoint(&acme, host, |_| (Duration::ZERO, NO_DESCRIPTOR));
    }
    site.submit(&acme, "all", 10, Priority::Medium).await;
    tokio::time::sleep(10 * SECOND).await;
    let requests: usize = hosts.iter().map(|host| site.requests(host)).sum();
    // 200 lanes per second with two requests each, plus those from the beginning.
    assert!(requests <= 10 * 200 * 2 + 500, "{requests}");
    assert!(requests >= 500, "they are tried again: {requests}");
    assert!(site.queue.held().settled.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_meets_a_local_fault_decides_nothing() {
    let site = site();
    let acme = site.tenant("acme");
    site.endpoint(&acme, "ill", |_| (MILLISECOND, answered(500)));
    site.submit(&acme, "ill", 10, Priority::Medium).await;
    site.until(30 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Open).await;
    let (before, trips) = (site.requests("ill"), site.circuit("ill").record().trips);
    site.answers("ill", move |number| (MILLISECOND, if number < before + 5 { NO_DESCRIPTOR } else { ok() }));
    site.until(100 * SECOND, |site| site.circuit("ill").status() == CircuitStatus::Closed).await;
    assert_eq!(site.circuit("ill").record().trips, trips, "no probe failed");
    let first_probes = site.seen("ill", |receiver| receiver.requests[before..before + 6].to_vec());
    let took = first_probes[5] - first_probes[0];
    assert!(took < 5 * SECOND, "the lease was given back each time: {took:?}");
    site.until(600 * SECOND, |site| site.queue.waiting() == 0).await;
}
