//! Reminders from end to end: a whole gateway, and a receiver that records requests.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use breakerbox_gateway::config::Config;
use breakerbox_gateway::gateway::Gateway;
use breakerbox_model::delivery::{Signer, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use breakerbox_model::objects::Secret;
use breakerbox_testkit::receiver::{Behaviour, Received, Receiver};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(60);

const SCHEDULED_AT: HeaderName = HeaderName::from_static("breakerbox-scheduled-at");

/// A received request: its path, relevant headers, and body.
#[derive(Clone, Debug)]
struct Arrived {
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Arrived {
    fn of(received: &Received<'_>) -> Self {
        let names = [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, SCHEDULED_AT];
        let named = |name: HeaderName| {
            let value = received.header(name.as_str()).and_then(|text| HeaderValue::from_str(text).ok());
            value.map(|value| (name, value))
        };
        Self {
            path: received.path.to_owned(),
            headers: names.into_iter().filter_map(named).collect(),
            body: received.body.to_vec(),
        }
    }

    fn id(&self) -> &str {
        self.headers[WEBHOOK_ID].to_str().unwrap()
    }

    fn scheduled_at(&self) -> jiff::Timestamp {
        self.headers[SCHEDULED_AT].to_str().unwrap().parse().unwrap()
    }
}

struct House {
    gateway: Option<Gateway>,
    url: String,
    key: String,
    client: Client<HttpConnector, Full<Bytes>>,
    receiver: Receiver,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    _folder: tempfile::TempDir,
}

impl House {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config =
            Config { data: folder.path().into(), listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
        config.egress.allow = vec!["127.0.0.0/8".parse().unwrap()];
        config.limits.disk_reserve = 0;
        let gateway = Gateway::start(&config).await.unwrap();
        let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
        let book = Arc::clone(&arrived);
        let receiver = Receiver::builder().check(move |received| {
            book.lock().unwrap().push(Arrived::of(received));
            true
        });
        Self {
            url: format!("http://{}", gateway.address()),
            key: gateway.first_start().unwrap().admin_key.reveal(),
            gateway: Some(gateway),
            client: Client::builder(TokioExecutor::new()).build_http(),
            receiver: receiver.start().unwrap(),
            arrived,
            _folder: folder,
        }
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

    async fn post(&self, path: &str, body: Value) -> Value {
        self.request(Method::POST, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, Value::Null).await
    }

    /// Creates a reminder that calls the receiver at this path.
    async fn reminder(&self, path: &str, more: Value) -> String {
        let mut body = json!({ "url": self.receiver.url(path), "payload": { "path": path } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post("reminders", body).await["id"].as_str().unwrap().to_owned()
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

    async fn until_state(&self, reminder: &str, state: &str) -> Value {
        self.until(&format!("reminders/{reminder}"), |shown| shown["state"] == state).await
    }

    async fn runs(&self, reminder: &str) -> Vec<Value> {
        self.get(&format!("reminders/{reminder}/runs")).await["items"].as_array().unwrap().clone()
    }

    fn arrived(&self, path: &str) -> Vec<Arrived> {
        let all = self.arrived.lock().unwrap();
        all.iter().filter(|arrived| arrived.path == path).cloned().collect()
    }

    async fn until_arrived(&self, path: &str, count: usize) -> Vec<Arrived> {
        let began = Instant::now();
        loop {
            let arrived = self.arrived(path);
            if arrived.len() >= count {
                return arrived;
            }
            assert!(began.elapsed() < LONG, "{path}: {arrived:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(mut self) {
        assert!(self.gateway.take().unwrap().stop().await);
    }
}

const NEVER: &str = "2099-01-01T00:00:00Z";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_calls_its_owner_at_its_times() {
    let house = House::start().await;
    let secret = house.get("tenants/default/secrets").await["secrets"][0]["secret"].clone();
    let signer = Signer::new(&[secret.as_str().unwrap().parse::<Secret>().unwrap()]);
    let reminder = house.reminder("/every", json!({ "every": "1s", "max_runs": 3 })).await;
    let shown = house.until_state(&reminder, "finished").await;
    assert_eq!(
        (&shown["runs"], &shown["next_at"], &shown["upcoming"]),
        (&json!(3), &Value::Null, &json!([]))
    );

    let arrived = house.arrived("/every");
    let ids: Vec<_> = arrived.iter().map(Arrived::id).collect();
    assert_eq!(ids, [1, 2, 3].map(|run| format!("{reminder}_{run}")), "each once, in their order");
    let first = arrived[0].scheduled_at();
    for (place, one) in arrived.iter().enumerate() {
        let due = first + jiff::SignedDuration::from_secs(place as i64);
        assert_eq!(one.scheduled_at(), due, "a second apart, however long each took");
        assert_eq!(one.body, br#"{"path":"/every"}"#);
        let sent: u64 = one.headers[WEBHOOK_TIMESTAMP].to_str().unwrap().parse().unwrap();
        assert_eq!(signer.verify(&one.headers, &one.body, sent), Ok(()));
        assert!(sent as i64 >= due.as_second(), "not before its time");
    }
    let runs = house.runs(&reminder).await;
    let numbers: Vec<_> =
        runs.iter().map(|run| (run["number"].as_u64().unwrap(), run["state"].as_str().unwrap())).collect();
    assert_eq!(numbers, [3, 2, 1].map(|number| (number, "delivered")), "the newest first");
    assert!(
        runs.iter()
            .all(|run| run["attempts"] == 1 && run["sent_at"].is_string() && run["finished_at"].is_string())
    );
    let attempts = house.get(&format!("deliveries/{}/attempts", runs[0]["delivery"].as_str().unwrap())).await;
    assert_eq!(attempts["items"][0]["status"], 200);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_host_holds_up_its_own_callbacks_unless_the_tenant_has_one_circuit() {
    let house = House::start().await;
    for (circuit_by, is_held_up) in [(Value::Null, false), (json!("tenant"), true)] {
        let rules =
            json!({ "circuit_by": circuit_by, "policy": { "failures": 2 }, "retry": ["50ms", "50ms"] });
        house.request(Method::PATCH, "tenants/default", json!({ "reminders": rules })).await;
        let (dead, healthy) = (format!("/dead/{is_held_up}"), format!("/healthy/{is_held_up}"));
        house.receiver.set(&dead, Behaviour::status(500));
        // Another host, at the same receiver.
        let named = house.receiver.url(&dead).replace("127.0.0.1", "localhost");
        let reminder = house.reminder(&dead, json!({ "url": named, "at": NEVER })).await;
        house.post(&format!("reminders/{reminder}/run"), Value::Null).await;
        let key = if is_held_up { "default/reminders\"" } else { "default/reminders localhost" };
        house.until("circuits?state=open", |open| open["items"].to_string().contains(key)).await;
        let reminder = house.reminder(&healthy, json!({ "at": NEVER })).await;
        house.post(&format!("reminders/{reminder}/run"), Value::Null).await;
        if is_held_up {
            let lane = |lanes: &Value| {
                let lanes = lanes["items"].as_array().unwrap().clone();
                lanes.into_iter().find(|lane| lane["waiting"] == 2 && lane["waits_for"] == "circuit")
            };
            let lanes = house.until("lanes", |lanes| lane(lanes).is_some()).await;
            assert_eq!(lane(&lanes).unwrap()["circuit"]["key"], "default/reminders");
            assert!(house.arrived(&healthy).is_empty());
        } else {
            house.until_arrived(&healthy, 1).await;
        }
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_decides() {
    let house = House::start().await;
    let rules = json!({ "retry": ["50ms", "50ms", "50ms"] });
    house.request(Method::PATCH, "tenants/default", json!({ "reminders": rules })).await;
    let table = [
        ("/gone", 410, "gone", 1),
        ("/refused", 400, "rejected", 1),
        ("/down", 500, "failed", 4),
        ("/odd", 422, "failed", 4),
    ];
    for (path, status, why, requests) in table {
        house.receiver.set(path, Behaviour::status(status));
        let reminder = house.reminder(path, json!({ "every": "1s" })).await;
        let shown = house.until_state(&reminder, "stopped").await;
        assert_eq!((&shown["stopped_reason"], &shown["runs"]), (&json!(why), &json!(1)), "{path}");
        let arrived = house.arrived(path);
        assert_eq!(arrived.len(), requests, "{path}");
        assert!(arrived.iter().all(|one| one.id() == format!("{reminder}_1")), "the same id on every retry");
        let runs = house.runs(&reminder).await;
        assert_eq!((&runs[0]["state"], &runs[0]["attempts"]), (&json!("failed"), &json!(requests)), "{path}");

        // A run of a stopped reminder can be resent, and the reminder can continue.
        house.receiver.set(path, Behaviour::status(204));
        let delivery = runs[0]["delivery"].as_str().unwrap();
        house.post(&format!("deliveries/{delivery}/resend"), Value::Null).await;
        house.until(&format!("deliveries/{delivery}"), |shown| shown["state"] == "delivered").await;
        assert_eq!(house.arrived(path).last().unwrap().id(), format!("{reminder}_1"));
        assert_eq!(house.get(&format!("reminders/{reminder}")).await["state"], "stopped");
        house.post(&format!("reminders/{reminder}/resume"), Value::Null).await;
        let arrived = house.until_arrived(path, requests + 2).await;
        assert_eq!(arrived.last().unwrap().id(), format!("{reminder}_2"), "{path}");
        house.post(&format!("reminders/{reminder}/cancel"), Value::Null).await;
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_now_is_besides_the_schedule() {
    let house = House::start().await;
    let reminder = house.reminder("/now", json!({ "at": NEVER, "every": "24h" })).await;
    house.post(&format!("reminders/{reminder}/pause"), Value::Null).await;
    house.post(&format!("reminders/{reminder}/run"), Value::Null).await;
    let arrived = house.until_arrived("/now", 1).await;
    assert_eq!(arrived[0].id(), format!("{reminder}_1"));
    let shown = house.until(&format!("reminders/{reminder}"), |shown| shown["open_run"].is_null()).await;
    assert_eq!((&shown["state"], &shown["runs"]), (&json!("paused"), &json!(1)), "as before");
    let resumed = house.post(&format!("reminders/{reminder}/resume"), Value::Null).await;
    assert_eq!(resumed["next_at"], "2099-01-01T00:00:00.000Z");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_parks_nothing_and_afterwards_it_goes_on() {
    let house = House::start().await;
    let other = house.reminder("/other", json!({ "at": NEVER })).await;
    let circuit =
        house.get(&format!("reminders/{other}")).await["circuit"]["id"].as_str().unwrap().to_owned();
    house.post(&format!("circuits/{circuit}/force_open"), json!({ "reason": "test" })).await;
    let reminder = house.reminder("/paused", json!({ "every": "1s" })).await;
    let path = format!("reminders/{reminder}");
    let parked = |found: &Value| found["items"].as_array().unwrap().iter().any(|run| run["parked"] == true);
    house.until(&format!("{path}/runs"), parked).await;
    let paused = house.post(&format!("{path}/pause"), Value::Null).await;
    assert_eq!(
        (&paused["state"], &paused["runs"], &paused["open_run"]),
        (&json!("paused"), &json!(0), &Value::Null)
    );
    let waiting = house.get("deliveries?state=pending").await;
    assert_eq!(waiting["items"], json!([]), "nothing is parked");

    house.post(&format!("circuits/{circuit}/reset"), json!({ "reason": "test" })).await;
    // Another reminder runs, so that anything that would happen immediately has happened.
    house.post(&format!("reminders/{other}/run"), Value::Null).await;
    house.until_arrived("/other", 1).await;
    assert_eq!(house.arrived("/paused").len(), 0, "not while it is paused");
    let resumed = house.post(&format!("{path}/resume"), Value::Null).await;
    let first = house.until_arrived("/paused", 1).await.remove(0);
    let resumed_at: jiff::Timestamp = resumed["changed_at"].as_str().unwrap().parse().unwrap();
    assert!(
        first.scheduled_at() >= resumed_at - jiff::SignedDuration::from_millis(1),
        "what fell into the pause is skipped"
    );
    assert_eq!(first.id(), format!("{reminder}_1"), "nobody has heard of the one that was withdrawn");
    house.stop().await;
}
