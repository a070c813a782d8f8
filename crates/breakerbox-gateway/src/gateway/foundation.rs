//! The parts that all others need: the database with its records, and the circuits.

use std::sync::{Arc, OnceLock, Weak};

use breakerbox::Breakerbox;
use breakerbox::store::Store;
use breakerbox_storage::clock::{Clocks, StoreClock};
use breakerbox_storage_sqlite::{Database, OnCommit, Options, SqliteCircuits, SqliteQueue, SqliteRecords};
use tracing::warn;

use super::history::HistoryWriter;
use super::{StartError, notifications, settings, transitions};
use crate::config::Config;
use crate::dispatch::{DirectDispatch, Dispatch};
use crate::telemetry::Metrics;

/// The open database, and the parts that read and write it.
pub(super) struct Foundation {
    pub(super) database: Database,
    pub(super) clock: StoreClock,
    pub(super) records: Arc<SqliteRecords>,
    pub(super) queue: Arc<SqliteQueue>,
    pub(super) circuits: Arc<SqliteCircuits>,
    /// Reserves slots for new deliveries once the dispatcher, which is created later, is set.
    pub(super) direct_dispatch: Arc<DirectDispatch>,
    /// Whether some secrets may still be sealed with an older master key.
    pub(super) is_rotating: bool,
}

impl Foundation {
    pub(super) async fn open(
        config: &Config,
        clocks: &Clocks,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let counted = Arc::clone(metrics);
        let on_commit: OnCommit = Arc::new(move |writes, took| counted.committed(writes, took));
        let clock = clocks.store();
        let options = Options {
            clock: Arc::new(clock.clone()),
            wall: Some(Arc::clone(clocks.wall())),
            accept_clock_step: clocks.accepts_step(),
            reserve: config.limits.disk_reserve,
            on_commit: Some(on_commit),
            ..Options::default()
        };
        let database = Database::open(&config.data, options)?;
        let sealed = SqliteRecords::anything_sealed(&database).await?;
        let keyring = settings::key_source(config).keyring(sealed)?;
        let is_rotating = keyring.has_older();
        let records = SqliteRecords::open(database.clone(), keyring, settings::defaults(config)).await?;
        let records = Arc::new(records);
        let direct_dispatch = Arc::new(DirectDispatch::default());
        let queue = SqliteQueue::new(database.clone(), records.directory().clone(), direct_dispatch.clone());
        let bounded = queue.bound_waits(records.directory()).await?;
        let circuits = Arc::new(SqliteCircuits::open(database.clone()).await?);
        if let Some(step) = database.clock_step() {
            warn!(
                ahead = ?step.ahead,
                deliveries = bounded,
                "stored times are ahead of the clock: the clock was ahead at an earlier start, or is behind now; waits, cool-offs and \
                 retention were limited to their own durations"
            );
        }
        Ok(Self { database, clock, records, queue: Arc::new(queue), circuits, direct_dispatch, is_rotating })
    }
}

/// The parts that are notified of circuit changes.
pub(super) struct ChangeReceivers {
    pub(super) history_writer: HistoryWriter,
    pub(super) dispatch_slot: Arc<OnceLock<Weak<Dispatch>>>,
    pub(super) metrics: Arc<Metrics>,
}

/// Builds the circuit registry on top of its store.
pub(super) fn breakers(
    config: &Config,
    circuits: &Arc<SqliteCircuits>,
    receivers: ChangeReceivers,
    clock: &Database,
) -> Result<Breakerbox, StartError> {
    let ChangeReceivers { history_writer, dispatch_slot, metrics } = receivers;
    let (of_store, clock) = (history_writer.clone(), clock.clone());
    let started_at = clock.now();
    Ok(Breakerbox::builder()
        .policy(config.policy.build(config.delivery.timeout)?)
        .max_circuits(config.circuits.max as usize)
        .tenant_limit(config.circuits.tenant_limit())
        .store(Arc::clone(circuits) as Arc<dyn Store>)
        .exclusive_store()
        .observer(move |heard| {
            history_writer.record(heard);
            transitions::report(heard, started_at, &metrics);
            if let Some(dispatch) = dispatch_slot.get().and_then(Weak::upgrade) {
                dispatch.circuit_changed(heard);
            }
        })
        .store_observer(move |health| of_store.notify(notifications::of_store(health, clock.wall())))
        .build())
}
