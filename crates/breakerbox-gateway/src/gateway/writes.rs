//! Checks whether the database accepts writes, with a small write every few seconds. If it does not, the gateway is not
//! ready, and the operator is notified. A notification that can't be written is sent from memory.
//!
//! [`WriteHealth`], which is pure, evaluates the outcomes; [`WriteWatcher`] makes the writes.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::Moment;
use breakerbox_storage::QueueError;
use breakerbox_storage::records::Notifications;
use breakerbox_storage_sqlite::Database;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{error, info, warn};

use super::health::Report;
use crate::notifications::Notifier;

/// The interval between test writes. Each costs one disk sync if there are no other writes.
const EVERY: Duration = Duration::from_secs(5);

/// The timeout of a test write. A write that takes longer counts as failed until it ends.
const LIMIT: Duration = Duration::from_secs(5);

/// How long writes must have failed before the operator is notified, so that a brief failure causes no notification.
const NOTIFY_AFTER: Duration = Duration::from_secs(10);

/// The minimum time between two notifications.
const NOTIFY_EVERY: Duration = Duration::from_secs(300);

/// Evaluates the outcomes of test writes. It does no I/O, and gets the time as an argument.
#[derive(Debug, Default)]
pub(super) struct WriteHealth {
    /// The time at which writes started to fail, and whether the operator was notified of the failure.
    failing: Option<(Timestamp, bool)>,
    notified_at: Option<Timestamp>,
}

/// The action to take after a test write.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum FollowUp {
    /// Do nothing.
    Nothing,
    /// Send this notification now, from memory, because the database accepts no writes.
    SendUnwritten(Notification),
    /// Write this notification to the database, which accepts writes again. The notifier then sends it.
    Write(Notification),
}

impl WriteHealth {
    /// Records that a test write succeeded, or failed for this reason.
    pub(super) fn observe(&mut self, outcome: &Result<(), String>, now: Timestamp) -> FollowUp {
        let Err(error) = outcome else {
            return match self.failing.take() {
                Some((since, true)) => FollowUp::Write(Notification::database_back(since, now)),
                _ => FollowUp::Nothing,
            };
        };
        let (since, notified) = self.failing.get_or_insert((now, false));
        let is_due = !*notified && now.since(*since) >= NOTIFY_AFTER;
        if !is_due || self.notified_at.is_some_and(|at| now.since(at) < NOTIFY_EVERY) {
            return FollowUp::Nothing;
        }
        *notified = true;
        self.notified_at = Some(now);
        FollowUp::SendUnwritten(Notification::database_lost(error, *since))
    }

    /// Returns the time at which writes started to fail. `None` if they succeed.
    pub(super) fn failing_since(&self) -> Option<Timestamp> {
        self.failing.map(|(since, _)| since)
    }
}

/// Makes the test writes, and acts on their outcomes.
pub(super) struct WriteWatcher {
    pub(super) database: Database,
    pub(super) records: Arc<dyn Notifications>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) report: Arc<Report>,
}

impl WriteWatcher {
    /// Makes test writes until the future is dropped.
    pub(super) async fn run(self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut health = WriteHealth::default();
        loop {
            ticks.tick().await;
            let mut write = std::pin::pin!(self.database.check_write());
            // One write at a time: while a write hangs, no other is started.
            loop {
                match timeout(LIMIT, &mut write).await {
                    Ok(ended) => {
                        let is_dead = matches!(ended, Err(QueueError::Closed));
                        self.observed(&mut health, &ended.map_err(|error| with_source(&error)), is_dead)
                            .await;
                        break;
                    }
                    Err(_) => {
                        let late = Err(format!("no write has ended within {LIMIT:?}"));
                        self.observed(&mut health, &late, false).await;
                    }
                }
            }
        }
    }

    async fn observed(&self, health: &mut WriteHealth, outcome: &Result<(), String>, is_dead: bool) {
        let was_failing = health.failing_since().is_some();
        let follows = health.observe(outcome, self.database.now());
        let reason = outcome.as_ref().err().zip(health.failing_since());
        match (was_failing, &reason) {
            (false, Some((error, _))) => error!(%error, "the database accepts no writes; not ready"),
            (true, None) => info!("the database accepts writes again"),
            _ => {}
        }
        let reason = reason
            .map(|(error, since)| format!("database: accepts no writes since {}: {error}", Moment(since)));
        self.report.writes_fail(reason, is_dead);
        match follows {
            FollowUp::Nothing => {}
            FollowUp::SendUnwritten(notification) => {
                let notifier = Arc::clone(&self.notifier);
                tokio::spawn(async move { notifier.send_unwritten(&notification).await });
            }
            FollowUp::Write(notification) => {
                if let Err(error) = self.records.notify(notification).await {
                    warn!(%error, "can't notify the operator that the database accepts writes again");
                }
            }
        }
    }
}

fn with_source(error: &QueueError) -> String {
    match error {
        QueueError::Database(source) => format!("{error}: {source}"),
        QueueError::Closed => "the writer has ended; restart the gateway".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis((1_000_000 + seconds) * 1_000)
    }

    #[test]
    fn the_operator_is_notified_once_for_an_outage_that_lasts() {
        let mut health = WriteHealth::default();
        let failed = Err("the disk is full".to_owned());
        assert_eq!(health.observe(&Ok(()), at(0)), FollowUp::Nothing);
        assert_eq!(health.observe(&failed, at(5)), FollowUp::Nothing, "it may be a blip");
        assert_eq!(health.failing_since(), Some(at(5)));
        assert_eq!(health.observe(&failed, at(10)), FollowUp::Nothing);
        let lost = Notification::database_lost("the disk is full", at(5));
        assert_eq!(health.observe(&failed, at(15)), FollowUp::SendUnwritten(lost));
        assert_eq!(health.observe(&failed, at(600)), FollowUp::Nothing, "once");
        let back = Notification::database_back(at(5), at(605));
        assert_eq!(health.observe(&Ok(()), at(605)), FollowUp::Write(back));
        assert_eq!(health.failing_since(), None);
        assert_eq!(health.observe(&Ok(()), at(610)), FollowUp::Nothing);
    }

    #[test]
    fn a_blip_and_an_outage_soon_after_another_send_nothing() {
        let mut health = WriteHealth::default();
        let failed = Err("it fails".to_owned());
        assert_eq!(health.observe(&failed, at(0)), FollowUp::Nothing);
        assert_eq!(health.observe(&Ok(()), at(5)), FollowUp::Nothing, "a blip");
        assert_eq!(health.observe(&failed, at(10)), FollowUp::Nothing);
        assert!(matches!(health.observe(&failed, at(20)), FollowUp::SendUnwritten(_)));
        assert!(matches!(health.observe(&Ok(()), at(25)), FollowUp::Write(_)));
        assert_eq!(health.observe(&failed, at(30)), FollowUp::Nothing);
        assert_eq!(health.observe(&failed, at(60)), FollowUp::Nothing, "one in five minutes");
        assert_eq!(health.observe(&Ok(()), at(65)), FollowUp::Nothing, "as its beginning was not");
        assert_eq!(health.observe(&failed, at(400)), FollowUp::Nothing);
        assert!(matches!(health.observe(&failed, at(410)), FollowUp::SendUnwritten(_)));
    }

    #[tokio::test]
    async fn a_dead_writer_is_neither_ready_nor_alive() {
        use crate::api::Health;
        let folder = tempfile::tempdir().expect("there is room");
        let options = breakerbox_storage_sqlite::Options::default();
        let database = Database::open(folder.path(), options).expect("it opens");
        database.check_write().await.expect("it takes writes");
        database.clone().close().await;
        let error = database.check_write().await.expect_err("there is no writer");
        assert!(matches!(error, QueueError::Closed));
        let report = Report::default();
        assert!(report.report().ready);
        report.writes_fail(Some(with_source(&error)), true);
        let seen = report.report();
        assert!(!seen.ready && !seen.alive, "{seen:?}");
        assert!(seen.degraded[0].contains("restart the gateway"), "{seen:?}");
        report.stopping();
        assert!(report.report().alive, "a gateway that stops closes its database by itself");
    }
}
