//! Limits and switches of tenants on a whole gateway, verified by a receiver: changes apply immediately, waiting
//! deliveries are not lost, and other tenants are not affected.

use std::time::{Duration, Instant};

use breakerbox_gateway::config::Config;
use breakerbox_gateway::gateway::Gateway;
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(60);

struct House {
    gateway: Option<Gateway>,
    url: String,
    key: String,
    client: Client<HttpConnector, Full<Bytes>>,
    receiver: Receiver,
    _folder: tempfile::TempDir,
}

impl House {
    /// Starts a gateway with tenants whose failed attempts are not retried soon.
    async fn with(tenants: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config =
            Config { data: folder.path().into(), listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
        config.egress.allow = vec!["127.0.0.0/8".parse().unwrap()];
        config.limits.disk_reserve = 0;
        let gateway = Gateway::start(&config).await.unwrap();
        let house = Self {
            url: format!("http://{}", gateway.address()),
            key: gateway.first_start().unwrap().admin_key.reveal(),
            gateway: Some(gateway),
            client: Client::builder(TokioExecutor::new()).build_http(),
            receiver: Receiver::start().unwrap(),
            _folder: folder,
        };
        for tenant in tenants {
            house.request(Method::POST, "tenants", json!({ "id": tenant, "retry": ["1h"] })).await;
        }
        house
    }

    async fn request(&self, method: Method, path: &str, body: Value) -> Value {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder()
            .method(&method)
            .uri(format!("{}/v1/{path}", self.url))
            .header("authorization", format!("Bearer {}", self.key))
            .header("content-type", "application/json")
            .body(Full::new(body))
            .unwrap();
        let asked = async {
            let response = self.client.request(request).await.unwrap();
            let is_good = response.status().is_success();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(is_good, "{method} {path}: {}", String::from_utf8_lossy(&body));
            serde_json::from_slice(&body).unwrap_or(Value::Null)
        };
        tokio::time::timeout(LONG, asked).await.expect("an answer")
    }

    async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, Value::Null).await
    }

    async fn patch(&self, path: &str, change: Value) -> Value {
        self.request(Method::PATCH, path, change).await
    }

    /// Repeats a request until its response meets the condition.
    async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let found = self.get(path).await;
            if is_so(&found) {
                return found;
            }
            assert!(began.elapsed() < LONG, "{path}: {found}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this many requests arrived at a path.
    async fn until_came(&self, path: &str, requests: u64) {
        let began = Instant::now();
        while self.receiver.seen(path).requests < requests {
            assert!(began.elapsed() < LONG, "{path}: {:?}", self.receiver.seen(path));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Creates an endpoint that receives the events whose type is its path.
    async fn endpoint(&self, tenant: &str, host: &str, path: &str) -> Endpoint {
        let body = json!({ "tenant": tenant, "url": format!("{host}{path}"), "types": [path.trim_start_matches('/')] });
        let made = self.request(Method::POST, "endpoints", body).await;
        let text = |pointer: &str| made.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        Endpoint { id: text("/id"), circuit: text("/circuit/id"), path: path.to_owned() }
    }

    async fn near(&self, tenant: &str, path: &str) -> Endpoint {
        self.endpoint(tenant, self.receiver.url("").trim_end_matches('/'), path).await
    }

    async fn send(&self, tenant: &str, path: &str, count: usize) {
        let event = json!({ "type": path.trim_start_matches('/'), "payload": 1 });
        let events = vec![event; count];
        self.request(Method::POST, "events/batch", json!({ "tenant": tenant, "events": events })).await;
    }

    async fn circuit(&self, endpoint: &Endpoint) -> Value {
        self.get(&format!("circuits/{}", endpoint.circuit)).await
    }

    async fn until_open(&self, endpoint: &Endpoint) -> Value {
        self.until(&format!("circuits/{}", endpoint.circuit), |circuit| circuit["state"] == "open").await
    }

    /// Returns the deliveries to an endpoint.
    async fn deliveries(&self, endpoint: &Endpoint) -> Vec<Value> {
        let listed = self.get(&format!("deliveries?endpoint={}&limit=500", endpoint.id)).await;
        listed["items"].as_array().unwrap().clone()
    }

    /// Waits until every delivery to an endpoint is delivered, and returns them.
    async fn until_delivered(&self, endpoint: &Endpoint, count: usize) -> Vec<Value> {
        let path = format!("deliveries?endpoint={}&limit=500", endpoint.id);
        let all = self
            .until(&path, |found| {
                let items = found["items"].as_array().unwrap();
                items.len() == count && items.iter().all(|one| one["state"] == "delivered")
            })
            .await;
        all["items"].as_array().unwrap().clone()
    }

    /// Delivers a few events of another tenant, so that anything that would happen immediately has happened.
    async fn meanwhile(&self) {
        let path = "/neighbour";
        let before = self.receiver.seen(path).delivered;
        for round in 1..=3 {
            self.send("default", path, 1).await;
            self.until_came(path, before + round).await;
        }
    }

    async fn stop(mut self) {
        assert!(self.gateway.take().unwrap().stop().await);
    }
}

struct Endpoint {
    id: String,
    circuit: String,
    path: String,
}

const FAILS: Behaviour = Behaviour::status(500);

/// A policy that trips only at the third consecutive failure, and then refuses calls for an hour.
fn third_in_a_row() -> Value {
    json!({ "failure_rate": "off", "consecutive_failures": 3, "cool_off": "1h", "cool_off_max": "1h", "jitter": 0 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_is_off_parks_and_drains_when_it_is_on() {
    let house = House::with(&["acme"]).await;
    let (endpoint, _neighbour) = (house.near("acme", "/a").await, house.near("default", "/neighbour").await);
    house.patch("tenants/acme", json!({ "enabled": false })).await;
    house.send("acme", &endpoint.path, 20).await;
    house.meanwhile().await;
    assert_eq!(house.receiver.seen("/a").requests, 0);
    let parked = house.deliveries(&endpoint).await;
    let is_untouched = |one: &Value| {
        one["state"] == "pending" && one["parked"] == json!(true) && one["attempts"] == json!(0)
    };
    assert!(parked.len() == 20 && parked.iter().all(is_untouched), "{parked:?}");

    house.patch("tenants/acme", json!({ "enabled": true })).await;
    let delivered = house.until_delivered(&endpoint, 20).await;
    assert!(delivered.iter().all(|one| one["attempts"] == json!(1)), "{delivered:?}");
    assert_eq!(house.receiver.seen("/a").delivered, 20, "each once");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shares_a_circuit_shares_its_trip_and_what_waits_survives_another_sharing() {
    let house = House::with(&["endpoint", "host", "tenant"]).await;
    house.near("default", "/neighbour").await;
    for (by, same_host_goes, other_host_goes) in
        [("endpoint", true, true), ("host", false, true), ("tenant", false, false)]
    {
        house.patch(&format!("tenants/{by}"), json!({ "circuit_by": by })).await;
        house.patch(&format!("tenants/{by}/policy"), third_in_a_row()).await;
        let bad = house.near(by, &format!("/{by}.bad")).await;
        let near = house.near(by, &format!("/{by}.near")).await;
        // The same receiver under another name, which counts as another host.
        let far = house.receiver.url("").replace("127.0.0.1", "localhost");
        let far = house.endpoint(by, far.trim_end_matches('/'), &format!("/{by}.far")).await;
        assert_eq!(
            (bad.circuit == near.circuit, bad.circuit == far.circuit),
            (!same_host_goes, !other_host_goes)
        );
        house.receiver.set(&bad.path, FAILS);
        house.send(by, &bad.path, 3).await;
        house.until_open(&bad).await;

        for endpoint in [&near, &far] {
            house.send(by, &endpoint.path, 5).await;
        }
        house.meanwhile().await;
        for (endpoint, goes) in [(&near, same_host_goes), (&far, other_host_goes)] {
            if goes {
                house.until_delivered(endpoint, 5).await;
            } else {
                assert_eq!(house.receiver.seen(&endpoint.path).requests, 0, "{by}");
                let waiting = house.deliveries(endpoint).await;
                assert!(
                    waiting.iter().all(|one| one["parked"] == json!(true) && one["attempts"] == json!(0))
                );
            }
        }

        // From now on each has its own circuit: deliveries that waited for another's circuit are sent, and failed ones
        // are still there.
        house.patch(&format!("tenants/{by}"), json!({ "circuit_by": "endpoint" })).await;
        house.until_delivered(&near, 5).await;
        house.until_delivered(&far, 5).await;
        let kept = house.deliveries(&bad).await;
        assert!(kept.len() == 3 && kept.iter().all(|one| one["state"] == "retrying"), "{by}: {kept:?}");
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_change_while_a_circuit_is_open_leave_it_as_it_is() {
    let house = House::with(&["acme"]).await;
    house.near("default", "/neighbour").await;
    house.patch("tenants/acme/policy", third_in_a_row()).await;
    let endpoint = house.near("acme", "/bad").await;
    house.receiver.set("/bad", FAILS);
    house.send("acme", "/bad", 3).await;
    let open = house.until_open(&endpoint).await;
    let change = json!({ "cool_off": "1ms", "consecutive_failures": 50, "window": "2m", "probes": 9 });
    house.patch("tenants/acme/policy", change.clone()).await;
    house.patch(&format!("endpoints/{}/policy", endpoint.id), json!({ "cool_off": "2ms" })).await;
    let after = house.circuit(&endpoint).await;
    for name in ["state", "retry_at", "opened_at", "epoch", "trips", "cause"] {
        assert_eq!(after[name], open[name], "{name}");
    }
    assert_eq!((&after["policy"]["cool_off"], &after["policy"]["probes"]), (&json!("2ms"), &json!(9)));
    house.send("acme", "/bad", 1).await;
    house.meanwhile().await;
    assert_eq!(
        house.receiver.seen("/bad").requests,
        3,
        "it is open for an hour, as was said when it tripped"
    );

    let changes = house.until("changes?tenant=acme", |found| found["items"][0].is_object()).await;
    let trip = &changes["items"][0];
    assert_eq!((&trip["circuit"], &trip["to"]), (&json!(endpoint.circuit), &json!("open")));
    assert_eq!((&trip["rule"], &trip["retry_at"]), (&json!("consecutive_failures"), &open["retry_at"]));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_limit_trips_at_the_next_failure() {
    let house = House::with(&["acme"]).await;
    let many =
        json!({ "failure_rate": "off", "consecutive_failures": "off", "failures": 1000, "window": "1h" });
    house.patch("tenants/acme/policy", many).await;
    for own in [false, true] {
        let path = format!("/bad.{own}");
        let endpoint = house.near("acme", &path).await;
        let policy =
            if own { format!("endpoints/{}/policy", endpoint.id) } else { "tenants/acme/policy".to_owned() };
        house.patch(&policy, json!({ "failures": 1000 })).await;
        house.receiver.set(&path, FAILS);
        house.send("acme", &path, 5).await;
        let circuit = format!("circuits/{}", endpoint.circuit);
        house.until(&circuit, |circuit| circuit["window"]["failures"] == json!(5)).await;
        // The window shows a failure before the rules are evaluated; the settlement follows both.
        let retrying = format!("deliveries?endpoint={}&state=retrying", endpoint.id);
        house
            .until(&retrying, |listed| listed["items"].as_array().is_some_and(|items| items.len() == 5))
            .await;
        house.patch(&policy, json!({ "failures": 3 })).await;
        let after = house.circuit(&endpoint).await;
        assert_eq!(
            (&after["state"], &after["window"]["failures"]),
            (&json!("closed"), &json!(5)),
            "counts stay"
        );
        house.send("acme", &path, 1).await;
        let open = house.until_open(&endpoint).await;
        assert_eq!((&open["cause"], house.receiver.seen(&path).requests), (&json!("failures"), 6));
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_that_was_under_way_is_judged_by_the_new_limits() {
    let house = House::with(&["acme"]).await;
    let endpoint = house.near("acme", "/bad").await;
    let path = format!("endpoints/{}/policy", endpoint.id);
    house.patch(&path, json!({ "failures": 1000, "consecutive_failures": "off" })).await;
    house.receiver.set("/bad", Behaviour::Hang);
    house.send("acme", "/bad", 1).await;
    house.until_came("/bad", 1).await;
    house.patch(&path, json!({ "failures": 1 })).await;
    house.receiver.set("/bad", FAILS);
    assert_eq!(house.until_open(&endpoint).await["cause"], "failures");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_is_slow_for_its_limit_trips_and_its_neighbour_does_not() {
    let house = House::with(&["slow", "calm"]).await;
    house
        .patch("tenants/slow/policy", json!({ "mean_latency": "50ms", "min_calls": 5, "cool_off": "5m" }))
        .await;
    let late = Behaviour::after(200, Duration::from_millis(80));
    let mut endpoints = Vec::new();
    for tenant in ["slow", "calm"] {
        let path = format!("/{tenant}");
        house.receiver.set(&path, late.clone());
        let endpoint = house.near(tenant, &path).await;
        house.send(tenant, &path, 30).await;
        endpoints.push(endpoint);
    }
    let open = house.until_open(&endpoints[0]).await;
    assert_eq!(open["cause"], "mean_latency");
    house.until_delivered(&endpoints[1], 30).await;
    assert_eq!(house.circuit(&endpoints[1]).await["state"], "closed");
    let parked = house.deliveries(&endpoints[0]).await;
    let waiting = parked.iter().filter(|one| one["state"] == "pending").count();
    assert!(waiting > 0 && parked.len() == 30, "what came after is parked, and nothing is lost");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_that_no_endpoint_has_any_more_does_not_stay_open() {
    let house = House::with(&["acme"]).await;
    house.patch("tenants/acme/policy", third_in_a_row()).await;
    let (left, kept) = (house.near("acme", "/left").await, house.near("acme", "/kept").await);
    for endpoint in [&left, &kept] {
        house.receiver.set(&endpoint.path, FAILS);
        house.send("acme", &endpoint.path, 3).await;
        house.until_open(endpoint).await;
    }
    house.send("acme", "/left", 2).await;
    let (from, to) = (house.receiver.url("/left"), house.receiver.url("/elsewhere"));
    house.patch(&format!("endpoints/{}", left.id), json!({ "url": to })).await;
    house.until_came("/elsewhere", 2).await;
    let path = format!("circuits/{}", left.circuit);
    let reset = house.until(&path, |circuit| circuit["state"] == "closed").await;
    assert_eq!((&reset["cause"], &reset["trips"]), (&json!("reset"), &json!(0)), "of {from}");
    assert_eq!(house.circuit(&kept).await["state"], "open", "it still has an endpoint");
    let path = format!("changes?circuit={}", left.circuit);
    let changes = house.until(&path, |found| found["items"][0]["cause"] == "reset").await;
    assert_eq!(changes["items"][0]["reason"], "no endpoint has it any more");
    house.stop().await;
}
