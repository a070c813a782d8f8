//! Carries out decisions about reminders, each if its reminder has not changed since it was read. A run is fired with
//! its event, its payload and its delivery, in the transaction that records it: so none is lost, and none is fired
//! twice.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{
    CircuitOwner, DeliveryId, EventId, EventType, LaneId, ReminderSettings, RunId, TenantId,
};
use breakerbox_model::reminder::{Act, Decided, Step, StopReason};
use breakerbox_storage::{HandOver, Lease, Leased, LeasedRun, QueueError, StepError, Stepped};
use bytes::Bytes;
use rusqlite::{OptionalExtension, params};

use super::kept::{ACTIVE, FINISHED, Kept, NOTHING_ASKED, STOPPED, reason};
use super::totals;
use super::unreadable::{self, Unreadable};
use crate::accept::room_for;
use crate::columns::{LEASED, WAITING, id, micros, whole};
use crate::error::JobError;
use crate::insert::{self, NewDeliveryRow, NewEventRow, NewRun};
use crate::job::Command;
use crate::lanes::{self, OneWaiting};
use crate::ledger::Held;
use crate::routes::{Routes, TenantRoutes};
use crate::unheard::Unheard;
use crate::writer::Writing;

/// The event type of runs.
const KIND: &str = "reminder";

pub(super) struct TakeSteps {
    pub(super) steps: Vec<Decided>,
    pub(super) routes: Arc<dyn Routes>,
    pub(super) hand_over: Arc<dyn HandOver>,
    /// Lanes for which the hand-over has reserved a slot.
    pub(super) reserved: Vec<LaneId>,
    pub(super) unheard: Unheard,
}

/// A reminder that has not changed since it was read.
struct Current {
    id: i64,
    tenant: i64,
    size: u64,
    /// The highest number of a run that a receiver may have seen.
    numbered: u32,
    /// The content of a run. `None` unless one is fired.
    content: Option<Content>,
}

/// A reminder's stored settings, and its payload.
struct Content {
    settings: String,
    /// `None`: the payload is missing.
    payload: Option<Vec<u8>>,
}

/// The data for firing a run.
struct Firing<'f> {
    tenant: &'f TenantId,
    /// The number of the tenant.
    row: i64,
    settings: ReminderSettings,
    /// The key of the circuit.
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
        let settings = Kept::read(SETTINGS, &content.settings)?.settings(SETTINGS, None)?;
        let owner = CircuitOwner::of_reminders(tenant.clone());
        let key = owner.circuit_of(settings.url.as_str(), routes.reminders_by())?;
        let payload = content.payload.ok_or("its payload is missing")?;
        let (key, payload) = (key.text().into(), payload.into());
        Ok(Self { tenant, row: routes.row(), settings, key, payload, run })
    }
}

impl Command for TakeSteps {
    type Answer = Result<Stepped, StepError>;

    fn run(&mut self, writing: &mut Writing<'_>) -> Result<Self::Answer, JobError<QueueError>> {
        let mut stepped = Stepped::default();
        let mut current = Vec::with_capacity(self.steps.len());
        let (mut fires, mut bytes) = (0, 0);
        for decided in &self.steps {
            let Some(found) = find(writing, decided)? else {
                stepped.stale += 1;
                continue;
            };
            if found.content.is_some() {
                (fires, bytes) = (fires + 1, bytes + found.size);
            }
            current.push((found, *decided));
        }
        if fires > 0
            && let Err(below) = room_for(writing, fires, bytes)
        {
            return Ok(Err(StepError::DiskReserve { free: below.free, reserve: below.reserve }));
        }
        for (mut found, decided) in current {
            match decided.act {
                Act::Step(Step::Fire { run, scheduled_at, skipped }) => {
                    // A number is not used twice, even if the run that had it was withdrawn.
                    let number = run.max(found.numbered.saturating_add(1));
                    let id = RunId { reminder: decided.id, number };
                    let new = NewRun { id, scheduled_at, skipped, latest: decided.latest };
                    stepped.fired +=
                        u64::from(self.fire(writing, &mut found, &decided, new, &mut stepped)?);
                }
                Act::Step(Step::Wait(until)) => look_again(writing, &found, &decided, Some(until))?,
                Act::Step(Step::Stop(why)) => {
                    let notification = stopped(writing, &found, &decided, why)?;
                    end(writing, &found, &decided, STOPPED, Some(reason(why)))?;
                    writing.tell(&notification, &*self.routes)?;
                    stepped.stopped += 1;
                }
                Act::Step(Step::Finish) => {
                    end(writing, &found, &decided, FINISHED, None)?;
                    totals::remove(writing.connection, found.tenant, found.size)?;
                }
                Act::Rest => look_again(writing, &found, &decided, None)?,
            }
        }
        Ok(Ok(stepped))
    }

    fn undone(&mut self) {
        for lane in self.reserved.drain(..) {
            self.hand_over.lost(lane);
        }
    }

    fn unheard(&mut self, answer: Self::Answer) {
        let Ok(stepped) = answer else { return };
        self.reserved.drain(..).for_each(|lane| self.hand_over.lost(lane));
        self.unheard.add(&stepped.taken, stepped.woken);
    }
}

impl TakeSteps {
    /// Fires a run. False: its tenant was deleted, or it can't be read.
    fn fire(
        &mut self,
        writing: &mut Writing<'_>,
        found: &mut Current,
        decided: &Decided,
        run: NewRun,
        stepped: &mut Stepped,
    ) -> Result<bool, JobError<QueueError>> {
        let tenant = writing.ledger.tenant(writing.connection, found.tenant)?;
        // Another tenant may have the same name by now.
        let routes = self.routes.tenant(&tenant).filter(|routes| routes.row() == found.tenant);
        let (Some(routes), Some(content)) = (routes, found.content.take()) else {
            look_again(writing, found, decided, None)?;
            return Ok(false);
        };
        let firing = match Firing::new(content, &tenant, &*routes, run) {
            Ok(firing) => firing,
            // The reminder was checked when it was written. The other reminders must not wait for this one.
            Err(error) => {
                let (id, turn, error) = (found.id, decided.turn.0, error.to_string());
                unreadable::stop(writing, &Unreadable { id, turn, error }, &*self.routes)?;
                stepped.stopped += 1;
                return Ok(false);
            }
        };
        let delivery = self.deliver(writing, firing, stepped)?;
        writing
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
                decided.last_at.map(micros),
                micros(run.scheduled_at),
                delivery,
                NOTHING_ASKED,
            ])?;
        Ok(true)
    }

    /// Inserts the event and the delivery of a run. Returns the delivery's id.
    fn deliver(
        &mut self,
        writing: &mut Writing<'_>,
        firing: Firing<'_>,
        stepped: &mut Stepped,
    ) -> Result<i64, JobError<QueueError>> {
        let Firing { tenant, row, settings, key, payload, run } = firing;
        let (connection, now) = (writing.connection, writing.now);
        let lane = LaneId(id(lanes::of_key(connection, writing.ledger, row, &key, writing.wall)?));
        let event = writing.ledger.next_ids(2, writing.wall).number();
        let delivery = event + 1;
        let expires_at = settings.expires_after.map(|after| now + after);
        insert::event(
            connection,
            &NewEventRow {
                id: event,
                tenant: row,
                kind: KIND,
                content_type: &settings.content_type,
                priority: settings.priority,
                fan_out: 1,
                payload: &payload,
                not_before: None,
                expires_at,
                url: Some(settings.url.as_str()),
                run: Some(run),
            },
        )?;
        let lease = self.hand_over.take(lane, tenant, Some(&key));
        if lease.is_some() {
            self.reserved.push(lane);
        }
        let new = NewDeliveryRow {
            id: delivery,
            event,
            tenant: row,
            lane: lane.number(),
            state: if lease.is_some() { LEASED } else { WAITING },
            priority: settings.priority,
            due_at: now,
            expires_at,
            finished_at: None,
        };
        insert::delivery(connection, new)?;
        let bytes = payload.len() as u64;
        writing.ledger.begun(row, lane.number(), bytes);
        let Some(lease) = lease else {
            let waiting = OneWaiting { lane, tenant, key: Some(&key) };
            waiting.wake(&mut stepped.woken, settings.priority, now);
            return Ok(delivery);
        };
        let held = Held {
            lease: Lease(0),
            until: now + lease,
            lane: lane.number(),
            tenant: row,
            bytes,
            requests: 0,
            reminder: Some(run.id.reminder.number()),
        };
        stepped.taken.push(Leased {
            id: DeliveryId(id(delivery)),
            lease: writing.ledger.hold(delivery, held),
            lane,
            tenant: tenant.clone(),
            event: EventId(id(event)),
            kind: kind(),
            payload,
            content_type: settings.content_type,
            priority: settings.priority,
            attempts: 0,
            url: Some(settings.url.as_str().into()),
            run: Some(LeasedRun { id: run.id, scheduled_at: run.scheduled_at, latest_of: None }),
            pulled_from: None,
            created_at: id(event).made_at(),
            expires_at,
        });
        Ok(delivery)
    }
}

fn kind() -> EventType {
    KIND.parse().expect("it is a word of letters")
}

/// The index of the settings in the columns of a reminder that fires.
const SETTINGS: usize = 3;

/// Returns the reminder, if it has not changed since it was read; with the content of a run, if one is fired.
fn find(writing: &Writing<'_>, decided: &Decided) -> rusqlite::Result<Option<Current>> {
    let fires = matches!(decided.act, Act::Step(Step::Fire { .. }));
    let question = if fires {
        "SELECT r.tenant, r.size, r.numbered, r.settings, p.payload
         FROM reminders r LEFT JOIN reminder_payloads p ON p.reminder = r.id WHERE r.id = ?1 AND r.turn = ?2"
    } else {
        "SELECT tenant, size, numbered FROM reminders WHERE id = ?1 AND turn = ?2"
    };
    let reminder = decided.id.number();
    let mut statement = writing.connection.prepare_cached(question)?;
    let found = statement.query_row(params![reminder, decided.turn.0], |row| {
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

/// Sets when the reminder is checked next. `None`: not before something happens.
fn look_again(
    writing: &Writing<'_>,
    found: &Current,
    decided: &Decided,
    at: Option<Timestamp>,
) -> rusqlite::Result<()> {
    // An unfinished run is still open: the check came too early.
    writing
        .connection
        .prepare_cached(
            "UPDATE reminders SET turn = turn + 1, last_at = ?2, look_at = ?3, asked = ?4,
                 open_run = (SELECT d.id FROM deliveries d WHERE d.id = open_run AND d.state IN (0, 1))
             WHERE id = ?1",
        )?
        .execute(params![found.id, decided.last_at.map(micros), at.map(micros), NOTHING_ASKED])?;
    Ok(())
}

/// Returns the notification for a reminder that stops. Called before it ends, because its run contains the reason.
fn stopped(
    writing: &mut Writing<'_>,
    found: &Current,
    decided: &Decided,
    why: StopReason,
) -> rusqlite::Result<Notification> {
    let (url, status, fault) = writing
        .connection
        .prepare_cached(
            "SELECT r.settings ->> 'url', a.status, a.fault FROM reminders r
                 LEFT JOIN attempts a ON a.delivery = r.open_run
             WHERE r.id = ?1 ORDER BY a.number DESC LIMIT 1",
        )?
        .query_row([found.id], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<u16>>(1)?, row.get::<_, Option<String>>(2)?))
        })?;
    let last = match (status, fault) {
        (Some(status), _) => format!("; the last response was {status}"),
        (None, Some(fault)) => format!("; the last attempt failed: {fault}"),
        (None, None) => String::new(),
    };
    let tenant = writing.ledger.tenant(writing.connection, found.tenant)?;
    let reason = format!("{}{last}", why.text());
    let (id, run) = (decided.id.to_string(), found.numbered);
    Ok(Notification::reminder_stopped(tenant, id, run, &url, reason, writing.wall))
}

/// Ends the reminder.
fn end(
    writing: &Writing<'_>,
    found: &Current,
    decided: &Decided,
    state: i64,
    reason: Option<i64>,
) -> rusqlite::Result<()> {
    writing
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
            decided.last_at.map(micros),
            NOTHING_ASKED,
            micros(writing.wall),
            ACTIVE,
        ])?;
    Ok(())
}
