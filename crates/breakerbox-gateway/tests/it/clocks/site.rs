//! A gateway in this process whose wall clock the test sets while it runs and between starts, and a receiver that
//! records requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use breakerbox_core::Timestamp;
use breakerbox_gateway::config::{Config, Sources};
use breakerbox_gateway::gateway::{Gateway, StartError};
use breakerbox_model::delivery::{Signer, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use breakerbox_model::objects::Secret;
use breakerbox_storage::clock::Clocks;
use breakerbox_testkit::gateway::Api;
use breakerbox_testkit::receiver::Receiver;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A generous timeout, so that a hanging test fails.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) const HOUR: i64 = 3_600;

/// A request received by the receiver.
#[derive(Clone)]
pub(super) struct Arrived {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The time of receipt by the system's clock, in seconds since 1970.
    pub(super) at: u64,
}

impl Arrived {
    /// Returns whether a receiver with this secret and a correct clock would accept the signature.
    pub(super) fn is_signed_with(&self, secret: &str) -> bool {
        let secret: Secret = secret.parse().unwrap();
        Signer::new(&[secret]).verify(&self.headers, &self.body, self.at).is_ok()
    }
}

pub(super) struct Site {
    runtime: Runtime,
    gateway: Option<Gateway>,
    config: Config,
    key: String,
    ahead: Arc<AtomicI64>,
    pub(super) receiver: Receiver,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    _folder: tempfile::TempDir,
}

impl Site {
    /// Starts a gateway whose wall clock is this many seconds ahead of the system's clock.
    pub(super) fn start(ahead: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
        let book = Arc::clone(&arrived);
        let receiver = Receiver::builder().check(move |received| {
            let names = [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE];
            let headers = names.into_iter().filter_map(|name| {
                let value = HeaderValue::from_str(received.header(name.as_str())?).ok()?;
                Some((name, value))
            });
            book.lock().unwrap().push(Arrived {
                path: received.path.to_owned(),
                headers: headers.collect(),
                body: received.body.to_vec(),
                at: right_time().as_micros() / 1_000_000,
            });
            true
        });
        let said = Sources::default().variables([
            ("BREAKERBOX_POLICY_CONSECUTIVE_FAILURES", "1"),
            ("BREAKERBOX_POLICY_COOL_OFF", "1s"),
            ("BREAKERBOX_POLICY_COOL_OFF_MAX", "1s"),
            ("BREAKERBOX_POLICY_PROBES", "1"),
            ("BREAKERBOX_DELIVERY_RETRY", "1s,2s,1s,1s,1s,1s,1s,1s"),
            ("BREAKERBOX_ALLOW", "127.0.0.0/8"),
            ("BREAKERBOX_LISTEN", "127.0.0.1:0"),
            ("BREAKERBOX_LIMITS_DISK_RESERVE", "0B"),
            ("BREAKERBOX_GRACE", "5s"),
        ]);
        let config = Config { data: folder.path().join("data"), ..said.load().unwrap().config };
        let mut site = Self {
            runtime: Runtime::new().unwrap(),
            gateway: None,
            config,
            key: String::new(),
            ahead: Arc::new(AtomicI64::new(ahead)),
            receiver: receiver.start().unwrap(),
            arrived,
            _folder: folder,
        };
        site.try_start(false).unwrap();
        site.key = site.gateway.as_ref().unwrap().first_start().unwrap().admin_key.reveal();
        site
    }

    fn clocks(&self) -> Clocks {
        let ahead = Arc::clone(&self.ahead);
        Clocks::with_wall(Arc::new(move || shifted(ahead.load(Ordering::SeqCst))))
    }

    pub(super) fn try_start(&mut self, accept_step: bool) -> Result<(), StartError> {
        let clocks = if accept_step { self.clocks().accepting_step() } else { self.clocks() };
        self.gateway = Some(self.runtime.block_on(Gateway::start_with(&self.config, &clocks))?);
        Ok(())
    }

    pub(super) fn stop(&mut self) {
        if let Some(gateway) = self.gateway.take() {
            self.runtime.block_on(gateway.stop());
        }
    }

    /// Sets the gateway's wall clock to this many seconds ahead of the system's clock.
    pub(super) fn set(&self, ahead: i64) {
        self.ahead.store(ahead, Ordering::SeqCst);
    }

    /// Stops the gateway, sets its wall clock, and starts it again.
    pub(super) fn restart(&mut self, ahead: i64) {
        self.stop();
        self.set(ahead);
        self.try_start(false).unwrap();
    }

    pub(super) fn api(&self) -> Api {
        Api::new(self.gateway.as_ref().unwrap().address(), &self.key)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.config.data.clone()
    }

    pub(super) fn endpoint(&self, path: &str) -> String {
        self.api().create_endpoint("default", &self.receiver.url(path), &[], &json!({})).unwrap()
    }

    /// Submits an event, and returns its ID.
    pub(super) fn send(&self) -> String {
        self.send_with(json!({}))
    }

    pub(super) fn send_with(&self, more: Value) -> String {
        let mut event = json!({ "type": "a.b", "payload": {} });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.api().post("/v1/events", &event).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Posts with an idempotency key, and returns the response body.
    pub(super) fn post_with_key(&self, path: &str, key: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.gateway.as_ref().unwrap().address()).unwrap();
        let (admin, length) = (&self.key, body.len());
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {admin}\r\nidempotency-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Returns the only delivery of an event.
    pub(super) fn delivery(&self, event: &str) -> Value {
        self.api().get(&format!("/v1/deliveries?event={event}")).unwrap()["items"][0].clone()
    }

    /// Returns the request for this event, waiting until it arrives.
    #[track_caller]
    pub(super) fn arrived(&self, event: &str) -> Arrived {
        let find = || {
            let arrived = self.arrived.lock().unwrap();
            arrived.iter().find(|one| one.headers.get(WEBHOOK_ID).is_some_and(|id| id == event)).cloned()
        };
        self.until("it arrives", || find().is_some());
        find().unwrap()
    }

    pub(super) fn arrived_at(&self, path: &str) -> Vec<Arrived> {
        let arrived = self.arrived.lock().unwrap();
        arrived.iter().filter(|one| one.path == path).cloned().collect()
    }

    #[track_caller]
    pub(super) fn until_delivered(&self, events: &[String]) {
        for event in events {
            self.until("it is delivered", || self.delivery(event)["state"] == "delivered");
        }
    }

    #[track_caller]
    pub(super) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let give_up_at = Instant::now() + LONG;
        while !is_so() {
            assert!(Instant::now() < give_up_at, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the response of `/readyz` contains this string.
    #[track_caller]
    pub(super) fn until_degraded(&self, text: &str) {
        let report = || self.api().request(&Method::GET, "/readyz", None).unwrap();
        let says = |report: &(u16, Value)| report.0 == 200 && report.1.to_string().contains(text);
        self.until(&format!("degraded: {text}; {:?}", report()), || says(&report()));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(super) fn right_time() -> Timestamp {
    shifted(0)
}

pub(super) fn shifted(seconds: i64) -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let micros = u64::try_from(since.as_micros()).unwrap();
    Timestamp::from_micros(micros.checked_add_signed(seconds * 1_000_000).unwrap())
}

/// Returns the number of seconds that a time in JSON is ahead of the correct time.
pub(super) fn seconds_ahead(time: &Value) -> i64 {
    let time: jiff::Timestamp = time.as_str().unwrap_or_else(|| panic!("{time}")).parse().unwrap();
    time.as_second() - i64::try_from(right_time().as_micros() / 1_000_000).unwrap()
}

/// Formats the time this many seconds from now, as the API accepts it.
pub(super) fn text_of(ahead: i64) -> String {
    jiff::Timestamp::from_microsecond(i64::try_from(shifted(ahead).as_micros()).unwrap()).unwrap().to_string()
}
