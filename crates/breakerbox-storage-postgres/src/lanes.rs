//! Lanes in the database: their waiting deliveries, and the lanes for dynamic URLs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{LaneId, Priority, TenantId};
use breakerbox_storage::stored::codes::{id, micros, time};
use breakerbox_storage::{ProbeSupply, QueueError, WaitingLane};
use tokio_postgres::Row;

use super::database::Database;
use super::database::Transaction;
use super::error::{get, overtaken};

/// The minimum interval between two updates of a lane's time of last use.
const USED_EVERY: Duration = Duration::from_secs(1_800);

/// Returns, for each lane that is not closed and each priority, when the earliest waiting delivery is due.
pub(crate) async fn next_due(
    transaction: &Transaction,
    lanes: &[i64],
) -> Result<HashMap<i64, [Option<Timestamp>; 4]>, QueueError> {
    let rows = transaction.query(include_str!("sql/next_due.sql"), &[&lanes.to_vec()]).await?;
    rows.iter().map(|row| Ok((get(row, 0)?, due_times(row, 1)?))).collect()
}

/// Reads four due times, one for each priority, beginning with a column.
fn due_times(row: &Row, first: usize) -> Result<[Option<Timestamp>; 4], QueueError> {
    let mut due = [None; 4];
    for (index, due) in due.iter_mut().enumerate() {
        *due = get::<Option<i64>>(row, first + index)?.map(time);
    }
    Ok(due)
}

/// Reads a lane with waiting deliveries, whose number is not counted. Returns `None` if its tenant can't be read.
fn waiting(row: &Row) -> Result<Option<WaitingLane>, QueueError> {
    let tenant = get::<Option<&str>>(row, 1)?.and_then(|name| name.parse().ok());
    let Some(tenant) = tenant else { return Ok(None) };
    Ok(Some(WaitingLane {
        lane: LaneId(id(get(row, 0)?)),
        tenant,
        dynamic: get::<Option<&str>>(row, 2)?.map(Arc::from),
        next_due: due_times(row, 3)?,
        count: u32::MAX,
    }))
}

fn all_waiting(rows: &[Row]) -> Result<Vec<WaitingLane>, QueueError> {
    rows.iter().filter_map(|row| waiting(row).transpose()).collect()
}

/// Returns up to `limit` lanes with waiting deliveries that follow `after`.
pub(crate) async fn waiting_after(
    database: &Database,
    after: i64,
    limit: usize,
) -> Result<Vec<WaitingLane>, QueueError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    all_waiting(&database.read(include_str!("sql/waiting_lanes.sql"), &[&after, &limit]).await?)
}

/// Returns those lanes of a list, with their tenants, that are not closed.
pub(crate) async fn waiting_of(
    transaction: &Transaction,
    lanes: &BTreeMap<i64, i64>,
) -> Result<Vec<WaitingLane>, QueueError> {
    if lanes.is_empty() {
        return Ok(Vec::new());
    }
    let (lanes, tenants): (Vec<i64>, Vec<i64>) = lanes.iter().unzip();
    all_waiting(&transaction.query(include_str!("sql/lanes_waiting.sql"), &[&lanes, &tenants]).await?)
}

/// Returns whether a delivery of a lane may probe the lane's circuit now.
pub(crate) async fn probe_supply(database: &Database, lane: i64) -> Result<ProbeSupply, QueueError> {
    let rows = database.read(include_str!("sql/probe_supply.sql"), &[&database.given_now(), &lane]).await?;
    let Some(row) = rows.first() else { return Ok(ProbeSupply { can_probe: false, next_due: [None; 4] }) };
    Ok(ProbeSupply { can_probe: get::<Option<bool>>(row, 0)?.unwrap_or(false), next_due: due_times(row, 1)? })
}

/// A delivery that was added to a lane.
pub(crate) struct OneWaiting<'w> {
    pub(crate) lane: LaneId,
    pub(crate) tenant: &'w TenantId,
    pub(crate) key: Option<&'w Arc<str>>,
}

impl OneWaiting<'_> {
    /// Adds the delivery to the entry for its lane and priority in `woken`, which is created if necessary.
    pub(crate) fn wake(self, woken: &mut Vec<WaitingLane>, priority: Priority, due_at: Timestamp) {
        let level = priority.index();
        // One entry for each lane and priority, so that each has its own count.
        let known =
            woken.iter_mut().find(|waiting| waiting.lane == self.lane && waiting.next_due[level].is_some());
        if let Some(waiting) = known {
            waiting.next_due[level] = waiting.next_due[level].min(Some(due_at));
            waiting.count = waiting.count.saturating_add(1);
            return;
        }
        let mut next_due = [None; 4];
        next_due[level] = Some(due_at);
        let Self { lane, tenant, key } = self;
        woken.push(WaitingLane { lane, tenant: tenant.clone(), dynamic: key.cloned(), next_due, count: 1 });
    }
}

/// The lanes of dynamic URLs that a transaction uses, by tenant and circuit key.
#[derive(Default)]
pub(crate) struct DynamicLanes {
    tenants: Vec<i64>,
    keys: Vec<Arc<str>>,
    found: HashMap<(i64, Arc<str>), i64>,
}

impl DynamicLanes {
    /// Adds a lane that is going to be used.
    pub(crate) fn want(&mut self, tenant: i64, key: &Arc<str>) {
        if self.found.insert((tenant, Arc::clone(key)), 0).is_none() {
            self.tenants.push(tenant);
            self.keys.push(Arc::clone(key));
        }
    }

    /// Finds the lanes, and creates those that are missing. They stay until the transaction ends.
    pub(crate) async fn find(&mut self, transaction: &Transaction) -> Result<(), QueueError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = self.keys.iter().map(|_| transaction.next_id().number()).collect();
        let keys: Vec<&str> = self.keys.iter().map(|key| &**key).collect();
        let now = transaction.now();
        let (added, held) = tokio::join!(
            biased;
            async {
                let before = micros(now.before(USED_EVERY)).saturating_add(1);
                let sql = include_str!("sql/add_lanes_if_new.sql");
                transaction.query(sql, &[&ids, &self.tenants, &keys, &micros(now), &before]).await
            },
            async { transaction.query(include_str!("sql/hold_lanes.sql"), &[&self.tenants, &keys]).await },
        );
        added?;
        for row in held? {
            let nth = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(0).saturating_sub(1);
            if let (Some(tenant), Some(key)) = (self.tenants.get(nth), self.keys.get(nth)) {
                self.found.insert((*tenant, Arc::clone(key)), get(&row, 1)?);
            }
        }
        // A lane that another process forgot at this moment is created by the next attempt.
        if self.found.values().any(|lane| *lane == 0) { Err(overtaken()) } else { Ok(()) }
    }

    /// Returns a lane that was found.
    pub(crate) fn get(&self, tenant: i64, key: &Arc<str>) -> i64 {
        self.found.get(&(tenant, Arc::clone(key))).copied().unwrap_or(0)
    }
}
