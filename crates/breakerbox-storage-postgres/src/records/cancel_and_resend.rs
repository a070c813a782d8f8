//! Cancels waiting deliveries, and makes finished ones pending again. A delivery is moved only if it is still in the state
//! that allows it, so two processes never both move it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{
    Backlog, Delivery, DeliveryId, DeliveryState, EndpointId, LaneId, Priority, Purpose, TenantId,
};
use breakerbox_storage::stored::codes::{
    CANCELLED, DELIVERED, id, level, micros, priority, state, time, whole,
};
use breakerbox_storage::{Directory, QueueError, RecordsError, TenantEntry, WaitingLane};
use tokio_postgres::Row;

use super::PostgresRecords;
use super::deliveries::{DELIVERY, show};
use super::work::Work;
use crate::backlogs::{BacklogChanges, totals};
use crate::columns::{column, maybe_at, parsed_column, small, unreadable};
use crate::database::Transaction;
use crate::error::get;
use crate::lanes::DynamicLanes;
use crate::rows::code;

/// The columns of a delivery that are needed to resend it.
struct Moved {
    tenant: i64,
    name: TenantId,
    lane: LaneId,
    state: DeliveryState,
    is_closed: bool,
    /// The time to live that the event set, counted from the earliest time at which the event could be sent.
    /// `None`: the event set none.
    lives_for: Option<Duration>,
    url: Option<String>,
    /// The purpose of the delivery's circuit.
    purpose: Purpose,
    bytes: u64,
}

/// The result of making a delivery pending again.
pub(super) enum Resent {
    /// The delivery waits in this lane.
    Waits(WaitingLane),
    /// The delivery does not exist.
    Missing,
    /// The delivery is not finished.
    Unfinished(DeliveryState),
    /// The delivery's endpoint or tenant was deleted.
    EndpointGone(EndpointId),
    /// The tenant has reached its backlog limit.
    BacklogFull(RecordsError),
}

impl PostgresRecords {
    pub(super) async fn cancel_one(&self, wanted: DeliveryId) -> Result<Delivery, RecordsError> {
        let work = self.begin().await?;
        let state = show(&work.transaction, wanted).await?.state;
        if !state.is_finished() && cancel(&work, wanted).await? {
            let shown = show(&work.transaction, wanted).await?;
            work.commit(&self.directory).await?;
            return Ok(shown);
        }
        // The delivery may have been claimed or finished in the meantime.
        let state = show(&work.transaction, wanted).await?.state.name();
        work.commit(&self.directory).await?;
        Err(RecordsError::State { id: wanted, state, verb: "cancelled" })
    }

    pub(super) async fn resend_one(&self, wanted: DeliveryId) -> Result<Delivery, RecordsError> {
        let mut work = self.begin().await?;
        let resent = resend(&work, &self.directory, &[wanted.number()], None).await?;
        match resent.into_iter().next().unwrap_or(Resent::Missing) {
            Resent::Waits(lane) => {
                work.wake(lane);
                let shown = show(&work.transaction, wanted).await?;
                work.commit(&self.directory).await?;
                Ok(shown)
            }
            Resent::Missing => Err(RecordsError::missing(DELIVERY, wanted)),
            Resent::Unfinished(state) => {
                Err(RecordsError::State { id: wanted, state: state.name(), verb: "resent" })
            }
            Resent::EndpointGone(endpoint) => Err(RecordsError::missing("endpoint", endpoint)),
            Resent::BacklogFull(error) => Err(error),
        }
    }
}

/// Cancels a delivery if it is waiting. Returns whether it was cancelled.
pub(super) async fn cancel(work: &Work, delivery: DeliveryId) -> Result<bool, QueueError> {
    let sql = include_str!("../sql/stop_if_waiting.sql");
    let database = work.transaction.database();
    let stopped = work
        .transaction
        .query(
            sql,
            &[
                &vec![delivery.number()],
                &code(CANCELLED),
                &None::<i16>,
                &Some(micros(work.now)),
                &database.slot(),
                &database.given_now(),
            ],
        )
        .await?;
    Ok(!stopped.is_empty())
}

/// A delivery that is about to wait again.
struct Plan {
    /// The index of the delivery in the list.
    nth: usize,
    id: i64,
    tenant: Arc<TenantEntry>,
    lane: PlannedLane,
    expires_at: Option<Timestamp>,
    bytes: u64,
}

enum PlannedLane {
    Endpoint(LaneId),
    Dynamic(Arc<str>),
}

/// Makes finished deliveries pending again, with this priority or, if it is `None`, their old ones. Returns one result for
/// each. Once a tenant's backlog is full, none of those that follow is resent. The caller wakes the lanes.
pub(super) async fn resend(
    work: &Work,
    directory: &Directory,
    wanted: &[i64],
    priority: Option<Priority>,
) -> Result<Vec<Resent>, RecordsError> {
    let transaction = &work.transaction;
    let mut found = find(transaction, wanted).await?;
    let mut results: Vec<Resent> = wanted.iter().map(|_| Resent::Missing).collect();
    let mut plans = Vec::new();
    let mut lanes = DynamicLanes::default();
    for (nth, wanted) in wanted.iter().enumerate() {
        let Some(moved) = found.remove(wanted) else { continue };
        match plan(directory, nth, *wanted, moved, work.now)? {
            Ok(plan) => {
                if let PlannedLane::Dynamic(key) = &plan.lane {
                    lanes.want(plan.tenant.row, key);
                }
                plans.push(plan);
            }
            Err(refused) => results[nth] = refused,
        }
    }
    lanes.find(transaction).await?;
    let tenants: Vec<i64> = plans.iter().map(|plan| plan.tenant.row).collect();
    let mut backlogs = totals(transaction, &tenants).await?;
    let (mut ids, mut lane_numbers, mut expire_at) = (Vec::new(), Vec::new(), Vec::new());
    let mut admitted = BTreeMap::new();
    let mut is_full = false;
    for plan in plans {
        let limit = plan.tenant.backlog;
        let now = backlogs.entry(plan.tenant.row).or_insert(Backlog { count: 0, bytes: 0 });
        is_full |= now.count >= limit.count || now.bytes.saturating_add(plan.bytes) > limit.bytes;
        if is_full {
            let tenant = plan.tenant.id.clone();
            let full = RecordsError::BacklogFull { tenant, waiting: now.count, bytes: now.bytes };
            results[plan.nth] = Resent::BacklogFull(full);
            continue;
        }
        now.count += 1;
        now.bytes = now.bytes.saturating_add(plan.bytes);
        let lane = match &plan.lane {
            PlannedLane::Endpoint(lane) => lane.number(),
            PlannedLane::Dynamic(key) => lanes.get(plan.tenant.row, key),
        };
        ids.push(plan.id);
        lane_numbers.push(lane);
        expire_at.push(plan.expires_at.map(micros));
        admitted.insert(plan.id, plan);
    }
    if ids.is_empty() {
        return Ok(results);
    }
    let sql = include_str!("../sql/records/wait_again_if_finished.sql");
    let level = priority.map(level);
    let rows = transaction.query(sql, &[&ids, &lane_numbers, &expire_at, &micros(work.now), &level]).await?;
    let mut changes = BacklogChanges::default();
    for row in rows {
        let Some(plan) = admitted.remove(&get::<i64>(&row, 0)?) else { continue };
        let lane: i64 = get(&row, 1)?;
        changes.begun(plan.tenant.row, lane, plan.bytes);
        let mut next_due = [None; 4];
        next_due[self::priority(get(&row, 2)?).index()] = Some(work.now);
        results[plan.nth] = Resent::Waits(WaitingLane {
            lane: LaneId(id(lane)),
            tenant: plan.tenant.id.clone(),
            dynamic: match plan.lane {
                PlannedLane::Dynamic(key) => Some(key),
                PlannedLane::Endpoint(_) => None,
            },
            next_due,
            count: 1,
        });
    }
    // What is left was resent by another process at this moment.
    for plan in admitted.into_values() {
        results[plan.nth] = Resent::Unfinished(DeliveryState::Pending);
    }
    changes.write(transaction).await?;
    Ok(results)
}

/// Decides where and until when a delivery waits, or why it can't be resent.
fn plan(
    directory: &Directory,
    nth: usize,
    id: i64,
    moved: Moved,
    now: Timestamp,
) -> Result<Result<Plan, Resent>, RecordsError> {
    // A delivery that waits in a closed lane counts as cancelled, because its endpoint was deleted.
    if !moved.state.is_finished() && !moved.is_closed {
        return Ok(Err(Resent::Unfinished(moved.state)));
    }
    let gone = Resent::EndpointGone(EndpointId(moved.lane.0));
    // Another tenant may have the same name by now.
    let tenant = directory.tenant(&moved.name).filter(|entry| entry.row == moved.tenant);
    let Some(tenant) = tenant else { return Ok(Err(gone)) };
    let (lane, expires_after) = match &moved.url {
        Some(url) => {
            // The reminder, not the tenant, determines how long a run may wait.
            let expires_after = tenant.expires_after.filter(|_| moved.purpose == Purpose::Deliveries);
            (PlannedLane::Dynamic(tenant.key_of(moved.purpose, url)?), expires_after)
        }
        None => match directory.endpoint(moved.lane) {
            Some(endpoint) => (PlannedLane::Endpoint(moved.lane), endpoint.expires_after),
            None => return Ok(Err(gone)),
        },
    };
    // The delivery's time to live starts over each time it is resent.
    let expires_at = moved.lives_for.or(expires_after).map(|lives_for| now + lives_for);
    Ok(Ok(Plan { nth, id, tenant, lane, expires_at, bytes: moved.bytes }))
}

async fn find(transaction: &Transaction, wanted: &[i64]) -> Result<HashMap<i64, Moved>, QueueError> {
    let sql = include_str!("../sql/records/deliveries_to_resend.sql");
    let rows = transaction.query(sql, &[&wanted.to_vec()]).await?;
    let read = |row: &Row| {
        let number: i64 = column(row, "id")?;
        let made_at = id(number).made_at();
        let start = maybe_at(row, "not_before")?.map_or(made_at, |at| at.max(made_at));
        let state_number: i64 = column(row, "state")?;
        let moved = Moved {
            tenant: column(row, "tenant")?,
            name: parsed_column(row, "name")?,
            lane: LaneId(id(column(row, "lane")?)),
            state: state(state_number, column(row, "reason")?, small(row, "attempts")?),
            is_closed: state_number < DELIVERED && column(row, "is_closed")?,
            lives_for: column::<Option<i64>>(row, "expires_at")?.map(|at| time(at).since(start)),
            url: column(row, "url")?,
            purpose: match column::<Option<i64>>(row, "reminder")? {
                Some(_) => Purpose::Reminders,
                None => Purpose::Deliveries,
            },
            bytes: whole(column(row, "size")?),
        };
        Ok((number, moved))
    };
    rows.iter().map(|row| read(row).map_err(unreadable)).collect()
}
