//! Inserts notifications: the notification, and a row for each of its targets. The job that writes the cause calls
//! this, so that both are in one commit.

use breakerbox_model::notifications::{Kind, MOST_WAITING, News, Notification, Recovered};
use breakerbox_model::objects::Moment;
use breakerbox_storage::QueueError;
use rusqlite::{OptionalExtension, params};

use super::columns::{micros, number, time, whole};
use super::transaction::WriteTransaction;
use crate::error::JobError;
use breakerbox_storage::{Audience, Routes};

impl WriteTransaction<'_> {
    /// Inserts a notification, and returns whether it is new. It is not new if one with the same kind,
    /// subject and epoch exists. A notification that the circuit store is lost or back is also not new if the
    /// latest one already says so, and a recovery is not if people were not notified of its outage.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub fn notify(
        &mut self,
        notification: &Notification,
        routes: &dyn Routes,
    ) -> Result<bool, JobError<QueueError>> {
        let kind = notification.kind();
        let latest = self.latest_of_store(kind)?;
        let is_lost = latest.as_ref().is_some_and(|(kind, _)| kind == Kind::StoreLost.name());
        match kind {
            Kind::StoreLost if is_lost => return Ok(false),
            Kind::StoreBack if !is_lost => return Ok(false),
            _ => {}
        }
        let news = match &notification.news {
            News::StoreBack { since: None } => News::StoreBack { since: latest.map(|(_, at)| at) },
            News::Recovery(news) => {
                let Some(since) = self.notified_outage(&notification.subject)? else { return Ok(false) };
                News::Recovery(Recovered { since: Some(since), ..news.clone() })
            }
            other => other.clone(),
        };
        let news =
            serde_json::to_string(&news).map_err(|error| QueueError::Database(std::sync::Arc::new(error)))?;
        let Audience { tenant, targets } = routes.audience(notification);
        let id = self.next_id().number();
        let written = self
            .connection
            .prepare_cached(
                "INSERT OR IGNORE INTO notifications (id, kind, subject, epoch, tenant, at, news)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                id,
                kind.name(),
                &*notification.subject,
                number(notification.epoch),
                tenant,
                micros(notification.at),
                news
            ])?;
        if written == 0 {
            return Ok(false);
        }
        for (target, whose) in &targets {
            self.wait_for(id, target, *whose)?;
        }
        Ok(true)
    }

    /// Adds a notification to those that wait for a target. If too many are waiting, it is only counted.
    fn wait_for(
        &mut self,
        notification: i64,
        target: &str,
        whose: Option<i64>,
    ) -> Result<(), JobError<QueueError>> {
        let waiting: Option<i64> = self
            .connection
            .prepare_cached("SELECT waiting FROM notification_targets WHERE name = ?1")?
            .query_row([target], |row| row.get(0))
            .optional()?;
        let is_full = whole(waiting.unwrap_or_default()) >= MOST_WAITING;
        self.connection
            .prepare_cached(
                "INSERT INTO notification_targets (name, tenant, waiting, not_kept) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (name) DO UPDATE SET waiting = waiting + excluded.waiting,
                     not_kept = not_kept + excluded.not_kept",
            )?
            .execute(params![target, whose, !is_full, is_full])?;
        if is_full {
            return Ok(());
        }
        self.connection
            .prepare_cached(
                "INSERT INTO notification_sends (notification, target, state, tries, due_at) VALUES (?1, ?2, 0, 0, ?3)",
            )?
            .execute(params![notification, target, micros(self.now)])?;
        Ok(())
    }

    /// Returns the kind and time of the latest notification about the store, if this kind is about the store.
    fn latest_of_store(&self, kind: Kind) -> Result<Option<(String, Moment)>, JobError<QueueError>> {
        if !matches!(kind, Kind::StoreLost | Kind::StoreBack) {
            return Ok(None);
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT kind, at FROM notifications WHERE subject = ?1 AND kind IN ('store_lost', 'store_back')
             ORDER BY id DESC LIMIT 1",
        )?;
        let found = statement
            .query_row([breakerbox_model::notifications::STORE], |row| {
                Ok((row.get(0)?, Moment(time(row.get(1)?))))
            })
            .optional()?;
        Ok(found)
    }
}
