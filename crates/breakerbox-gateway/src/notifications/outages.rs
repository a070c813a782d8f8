//! Sends trips whose delay has passed. A trip waits in the database, so that a restart loses none and sends none twice.
//! Before it is sent, the circuit's record is read: if the circuit has closed, the trip is dropped. During an outage on
//! the gateway's side, in which most circuits trip, and shortly after it, no trip is sent: the circuits that close with
//! its end never trouble their owners.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::Store;
use breakerbox_core::{CircuitStatus, Record};
use breakerbox_model::notifications::Notification;
use breakerbox_storage::Directory;
use breakerbox_storage::clock::StoreClock;
use breakerbox_storage::records::{Notifications, RecordsError};
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::dispatch::OwnOutages;

/// The interval between checks for trips that are due.
const TICK: Duration = Duration::from_secs(1);

/// The maximum number of trips in one check.
const BATCH: usize = 100;

/// Sends trips whose delay has passed.
pub struct DelayedTrips {
    records: Arc<dyn Notifications>,
    circuits: Arc<dyn Store>,
    own_outages: Arc<OwnOutages>,
    directory: Arc<Directory>,
    clock: StoreClock,
}

impl DelayedTrips {
    /// Creates the task for trips in these records, about circuits in this store. It sends none while `own_outages`
    /// says that the gateway's side is at fault. `directory` has the latest attempts.
    #[must_use]
    pub fn new(
        records: Arc<dyn Notifications>,
        circuits: Arc<dyn Store>,
        own_outages: Arc<OwnOutages>,
        directory: Arc<Directory>,
        clock: StoreClock,
    ) -> Self {
        Self { records, circuits, own_outages, directory, clock }
    }

    /// Sends due trips until the future is dropped.
    pub async fn run(self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.send_due().await {
                warn!(%error, "can't send delayed trip notifications; retrying");
            }
        }
    }

    /// Sends all trips that are due, and drops those whose circuit has closed. Does nothing while the gateway's side is
    /// at fault.
    ///
    /// # Errors
    /// Returns an error if the database fails. The remaining trips stay due.
    pub async fn send_due(&self) -> Result<(), RecordsError> {
        if self.own_outages.withhold_trips() {
            return Ok(());
        }
        loop {
            let due = self.records.due_trips(BATCH).await?;
            let is_last = due.len() < BATCH;
            let keys: Vec<_> = due.iter().map(|trip| Arc::clone(&trip.subject)).collect();
            let records = match self.circuits.read(&keys).await {
                Ok(read) => read.value,
                Err(error) => {
                    warn!(%error, "can't read circuits; trip notifications are sent later");
                    return Ok(());
                }
            };
            for (trip, record) in due.into_iter().zip(records) {
                // A record that can't be read does not say that the circuit closed.
                let (trip, is_over) = match record {
                    Ok(record) => self.at_present(trip, record),
                    Err(_) => (trip, false),
                };
                self.records.settle_trip(trip, is_over).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Returns the trip with the facts of the circuit's present record, and whether the outage is over.
    fn at_present(&self, trip: Notification, record: Option<Record>) -> (Notification, bool) {
        let Some(record) = record else { return (trip, true) };
        let drift = self.clock.drift().noticeable();
        let retry_at = record.retry_at.map(|at| drift.to_wall(at));
        let last = self.directory.last_attempt_of_circuit(&trip.subject);
        (trip.at_present(record.trips, retry_at, last.as_ref()), record.status() == CircuitStatus::Closed)
    }
}
