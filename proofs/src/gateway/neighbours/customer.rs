//! The well-behaved tenant: events at a steady rate, and in addition permits and test sends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox_testkit::gateway::{Api, Event};
use reqwest::Method;
use serde_json::{Value, json};

use crate::gateway::site::{Measured, Site};

/// The interval between two permit requests.
const BETWEEN: Duration = Duration::from_millis(20);

/// The number of permits between two test requests.
const A_TEST_EVERY: u64 = 100;

/// The well-behaved tenant, which the attacks must not affect.
pub(super) struct Customer {
    api: Api,
    endpoint: String,
    /// The ID of an endpoint that is only used for test requests, so that they do not count as deliveries.
    tested: String,
    paths: Vec<String>,
}

/// The responses to the tenant's permit and test requests.
#[derive(Default)]
pub(super) struct Seen {
    /// The number of requests that succeeded.
    pub(super) answered: u64,
    /// The distinct unsuccessful responses, for output.
    pub(super) refused: BTreeSet<String>,
}

impl Customer {
    /// Creates a tenant `customer`, with one endpoint at a host name (not an IP address).
    pub(super) fn new(site: &Site) -> Result<Self> {
        let key = json!({"name": "customer", "tenant": "customer", "scopes": ["manage", "send", "read"]});
        let key = site.api().post("/v1/keys", &key)?;
        let api = site.api().with_key(key["key"].as_str().context("a key")?);
        let path = "/customer".to_owned();
        site.count_latencies(&path);
        let url = site.receiver.url(&path).replace("127.0.0.1", "customer.test");
        let endpoint = api.create_endpoint("customer", &url, &[], &json!({}))?;
        let url = site.receiver.url("/customer/tested").replace("127.0.0.1", "customer.test");
        let tested = api.create_endpoint("customer", &url, &["never"], &json!({}))?;
        Ok(Self { api, endpoint, tested, paths: vec![path] })
    }

    /// Sends events for this time, with permits and test requests in between. Returns the latencies, and the
    /// responses.
    pub(super) fn measure(&self, site: &Site, per_second: f64, time: Duration) -> Result<(Measured, Seen)> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let others = scope.spawn(|| self.request(&stop));
            let event = Event::new("customer", "order.paid");
            let measured = site.measure_by(&self.api, &event, per_second, time, &self.paths);
            stop.store(true, Ordering::Relaxed);
            let seen = others.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            Ok((measured?, seen))
        })
    }

    fn request(&self, stop: &AtomicBool) -> Seen {
        let mut seen = Seen::default();
        let mut asked = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            let permit = seen.request(&self.api, "/v1/circuits/acquire", &json!({"key": "warehouse"}));
            if let Some(id) = permit.and_then(|answer| answer.pointer("/permit/id").cloned()) {
                seen.request(&self.api, "/v1/permits/settle", &json!({"id": id, "outcome": "success"}));
            }
            if asked.is_multiple_of(A_TEST_EVERY) {
                seen.request(&self.api, &format!("/v1/endpoints/{}/test", self.tested), &json!({}));
            }
            asked += 1;
            thread::sleep(BETWEEN);
        }
        seen
    }

    /// Returns the number of failed requests to the tenant's endpoint.
    pub(super) fn failed(&self, site: &Site) -> Result<u64> {
        let seen = site.receiver.seen(&self.paths[0]);
        let attempts = self.api.get(&format!("/v1/deliveries?endpoint={}&state=retrying", self.endpoint))?;
        let retrying = attempts["items"].as_array().map_or(0, Vec::len) as u64;
        Ok(seen.requests - seen.delivered + retrying)
    }

    /// Returns the number of failures in the window of the endpoint's circuit.
    pub(super) fn failures_counted(&self, site: &Site) -> Result<u64> {
        let endpoint = self.api.get(&format!("/v1/endpoints/{}", self.endpoint))?;
        let circuit = endpoint.pointer("/circuit/id").and_then(Value::as_str).context("a circuit")?;
        let circuit = site.api().get(&format!("/v1/circuits/{circuit}"))?;
        circuit.pointer("/window/failures").and_then(Value::as_u64).context("failures in the window")
    }
}

impl Seen {
    /// Makes a request, and records the response if it is not a success.
    fn request(&mut self, api: &Api, path: &str, body: &Value) -> Option<Value> {
        match api.request(&Method::POST, path, Some(body)) {
            Ok((status, answer)) if (200..300).contains(&status) => {
                self.answered += 1;
                Some(answer)
            }
            Ok((status, answer)) => {
                self.refused.insert(format!("{path}: {status} {}", answer["detail"]));
                None
            }
            Err(error) => {
                self.refused.insert(format!("{path}: {error}"));
                None
            }
        }
    }
}
