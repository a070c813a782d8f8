//! A notifier on a real database, with a clock that stands still and an HTTP sender with scripted responses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::{Clock, ManualClock};
use breakerbox_core::{Cause, Change, CircuitStatus, Epoch, Policy, Timestamp, TripRule};
use breakerbox_egress::{HttpSender, Incoming, Outgoing};
use breakerbox_gateway::notifications::{Mailer, MessageSender, Notifier, NotifierSettings};
use breakerbox_gateway::telemetry::Metrics;
use breakerbox_model::delivery::{Connection, Fault, Reply};
use breakerbox_model::notifications::{
    CircuitContext, Kinds, Notification, NotificationTarget, OutageStep, Way, notifications,
};
use breakerbox_model::objects::{PastChange, Secret, TenantId, TenantSettings};
use breakerbox_storage::Defaults;
use breakerbox_storage::records::{
    History, NewTenant, NotificationFilter, Notifications, ObservedChange, PageOf, PastNotification, Tenants,
};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage_sqlite::{Database, Options, SqliteRecords};
use bytes::Bytes;
use serde_json::Value;

pub(super) const TENANT: &str = "acme";

/// The requests that the sender got, and its response for each host.
#[derive(Default)]
pub(super) struct Book {
    pub(super) took: Mutex<Vec<Taken>>,
    pub(super) answers: Mutex<BTreeMap<String, Reply>>,
}

/// A request that the sender got.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) at: Timestamp,
    pub(super) host: String,
    pub(super) body: Value,
}

struct FakeCourier {
    book: Arc<Book>,
    clock: ManualClock,
}

#[async_trait]
impl HttpSender for FakeCourier {
    async fn send(&self, outgoing: Outgoing) -> Incoming {
        let host = outgoing.target.uri().host().unwrap().to_owned();
        let body = serde_json::from_slice(&outgoing.body).unwrap();
        let answer = self.book.answers.lock().unwrap().get(&host).copied();
        self.book.took.lock().unwrap().push(Taken { at: self.clock.now(), host, body });
        let reply = answer.unwrap_or(Reply::Answered { status: 200, retry_after: None });
        Incoming {
            reply,
            detail: None,
            body: Bytes::new(),
            latency: Duration::ZERO,
            connection: Connection::Existing,
        }
    }
}

pub(super) struct Rig {
    pub(super) clock: ManualClock,
    pub(super) records: SqliteRecords,
    pub(super) notifier: Arc<Notifier>,
    pub(super) book: Arc<Book>,
    pub(super) metrics: Arc<Metrics>,
    database: Database,
    /// How long an outage must last before its trip is notified.
    pub(super) after: Duration,
    settings: NotifierSettings,
    defaults: Defaults,
    key: MasterKey,
    folder: tempfile::TempDir,
}

/// Creates a webhook target.
pub(super) fn webhook(name: &str, url: &str) -> NotificationTarget {
    let way = Way::Webhook { url: url.parse().unwrap(), secret: Secret::new(vec![7; 32]).unwrap() };
    NotificationTarget { name: name.into(), way, on: Kinds::ALL }
}

impl Rig {
    /// Starts a notifier with these operator targets, and with a tenant that has no targets.
    pub(super) async fn new(operators: Vec<NotificationTarget>) -> Self {
        Self::with(operators, NotifierSettings::default()).await
    }

    pub(super) async fn with(operators: Vec<NotificationTarget>, settings: NotifierSettings) -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::random();
        let defaults = Defaults { notification_targets: operators.into(), ..Defaults::default() };
        let book = Arc::new(Book::default());
        let (database, records) = open(&folder, &key, &clock, &defaults).await;
        let metrics = Arc::new(Metrics::new());
        let notifier = notifier(&records, &clock, &book, &metrics, settings);
        let new =
            NewTenant { id: TENANT.parse().unwrap(), settings: TenantSettings::new(TENANT), secret: None };
        records.create_tenant(new).await.unwrap();
        let after = Duration::ZERO;
        Self { clock, records, notifier, book, metrics, database, after, settings, defaults, key, folder }
    }

    /// Closes the database file, and opens it again.
    pub(super) async fn restart(&mut self) {
        self.database.clone().close().await;
        (self.database, self.records) = open(&self.folder, &self.key, &self.clock, &self.defaults).await;
        self.notifier = notifier(&self.records, &self.clock, &self.book, &self.metrics, self.settings);
    }

    pub(super) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the response of a host.
    pub(super) fn answer(&self, host: &str, reply: Reply) {
        self.book.answers.lock().unwrap().insert(host.to_owned(), reply);
    }

    /// Makes all requests to a host time out.
    pub(super) fn kill(&self, host: &str) {
        self.answer(host, Reply::Failed(Fault::Timeout));
    }

    /// Returns the requests to a host.
    pub(super) fn sent_to(&self, host: &str) -> Vec<Taken> {
        self.book.took.lock().unwrap().iter().filter(|taken| taken.host == host).cloned().collect()
    }

    /// Lets this many seconds pass, sending due notifications every second.
    pub(super) async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            self.notifier.send_due().await;
        }
    }

    /// Sets the tenant's targets.
    pub(super) async fn targets(&self, targets: Vec<NotificationTarget>) {
        let tenant: TenantId = TENANT.parse().unwrap();
        let mut settings = self.records.tenant(&tenant).await.unwrap().settings;
        settings.notification_targets = targets;
        self.records.change_tenant(&tenant, settings, None).await.unwrap();
    }

    /// Returns all notifications, oldest first.
    pub(super) async fn all(&self) -> Vec<PastNotification> {
        let found =
            self.records.notifications(&NotificationFilter::default(), &PageOf::first(500)).await.unwrap();
        found.items.into_iter().rev().collect()
    }

    /// Records a change of one of the tenant's circuits.
    pub(super) async fn change(&self, endpoint: u32, epoch: u64, cause: Cause, to: CircuitStatus) -> u64 {
        let heard = vec![heard(endpoint, epoch, cause, to, self.now(), self.after)];
        self.records.append_history(heard).await.unwrap()
    }

    pub(super) async fn trip(&self, endpoint: u32, epoch: u64) {
        self.change(endpoint, epoch, Cause::Rule(TripRule::Failures), CircuitStatus::Open).await;
    }

    pub(super) async fn recover(&self, endpoint: u32, epoch: u64) {
        self.change(endpoint, epoch, Cause::ProbesSucceeded, CircuitStatus::Closed).await;
    }
}

/// Builds a change with its notifications.
pub(super) fn heard(
    endpoint: u32,
    epoch: u64,
    cause: Cause,
    to: CircuitStatus,
    at: Timestamp,
    after: Duration,
) -> ObservedChange {
    let key = format!("{TENANT} https://{endpoint}.example/in");
    let change = {
        let mut changed = Change::new(CircuitStatus::Closed, to, at, Epoch(epoch), cause);
        changed.trips = 1;
        changed.last_success = Some(at);
        changed
    };
    let known = CircuitContext {
        policy: &Policy::default(),
        endpoints: &[],
        last: None,
        is_unreported_outage: false,
    };
    let notifications: Vec<Notification> = notifications(&key, &change, &known);
    let outage = OutageStep::of(&key, &change, &known, after);
    ObservedChange { change: PastChange { key: key.into(), change }, notifications, outage }
}

async fn open(
    folder: &tempfile::TempDir,
    key: &MasterKey,
    clock: &ManualClock,
    defaults: &Defaults,
) -> (Database, SqliteRecords) {
    let options = Options { clock: Arc::new(clock.clone()), reserve: 0, ..Options::default() };
    let database = Database::open(folder.path(), options).unwrap();
    let records = SqliteRecords::open(database.clone(), Keyring::new(key), defaults.clone()).await.unwrap();
    (database, records)
}

fn notifier(
    records: &SqliteRecords,
    clock: &ManualClock,
    book: &Arc<Book>,
    metrics: &Arc<Metrics>,
    settings: NotifierSettings,
) -> Arc<Notifier> {
    let http_sender = FakeCourier { book: Arc::clone(book), clock: clock.clone() };
    let no_mail: Option<Mailer> = None;
    let (clock, wall) = (clock.clone(), clock.clone());
    Notifier::new(
        Arc::new(records.clone()),
        Arc::clone(records.directory()),
        MessageSender::new(Arc::new(http_sender), no_mail),
        Arc::new(move || clock.now()),
        Arc::new(move || wall.now()),
        Arc::clone(metrics),
        settings,
    )
}
