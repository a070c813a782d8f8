//! Each lane's and each tenant's unfinished deliveries, for limits and views. The counters are spread over slots; only sums mean
//! anything.

use std::collections::{BTreeMap, HashMap};

use breakerbox_model::objects::Backlog;
use breakerbox_storage::QueueError;
use breakerbox_storage::stored::codes::{number, whole};

use super::database::Transaction;
use super::error::get;

/// The lane that stands for the whole tenant.
const TOTAL: i64 = 0;

/// Changes of counters, to be written in one statement.
#[derive(Default)]
pub(crate) struct BacklogChanges(BTreeMap<(i64, i64), (i64, i64)>);

impl BacklogChanges {
    /// Counts a delivery that is new, or waits again after it had finished.
    pub(crate) fn begun(&mut self, tenant: i64, lane: i64, bytes: u64) {
        self.add(tenant, lane, 1, bytes);
        self.add(tenant, TOTAL, 1, bytes);
    }

    /// Subtracts a delivery that leaves its lane.
    pub(crate) fn ended(&mut self, tenant: i64, lane: i64, bytes: u64) {
        self.add(tenant, lane, -1, bytes);
        self.add(tenant, TOTAL, -1, bytes);
    }

    /// Counts accepted deliveries that are written later. `bytes` is the size of each.
    pub(crate) fn deferred(&mut self, tenant: i64, count: u64, bytes: u64) {
        self.add(tenant, TOTAL, number(count), bytes);
    }

    /// Counts a delivery that was deferred and is written now.
    pub(crate) fn written_later(&mut self, tenant: i64, lane: i64, bytes: u64) {
        self.add(tenant, lane, 1, bytes);
    }

    /// Subtracts deferred deliveries that end without having waited.
    pub(crate) fn dropped(&mut self, tenant: i64, count: u64, bytes: u64) {
        self.add(tenant, TOTAL, -number(count), bytes);
    }

    fn add(&mut self, tenant: i64, lane: i64, count: i64, bytes_each: u64) {
        let entry = self.0.entry((tenant, lane)).or_default();
        entry.0 = entry.0.saturating_add(count);
        entry.1 = entry.1.saturating_add(count.saturating_mul(number(bytes_each)));
    }

    /// Writes the changes.
    pub(crate) async fn write(&self, transaction: &Transaction) -> Result<(), QueueError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let tenants: Vec<i64> = self.0.keys().map(|(tenant, _)| *tenant).collect();
        let lanes: Vec<i64> = self.0.keys().map(|(_, lane)| *lane).collect();
        let counts: Vec<i64> = self.0.values().map(|(count, _)| *count).collect();
        let bytes: Vec<i64> = self.0.values().map(|(_, bytes)| *bytes).collect();
        let slot = transaction.database().slot();
        let sql = include_str!("sql/add_backlogs.sql");
        transaction.query(sql, &[&slot, &tenants, &lanes, &counts, &bytes]).await.map(drop)
    }
}

/// Returns the unfinished deliveries of tenants. Tenants that have none are missing.
pub(crate) async fn totals(
    transaction: &Transaction,
    tenants: &[i64],
) -> Result<HashMap<i64, Backlog>, QueueError> {
    if tenants.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = transaction.query(include_str!("sql/totals.sql"), &[&tenants.to_vec()]).await?;
    rows.iter()
        .map(|row| Ok((get(row, 0)?, Backlog { count: whole(get(row, 1)?), bytes: whole(get(row, 2)?) })))
        .collect()
}
