//! Applies decisions about reminders, except those whose reminder has changed since it was read. A run is recorded
//! together with its event, payload and delivery in one transaction, so that none is lost or fired twice.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::notifications::{LastResult, Notification};
use breakerbox_model::objects::{CircuitOwner, EventType, LaneId, ReminderSettings, RunId, TenantId};
use breakerbox_model::reminder::{Action, Decision, Step, StopReason};
use breakerbox_storage::{AppliedDecisions, ApplyError, QueueError};
use bytes::Bytes;
use rusqlite::{OptionalExtension, params};

use super::stored::{ACTIVE, FINISHED, NO_REQUEST, STOPPED, StoredReminder, reason};
use super::totals;
use super::unreadable::{self, Unreadable};
use crate::columns::{id, micros, whole};
use crate::error::JobError;
use crate::fresh::{FreshDeliveries, FreshDelivery, FreshEvent};
use crate::insert::NewRun;
use crate::job::Command;
use crate::lanes;
use crate::last_attempts;
use crate::submit::room_for;
use crate::transaction::WriteTransaction;
use breakerbox_storage::{Routes, TenantRoutes};

/// The event type of reminder runs.
const KIND: &str = "reminder";

pub(crate) struct ApplyDecisions {
    pub(crate) decisions: Vec<Decision>,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) deliveries: FreshDeliveries,
}

/// The columns that are needed to apply a decision, read from a reminder that has not changed since the
/// scheduler read it.
struct Current {
    id: i64,
    tenant: i64,
    size: u64,
    /// The highest run number that a receiver may have seen.
    numbered: u32,
    /// The content of the run to fire. `None`: no run is fired.
    content: Option<Content>,
}

/// A reminder's stored settings and its payload.
struct Content {
    settings: String,
    /// The payload. `None`: it is missing in the database.
    payload: Option<Vec<u8>>,
}

/// The data needed to fire a run of a reminder.
struct Firing<'f> {
    tenant: &'f TenantId,
    /// The tenant's number.
    row: i64,
    settings: ReminderSettings,
    /// The circuit's key.
    key: Arc<str>,
    payload: Bytes,
    run: NewRun,
}

impl<'f> Firing<'f> {
    fn new(
        content: Content,
        tenant: &'f TenantId,
        routes: &dyn TenantRoutes,
        run: NewRun,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let settings = StoredReminder::read(&content.settings)?.settings(None)?;
        let owner = CircuitOwner::of_reminders(tenant.clone());
        let key = owner.circuit_of(settings.url.as_str(), routes.reminders_by())?;
        let payload = content.payload.ok_or("its payload is missing")?;
        let (key, payload) = (key.text().into(), payload.into());
        Ok(Self { tenant, row: routes.row(), settings, key, payload, run })
    }
}

impl Command for ApplyDecisions {
    type Output = Result<AppliedDecisions, ApplyError>;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<Self::Output, JobError<QueueError>> {
        let mut applied = AppliedDecisions::default();
        let mut current = Vec::with_capacity(self.decisions.len());
        let (mut fires, mut bytes) = (0, 0);
        for decision in &self.decisions {
            let Some(found) = find(transaction, decision)? else {
                applied.stale += 1;
                continue;
            };
            if found.content.is_some() {
                (fires, bytes) = (fires + 1, bytes + found.size);
            }
            current.push((found, *decision));
        }
        if fires > 0
            && let Err(below) = room_for(transaction, fires, bytes)
        {
            return Ok(Err(ApplyError::DiskReserve { free: below.free, reserve: below.reserve }));
        }
        for (mut found, decision) in current {
            match decision.action {
                Action::Step(Step::Fire { run, scheduled_at, skipped }) => {
                    // A number is never reused, even if its run was withdrawn.
                    let number = run.max(found.numbered.saturating_add(1));
                    let id = RunId { reminder: decision.id, number };
                    let new = NewRun { id, scheduled_at, skipped, latest: decision.latest };
                    applied.fired +=
                        u64::from(self.fire(transaction, &mut found, &decision, new, &mut applied)?);
                }
                Action::Step(Step::Wait(until)) => {
                    set_next_check(transaction, &found, &decision, Some(until))?;
                }
                Action::Step(Step::Stop(why)) => {
                    let notification = stopped(transaction, &found, &decision, why)?;
                    end(transaction, &found, &decision, STOPPED, Some(reason(why)))?;
                    transaction.notify(&notification, &*self.routes)?;
                    applied.stopped += 1;
                }
                Action::Step(Step::Finish) => {
                    end(transaction, &found, &decision, FINISHED, None)?;
                    totals::remove(transaction.connection, found.tenant, found.size)?;
                }
                Action::NoStep => set_next_check(transaction, &found, &decision, None)?,
            }
        }
        Ok(Ok(applied))
    }

    fn on_rollback(&mut self) {
        self.deliveries.on_rollback();
    }

    fn on_caller_gone(&mut self, answer: Self::Output) {
        let Ok(applied) = answer else { return };
        self.deliveries.on_caller_gone(&applied.taken, applied.woken);
    }
}

impl ApplyDecisions {
    /// Fires a run. Returns false if the tenant was deleted or the run's content can't be read.
    fn fire(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
        found: &mut Current,
        decision: &Decision,
        run: NewRun,
        applied: &mut AppliedDecisions,
    ) -> Result<bool, JobError<QueueError>> {
        let tenant = transaction.writer_state.tenant(transaction.connection, found.tenant)?;
        // Another tenant may have the same name by now.
        let routes = self.routes.tenant(&tenant).filter(|routes| routes.row() == found.tenant);
        let (Some(routes), Some(content)) = (routes, found.content.take()) else {
            set_next_check(transaction, found, decision, None)?;
            return Ok(false);
        };
        let firing = match Firing::new(content, &tenant, &*routes, run) {
            Ok(firing) => firing,
            // The reminder was validated when it was written. It must not block the others.
            Err(error) => {
                let (id, version, error) = (found.id, decision.version.0, error.to_string());
                unreadable::stop(transaction, &Unreadable { id, version, error }, &*self.routes)?;
                applied.stopped += 1;
                return Ok(false);
            }
        };
        let delivery = self.deliver(transaction, firing, applied)?;
        transaction
            .connection
            .prepare_cached(
                "UPDATE reminders SET turn = turn + 1, runs = runs + 1, numbered = ?2, skipped = skipped + ?3,
                     before_at = last_at, last_at = ?4, ran_at = ?5, open_run = ?6, look_at = NULL, asked = ?7
                 WHERE id = ?1",
            )?
            .execute(params![
                found.id,
                run.id.number,
                run.skipped,
                decision.last_at.map(micros),
                micros(run.scheduled_at),
                delivery,
                NO_REQUEST,
            ])?;
        Ok(true)
    }

    /// Inserts a run's event and delivery, and returns the delivery's id.
    fn deliver(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
        firing: Firing<'_>,
        applied: &mut AppliedDecisions,
    ) -> Result<i64, JobError<QueueError>> {
        let Firing { tenant, row, settings, key, payload, run } = firing;
        let (connection, now) = (transaction.connection, transaction.now);
        let lane =
            LaneId(id(lanes::of_key(connection, transaction.writer_state, row, &key, transaction.wall)?));
        let event_id = transaction.writer_state.next_ids(2, transaction.wall).number();
        let delivery = event_id + 1;
        let expires_at = settings.expires_after.map(|after| now + after);
        let kind = kind();
        let event = FreshEvent {
            id: event_id,
            tenant,
            tenant_row: row,
            kind: &kind,
            content_type: &settings.content_type,
            priority: settings.priority,
            payload: &payload,
            fan_out: 1,
            not_before: None,
            expires_at,
            url: Some(settings.url.as_str().into()),
            key: Some(key),
            run: Some(run),
        };
        event.insert(transaction)?;
        let fresh = FreshDelivery { id: delivery, lane, due_at: now, expires_at, is_ripe: true };
        self.deliveries.insert(transaction, &event, fresh, &mut applied.taken, &mut applied.woken)?;
        Ok(delivery)
    }
}

fn kind() -> EventType {
    KIND.parse().expect("it is a word of letters")
}

/// The index of the column `settings` in the query of [`find`].
const SETTINGS: usize = 3;

/// Returns the reminder that a decision applies to, with the run's content if a run is fired. Returns `None` if the
/// reminder has changed since the scheduler read it.
fn find(transaction: &WriteTransaction<'_>, decision: &Decision) -> rusqlite::Result<Option<Current>> {
    let fires = matches!(decision.action, Action::Step(Step::Fire { .. }));
    let question = if fires {
        "SELECT r.tenant, r.size, r.numbered, r.settings, p.payload
         FROM reminders r LEFT JOIN reminder_payloads p ON p.reminder = r.id WHERE r.id = ?1 AND r.turn = ?2"
    } else {
        "SELECT tenant, size, numbered FROM reminders WHERE id = ?1 AND turn = ?2"
    };
    let reminder = decision.id.number();
    let mut statement = transaction.connection.prepare_cached(question)?;
    let found = statement.query_row(params![reminder, decision.version.0], |row| {
        let content =
            |()| Ok::<_, rusqlite::Error>(Content { settings: row.get(SETTINGS)?, payload: row.get(4)? });
        Ok(Current {
            id: reminder,
            tenant: row.get(0)?,
            size: whole(row.get(1)?),
            numbered: u32::try_from(row.get::<_, i64>(2)?).unwrap_or(u32::MAX),
            content: fires.then_some(()).map(content).transpose()?,
        })
    });
    found.optional()
}

/// Sets when the reminder is checked next. `None`: it is checked only after an event such as a client's request.
fn set_next_check(
    transaction: &WriteTransaction<'_>,
    found: &Current,
    decision: &Decision,
    at: Option<Timestamp>,
) -> rusqlite::Result<()> {
    // An unfinished run is still open: the check was too early.
    transaction
        .connection
        .prepare_cached(
            "UPDATE reminders SET turn = turn + 1, last_at = ?2, look_at = ?3, asked = ?4,
                 open_run = (SELECT d.id FROM deliveries d WHERE d.id = open_run AND d.state IN (0, 1))
             WHERE id = ?1",
        )?
        .execute(params![found.id, decision.last_at.map(micros), at.map(micros), NO_REQUEST])?;
    Ok(())
}

/// Returns the notification about a reminder that is stopped. Call this before ending the reminder, because the open
/// run contains the reason.
fn stopped(
    transaction: &mut WriteTransaction<'_>,
    found: &Current,
    decision: &Decision,
    why: StopReason,
) -> rusqlite::Result<Notification> {
    let (url, last) = transaction
        .connection
        .prepare_cached(
            "SELECT r.settings ->> 'url', a.started_at, a.status, a.fault, a.detail FROM reminders r
                 LEFT JOIN attempts a ON a.delivery = r.open_run
             WHERE r.id = ?1 ORDER BY a.number DESC LIMIT 1",
        )?
        .query_row([found.id], |row| {
            let has_attempt = row.get::<_, Option<i64>>(1)?.is_some();
            let last = has_attempt.then(|| last_attempts::read(row, 1)).transpose()?;
            Ok((row.get::<_, String>(0)?, last))
        })?;
    let tenant = transaction.writer_state.tenant(transaction.connection, found.tenant)?;
    let last = last.as_ref().map(LastResult::from).unwrap_or_default();
    let (id, run) = (decision.id.to_string(), found.numbered);
    Ok(Notification::reminder_stopped(tenant, id, run, &url, why.text(), last, transaction.wall))
}

/// Ends the reminder with this state and reason.
fn end(
    transaction: &WriteTransaction<'_>,
    found: &Current,
    decision: &Decision,
    state: i64,
    reason: Option<i64>,
) -> rusqlite::Result<()> {
    transaction
        .connection
        .prepare_cached(
            "UPDATE reminders SET turn = turn + 1, state = ?2, reason = ?3, last_at = ?4, look_at = NULL, asked = ?5,
                 open_run = NULL, ended_at = ?6
             WHERE id = ?1 AND state = ?7",
        )?
        .execute(params![
            found.id,
            state,
            reason,
            decision.last_at.map(micros),
            NO_REQUEST,
            micros(transaction.wall),
            ACTIVE,
        ])?;
    Ok(())
}
