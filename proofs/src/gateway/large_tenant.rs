//! A tenant has a million events queued for a healthy endpoint, all with high priority. Another tenant with few
//! events is not affected.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::load::Load;
use breakerbox_testkit::receiver::Behaviour;
use serde_json::json;

use super::findings::Findings;
use super::site::Site;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of events queued for the large tenant.
    pub queued: u64,
    /// The duration for which the small tenant is measured, alone and with the large tenant.
    pub time: Duration,
    /// The number of the small tenant's events per second.
    pub per_second: f64,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self =
        Self { queued: 1_000_000, time: Duration::from_secs(30), per_second: 50.0, judged: true };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self =
        Self { queued: 20_000, time: Duration::from_secs(3), per_second: 20.0, judged: false };
}

/// The number of events in one request.
const BATCH: usize = 500;

/// The large tenant may make the small tenant's latencies longer by this much, or twice as long, whichever is
/// more.
const OR_LONGER_BY: Duration = Duration::from_millis(20);

/// Measures the small tenant's latencies, first alone, then with the large tenant.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let site = Site::plain(program, &["large", "small"])?;
    let healthy = site.add_healthy("small", 1, &[])?;
    // The receiver is slow, so that the large tenant's queue lasts for the whole measurement.
    site.receiver.set("/large", Behaviour::after(200, Duration::from_millis(5)));
    let large =
        site.api().create_endpoint("large", &site.receiver.url("/large"), &[], &json!({"enabled": false}))?;
    let event = Event::new("small", "order.paid");
    site.measure(&event, size.per_second, size.time / 10, &healthy)?;
    let alone = site.measure(&event, size.per_second, size.time, &healthy)?;

    let many = Event { priority: "high", size: 128, ..Event::new("large", "bulk") };
    let batches = site.api().load_of_batches(&many, BATCH);
    let filled = Load { requests: size.queued / BATCH as u64, connections: 2, ..batches }.run()?;
    ensure!(filled.failures() == 0, "the queue could not be filled: {:?}", filled.first_refusal);
    site.api().post(&format!("/v1/endpoints/{large}/enable"), &json!({}))?;
    site.until("the large one delivers", super::site::WAIT_LIMIT, |site| {
        Ok(site.receiver.seen("/large").delivered > 0)
    })?;
    let beside = site.measure(&event, size.per_second, size.time, &healthy)?;
    let drained = site.receiver.seen("/large").delivered;

    let mut findings = Findings::new(format!(
        "isolation: a tenant with {} high events queued, and another with {} events/s",
        size.queued, size.per_second
    ));
    alone.compare(&beside, "the large one", OR_LONGER_BY, size.judged, &mut findings);
    findings.note("the large one's deliveries meanwhile", drained);
    findings.hold(
        "the large one was still busy",
        drained < size.queued,
        true,
        drained < size.queued || !size.judged,
    );
    Ok(findings)
}
