//! A tenant exceeds its backlog limit: its events are refused with a reason, and no other tenant is affected.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::load::Load;
use reqwest::Method;
use serde_json::{Value, json};

use super::findings::Findings;
use super::site::Site;

/// The tenant's backlog limit, in deliveries.
const MAY_WAIT: u64 = 200;

/// Makes one tenant exceed its backlog limit, and checks that only this tenant's events are rejected.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path) -> Result<Findings> {
    let site = Site::plain(program, &["other"])?;
    let healthy = site.add_healthy("other", 1, &[])?;
    site.api().create_tenant("tight", &json!({"backlog": {"count": MAY_WAIT, "bytes": 1_000_000_000}}))?;
    let url = site.receiver.url("/tight");
    let id = site.api().create_endpoint("tight", &url, &[], &json!({"enabled": false}))?;
    let event = Event::new("tight", "order.paid");
    let report = Load { requests: MAY_WAIT + 100, connections: 4, ..site.api().load(&event) }.run()?;
    let one = json!({"tenant": "tight", "type": "order.paid", "payload": 1});
    let (status, problem) = site.api().request(&Method::POST, "/v1/events", Some(&one))?;
    let others = site.measure(&Event::new("other", "order.paid"), 50.0, Duration::from_secs(1), &healthy)?;
    site.api().post(&format!("/v1/endpoints/{id}/enable"), &json!({}))?;
    let tight = vec!["/tight".to_owned()];
    site.until("what waited is delivered", Duration::from_secs(60), |site| {
        Ok(site.delivered(&tight) >= MAY_WAIT)
    })?;
    let mut again = 0;
    site.until("it may submit again", Duration::from_secs(60), |site| {
        again = site.api().request(&Method::POST, "/v1/events", Some(&one))?.0;
        Ok(again == 202)
    })?;

    let mut findings = Findings::new(format!("a tenant of which {MAY_WAIT} deliveries may wait"));
    findings.exactly("accepted", report.successes(), MAY_WAIT);
    findings.exactly("answered 429", report.answers.get(&429).copied().unwrap_or(0), 100);
    let code = problem.get("code").and_then(Value::as_str).unwrap_or_default();
    findings.exactly("one more", format!("{status} {code}"), "429 backlog_full".to_owned());
    // If these events had been refused, the test would have failed when they were sent.
    findings.at_least("another tenant's events", others.events, 1);
    findings.exactly("another tenant's deliveries that did not come", others.missing, 0);
    findings.exactly("after it has drained", again, 202);
    Ok(findings)
}
