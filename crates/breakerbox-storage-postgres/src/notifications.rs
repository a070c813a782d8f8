//! Inserts notifications: the notification, and a row for each of its targets. The transaction that writes the cause calls
//! this, so that both are in one commit.
//!
//! One transaction at a time inserts notifications, until its commit. So two processes that report the same do not wait for
//! each other in a circle.

use std::sync::Arc;

use breakerbox_model::notifications::{Kind, MOST_WAITING, News, Notification, Recovered, STORE};
use breakerbox_model::objects::Moment;
use breakerbox_storage::stored::codes::{micros, number, time};
use breakerbox_storage::{Audience, QueueError, Routes};

use super::database::Transaction;
use super::error::get;

/// Waits until no other transaction inserts notifications. The lock ends with the transaction.
pub(crate) async fn lock(transaction: &Transaction) -> Result<(), QueueError> {
    transaction.execute(include_str!("sql/records/lock_notifications.sql"), &[]).await.map(drop)
}

/// Inserts a notification, and returns whether it is new. It is not new if one with the same kind, subject and epoch
/// exists. A notification that the circuit store is lost or back is also not new if the latest one already says so, and a
/// recovery is not if people were not notified of its outage.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn notify(
    transaction: &Transaction,
    notification: &Notification,
    routes: &dyn Routes,
) -> Result<bool, QueueError> {
    lock(transaction).await?;
    let kind = notification.kind();
    let latest = latest_of_store(transaction, kind).await?;
    let is_lost = latest.as_ref().is_some_and(|(kind, _)| kind == Kind::StoreLost.name());
    match kind {
        Kind::StoreLost if is_lost => return Ok(false),
        Kind::StoreBack if !is_lost => return Ok(false),
        _ => {}
    }
    let news = match &notification.news {
        News::StoreBack { since: None } => News::StoreBack { since: latest.map(|(_, at)| at) },
        News::Recovery(news) => {
            let since = notified_outage(transaction, &notification.subject).await?;
            let Some(since) = since else { return Ok(false) };
            News::Recovery(Recovered { since: Some(since), ..news.clone() })
        }
        other => other.clone(),
    };
    let news = json(&news)?;
    let Audience { tenant, targets } = routes.audience(notification);
    let id = transaction.next_id().number();
    let sql = include_str!("sql/records/insert_notification_unless_known.sql");
    let written = transaction
        .execute(
            sql,
            &[
                &id,
                &kind.name(),
                &&*notification.subject,
                &number(notification.epoch),
                &tenant,
                &micros(notification.at),
                &news,
            ],
        )
        .await?;
    if written == 0 {
        return Ok(false);
    }
    let now = micros(transaction.now());
    for (target, whose) in &targets {
        let sql = include_str!("sql/records/wait_for_target_if_room.sql");
        transaction.execute(sql, &[&id, &&**target, whose, &now, &number(MOST_WAITING)]).await?;
    }
    Ok(true)
}

/// Returns the kind and time of the latest notification about the store, if this kind is about the store.
async fn latest_of_store(
    transaction: &Transaction,
    kind: Kind,
) -> Result<Option<(String, Moment)>, QueueError> {
    if !matches!(kind, Kind::StoreLost | Kind::StoreBack) {
        return Ok(None);
    }
    let sql = include_str!("sql/records/latest_notification_of_store.sql");
    let found = transaction.query_opt(sql, &[&STORE]).await?;
    found.map(|row| Ok((get(&row, 0)?, Moment(time(get(&row, 1)?))))).transpose()
}

/// Returns the stored form of what a notification says.
pub(crate) fn json(news: &News) -> Result<String, QueueError> {
    serde_json::to_string(news).map_err(|error| QueueError::Database(Arc::new(error)))
}

/// Returns the start of a circuit's outage, if people were notified of it.
async fn notified_outage(transaction: &Transaction, key: &str) -> Result<Option<Moment>, QueueError> {
    let sql = include_str!("sql/records/notified_outage.sql");
    let found = transaction.query_opt(sql, &[&key]).await?;
    found.map(|row| Ok(Moment(time(get(&row, 0)?)))).transpose()
}
