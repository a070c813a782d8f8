//! Two processes on one database, in virtual time: one gives out permits, the other settles them.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::MemoryStore;
use breakerbox::throttle::LoadSignal;
use breakerbox::{Breakerbox, Circuit, Clock, ManualClock, OutcomeKind, Policy};
use breakerbox_gateway::permits::{
    AcquireRequest, Acquired, CallResult, GrantedPermit, PermitParts, Permits, Report, SettleResponse,
};
use breakerbox_gateway::telemetry::Metrics;
use breakerbox_model::delivery::ResponseRules;
use breakerbox_model::objects::{
    PermitId, PermitSettled, PermitTerm, Priority, SettledAs, TenantId, TenantSettings,
};
use breakerbox_storage::records::{NewTenant, PermitClaim, SettledPermits, Tenants};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage::{Defaults, TenantEntry};
use breakerbox_storage_sqlite::{Database, Options, SqliteRecords};

const KEY: &str = "acme https://hooks.example.com/in";
const MINUTE: Duration = Duration::from_secs(60);

struct World {
    clock: ManualClock,
    records: SqliteRecords,
    tenant: Arc<TenantEntry>,
    offices: Vec<Office>,
    _folder: tempfile::TempDir,
}

struct Office {
    permits: Arc<Permits>,
    circuit: Circuit,
    metrics: Arc<Metrics>,
}

impl World {
    async fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        let folder = tempfile::tempdir().unwrap();
        let options = Options { clock: Arc::new(clock.clone()), reserve: 0, ..Options::default() };
        let database = Database::open(folder.path(), options).unwrap();
        let keyring = Keyring::new(&MasterKey::random());
        let records = SqliteRecords::open(database, keyring, Defaults::default()).await.unwrap();
        let id: TenantId = "acme".parse().unwrap();
        let new = NewTenant { id: id.clone(), settings: TenantSettings::new("Acme"), secret: None };
        records.create_tenant(new).await.unwrap();
        let tenant = records.directory().tenant(&id).unwrap();
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        let policy = Policy::builder()
            .window(10 * MINUTE)
            .failure_rate(None)
            .consecutive_failures(None)
            .failures(1_000);
        let offices = (0..2).map(|_| {
            let breakers = Breakerbox::builder()
                .policy(policy.build().unwrap())
                .clock(clock.clone())
                .store(Arc::clone(&store))
                .build();
            let (metrics, now) = (Arc::new(Metrics::new()), clock.clone());
            let circuit = breakers.circuit(KEY).unwrap();
            let permits = Permits::new(PermitParts {
                breakers,
                throttles: None,
                keyring: Arc::clone(records.keyring()),
                settled: Arc::new(records.clone()),
                metrics: Arc::clone(&metrics),
                clock: Arc::new(move || now.now()),
                max: 10,
                tenant_share: 100,
            });
            Office { permits, circuit, metrics }
        });
        let offices = offices.collect();
        Self { clock, records, tenant, offices, _folder: folder }
    }

    async fn given_by(&self, office: usize) -> GrantedPermit {
        let wanted = AcquireRequest {
            tenant: Arc::clone(&self.tenant),
            key: KEY.into(),
            priority: Priority::Medium,
            timeout: MINUTE,
        };
        match self.offices[office].permits.acquire(wanted).await.unwrap() {
            Acquired::Permit(given) => given,
            Acquired::Refused(refused) => panic!("{refused:?}"),
        }
    }

    async fn settled_by(&self, office: usize, given: &GrantedPermit, kind: OutcomeKind) -> SettleResponse {
        let permits = &self.offices[office].permits;
        let result = CallResult::Outcome { kind, retry_after: None, throttle: LoadSignal::Neither };
        let token = permits.open(&given.token).unwrap();
        permits.settle(token, Report { result, latency: None }, &ResponseRules::default()).await.unwrap()
    }
}

#[tokio::test]
async fn what_another_process_settled_is_no_failure_when_it_expires_here() {
    let world = World::new().await;
    let [giver, other] = &world.offices[..] else { panic!() };
    let (settled, unsettled) = (world.given_by(0).await, world.given_by(0).await);
    let answered = world.settled_by(1, &settled, OutcomeKind::Success).await;
    assert_eq!((answered.settled, answered.repeated), (Some(SettledAs::Counted), false));
    assert_eq!(other.circuit.totals().successes, 1);
    world.clock.advance(MINUTE - Duration::from_millis(1));
    giver.permits.expire().await.unwrap();
    assert_eq!(giver.metrics.permits_out.get(), 2, "not yet");
    world.clock.advance(Duration::from_millis(1));
    giver.permits.expire().await.unwrap();
    assert_eq!((giver.metrics.permits_out.get(), giver.metrics.permits_expired.get()), (0, 1));
    assert_eq!(giver.circuit.totals().failures, 1, "one that nobody settled");
    // A later report gets the earlier result, or that the permit had expired.
    assert!(world.settled_by(0, &settled, OutcomeKind::Failure).await.repeated);
    assert_eq!(world.settled_by(1, &unsettled, OutcomeKind::Success).await.settled, None);
    assert_eq!((giver.circuit.totals().failures, other.circuit.totals().calls()), (1, 1));
}

#[tokio::test]
async fn whoever_gave_it_out_is_told_that_it_was_settled_elsewhere() {
    let world = World::new().await;
    let given = world.given_by(0).await;
    world.settled_by(1, &given, OutcomeKind::Failure).await;
    let answered = world.settled_by(0, &given, OutcomeKind::Success).await;
    assert_eq!((answered.settled, answered.repeated), (Some(SettledAs::Counted), true));
    let [giver, other] = &world.offices[..] else { panic!() };
    assert_eq!(giver.metrics.permits_out.get(), 0, "and holds nothing for it any more");
    assert_eq!((giver.circuit.totals().calls(), other.circuit.totals().failures), (0, 1));
}

#[tokio::test]
async fn a_process_that_ends_counts_nothing() {
    let world = World::new().await;
    world.given_by(0).await;
    world.clock.advance(MINUTE / 2);
    world.offices[0].permits.release_all();
    assert_eq!(world.offices[0].circuit.totals().calls(), 0);
}

#[tokio::test]
async fn settlements_are_remembered_as_long_as_they_may_be_repeated() {
    let World { clock, records, _folder, .. } = World::new().await;
    let now = clock.now();
    let term = |id: u8, seconds: u64| PermitTerm {
        id: PermitId([id; 16]),
        expires_at: now + Duration::from_secs(seconds),
    };
    let claim = async |term, kind| records.claim_permit(term, kind).await.unwrap();
    assert_eq!(claim(term(1, 10), OutcomeKind::Failure).await, PermitClaim::Yours);
    assert_eq!(
        claim(term(2, 10), OutcomeKind::Success).await,
        PermitClaim::Yours,
        "another one of the same time"
    );
    assert_eq!(claim(term(3, 20), OutcomeKind::Ignored).await, PermitClaim::Yours);
    records.note_settlement(term(3, 20), SettledAs::Late).await.unwrap();
    let settled = |outcome, settled| PermitSettled { outcome, settled };
    let first = settled(OutcomeKind::Failure, SettledAs::Counted);
    let third = settled(OutcomeKind::Ignored, SettledAs::Late);
    assert_eq!(claim(term(1, 10), OutcomeKind::Success).await, PermitClaim::Settled(first));
    assert_eq!(claim(term(3, 20), OutcomeKind::Success).await, PermitClaim::Settled(third));

    clock.advance(Duration::from_secs(10));
    assert_eq!(claim(term(1, 10), OutcomeKind::Success).await, PermitClaim::Settled(first));
    assert_eq!(claim(term(4, 10), OutcomeKind::Success).await, PermitClaim::Expired);
    let found = records.settled_of(vec![term(4, 10), term(1, 10), term(3, 20)]).await.unwrap();
    assert_eq!(found, [(PermitId([1; 16]), first), (PermitId([3; 16]), third)]);

    let before = now + Duration::from_secs(15);
    assert_eq!(records.prune_permits(before, 1).await.unwrap(), 1, "piece by piece");
    assert_eq!(records.prune_permits(before, 10).await.unwrap(), 1);
    assert_eq!(claim(term(1, 10), OutcomeKind::Success).await, PermitClaim::Expired);
    assert_eq!(claim(term(3, 20), OutcomeKind::Success).await, PermitClaim::Settled(third), "still of use");
}
