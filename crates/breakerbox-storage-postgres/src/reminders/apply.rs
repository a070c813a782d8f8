//! Applies decisions about reminders, except those whose reminder has changed since it was read. A run is recorded together
//! with its event, payload and delivery in one transaction, so that none is lost or fired twice, by whatever process.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::{Fault, LastAttempt};
use breakerbox_model::notifications::{LastResult, Notification};
use breakerbox_model::objects::{CircuitOwner, EventType, LaneId, ReminderSettings, RunId, TenantId};
use breakerbox_model::reminder::{Action, Decision, Step, StopReason};
use breakerbox_storage::stored::codes::{id, micros, time, whole};
use breakerbox_storage::stored::reminder::{FINISHED, STOPPED, StoredReminder, reason};
use breakerbox_storage::{AppliedDecisions, ApplyError, QueueError, Reservations, Routes, TenantRoutes};
use bytes::Bytes;
use tokio_postgres::Row;

use super::remove_from_totals;
use super::unreadable::{self, Unreadable};
use crate::database::Database;
use crate::database::Transaction;
use crate::error::get;
use crate::fresh::{Dispatched, FreshDelivery, FreshEvent, FreshRows, Reserved};
use crate::lanes::DynamicLanes;
use crate::notifications::notify;
use crate::rows::{NewRun, code};

/// The event type of reminder runs.
const KIND: &str = "reminder";

/// The approximate number of bytes that a run takes on disk, in addition to its payload.
const BYTES_EACH: u64 = 1_024;

/// The parts of a queue that are needed to apply decisions.
#[derive(Clone)]
pub(crate) struct Applier {
    pub(crate) database: Database,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) reservations: Arc<dyn Reservations>,
}

/// A reminder that has not changed since the scheduler read it.
struct Current {
    decision: Decision,
    tenant: i64,
    name: Option<TenantId>,
    size: i64,
    /// The highest run number that a receiver may have seen.
    numbered: u32,
    settings: String,
    /// The payload, if a run is fired and the payload is there.
    payload: Option<Bytes>,
}

impl Current {
    fn read(row: &Row, decisions: &[Decision]) -> Result<Option<Self>, QueueError> {
        let nth = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0).saturating_sub(1);
        let Some(decision) = decisions.get(nth) else { return Ok(None) };
        Ok(Some(Self {
            decision: *decision,
            tenant: get(row, 1)?,
            size: get(row, 2)?,
            numbered: u32::try_from(get::<i64>(row, 3)?).unwrap_or(u32::MAX),
            settings: get(row, 4)?,
            payload: get::<Option<Vec<u8>>>(row, 5)?.map(Bytes::from),
            name: get::<Option<&str>>(row, 6)?.and_then(|name| name.parse().ok()),
        }))
    }

    fn id(&self) -> i64 {
        self.decision.id.number()
    }
}

/// A run that is fired.
struct Firing {
    reminder: Decision,
    tenant: TenantId,
    /// The tenant's number.
    row: i64,
    settings: ReminderSettings,
    /// The circuit's key.
    key: Arc<str>,
    payload: Bytes,
    run: NewRun,
    event: i64,
}

impl Firing {
    fn new(
        current: &Current,
        tenant: &TenantId,
        routes: &dyn TenantRoutes,
        run: NewRun,
        event: i64,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let settings = StoredReminder::read(&current.settings)?.settings(None)?;
        let owner = CircuitOwner::of_reminders(tenant.clone());
        let key = owner.circuit_of(settings.url.as_str(), routes.reminders_by())?;
        let payload = current.payload.clone().ok_or("its payload is missing")?;
        let (key, tenant) = (key.text().into(), tenant.clone());
        let (reminder, row) = (current.decision, routes.row());
        Ok(Self { reminder, tenant, row, settings, key, payload, run, event })
    }
}

impl Applier {
    /// Applies decisions. The slots that were reserved for the runs belong to the result.
    pub(crate) async fn apply(
        &self,
        decisions: &[Decision],
    ) -> Result<(AppliedDecisions, Reserved), ApplyError> {
        self.database.within(self.transact(decisions)).await
    }

    async fn transact(&self, decisions: &[Decision]) -> Result<(AppliedDecisions, Reserved), ApplyError> {
        let transaction = self.database.begin().await?;
        let current = find(&transaction, decisions).await?;
        let mut applied = AppliedDecisions {
            stale: (decisions.len() - current.len()) as u64,
            ..AppliedDecisions::default()
        };
        let fires = |one: &&Current| is_fire(&one.decision);
        let wanted =
            current.iter().filter(fires).map(|one| whole(one.size).saturating_mul(2) + BYTES_EACH).sum();
        if wanted > 0
            && let Some((free, reserve)) = self.database.below_reserve(wanted)
        {
            transaction.rollback().await?;
            return Err(ApplyError::DiskReserve { free, reserve });
        }
        let mut firings = Vec::new();
        for one in &current {
            match one.decision.action {
                Action::Step(Step::Fire { run, scheduled_at, skipped }) => {
                    // A number is never reused, even if its run was withdrawn.
                    let number = run.max(one.numbered.saturating_add(1));
                    let id = RunId { reminder: one.decision.id, number };
                    let new = NewRun { id, scheduled_at, skipped, latest: one.decision.latest };
                    firings.extend(self.prepare(&transaction, one, new, &mut applied).await?);
                }
                Action::Step(Step::Wait(until)) => set_next_check(&transaction, one, Some(until)).await?,
                Action::Step(Step::Stop(why)) => {
                    let notification = stopped(&transaction, one, why).await?;
                    end(&transaction, one, STOPPED, Some(reason(why))).await?;
                    if let Some(notification) = notification {
                        notify(&transaction, &notification, &*self.routes).await?;
                    }
                    applied.stopped += 1;
                }
                Action::Step(Step::Finish) => {
                    end(&transaction, one, FINISHED, None).await?;
                    remove_from_totals(&transaction, one.tenant, one.size).await?;
                }
                Action::NoStep => set_next_check(&transaction, one, None).await?,
            }
        }
        let Dispatched { taken, woken, reserved } = self.fire(&transaction, &firings).await?;
        transaction.commit().await?;
        applied.fired = firings.len() as u64;
        (applied.taken, applied.woken) = (taken, woken);
        Ok((applied, reserved))
    }

    /// Prepares a run. Returns `None` if the tenant was deleted or the run's content can't be read.
    async fn prepare(
        &self,
        transaction: &Transaction,
        one: &Current,
        run: NewRun,
        applied: &mut AppliedDecisions,
    ) -> Result<Option<Firing>, QueueError> {
        // Another tenant may have the same name by now.
        let routes = one.name.as_ref().and_then(|name| self.routes.tenant(name));
        let routes = routes.filter(|routes| routes.row() == one.tenant);
        let (Some(routes), Some(name)) = (routes, &one.name) else {
            set_next_check(transaction, one, None).await?;
            return Ok(None);
        };
        let event = self.database.next_ids(2).number();
        let error = match Firing::new(one, name, &*routes, run, event) {
            Ok(firing) => return Ok(Some(firing)),
            Err(error) => error.to_string(),
        };
        // The reminder was validated when it was written. It must not block the others.
        let (id, version) = (one.id(), one.decision.version.0);
        unreadable::stop(transaction, &Unreadable { id, version, error }, &*self.routes).await?;
        applied.stopped += 1;
        Ok(None)
    }

    /// Inserts the events and deliveries of runs.
    async fn fire(&self, transaction: &Transaction, firings: &[Firing]) -> Result<Dispatched, QueueError> {
        let mut dispatched = Dispatched::new(&self.reservations);
        if firings.is_empty() {
            return Ok(dispatched);
        }
        let mut lanes = DynamicLanes::default();
        firings.iter().for_each(|firing| lanes.want(firing.row, &firing.key));
        lanes.find(transaction).await?;
        let (now, kind) = (transaction.now(), kind());
        let mut rows = FreshRows::default();
        for firing in firings {
            let Firing { tenant, row, settings, key, payload, run, event, .. } = firing;
            let expires_at = settings.expires_after.map(|after| now + after);
            let event = FreshEvent {
                id: *event,
                tenant,
                tenant_row: *row,
                kind: &kind,
                content_type: &settings.content_type,
                priority: settings.priority,
                payload,
                fan_out: 1,
                not_before: None,
                expires_at,
                url: Some(settings.url.as_str()),
                key: Some(Arc::clone(key)),
                run: Some(*run),
            };
            rows.add_event(&event);
            let lane = LaneId(id(lanes.get(*row, key)));
            let delivery = FreshDelivery { id: event.id + 1, lane, due_at: now, expires_at, is_ripe: true };
            rows.add_delivery(&event, delivery, &mut dispatched);
        }
        let leases = rows.insert(transaction).await?;
        dispatched.set_leases(&leases);
        for firing in firings {
            let Firing { reminder, run, event, .. } = firing;
            let columns: [&dyn crate::Value; 6] = [
                &reminder.id.number(),
                &i64::from(run.id.number),
                &i64::from(run.skipped),
                &reminder.last_at.map(micros),
                &micros(run.scheduled_at),
                &(event + 1),
            ];
            transaction.execute(include_str!("../sql/reminder_fired.sql"), &columns).await?;
        }
        Ok(dispatched)
    }
}

fn is_fire(decision: &Decision) -> bool {
    matches!(decision.action, Action::Step(Step::Fire { .. }))
}

fn kind() -> EventType {
    KIND.parse().expect("it is a word of letters")
}

/// Locks the reminders that decisions apply to, except those that have changed since the scheduler read them.
async fn find(transaction: &Transaction, decisions: &[Decision]) -> Result<Vec<Current>, QueueError> {
    let ids: Vec<i64> = decisions.iter().map(|decision| decision.id.number()).collect();
    let versions: Vec<i64> = decisions.iter().map(|decision| decision.version.0).collect();
    let fires: Vec<bool> = decisions.iter().map(is_fire).collect();
    let sql = include_str!("../sql/hold_reminders_if_unchanged.sql");
    let rows = transaction.query(sql, &[&ids, &versions, &fires]).await?;
    rows.iter().filter_map(|row| Current::read(row, decisions).transpose()).collect()
}

/// Sets when the reminder is checked next. `None`: it is checked only after an event such as a client's request.
async fn set_next_check(
    transaction: &Transaction,
    one: &Current,
    at: Option<Timestamp>,
) -> Result<(), QueueError> {
    let (last_at, at) = (one.decision.last_at.map(micros), at.map(micros));
    let sql = include_str!("../sql/reminder_waits.sql");
    transaction.execute(sql, &[&one.id(), &last_at, &at]).await.map(drop)
}

/// Returns the notification about a reminder that is stopped. Call this before ending the reminder, because the open run
/// contains the reason.
async fn stopped(
    transaction: &Transaction,
    one: &Current,
    why: StopReason,
) -> Result<Option<Notification>, QueueError> {
    let sql = include_str!("../sql/last_result_of_run.sql");
    let row = transaction.query_opt(sql, &[&one.id()]).await?;
    let (Some(row), Some(name)) = (row, &one.name) else { return Ok(None) };
    let url = get::<Option<String>>(&row, 0)?.unwrap_or_default();
    let last = last_attempt(&row)?.as_ref().map(LastResult::from).unwrap_or_default();
    let (id, now) = (one.decision.id.to_string(), transaction.now());
    Ok(Some(Notification::reminder_stopped(name.clone(), id, one.numbered, &url, why.text(), last, now)))
}

/// Reads the last attempt of a run, if there was one.
fn last_attempt(row: &Row) -> Result<Option<LastAttempt>, QueueError> {
    let Some(started_at) = get::<Option<i64>>(row, 1)? else { return Ok(None) };
    // A fault that only a newer version knows is shown as the most general one.
    let fault =
        |name: &str| Fault::ALL.into_iter().find(|fault| fault.name() == name).unwrap_or(Fault::Protocol);
    Ok(Some(LastAttempt {
        started_at: time(started_at),
        status: get::<Option<i32>>(row, 2)?.and_then(|status| u16::try_from(status).ok()),
        fault: get::<Option<&str>>(row, 3)?.map(fault),
        detail: get::<Option<String>>(row, 4)?.map(Into::into),
    }))
}

/// Ends the reminder with this state and reason.
async fn end(
    transaction: &Transaction,
    one: &Current,
    state: i64,
    reason: Option<i64>,
) -> Result<(), QueueError> {
    let columns: [&dyn crate::Value; 5] = [
        &one.id(),
        &code(state),
        &reason.map(code),
        &one.decision.last_at.map(micros),
        &micros(transaction.now()),
    ];
    transaction.execute(include_str!("../sql/end_reminder_if_active.sql"), &columns).await.map(drop)
}
