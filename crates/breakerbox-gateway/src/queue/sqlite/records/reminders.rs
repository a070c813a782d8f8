//! Reminders, as people create, see and change them. Whatever changes one rings for the scheduler after the commit.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use bytes::Bytes;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params, params_from_iter};

use super::SqliteRecords;
use super::cursors::{Place, page, place};
use super::deliveries;
use super::kept::TENANT;
use super::unchanged;
use crate::objects::{
    Id, Purpose, Reminder, ReminderId, ReminderSettings, ReminderState, Revision, Run, RunId,
};
use crate::queue::records::{Cursor, NewReminder, Page, PageOf, ReminderChange, ReminderFilter, Reminders};
use crate::queue::sqlite::Writing;
use crate::queue::sqlite::accept::room_for;
use crate::queue::sqlite::columns::{WAITING, content_type, id, level, micros, number, time, whole};
use crate::queue::sqlite::lanes;
use crate::queue::sqlite::line::Urgency;
use crate::queue::sqlite::reminders::kept::{
    ACTIVE, CANCELLED, COLUMNS, Kept, NOTHING_ASKED, PAUSED, TO_RESUME, TO_RUN_NOW, reminder, show,
    state_number,
};
use crate::queue::sqlite::reminders::prune::Prune;
use crate::queue::sqlite::reminders::{runs, totals};
use crate::queue::{QueueError, RecordsError, TenantEntry};
use crate::reminder::Repeat;

const REMINDER: &str = "reminder";

/// How many rows a page looks at.
const LOOKS: usize = 20_000;

impl SqliteRecords {
    /// Does something to a reminder that is there. What it answers is the reminder as it is then.
    async fn act(
        &self,
        wanted: ReminderId,
        act: impl FnOnce(&Self, &mut Writing<'_>, Reminder) -> Result<(), RecordsError> + Send + 'static,
    ) -> Result<Reminder, RecordsError> {
        let records = self.clone();
        self.database
            .write(move |writing| {
                let found = found(writing.connection(), wanted)?;
                act(&records, writing, found)?;
                let directory = Arc::clone(&records.directory);
                writing.after_commit(move || directory.reminders_changed());
                self::found(writing.connection(), wanted)
            })
            .await
    }
}

#[async_trait]
impl Reminders for SqliteRecords {
    async fn create_reminder(&self, new: NewReminder) -> Result<Reminder, RecordsError> {
        let records = self.clone();
        self.database
            .write(move |writing| {
                let tenant = records.directory.tenant(&new.tenant);
                let tenant = tenant.ok_or_else(|| RecordsError::missing(TENANT, &new.tenant))?;
                tenant.key_of(Purpose::Reminders, new.settings.url.as_str())?;
                let size = new.payload.len() as u64;
                admit(writing, &tenant, size, 1)?;
                let wanted = writing.next_id().number();
                insert(writing, wanted, tenant.row, &new)?;
                totals::add(writing.connection(), tenant.row, size)?;
                let directory = Arc::clone(&records.directory);
                writing.after_commit(move || directory.reminders_changed());
                found(writing.connection(), ReminderId(id(wanted)))
            })
            .await
    }

    async fn reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.database.read(move |connection| found(connection, wanted)).await
    }

    async fn reminder_payload(&self, wanted: ReminderId) -> Result<Bytes, RecordsError> {
        let found = self
            .database
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT payload FROM reminder_payloads WHERE reminder = ?1")?;
                let payload = statement.query_row([wanted.number()], |row| row.get::<_, Vec<u8>>(0));
                Ok::<_, RecordsError>(payload.optional()?)
            })
            .await?;
        found.map(Bytes::from).ok_or_else(|| RecordsError::missing(REMINDER, wanted))
    }

    async fn reminders(&self, filter: &ReminderFilter, of: &PageOf) -> Result<Page<Reminder>, RecordsError> {
        let before = place::<Id>(of)?.map_or(i64::MAX, Id::number);
        let (filter, size) = (filter.clone(), of.size());
        self.database.read(move |connection| Ok(list(connection, &filter, before, size)?)).await
    }

    async fn change_reminder(
        &self,
        wanted: ReminderId,
        change: ReminderChange,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |records, writing, found| {
            unchanged(found.revision, seen, REMINDER, &wanted)?;
            if matches!(found.state, ReminderState::Finished | ReminderState::Cancelled) {
                return Err(refused(&found, "changed"));
            }
            let tenant = records.directory.tenant(&found.tenant);
            let tenant = tenant.ok_or_else(|| RecordsError::missing(TENANT, &found.tenant))?;
            tenant.key_of(Purpose::Reminders, change.settings.url.as_str())?;
            if let Some(payload) = &change.payload {
                let (was, is) = (found.payload_size, payload.len() as u64);
                admit(writing, &tenant, is.saturating_sub(was), 0)?;
                totals::resize(writing.connection(), tenant.row, was, is)?;
            }
            write(writing, &found, &change)?;
            replan(writing, &found, &change)?;
            carry_on(records, writing, &tenant, &found, &change)
        })
        .await
    }

    async fn pause_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |_, writing, found| {
            if found.state != ReminderState::Active {
                return Err(refused(&found, "paused"));
            }
            if let Some(run) = found.open_run
                && writing.cancel(run)?
            {
                runs::unfire(writing.connection(), wanted.number())?;
            }
            set_state(writing, &found, PAUSED, None, NOTHING_ASKED)
        })
        .await
    }

    async fn resume_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |_, writing, found| {
            if !matches!(found.state, ReminderState::Paused | ReminderState::Stopped(_)) {
                return Err(refused(&found, "resumed"));
            }
            // One whose run is still open goes on when that has ended.
            let look_at = found.open_run.is_none().then_some(Timestamp::ZERO);
            set_state(writing, &found, ACTIVE, look_at, TO_RESUME)
        })
        .await
    }

    async fn cancel_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |records, writing, found| {
            if found.state == ReminderState::Cancelled {
                return Ok(());
            }
            if found.state == ReminderState::Finished {
                return Err(refused(&found, "cancelled"));
            }
            set_state(writing, &found, CANCELLED, None, NOTHING_ASKED)?;
            if let Some(run) = found.open_run {
                writing.cancel(run)?;
            }
            if let Some(tenant) = records.directory.tenant(&found.tenant) {
                totals::remove(writing.connection(), tenant.row, found.payload_size)?;
            }
            Ok(())
        })
        .await
    }

    async fn run_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |records, writing, found| {
            if found.state == ReminderState::Cancelled {
                return Err(refused(&found, "run"));
            }
            if let Some(run) = found.open_run {
                return hurry(records, writing, &found, run.number());
            }
            let mut statement = writing.connection().prepare_cached(
                "UPDATE reminders SET turn = turn + 1, look_at = 0, asked = ?2 WHERE id = ?1",
            )?;
            statement.execute(params![wanted.number(), TO_RUN_NOW])?;
            Ok(())
        })
        .await
    }

    async fn runs(&self, wanted: ReminderId, of: &PageOf) -> Result<Page<Run>, RecordsError> {
        let before = place::<Id>(of)?.map_or(i64::MAX, Id::number);
        let size = of.size();
        self.database
            .read(move |connection| {
                found(connection, wanted)?;
                let mut statement = connection.prepare_cached(
                    "SELECT id, run, scheduled_at, skipped FROM events INDEXED BY runs
                     WHERE reminder = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
                )?;
                let rows = statement
                    .query_map(params![wanted.number(), before, number(size as u64 + 1)], run_row)?
                    .collect::<Result<Vec<_>, _>>()?;
                let rows = page(rows, size, |row: &RunRow| id(row.event));
                let mut items = Vec::with_capacity(rows.items.len());
                for row in rows.items {
                    // The delivery of a run comes right after its event.
                    let Some(delivery) = deliveries::show(connection, row.event + 1)? else { continue };
                    let run = RunId { reminder: wanted, number: row.run };
                    items.push(Run {
                        id: run,
                        scheduled_at: row.scheduled_at,
                        skipped: row.skipped,
                        delivery,
                    });
                }
                Ok(Page { items, next: rows.next })
            })
            .await
    }

    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        self.database.ask(Prune { before, limit }, Urgency::Urgent).await
    }
}

struct RunRow {
    event: i64,
    run: u32,
    scheduled_at: Timestamp,
    skipped: u32,
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow { event: row.get(0)?, run: row.get(1)?, scheduled_at: time(row.get(2)?), skipped: row.get(3)? })
}

fn found(connection: &Connection, wanted: ReminderId) -> Result<Reminder, RecordsError> {
    show(connection, wanted.number())?.ok_or_else(|| RecordsError::missing(REMINDER, wanted))
}

fn refused(found: &Reminder, verb: &'static str) -> RecordsError {
    RecordsError::ReminderState { id: found.id, state: found.state.name(), verb }
}

/// Whether the tenant's limit and the disk have room for so many more, with so many bytes.
fn admit(writing: &mut Writing<'_>, tenant: &TenantEntry, bytes: u64, more: u64) -> Result<(), RecordsError> {
    let now = totals::of(writing.connection(), tenant.row)?;
    let limit = tenant.reminders.limit;
    if now.count.saturating_add(more) > limit.count || now.bytes.saturating_add(bytes) > limit.bytes {
        let (count, bytes) = (now.count, now.bytes);
        return Err(RecordsError::RemindersFull { tenant: tenant.id.clone(), count, bytes });
    }
    let room = room_for(writing, more, bytes);
    room.map_err(|below| RecordsError::DiskReserve { free: below.free, reserve: below.reserve })
}

fn insert(
    writing: &mut Writing<'_>,
    wanted: i64,
    tenant: i64,
    new: &NewReminder,
) -> Result<(), RecordsError> {
    let now = micros(writing.now());
    let settings = &new.settings;
    let first = settings.schedule.first();
    let inserted = writing
        .connection()
        .prepare_cached(
            "INSERT INTO reminders (id, tenant, reference, settings, size, state, asked, turn, runs, skipped, look_at,
                 revision, created_at, changed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, 0, 0, ?8, ?9, ?10, ?10)",
        )?
        .execute(params![
            wanted,
            tenant,
            settings.reference,
            Kept::of(settings).write(),
            number(new.payload.len() as u64),
            ACTIVE,
            NOTHING_ASKED,
            micros(first.unwrap_or(Timestamp::ZERO)),
            Revision::FIRST.0,
            now,
        ]);
    taken_reference(inserted, settings)?;
    writing
        .connection()
        .prepare_cached("INSERT INTO reminder_payloads (reminder, payload) VALUES (?1, ?2)")?
        .execute(params![wanted, &new.payload[..]])?;
    Ok(())
}

/// The reference is the only thing that must be unique.
fn taken_reference(
    written: rusqlite::Result<usize>,
    settings: &ReminderSettings,
) -> Result<(), RecordsError> {
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            let name = settings.reference.clone().unwrap_or_default();
            Err(RecordsError::Exists { what: "reminder with the reference", name })
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes what is changed of a reminder.
fn write(writing: &mut Writing<'_>, found: &Reminder, change: &ReminderChange) -> Result<(), RecordsError> {
    let settings = &change.settings;
    let size = change.payload.as_ref().map_or(found.payload_size, |payload| payload.len() as u64);
    let written = writing
        .connection()
        .prepare_cached(
            "UPDATE reminders SET reference = ?2, settings = ?3, size = ?4, revision = ?5, changed_at = ?6, turn = turn + 1
             WHERE id = ?1",
        )?
        .execute(params![
            found.id.number(),
            settings.reference,
            Kept::of(settings).write(),
            number(size),
            found.revision.next().0,
            micros(writing.now()),
        ]);
    taken_reference(written, settings)?;
    if let Some(payload) = &change.payload {
        writing
            .connection()
            .prepare_cached("UPDATE reminder_payloads SET payload = ?2 WHERE reminder = ?1")?
            .execute(params![found.id.number(), &payload[..]])?;
    }
    Ok(())
}

/// Another schedule counts from now on: a run that waits is withdrawn, and nothing of before is made up for. One that only
/// ends otherwise goes on where it was.
fn replan(writing: &mut Writing<'_>, found: &Reminder, change: &ReminderChange) -> Result<(), RecordsError> {
    let (old, new) = (&found.settings.schedule, &change.settings.schedule);
    if old == new {
        return Ok(());
    }
    let wanted = found.id.number();
    let mut is_open = found.open_run.is_some();
    if !new.continues(old) {
        if let Some(run) = found.open_run
            && writing.cancel(run)?
        {
            runs::unfire(writing.connection(), wanted)?;
            is_open = false;
        }
        let done_with = match new.repeat {
            Repeat::Once => None,
            Repeat::Every(_) | Repeat::Cron(_) => new.latest(None, change.now).map(|missed| missed.latest),
        };
        writing
            .connection()
            .prepare_cached("UPDATE reminders SET last_at = ?2, before_at = ?2 WHERE id = ?1")?
            .execute(params![wanted, done_with.map(micros)])?;
    }
    if found.state == ReminderState::Active && !is_open {
        let mut statement =
            writing.connection().prepare_cached("UPDATE reminders SET look_at = 0 WHERE id = ?1")?;
        statement.execute([wanted])?;
    }
    Ok(())
}

/// A run that waits goes on with what the reminder is now.
fn carry_on(
    records: &SqliteRecords,
    writing: &mut Writing<'_>,
    tenant: &TenantEntry,
    found: &Reminder,
    change: &ReminderChange,
) -> Result<(), RecordsError> {
    let Some(run) = found.open_run else { return Ok(()) };
    let waits = writing
        .connection()
        .prepare_cached("SELECT event, lane FROM deliveries WHERE id = ?1 AND state = ?2")?
        .query_row(params![run.number(), WAITING], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((event, lane)) = waits else { return Ok(()) };
    let settings = &change.settings;
    let key = tenant.key_of(Purpose::Reminders, settings.url.as_str())?;
    let new_lane = writing.lane_of(tenant.row, &key)?;
    let was: i64 = writing
        .connection()
        .prepare_cached("SELECT size FROM events WHERE id = ?1")?
        .query_row([event], |row| row.get(0))?;
    let is = change.payload.as_ref().map_or(was, |payload| number(payload.len() as u64));
    writing
        .connection()
        .prepare_cached(
            "UPDATE events SET url = ?2, content_type = ?3, priority = ?4, size = ?5 WHERE id = ?1",
        )?
        .execute(params![
            event,
            settings.url.as_str(),
            content_type(&settings.content_type),
            level(settings.priority),
            is,
        ])?;
    if let Some(payload) = &change.payload {
        writing
            .connection()
            .prepare_cached("UPDATE payloads SET payload = ?2 WHERE event = ?1")?
            .execute(params![event, &payload[..]])?;
    }
    writing
        .connection()
        .prepare_cached("UPDATE deliveries SET lane = ?2, priority = ?3 WHERE id = ?1")?
        .execute(params![run.number(), new_lane.number(), level(settings.priority)])?;
    writing.ledger.finished(tenant.row, lane, whole(was));
    writing.ledger.begun(tenant.row, new_lane.number(), whole(is));
    wake(records, writing, found, new_lane.number())
}

/// A run that waits is due now.
fn hurry(
    records: &SqliteRecords,
    writing: &mut Writing<'_>,
    found: &Reminder,
    run: i64,
) -> Result<(), RecordsError> {
    let lane: Option<i64> = writing
        .connection()
        .prepare_cached("UPDATE deliveries SET due_at = ?2 WHERE id = ?1 AND state = ?3 RETURNING lane")?
        .query_row(params![run, micros(writing.now()), WAITING], |row| row.get(0))
        .optional()?;
    // One that is in flight is running now.
    lane.map_or(Ok(()), |lane| wake(records, writing, found, lane))
}

fn wake(
    records: &SqliteRecords,
    writing: &mut Writing<'_>,
    found: &Reminder,
    lane: i64,
) -> Result<(), RecordsError> {
    let waiting = lanes::waiting(writing.connection(), found.tenant.clone(), lane)?;
    let directory = Arc::clone(&records.directory);
    writing.after_commit(move || directory.woken(&waiting));
    Ok(())
}

fn set_state(
    writing: &mut Writing<'_>,
    found: &Reminder,
    state: i64,
    look_at: Option<Timestamp>,
    asked: i64,
) -> Result<(), RecordsError> {
    let now = micros(writing.now());
    let ended_at = (state == CANCELLED).then_some(now);
    writing
        .connection()
        .prepare_cached(
            "UPDATE reminders SET turn = turn + 1, state = ?2, reason = NULL, look_at = ?3, asked = ?4, ended_at = ?5,
                 revision = ?6, changed_at = ?7
             WHERE id = ?1",
        )?
        .execute(params![
            found.id.number(),
            state,
            look_at.map(micros),
            asked,
            ended_at,
            found.revision.next().0,
            now,
        ])?;
    Ok(())
}

/// A page of reminders: along the ids of the tenant or of all, a bounded number of looks.
fn list(
    connection: &Connection,
    filter: &ReminderFilter,
    before: i64,
    size: usize,
) -> rusqlite::Result<Page<Reminder>> {
    let mut sql = format!(
        "SELECT {COLUMNS} FROM reminders r JOIN tenants t ON t.row = r.tenant WHERE r.id < ? AND t.deleted_at IS NULL"
    );
    let mut values = vec![Value::from(before)];
    if let Some(tenant) = &filter.tenant {
        let row: Option<i64> = connection
            .prepare_cached("SELECT row FROM tenants WHERE id = ?1 AND deleted_at IS NULL")?
            .query_row([tenant.as_str()], |row| row.get(0))
            .optional()?;
        let Some(row) = row else { return Ok(Page { items: Vec::new(), next: None }) };
        sql.push_str(" AND r.tenant = ?");
        values.push(row.into());
    }
    if let Some(reference) = &filter.reference {
        sql.push_str(" AND r.reference = ?");
        values.push(reference.clone().into());
    }
    sql.push_str(" ORDER BY r.id DESC LIMIT ?");
    let looks = if filter.state.is_some() { LOOKS } else { size + 1 };
    values.push(number(looks as u64).into());
    let state = filter.state.map(state_number);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut items, mut looked, mut last) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        if items.len() == size {
            return Ok(Page { items, next: last.map(|last: i64| Cursor(id(last).write())) });
        }
        looked += 1;
        last = Some(row.get(0)?);
        if state.is_none_or(|state| row.get::<_, i64>(5).is_ok_and(|found| found == state)) {
            items.push(reminder(row)?);
        }
    }
    let next = last.filter(|_| looked == looks).map(|last| Cursor(id(last).write()));
    Ok(Page { items, next })
}
