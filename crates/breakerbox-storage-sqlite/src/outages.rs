//! Stores the outages of circuits, each from its trip until the circuit closes. The job that writes the change of a
//! circuit calls this, so that both are in one commit.

use std::sync::Arc;

use breakerbox_core::{Epoch, Timestamp};
use breakerbox_model::notifications::{BeganOutage, News, Notification, OutageStep};
use breakerbox_model::objects::{CircuitOwner, Moment, ShownKey};
use breakerbox_storage::QueueError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{is_unreadable, micros, number, time, whole};
use super::transaction::WriteTransaction;
use crate::error::JobError;
use breakerbox_storage::Routes;

/// Selects the outages whose trip is due.
pub(super) const DUE: &str = "SELECT subject, epoch, at, news FROM outages INDEXED BY outages_to_notify
    WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at LIMIT ?2";

impl WriteTransaction<'_> {
    /// Applies the effect of a circuit's change, with this epoch and time, to its outage.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub fn step_outage(
        &mut self,
        key: &str,
        epoch: Epoch,
        at: Timestamp,
        step: &OutageStep,
        routes: &dyn Routes,
    ) -> Result<(), JobError<QueueError>> {
        let (epoch, at) = (number(epoch.0), micros(at));
        let connection = self.connection;
        match step {
            OutageStep::None => {}
            OutageStep::Begins(began) => self.begin_outage(key, began, routes)?,
            OutageStep::Notified => {
                connection
                    .prepare_cached(
                        "INSERT INTO outages (subject, epoch, at) VALUES (?1, ?2, ?3)
                         ON CONFLICT (subject) DO UPDATE SET due_at = NULL, news = NULL",
                    )?
                    .execute(params![key, epoch, at])?;
            }
            OutageStep::TakenOver => {
                connection
                    .prepare_cached("DELETE FROM outages WHERE subject = ?1 AND due_at IS NOT NULL")?
                    .execute([key])?;
            }
            OutageStep::Ends => {
                connection.prepare_cached("DELETE FROM outages WHERE subject = ?1")?.execute([key])?;
            }
        }
        Ok(())
    }

    fn begin_outage(
        &mut self,
        key: &str,
        began: &BeganOutage,
        routes: &dyn Routes,
    ) -> Result<(), JobError<QueueError>> {
        let BeganOutage { trip, after, is_new } = began;
        if *is_new {
            // A rule opens only a closed circuit, so an outage that is still stored is over.
            self.connection.prepare_cached("DELETE FROM outages WHERE subject = ?1")?.execute([key])?;
        }
        let is_due = after.is_zero();
        // The delay counts from the trip, which may have been written later.
        let due_at = self.now + after.saturating_sub(self.wall.since(trip.at));
        let written = self
            .connection
            .prepare_cached(
                "INSERT OR IGNORE INTO outages (subject, epoch, at, due_at, news) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                key,
                number(trip.epoch),
                micros(trip.at),
                (!is_due).then(|| micros(due_at)),
                (!is_due).then(|| json(&trip.news)).transpose()?,
            ])?;
        if written > 0 && is_due {
            self.notify(trip, routes)?;
        }
        Ok(())
    }

    /// Returns the start of a circuit's outage, if people were notified of it.
    pub(super) fn notified_outage(&self, key: &str) -> rusqlite::Result<Option<Moment>> {
        self.connection
            .prepare_cached("SELECT at FROM outages WHERE subject = ?1 AND due_at IS NULL")?
            .query_row([key], |row| Ok(Moment(time(row.get(0)?))))
            .optional()
    }

    /// Marks trips that can't be read as sent. Otherwise they would stay due, and be read again and again.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(super) fn give_up_trips(&mut self, keys: &[String]) -> Result<(), JobError<QueueError>> {
        let mut update = self
            .connection
            .prepare_cached("UPDATE outages SET due_at = NULL, news = NULL WHERE subject = ?1")?;
        for key in keys {
            tracing::error!(circuit = %ShownKey(key), "can't read a stored trip notification; it is not sent");
            update.execute([key])?;
        }
        Ok(())
    }

    /// Ends the delay of a trip: sends it, or drops it if the outage is over. Returns whether it was sent. It is not
    /// sent if the outage changed in the meantime.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub fn settle_trip(
        &mut self,
        trip: &Notification,
        is_over: bool,
        routes: &dyn Routes,
    ) -> Result<bool, JobError<QueueError>> {
        let sql = if is_over {
            "DELETE FROM outages WHERE subject = ?1 AND epoch = ?2 AND due_at IS NOT NULL"
        } else {
            "UPDATE outages SET due_at = NULL, news = NULL WHERE subject = ?1 AND epoch = ?2 AND due_at IS NOT NULL"
        };
        let written =
            self.connection.prepare_cached(sql)?.execute(params![&*trip.subject, number(trip.epoch)])?;
        if written == 0 || is_over {
            return Ok(false);
        }
        self.notify(trip, routes)
    }
}

/// Returns the trips that are due, and the circuits whose trip can't be read.
pub(super) fn due_trips(
    connection: &Connection,
    now: Timestamp,
    limit: usize,
) -> rusqlite::Result<(Vec<Notification>, Vec<String>)> {
    let (mut due, mut unreadable) = (Vec::new(), Vec::new());
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query(params![micros(now), number(limit as u64)])?;
    while let Some(row) = rows.next()? {
        match trip(row) {
            Ok(trip) => due.push(trip),
            Err(error) if is_unreadable(&error) => unreadable.push(row.get(0)?),
            Err(error) => return Err(error),
        }
    }
    Ok((due, unreadable))
}

fn trip(row: &Row<'_>) -> rusqlite::Result<Notification> {
    let subject: Arc<str> = row.get(0)?;
    let news: News = serde_json::from_str(row.get_ref(3)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, error.into())
    })?;
    Ok(Notification {
        tenant: CircuitOwner::of_key(&subject).map(|owner| owner.tenant),
        subject,
        epoch: whole(row.get(1)?),
        at: time(row.get(2)?),
        news,
    })
}

fn json(news: &News) -> Result<String, JobError<QueueError>> {
    Ok(serde_json::to_string(news).map_err(|error| QueueError::Database(Arc::new(error)))?)
}
