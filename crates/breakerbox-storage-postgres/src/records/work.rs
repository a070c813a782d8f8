//! A transaction that changes records, with the effects that follow its commit.
//!
//! **Changes of the directory.** A transaction that changes tenants, endpoints or API keys first locks the directory's
//! version, and applies what other processes changed before. So it decides with the current directory, and all such
//! changes of a fleet happen one after the other.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{LaneId, TenantId};
use breakerbox_storage::{Directory, QueueError, WaitingLane};
use tokio::sync::OwnedMutexGuard;

use super::PostgresRecords;
use crate::database::Transaction;
use crate::error::get;
use crate::listen::{reminders_channel, wake_channel, write_lanes};

/// The maximum number of lanes in one message, which has room for 8000 bytes.
const LANES_IN_MESSAGE: usize = 200;

/// An effect in memory that follows the commit.
type Effect = Box<dyn FnOnce(&Directory) + Send + Sync>;

/// An open transaction. It is rolled back when it is dropped, unless it was committed.
pub(super) struct Work {
    pub(super) transaction: Transaction,
    /// The time of all changes in this transaction.
    pub(super) now: Timestamp,
    effects: Vec<Effect>,
    wakes_scheduler: bool,
    /// The lanes to wake in other processes.
    woken: Vec<(LaneId, TenantId)>,
    /// The version that the directory in memory has, if this transaction has locked the directory.
    version: Option<OwnedMutexGuard<i64>>,
}

impl Work {
    pub(super) async fn begin(records: &PostgresRecords) -> Result<Self, QueueError> {
        let transaction = records.database.begin().await?;
        let now = records.database.now();
        Ok(Self {
            transaction,
            now,
            effects: Vec::new(),
            wakes_scheduler: false,
            woken: Vec::new(),
            version: None,
        })
    }

    /// Begins a transaction that changes the directory: locks it until the commit, in this process and in the database,
    /// and brings it up to date.
    pub(super) async fn begin_change(records: &PostgresRecords) -> Result<Self, QueueError> {
        // Before a connection is taken, so that those who wait do not hold one each.
        let mut version = Arc::clone(&records.follower.version).lock_owned().await;
        let mut work = Self::begin(records).await?;
        records.follower.loader.catch_up_locked(&work.transaction, &mut version).await?;
        work.version = Some(version);
        Ok(work)
    }

    /// Runs an effect on the directory after the commit, before the caller gets the result.
    pub(super) fn after_commit(&mut self, effect: impl FnOnce(&Directory) + Send + Sync + 'static) {
        self.effects.push(Box::new(effect));
    }

    /// Wakes a lane after the commit, in all processes.
    pub(super) fn wake(&mut self, lane: WaitingLane) {
        self.tell(&lane);
        self.after_commit(move |directory| directory.woken(&lane));
    }

    /// Wakes a lane after the commit, in all other processes.
    pub(super) fn tell(&mut self, lane: &WaitingLane) {
        self.woken.push((lane.lane, lane.tenant.clone()));
    }

    /// Wakes the scheduler after the commit, in all processes.
    pub(super) fn wake_scheduler(&mut self) {
        if !self.wakes_scheduler {
            self.wakes_scheduler = true;
            self.after_commit(Directory::reminders_changed);
        }
    }

    /// Commits, and applies the effects.
    pub(super) async fn commit(self, directory: &Directory) -> Result<(), QueueError> {
        let Self { transaction, effects, version, woken, wakes_scheduler, .. } = self;
        let lanes: Vec<(i64, i64)> = woken
            .iter()
            .filter_map(|(lane, tenant)| Some((lane.number(), directory.tenant(tenant)?.row)))
            .collect();
        let tell = include_str!("../sql/records/tell.sql");
        let (schema, worker) = (transaction.database().schema(), transaction.database().worker());
        for lanes in lanes.chunks(LANES_IN_MESSAGE) {
            transaction.query(tell, &[&wake_channel(schema), &write_lanes(worker, lanes)]).await?;
        }
        if wakes_scheduler {
            transaction.query(tell, &[&reminders_channel(schema), &worker.to_string()]).await?;
        }
        let changed_to = match &version {
            Some(_) => {
                let row =
                    transaction.query_opt(include_str!("../sql/records/directory_version.sql"), &[]).await?;
                row.map(|row| get::<i64>(&row, 0)).transpose()?
            }
            None => None,
        };
        transaction.commit().await?;
        effects.into_iter().for_each(|effect| effect(directory));
        if let (Some(mut version), Some(changed_to)) = (version, changed_to) {
            *version = changed_to;
        }
        Ok(())
    }
}
