//! A gateway in this process, and workers that call it over HTTP. The gateway can be stopped and restarted on the same
//! directory.

use std::time::{Duration, Instant};

use breakerbox_gateway::config::Config;
use breakerbox_gateway::gateway::Gateway;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// A generous timeout, so that a hanging test fails.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) const URL: &str = "https://hooks.example.com/in";

pub(super) struct Rig {
    pub(super) key: String,
    config: Config,
    gateway: Option<Gateway>,
    client: Client<HttpConnector, Full<Bytes>>,
    _folder: tempfile::TempDir,
}

impl Rig {
    /// Starts a gateway with this policy. Probes may take as long as a slow machine needs.
    pub(super) async fn start(policy: Value) -> Self {
        Self::with(policy, |_| ()).await
    }

    pub(super) async fn with(policy: Value, change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let mut config = Config { data: folder.path().join("data"), listen, ..Config::default() };
        config.limits.disk_reserve = 0;
        change(&mut config);
        let gateway = Gateway::start(&config).await.unwrap();
        let key = gateway.first_start().unwrap().admin_key.reveal();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let rig = Self { key, config, gateway: Some(gateway), client, _folder: folder };
        let mut whole = json!({
            "failure_rate": "off", "consecutive_failures": 3, "jitter": 0, "probes": 1, "probe_timeout": "60s",
            "cool_off": "100ms", "cool_off_factor": 1, "ramp_cap": "off",
        });
        whole.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
        rig.request(Method::PATCH, "/v1/tenants/default", json!({ "policy": whole })).await;
        rig
    }

    /// Stops the gateway, and starts it on the same directory.
    pub(super) async fn restart(&mut self) {
        assert!(self.gateway.take().unwrap().stop().await);
        self.gateway = Some(Gateway::start(&self.config).await.unwrap());
    }

    /// Returns the gateway's URL.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.gateway.as_ref().unwrap().address())
    }

    /// Makes a request with the admin key, expecting success.
    pub(super) async fn request(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.request_with(&self.key, method, path, &body).await;
        assert!((200..300).contains(&status), "{path} {body}: {status} {answer}");
        answer
    }

    pub(super) async fn request_with(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url()))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let asked = async {
            let (parts, body) = self.client.request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            (parts.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
        };
        tokio::time::timeout(LONG, asked).await.expect("an answer")
    }

    pub(super) async fn acquire(&self, body: Value) -> Value {
        self.request(Method::POST, "/v1/circuits/acquire", body).await
    }

    /// Acquires a permit for a call to this URL.
    pub(super) async fn permit(&self, url: &str) -> Value {
        let answer = self.acquire(json!({ "url": url })).await;
        assert!(answer["permit"].is_object(), "{answer}");
        answer["permit"].clone()
    }

    /// Returns the reason for a refusal.
    pub(super) async fn refused(&self, body: Value) -> Value {
        let answer = self.acquire(body).await;
        assert!(answer["refusal"].is_object(), "{answer}");
        answer["refusal"].clone()
    }

    /// Settles a permit with this report, and returns the response.
    pub(super) async fn settle(&self, permit: &Value, report: Value) -> Value {
        let mut body = report;
        body["id"] = permit["id"].clone();
        self.request(Method::POST, "/v1/permits/settle", body).await
    }

    /// Settles a permit, and returns only `settled`.
    pub(super) async fn settled(&self, permit: &Value, report: Value) -> String {
        self.settle(permit, report).await["settled"].as_str().unwrap().to_owned()
    }

    /// Opens the circuit for this URL with reports of failures.
    pub(super) async fn trip(&self, url: &str) {
        let mut permit = Value::Null;
        for _ in 0..3 {
            permit = self.permit(url).await;
            assert_eq!(self.settled(&permit, json!({ "outcome": "failure" })).await, "counted");
        }
        // Until the store has confirmed the trip, acquires are refused as `trip_pending`.
        self.until(&permit, |circuit| circuit["state"] == "open").await;
    }

    /// Acquires until a permit is given. After each refusal, waits as long as the refusal states, like a worker.
    pub(super) async fn permit_in_time(&self, url: &str) -> Value {
        let began = Instant::now();
        loop {
            let answer = self.acquire(json!({ "url": url })).await;
            if answer["permit"].is_object() {
                return answer["permit"].clone();
            }
            assert!(began.elapsed() < LONG, "{answer}");
            let wait = answer["refusal"]["retry_in_ms"].as_u64().unwrap();
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }

    pub(super) async fn circuit(&self, permit: &Value) -> Value {
        let id = permit["circuit"].as_str().unwrap();
        self.request(Method::GET, &format!("/v1/circuits/{id}"), Value::Null).await
    }

    /// Waits until the circuit meets the condition.
    pub(super) async fn until(&self, permit: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let circuit = self.circuit(permit).await;
            if is_so(&circuit) {
                return circuit;
            }
            assert!(began.elapsed() < LONG, "{circuit}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the value of a sample in `/metrics`.
    pub(super) async fn metric(&self, sample: &str) -> f64 {
        let request = Request::get(format!("{}/metrics", self.url()))
            .header("authorization", format!("Bearer {}", self.key))
            .body(Full::default())
            .unwrap();
        let body =
            self.client.request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{sample}: {text}")).parse().unwrap()
    }
}
