//! A gateway's API on loopback: the real server, router, records and queue, with their own database file. Nothing is
//! delivered, because the dispatcher, test requests and health are stand-ins. The server stops when the [`Site`] is
//! dropped.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{MemoryStore, Store};
use breakerbox::throttle::Throttle;
use breakerbox::{Breakerbox, SystemClock};
use breakerbox_core::Timestamp;
use breakerbox_egress::{AddressPolicy, Incoming};
use breakerbox_gateway::api::{
    self, Health, HealthReport, Limits, NotificationTest, Services, TestEvent, TestSend, TestedTarget,
};
use breakerbox_gateway::dispatch::{DirectDispatch, EventSubmitter, LaneWaits};
use breakerbox_gateway::notifications::Delivered;
use breakerbox_gateway::permits::{PermitParts, Permits};
use breakerbox_gateway::telemetry::Metrics;
use breakerbox_model::delivery::lanes::LaneWait;
use breakerbox_model::delivery::{Connection, Reply};
use breakerbox_model::objects::{ApiKeyText, LaneId, NewBatch, Priority, Scope, Scopes, TenantId};
use breakerbox_model::reminder::{CatchUp, ReminderDefaults, WhenFailed};
use breakerbox_storage::records::{ApiKeys, NewApiKey};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage::{Defaults, Directory, EndpointEntry, Queue, ReminderStore, SubmitError, Submitted};
use breakerbox_storage_sqlite::{Database, Options, SqliteQueue, SqliteRecords};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A generous timeout, so that a hanging test fails.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) struct Site {
    pub(super) address: SocketAddr,
    /// An API key with all scopes, for all tenants.
    pub(super) admin: String,
    pub(super) records: SqliteRecords,
    pub(super) circuits: Breakerbox,
    pub(super) stand_in: Arc<StandIn>,
    pub(super) services: Services,
    client: Client<HttpConnector, Full<Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<tokio::task::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

/// Stands in for the other parts of a gateway.
pub(super) struct StandIn {
    queue: Arc<SqliteQueue>,
    /// The error that the next submission returns instead of accepting.
    pub(super) refusal: Mutex<Option<SubmitError>>,
    pub(super) batches: Mutex<Vec<NewBatch>>,
    pub(super) health: Mutex<HealthReport>,
    pub(super) tested: Mutex<Vec<TestEvent>>,
    /// What all lanes wait for.
    pub(super) wait: Mutex<LaneWait>,
}

#[async_trait]
impl EventSubmitter for Plain {
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError> {
        if let Some(refusal) = self.0.refusal.lock().unwrap().take() {
            return Err(refusal);
        }
        self.0.batches.lock().unwrap().push(batch.clone());
        self.0.queue.submit(batch).await
    }
}

struct Plain(Arc<StandIn>);

impl LaneWaits for Plain {
    fn waits(&self, lanes: &[(LaneId, Option<Priority>)]) -> Vec<LaneWait> {
        vec![*self.0.wait.lock().unwrap(); lanes.len()]
    }
}

#[async_trait]
impl TestSend for Plain {
    async fn test(&self, endpoint: Arc<EndpointEntry>, event: TestEvent) -> Incoming {
        self.0.tested.lock().unwrap().push(event);
        Incoming {
            reply: Reply::Answered { status: 418, retry_after: None },
            detail: None,
            body: Bytes::from(format!("I am {}", endpoint.id)),
            latency: Duration::from_millis(12),
            connection: Connection::Established,
        }
    }
}

/// Tests notification targets without sending anything. Every target accepts the test.
struct TestNotifications(Arc<Directory>);

#[async_trait]
impl NotificationTest for TestNotifications {
    async fn test(&self, tenant: &TenantId) -> Result<Vec<TestedTarget>, Timestamp> {
        let targets = self.0.tenant(tenant).unwrap().source.settings.notification_targets.clone().into_iter();
        let delivered = Delivered::new(true, "200");
        Ok(targets.map(|target| TestedTarget { target, delivered: delivered.clone() }).collect())
    }
}

impl Health for Plain {
    fn report(&self) -> HealthReport {
        self.0.health.lock().unwrap().clone()
    }
}

/// The status, headers and body of a response.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Said {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the problem's code; empty if the response is not a problem.
    pub(super) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the response. Panics unless it has this status.
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status.as_u16(), status, "{body}");
        self
    }
}

impl Site {
    pub(super) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub(super) async fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { reserve: 0, ..Options::default() };
        let database = Database::open(folder.path(), options).unwrap();
        let keyring = Keyring::new(&MasterKey::random());
        let records = SqliteRecords::open(database.clone(), keyring, Defaults::default()).await.unwrap();
        let directory = Arc::clone(records.directory());
        let queue =
            SqliteQueue::new(database.clone(), directory.clone(), Arc::new(DirectDispatch::default()));
        let queue = Arc::new(queue);
        let store = Arc::new(MemoryStore::with_clock(SystemClock));
        let circuits = Breakerbox::builder().store(Arc::clone(&store)).clock(SystemClock).build();
        let stand_in = Arc::new(StandIn {
            queue: Arc::clone(&queue),
            refusal: Mutex::default(),
            batches: Mutex::default(),
            health: Mutex::new(HealthReport {
                alive: true,
                ready: true,
                degraded: Vec::new(),
                own_outage: None,
            }),
            tested: Mutex::default(),
            wait: Mutex::new(LaneWait::UNKNOWN),
        });
        let metrics = Arc::new(Metrics::new());
        let now = database.clone();
        let permits = Permits::new(PermitParts {
            breakers: circuits.clone(),
            throttles: Some(Throttle::builder().build_keyed(1_000)),
            keyring: Arc::clone(records.keyring()),
            settled: Arc::new(records.clone()),
            metrics: Arc::clone(&metrics),
            clock: Arc::new(move || now.now()),
            max: 1_000,
            tenant_share: 100,
        });
        let services = Services {
            records: Arc::new(records.clone()),
            directory,
            submitter: Arc::new(Plain(Arc::clone(&stand_in))),
            waits: Arc::new(Plain(Arc::clone(&stand_in))),
            circuits: circuits.clone(),
            circuit_store: store as Arc<dyn Store>,
            tests: Arc::new(Plain(Arc::clone(&stand_in))),
            notification_tests: Arc::new(TestNotifications(Arc::clone(records.directory()))),
            health: Arc::new(Plain(Arc::clone(&stand_in))),
            metrics,
            permits,
            wall: {
                let database = database.clone();
                Arc::new(move || database.now())
            },
            clock: Arc::new(move || database.now()),
            addresses: Arc::new(AddressPolicy::allowing(["127.0.0.0/8".parse().unwrap()])),
            limits,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(api::serve(listener, services.clone(), async move {
            let _ = stopped.await;
        }));
        let mut site = Self {
            address,
            admin: String::new(),
            records,
            circuits,
            stand_in,
            services,
            client: Client::builder(TokioExecutor::new()).build_http(),
            stop: Some(stop),
            serving: Some(serving),
            _folder: folder,
        };
        site.admin = site.key(&[Scope::Admin], None).await;
        for tenant in ["default", "acme", "other"] {
            site.post("/v1/tenants", &site.admin, json!({ "id": tenant })).await.expect(201);
        }
        site
    }

    pub(super) fn queue(&self) -> &dyn Queue {
        &*self.stand_in.queue
    }

    /// Creates a key with these scopes.
    pub(super) async fn key(&self, scopes: &[Scope], tenant: Option<&str>) -> String {
        let text = ApiKeyText::random();
        let new = NewApiKey {
            hash: text.hash(),
            name: "test".to_owned(),
            scopes: Scopes::of(scopes),
            tenant: tenant.map(|tenant| tenant.parse::<TenantId>().unwrap()),
            expires_at: None,
        };
        self.records.create_api_key(new).await.unwrap();
        text.reveal()
    }

    pub(super) async fn get(&self, path: &str, key: &str) -> Said {
        self.request(Method::GET, path, key, None).await
    }

    pub(super) async fn post(&self, path: &str, key: &str, body: Value) -> Said {
        self.request(Method::POST, path, key, Some(body)).await
    }

    /// Makes a request with a key, and with a JSON body if there is one.
    pub(super) async fn request(&self, method: Method, path: &str, key: &str, body: Option<Value>) -> Said {
        let mut request = Request::builder().method(method).header("authorization", format!("Bearer {key}"));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.send(request, path, body).await
    }

    /// Makes a request with this method, these headers and this body.
    pub(super) async fn send(
        &self,
        request: http::request::Builder,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Said {
        let uri = format!("http://{}{path}", self.address);
        let request = request.uri(uri).body(Full::new(body.into())).unwrap();
        let asked = async {
            let response = self.client.request(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Said { status: parts.status, headers: parts.headers, body }
        };
        tokio::time::timeout(LONG, asked).await.expect("an answer")
    }

    /// Creates an endpoint and returns its id.
    pub(super) async fn endpoint(&self, tenant: &str) -> String {
        let body = json!({ "tenant": tenant, "url": format!("https://hooks.{tenant}.example/in") });
        let created = self.post("/v1/endpoints", &self.admin, body).await.expect(201);
        created.json()["id"].as_str().unwrap().to_owned()
    }

    /// Creates a reminder that is due in the far future and returns its id.
    pub(super) async fn reminder(&self, tenant: &str) -> String {
        let body = json!({ "tenant": tenant, "url": format!("https://calls.{tenant}.example/in"), "payload": { "n": 7 },
            "every": "24h", "at": "2099-01-01T09:00:00Z" });
        let created = self.post("/v1/reminders", &self.admin, body).await.expect(201);
        created.json()["id"].as_str().unwrap().to_owned()
    }

    /// Fires due reminders, as the scheduler would. Nothing is sent.
    pub(super) async fn fire(&self) {
        let queue = &self.stand_in.queue;
        let says = ReminderDefaults { catch_up: CatchUp::All, when_failed: WhenFailed::Stop };
        loop {
            let now = (self.services.wall)();
            let looked = queue.due_reminders(now, 100).await.unwrap();
            if looked.is_empty() {
                return;
            }
            queue
                .apply_decisions(looked.iter().map(|looked| looked.decide(says, now)).collect())
                .await
                .unwrap();
        }
    }

    /// Submits an event and returns its id.
    pub(super) async fn event(&self, tenant: &str) -> String {
        let body = json!({ "tenant": tenant, "type": "invoice.paid", "payload": { "n": 7 } });
        let accepted = self.post("/v1/events", &self.admin, body).await.expect(202);
        accepted.json()["id"].as_str().unwrap().to_owned()
    }

    /// Stops the server, and waits until it has stopped.
    pub(super) async fn stop(&mut self) {
        drop(self.stop.take());
        let serving = self.serving.take().unwrap();
        tokio::time::timeout(LONG, serving).await.expect("it stops").unwrap();
    }
}
