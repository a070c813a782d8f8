//! Tests of the database file: who may open it, what a commit contains, and the effects of failures.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{Priority, ReminderSettings, TenantId, TenantSettings};
use breakerbox_model::reminder::{Repeat, Schedule};
use breakerbox_storage::conformance::queue::rig::{
    LEASE, Rig, TestReservations, Verbs, acme, attempt, batch, event,
};
use breakerbox_storage::records::{NewReminder, NewTenant, Reminders, Tenants};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage::{Defaults, Queue, QueueError, Reservations, Settled, SubmitError};
use breakerbox_storage_sqlite::{
    Database, JobError, NEWEST, OnCommit, OpenError, Options, Schema, SqliteQueue, SqliteRecords,
};
use tokio::task::JoinSet;

use super::rig::SqliteRig;

/// The timeout after which a test that would hang fails.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("no")]
    No,
    #[error(transparent)]
    Queue(#[from] QueueError),
}

fn put(database: &Database, name: &str) -> impl Future<Output = Result<(), QueueError>> + use<> {
    let (database, name) = (database.clone(), name.to_owned());
    async move {
        let sql = "INSERT INTO meta (name, value) VALUES (?1, 1)";
        database.write(move |transaction| Ok(transaction.connection().execute(sql, [name]).map(drop)?)).await
    }
}

async fn has(database: &Database, name: &'static str) -> bool {
    let sql = "SELECT EXISTS (SELECT 1 FROM meta WHERE name = ?1)";
    let found = database.read(move |connection| {
        Ok::<_, JobError<QueueError>>(connection.query_row(sql, [name], |row| row.get::<_, bool>(0))?)
    });
    found.await.unwrap()
}

/// Blocks the writer until the barrier is released, so that jobs sent in the meantime share a commit.
async fn hold(database: &Database) -> Arc<Barrier> {
    let (entered, barrier) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let (enters, bounded_waits) = (Arc::clone(&entered), Arc::clone(&barrier));
    let database = database.clone();
    tokio::spawn(async move {
        let held = database.write(move |_| {
            enters.store(true, Ordering::SeqCst);
            bounded_waits.wait();
            Ok::<_, JobError<QueueError>>(())
        });
        held.await.unwrap();
    });
    let start = Instant::now();
    while !entered.load(Ordering::SeqCst) {
        assert!(start.elapsed() < LIMIT);
        tokio::task::yield_now().await;
    }
    barrier
}

#[tokio::test]
async fn a_file_has_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = Database::open(folder.path(), Options::default()).unwrap();
    let second = Database::open(folder.path(), Options::default());
    let Err(OpenError::InUse { holder, .. }) = second else { panic!("it was opened twice") };
    assert_eq!(holder, std::process::id().to_string(), "the error says who has it");
    assert!(matches!(Database::migrate(folder.path()), Err(OpenError::InUse { .. })));
    put(&first, "kept").await.unwrap();
    first.close().await;
    let again = Database::open(folder.path(), Options::default()).unwrap();
    assert!(has(&again, "kept").await);
}

#[tokio::test]
async fn a_deleted_lock_file_lets_no_other_process_in() {
    let folder = tempfile::tempdir().unwrap();
    let first = Database::open(folder.path(), Options::default()).unwrap();
    let lock = folder.path().join("breakerbox.db.lock");
    std::fs::remove_file(&lock).unwrap();
    let second = Database::open(folder.path(), Options::default());
    let Err(OpenError::InUse { holder, .. }) = second else { panic!("it was opened twice") };
    assert_eq!(holder, "(unknown)");
    assert!(!lock.exists(), "a process that is refused leaves nothing");
    put(&first, "kept").await.unwrap();
    first.close().await;
    assert!(has(&Database::open(folder.path(), Options::default()).unwrap(), "kept").await);
}

#[tokio::test]
async fn nothing_is_written_to_files_that_were_deleted_or_replaced() {
    for name in ["breakerbox.db", "breakerbox.db-wal", "breakerbox.db-shm"] {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), Options::default()).unwrap();
        put(&database, "before").await.unwrap();
        database.check_write().await.unwrap();
        let (path, aside) = (folder.path().join(name), folder.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        for replaced in [false, true] {
            if replaced {
                std::fs::copy(&aside, &path).unwrap();
            }
            let refused = database.check_write().await;
            assert!(matches!(&refused, Err(QueueError::FileGone(gone)) if *gone == path), "{refused:?}");
            assert!(put(&database, "after").await.is_err());
        }
        std::fs::rename(&aside, &path).unwrap();
        database.check_write().await.expect("it is back, as it was");
        put(&database, "again").await.unwrap();
        database.close().await;
    }
}

#[tokio::test]
async fn a_schema_can_be_looked_at_and_migrated_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/gateway.db");
    assert_eq!(Database::schema(&path).unwrap(), Schema { current: 0, newest: NEWEST });
    assert!(!path.exists(), "looking makes nothing");
    assert_eq!(Database::migrate(&path).unwrap().pending(), NEWEST);
    assert_eq!(Database::schema(&path).unwrap().pending(), 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn one_that_refuses_or_panics_does_not_spoil_the_others() {
    let rig = SqliteRig::new().await;
    let database = rig.database.clone();
    let barrier = hold(&database).await;
    let hooked = Arc::new(AtomicU64::new(0));
    let (first, last) = (tokio::spawn(put(&database, "first")), Arc::clone(&hooked));
    tokio::task::yield_now().await;
    let refusing = {
        let (database, hooked) = (database.clone(), Arc::clone(&hooked));
        tokio::spawn(async move {
            database
                .write(move |transaction| {
                    let sql = "INSERT INTO meta (name, value) VALUES ('refused', 1)";
                    transaction.connection().execute(sql, []).expect("it is written");
                    transaction.after_commit(move || {
                        hooked.fetch_add(100, Ordering::SeqCst);
                    });
                    Err::<(), _>(Refused::No.into())
                })
                .await
        })
    };
    tokio::task::yield_now().await;
    let panicking = {
        let database = database.clone();
        tokio::spawn(async move {
            database
                .write(|transaction| {
                    let sql = "INSERT INTO meta (name, value) VALUES ('panicked', 1)";
                    transaction.connection().execute(sql, []).expect("it is written");
                    if transaction.now() > breakerbox_core::Timestamp::ZERO {
                        panic!("on purpose");
                    }
                    Ok::<(), JobError<Refused>>(())
                })
                .await
        })
    };
    tokio::task::yield_now().await;
    let hooking = {
        let database = database.clone();
        tokio::spawn(async move {
            database
                .write(move |transaction| {
                    transaction.after_commit(move || {
                        last.fetch_add(1, Ordering::SeqCst);
                    });
                    Ok::<(), JobError<QueueError>>(())
                })
                .await
        })
    };
    let second = tokio::spawn(put(&database, "second"));
    tokio::task::yield_now().await;
    assert_eq!(hooked.load(Ordering::SeqCst), 0, "hooks wait for the commit");
    barrier.wait();
    first.await.unwrap().unwrap();
    assert!(matches!(refusing.await.unwrap(), Err(Refused::No)));
    let panicked = panicking.await.unwrap();
    assert!(matches!(&panicked, Err(Refused::Queue(QueueError::Panicked(text))) if text == "on purpose"));
    hooking.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(hooked.load(Ordering::SeqCst), 1, "and only those of a commit are called, before its answers");
    for (name, there) in [("first", true), ("refused", false), ("panicked", false), ("second", true)] {
        assert_eq!(has(&database, name).await, there, "{name}");
    }
}

/// Reservations that take one delivery and panic at the next.
#[derive(Default)]
struct Panics {
    taken: AtomicU64,
    lost: AtomicU64,
}

impl Reservations for Panics {
    fn reserve(
        &self,
        _lane: breakerbox_model::objects::LaneId,
        _tenant: &TenantId,
        _key: Option<&Arc<str>>,
    ) -> Option<Duration> {
        assert!(self.taken.fetch_add(1, Ordering::SeqCst).is_multiple_of(2), "on purpose");
        Some(LEASE)
    }

    fn release(&self, _lane: breakerbox_model::objects::LaneId) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_verb_that_panics_is_rolled_back_and_the_others_are_done_again() {
    let (rig, lane) = acme::<SqliteRig>().await;
    let reservations = Arc::new(Panics::default());
    let panics: Arc<dyn Reservations> = Arc::<Panics>::clone(&reservations);
    let bad = Arc::new(SqliteQueue::new(rig.database.clone(), rig.registry.clone(), panics));
    let leased = rig.leased(lane).await;
    rig.reservations().takes(lane, 9);
    let barrier = hold(&rig.database).await;
    let good = rig.queue();
    let first = tokio::spawn(async move { good.submit(batch(vec![event("a")])).await });
    tokio::task::yield_now().await;
    let breaking = tokio::spawn(async move { bad.submit(batch(vec![event("a"), event("a")])).await });
    tokio::task::yield_now().await;
    let settling = {
        let (queue, now) = (rig.queue(), rig.now());
        let settle = breakerbox_storage::Settlement {
            id: leased.id,
            lease: leased.lease,
            attempt: attempt(now),
            next: NextStep::Delivered,
            stands_for: None,
        };
        tokio::spawn(async move { queue.settle(settle).await })
    };
    tokio::task::yield_now().await;
    barrier.wait();
    let broken = breaking.await.unwrap();
    assert!(matches!(broken, Err(SubmitError::Queue(QueueError::Panicked(_)))), "{broken:?}");
    assert_eq!(reservations.lost.load(Ordering::SeqCst), 1, "what it had taken is lost");
    let accepted = first.await.unwrap().unwrap();
    assert_eq!(accepted.taken.len(), 1);
    assert_eq!(
        rig.reservations().taken.load(Ordering::SeqCst) - rig.reservations().lost.load(Ordering::SeqCst),
        1
    );
    assert_eq!(settling.await.unwrap().unwrap(), Settled::Done);
    assert_eq!(rig.settle(&accepted.taken[0], NextStep::Delivered).await, Settled::Done);
    assert_eq!(rig.rows().await[..4], [2, 2, 2, 2]);
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, counted.count), (counted, 0));
}

#[tokio::test]
async fn a_full_disk_is_said_and_leaves_nothing_and_passes() {
    let (rig, lane) = acme::<SqliteRig>().await;
    rig.reservations().takes(lane, 1_000);
    let before = rig.submit(vec![event("a")]).await.taken.remove(0);
    let limit = |pages: &'static str| {
        rig.database.write(move |transaction| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            Ok::<_, JobError<QueueError>>(transaction.connection().query_row(&sql, [], |_| Ok(()))?)
        })
    };
    limit("1").await.unwrap();
    let large = breakerbox_model::objects::NewEvent {
        payload: bytes::Bytes::from(vec![b'x'; 200_000]),
        ..event("a")
    };
    let taken = rig.reservations().taken.load(Ordering::SeqCst);
    for _ in 0..3 {
        let refused = rig.queue().submit(batch(vec![event("a"), large.clone()])).await;
        assert!(matches!(refused, Err(SubmitError::Queue(QueueError::DiskFull))), "{refused:?}");
    }
    assert_eq!(
        rig.reservations().taken.load(Ordering::SeqCst) - taken,
        rig.reservations().lost.load(Ordering::SeqCst)
    );
    assert_eq!(rig.rows().await[..3], [1, 1, 1]);
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, counted.count), (counted, 1));
    limit("1000000").await.unwrap();
    assert_eq!(rig.submit(vec![event("a"), large]).await.taken.len(), 2, "without a restart");
    assert_eq!(rig.settle(&before, NextStep::Delivered).await, Settled::Done, "its lease still holds");
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, counted.count), (counted, 2), "what was rolled back is forgotten");
}

#[tokio::test]
async fn what_waits_when_it_is_closed_is_done_and_what_comes_is_refused() {
    let rig = SqliteRig::new().await;
    let database = rig.database.clone();
    let barrier = hold(&database).await;
    let waiting = tokio::spawn(put(&database, "waits"));
    tokio::task::yield_now().await;
    let closing = tokio::spawn(database.clone().close());
    barrier.wait();
    waiting.await.unwrap().unwrap();
    closing.await.unwrap();
    assert!(matches!(put(&database, "late").await, Err(QueueError::Closed)));
    let accepted = rig.queue().submit(batch(vec![event("a")])).await;
    assert!(matches!(accepted, Err(SubmitError::Queue(QueueError::Closed))));
    let read = rig.queue().waiting_lanes(None, 1).await;
    assert!(matches!(read, Err(QueueError::Closed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepts_are_refused_when_too_many_wait_and_settlements_wait_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { waiting_jobs: 4, reserve: 0, ..Options::default() };
    let database = Database::open(folder.path(), options).unwrap();
    let registry = Arc::new(super::rig::Registry::default());
    let reservations: Arc<dyn Reservations> = Arc::new(TestReservations::default());
    let queue = Arc::new(SqliteQueue::new(database.clone(), registry, reservations));
    let barrier = hold(&database).await;
    let mut writes = JoinSet::new();
    for number in 0..20 {
        writes.spawn(put(&database, &number.to_string()));
    }
    let start = Instant::now();
    loop {
        // The tenant is unknown, but only the writer reports that: until the queue is full, this job waits behind the
        // blocked one.
        let accepting = queue.submit(batch(vec![]));
        match tokio::time::timeout(Duration::from_millis(5), accepting).await {
            Ok(Err(SubmitError::Queue(QueueError::Busy))) => break,
            Ok(other) => panic!("{other:?}"),
            Err(_) => assert!(start.elapsed() < LIMIT),
        }
    }
    barrier.wait();
    while let Some(written) = writes.join_next().await {
        written.unwrap().unwrap();
    }
    let refused = queue.submit(batch(vec![])).await;
    assert!(matches!(refused, Err(SubmitError::UnknownTenant(_))), "there is room again: {refused:?}");
}

/// Each commit costs an fsync, so creating many reminders at once must need only a few commits.
#[tokio::test]
async fn reminders_that_are_created_together_share_a_commit_and_a_change_of_memory_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let commits = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&commits);
    let on_commit: OnCommit = Arc::new(move |jobs, _| seen.lock().unwrap().push(jobs));
    let options = Options { on_commit: Some(on_commit), ..Options::default() };
    let database = Database::open(folder.path(), options).unwrap();
    let keyring = Keyring::new(&MasterKey::random());
    let records = SqliteRecords::open(database.clone(), keyring, Defaults::default()).await.unwrap();
    let tenant = |name: &str| NewTenant {
        id: name.parse().unwrap(),
        settings: TenantSettings::new(name),
        secret: None,
    };
    records.create_tenant(tenant("acme")).await.unwrap();

    let barrier = hold(&database).await;
    commits.lock().unwrap().clear();
    let mut writes = JoinSet::new();
    for number in 0..20 {
        let records = records.clone();
        writes.spawn(async move { records.create_reminder(reminder(number)).await.map(drop) });
    }
    tokio::task::yield_now().await;
    let (other, tenant) = (records.clone(), tenant("beta"));
    writes.spawn(async move { other.create_tenant(tenant).await.map(drop) });
    tokio::task::yield_now().await;
    let last = records.clone();
    writes.spawn(async move { last.create_reminder(reminder(20)).await.map(drop) });
    tokio::task::yield_now().await;
    barrier.wait();
    while let Some(written) = writes.join_next().await {
        written.unwrap().unwrap();
    }
    // The job that blocked the writer; the twenty reminders and the tenant; the job after the tenant.
    assert_eq!(*commits.lock().unwrap(), [1, 21, 1]);
    database.close().await;
}

fn reminder(number: u32) -> NewReminder {
    let first_at = breakerbox_core::Timestamp::from_millis(4_000_000_000_000);
    let settings = ReminderSettings {
        reference: None,
        url: format!("https://a.example/{number}").parse().unwrap(),
        content_type: "application/json".into(),
        priority: Priority::Medium,
        schedule: Schedule { first_at, repeat: Repeat::Once, ends_at: None, max_runs: None },
        catch_up: None,
        expires_after: None,
    };
    NewReminder { tenant: "acme".parse().unwrap(), settings, payload: "{}".into() }
}

/// A lazy job is run even if no other job arrives.
#[tokio::test]
async fn a_settlement_does_not_wait_for_company_for_ever() {
    let (rig, lane) = acme::<SqliteRig>().await;
    let leased = rig.leased(lane).await;
    let settled = tokio::time::timeout(LIMIT, rig.settle(&leased, NextStep::Delivered)).await;
    assert_eq!(settled.unwrap(), Settled::Done);
    assert!(rig.due(lane, Priority::Medium, 1).await.is_empty());
    assert!(rig.sqlite().now() > breakerbox_core::Timestamp::ZERO);
}

#[tokio::test]
async fn an_empty_lane_has_no_row() {
    let (rig, lane) = acme::<SqliteRig>().await;
    let rows = async || {
        let sql = "SELECT count(*) FROM backlogs";
        let counted =
            rig.database.read(move |connection| Ok(connection.query_row(sql, [], |row| row.get(0))?));
        counted.await.map_err(|error: QueueError| error).unwrap()
    };
    assert_eq!(rows().await, 0);
    let leased = rig.leased(lane).await;
    assert_eq!(rows().await, 1);
    rig.settle(&leased, NextStep::Delivered).await;
    assert_eq!(rows().await, 0);
    let leased = rig.leased(lane).await;
    assert_eq!((rows().await, rig.backlog("acme").await.0.count), (1, 1));
    rig.settle(&leased, NextStep::Delivered).await;
    assert_eq!(rows().await, 0);
}
