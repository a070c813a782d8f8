//! Several processes on one database: each sees what the others change, and nothing is done twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox::{Clock, ManualClock};
use breakerbox_core::OutcomeKind;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{
    DisabledBecause, IdempotencyKey, KeyHash, PermitId, PermitTerm, Scopes, Secret, SettledAs, Tenant,
    TenantId,
};
use breakerbox_storage::conformance::records::world::{endpoint_settings, tenant_settings};
use breakerbox_storage::records::{
    ApiKeys, Endpoints, NewApiKey, NewEndpoint, NewTenant, Notifications, PermitClaim, Request,
    RequestResponse, Requests, SettledPermits, Tenants,
};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage::{Defaults, Directory, RecordsError};
use breakerbox_storage_postgres::{Database, Options, PostgresRecords};
use breakerbox_testkit::servers::PostgresServer;
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::server::{own_schema, shared};

/// The maximum time that a test waits for an expected event.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Processes on one schema.
struct Fleet {
    server: Arc<PostgresServer>,
    schema: String,
    key: MasterKey,
    clock: ManualClock,
}

impl Fleet {
    async fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        Self { server: shared().await, schema: own_schema(), key: MasterKey::random(), clock }
    }

    async fn process(&self) -> PostgresRecords {
        let options = Options {
            schema: self.schema.clone(),
            connections: 4,
            time_limit: Duration::from_secs(30),
            clock: Some(Arc::new(self.clock.clone())),
            ..Options::default()
        };
        let database = Database::open(&self.server.url(), options).await.unwrap();
        PostgresRecords::open(database, Keyring::new(&self.key), Defaults::default()).await.unwrap()
    }
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

fn new_tenant() -> NewTenant {
    NewTenant { id: acme(), settings: tenant_settings("acme"), secret: None }
}

fn new_endpoint(url: &str) -> NewEndpoint {
    NewEndpoint { tenant: acme(), settings: endpoint_settings(url), secret: None, disabled: false }
}

async fn until(what: &str, directory: &Directory, holds: impl Fn(&Directory) -> bool) {
    let limit = Instant::now() + WAIT_LIMIT;
    while !holds(directory) {
        assert!(Instant::now() < limit, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_at_one_process_reaches_the_others() {
    let fleet = Fleet::new().await;
    let (here, there) = (fleet.process().await, fleet.process().await);
    here.create_tenant(new_tenant()).await.unwrap();
    until("the tenant", there.directory(), |directory| directory.tenant(&acme()).is_some()).await;
    let endpoint = here.create_endpoint(new_endpoint("https://a.example/")).await.unwrap();
    let lane = endpoint.lane();
    until("the endpoint", there.directory(), |directory| directory.endpoint(lane).is_some()).await;
    there.set_endpoint_disabled(endpoint.id, Some(DisabledBecause::Owner)).await.unwrap();
    until("its state", here.directory(), |directory| !directory.endpoint(lane).unwrap().is_enabled()).await;
    let key = NewApiKey {
        hash: KeyHash([7; 32]),
        name: "ci".into(),
        scopes: Scopes::from_bits(1),
        tenant: Some(acme()),
        expires_at: None,
    };
    let (hash, now) = (key.hash, fleet.clock.now());
    let key = there.create_api_key(key).await.unwrap();
    until("the key", here.directory(), |directory| directory.api_key(&hash, now).is_some()).await;
    there.revoke_api_key(key.id).await.unwrap();
    until("its end", here.directory(), |directory| directory.api_key(&hash, now).is_none()).await;
    here.delete_endpoint(endpoint.id, None).await.unwrap();
    until("the deletion", there.directory(), |directory| directory.endpoint(lane).is_none()).await;
    there.delete_tenant(&acme(), None).await.unwrap();
    until("the end", here.directory(), |directory| directory.tenant(&acme()).is_none()).await;
    assert!(here.directory().api_key_named(key.id).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_has_just_created_is_found() {
    let fleet = Fleet::new().await;
    let (here, there) = (fleet.process().await, fleet.process().await);
    for _ in 0..5 {
        let created = here.create_tenant(new_tenant()).await.unwrap();
        assert_eq!(there.tenant(&acme()).await.unwrap(), created);
        let endpoint = there.create_endpoint(new_endpoint("https://a.example/")).await.unwrap();
        assert_eq!(here.endpoint(endpoint.id).await.unwrap(), endpoint);
        let again = there.create_tenant(new_tenant()).await;
        assert!(matches!(again, Err(RecordsError::Exists { .. })), "{again:?}");
        // A process changes what it knows only as it is now.
        let changed = there.change_tenant(&acme(), tenant_settings("changed"), None).await.unwrap();
        let late = here.change_tenant(&acme(), tenant_settings("late"), Some(created.revision)).await;
        assert!(matches!(late, Err(RecordsError::Changed { .. })), "{late:?}");
        assert_eq!(here.tenant(&acme()).await.unwrap(), changed);
        here.delete_endpoint(endpoint.id, None).await.unwrap();
        there.cancel_orphans(10).await.unwrap();
        there.delete_tenant(&acme(), None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_at_several_processes_all_take_effect() {
    let fleet = Fleet::new().await;
    let processes = [fleet.process().await, fleet.process().await, fleet.process().await];
    processes[0].create_tenant(new_tenant()).await.unwrap();
    let mut edits = JoinSet::new();
    for number in 0..30 {
        let records = processes[number % 3].clone();
        edits.spawn(async move {
            let edit = |tenant: &Tenant| {
                let mut settings = tenant.settings.clone();
                settings.name.push('+');
                Ok(settings)
            };
            records.edit_tenant(&acme(), Box::new(edit), None).await.unwrap();
        });
    }
    edits.join_all().await;
    for records in &processes {
        records.update_directory().await.unwrap();
        let tenant = records.tenant(&acme()).await.unwrap();
        assert_eq!(tenant.settings.name, format!("acme{}", "+".repeat(30)));
        assert_eq!(tenant.revision.0, 31);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_missed_too_much_reads_everything() {
    let fleet = Fleet::new().await;
    let (here, there) = (fleet.process().await, fleet.process().await);
    here.create_tenant(new_tenant()).await.unwrap();
    let kept = here.create_endpoint(new_endpoint("https://kept.example/")).await.unwrap();
    let gone = here.create_endpoint(new_endpoint("https://gone.example/")).await.unwrap();
    there.update_directory().await.unwrap();
    // These changes are not announced, and the list of them is gone.
    let schema = &fleet.schema;
    let sql = format!(
        "BEGIN; SET LOCAL session_replication_role = replica;
         DELETE FROM {schema}.endpoints WHERE id = {};
         UPDATE {schema}.endpoints SET disabled = 'owner' WHERE id = {};
         UPDATE {schema}.directory_version SET number = number + 5;
         DELETE FROM {schema}.directory_changes; COMMIT",
        gone.id.number(),
        kept.id.number(),
    );
    fleet.server.query(&sql).unwrap();
    there.update_directory().await.unwrap();
    assert!(there.directory().endpoint(gone.lane()).is_none());
    assert!(!there.directory().endpoint(kept.lane()).unwrap().is_enabled());
    assert_eq!(there.directory().endpoint_count(&acme()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_to_several_processes_is_carried_out_once() {
    let fleet = Fleet::new().await;
    let processes = [fleet.process().await, fleet.process().await];
    processes[0].create_tenant(new_tenant()).await.unwrap();
    let mut requests = JoinSet::new();
    for number in 0..8 {
        let records = processes[number % 2].clone();
        requests.spawn(async move {
            let request = Request {
                key: Some(IdempotencyKey { key: "once".into(), fingerprint: [1; 32] }),
                scope: Some(acme()),
                respond: Box::new(|endpoint: &breakerbox_model::objects::Endpoint| RequestResponse {
                    created: endpoint.id.to_string(),
                    status: 201,
                    revision: Some(endpoint.revision),
                    body: Bytes::from_static(b"{}"),
                    has_secret: false,
                }),
            };
            records.create_endpoint_for(request, new_endpoint("https://a.example/")).await.unwrap()
        });
    }
    let results = requests.join_all().await;
    assert_eq!(results.iter().filter(|result| !result.repeated).count(), 1);
    assert!(results.iter().all(|result| result.response == results[0].response));
    processes[1].update_directory().await.unwrap();
    assert_eq!(processes[1].directory().endpoint_count(&acme()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_is_settled_once_at_whatever_process() {
    let fleet = Fleet::new().await;
    let processes = [fleet.process().await, fleet.process().await];
    let expires_at = fleet.clock.now() + Duration::from_secs(60);
    let permit = PermitTerm { id: PermitId([7; 16]), expires_at };
    let mut claims = JoinSet::new();
    for number in 0..8 {
        let records = processes[number % 2].clone();
        claims.spawn(async move { records.claim_permit(permit, OutcomeKind::Success).await.unwrap() });
    }
    let claims = claims.join_all().await;
    assert_eq!(claims.iter().filter(|claim| **claim == PermitClaim::Yours).count(), 1, "{claims:?}");
    processes[1].note_settlement(permit, SettledAs::Late).await.unwrap();
    let settled = processes[0].settled_of(vec![permit]).await.unwrap();
    assert_eq!(settled.len(), 1);
    assert_eq!((settled[0].1.outcome, settled[0].1.settled), (OutcomeKind::Success, SettledAs::Late));
    fleet.clock.advance(Duration::from_secs(120));
    let late = PermitTerm { id: PermitId([8; 16]), expires_at };
    assert_eq!(processes[0].claim_permit(late, OutcomeKind::Success).await.unwrap(), PermitClaim::Expired);
    assert_eq!(processes[0].prune_permits(fleet.clock.now(), 10).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_notified_once_by_whatever_process() {
    let fleet = Fleet::new().await;
    let processes = [fleet.process().await, fleet.process().await];
    let at = fleet.clock.now();
    let mut told = JoinSet::new();
    for number in 0..8 {
        let records = processes[number % 2].clone();
        told.spawn(async move { records.notify(Notification::store_lost("no answer", at)).await.unwrap() });
    }
    assert_eq!(told.join_all().await.into_iter().filter(|is_new| *is_new).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_sealed_anew_while_another_process_runs() {
    let fleet = Fleet::new().await;
    let records = fleet.process().await;
    let secret = Secret::random();
    records.create_tenant(NewTenant { secret: Some(secret.clone()), ..new_tenant() }).await.unwrap();
    records.create_endpoint(new_endpoint("https://a.example/")).await.unwrap();
    let stored =
        fleet.server.query(&format!("SELECT encode(sealed, 'escape') FROM {}.tenants", fleet.schema));
    assert!(!stored.unwrap().contains(&secret.reveal()[6..]), "it is stored sealed");
    let new = MasterKey::random();
    let options = Options {
        schema: fleet.schema.clone(),
        clock: Some(Arc::new(fleet.clock.clone())),
        ..Options::default()
    };
    let database = Database::open(&fleet.server.url(), options).await.unwrap();
    let open = |keyring| PostgresRecords::open(database.clone(), keyring, Defaults::default());
    assert!(open(Keyring::new(&new)).await.is_err(), "it needs the old key");
    let both = open(Keyring::newest_first(&[new.clone(), fleet.key.clone()]).unwrap()).await.unwrap();
    let resealed = both.reseal().await.unwrap();
    assert_eq!((resealed.looked_at, resealed.resealed), (2, 2));
    assert_eq!(both.reseal().await.unwrap().resealed, 0);
    let only_new = open(Keyring::new(&new)).await.unwrap();
    let tenant = only_new.tenant(&acme()).await.unwrap();
    assert_eq!(tenant.secrets.iter().next().unwrap().secret, secret);
    assert!(open(Keyring::new(&fleet.key)).await.is_err());
}
