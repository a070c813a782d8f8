//! Stores the outages of circuits, each from its trip until the circuit closes. The transaction that writes the change of a
//! circuit calls this, so that both are in one commit.

use std::sync::Arc;

use breakerbox_core::{Epoch, Timestamp};
use breakerbox_model::notifications::{BeganOutage, Notification, OutageStep};
use breakerbox_model::objects::{CircuitOwner, ShownKey};
use breakerbox_storage::stored::Unreadable;
use breakerbox_storage::stored::codes::{micros, number, whole};
use breakerbox_storage::{QueueError, Routes};
use tokio_postgres::Row;

use super::columns::{at, column};
use super::database::Transaction;
use super::notifications::{json, lock, notify};

/// Applies the effect of a circuit's change, with this epoch and time, to its outage.
pub(crate) async fn step_outage(
    transaction: &Transaction,
    key: &str,
    epoch: Epoch,
    at: Timestamp,
    step: &OutageStep,
    routes: &dyn Routes,
) -> Result<(), QueueError> {
    match step {
        OutageStep::None => {}
        OutageStep::Begins(began) => begin(transaction, key, began, routes).await?,
        OutageStep::Notified => {
            let sql = include_str!("sql/records/insert_notified_outage.sql");
            transaction.execute(sql, &[&key, &number(epoch.0), &micros(at)]).await?;
        }
        OutageStep::TakenOver => {
            let sql = include_str!("sql/records/delete_outage_if_not_notified.sql");
            transaction.execute(sql, &[&key]).await?;
        }
        OutageStep::Ends => end(transaction, key).await?,
    }
    Ok(())
}

async fn end(transaction: &Transaction, key: &str) -> Result<(), QueueError> {
    transaction.execute(include_str!("sql/records/delete_outage.sql"), &[&key]).await.map(drop)
}

async fn begin(
    transaction: &Transaction,
    key: &str,
    began: &BeganOutage,
    routes: &dyn Routes,
) -> Result<(), QueueError> {
    let BeganOutage { trip, after, is_new } = began;
    if *is_new {
        // A rule opens only a closed circuit, so an outage that is still stored is over.
        end(transaction, key).await?;
    }
    let is_due = after.is_zero();
    // The delay counts from the trip, which may have been written later.
    let now = transaction.now();
    let due_at = now + after.saturating_sub(now.since(trip.at));
    let written = transaction
        .execute(
            include_str!("sql/records/insert_outage_unless_known.sql"),
            &[
                &key,
                &number(trip.epoch),
                &micros(trip.at),
                &(!is_due).then(|| micros(due_at)),
                &(!is_due).then(|| json(&trip.news)).transpose()?,
            ],
        )
        .await?;
    if written > 0 && is_due {
        notify(transaction, trip, routes).await?;
    }
    Ok(())
}

/// Ends the delay of a trip: sends it, or drops it if the outage is over. Returns whether it was sent. It is not
/// sent if the outage changed in the meantime.
pub(crate) async fn settle_trip(
    transaction: &Transaction,
    trip: &Notification,
    is_over: bool,
    routes: &dyn Routes,
) -> Result<bool, QueueError> {
    lock(transaction).await?;
    let sql = if is_over {
        include_str!("sql/records/delete_outage_if_due.sql")
    } else {
        include_str!("sql/records/mark_outage_notified_if_due.sql")
    };
    let written = transaction.execute(sql, &[&&*trip.subject, &number(trip.epoch)]).await?;
    if written == 0 || is_over {
        return Ok(false);
    }
    notify(transaction, trip, routes).await
}

/// Marks trips that can't be read as sent. Otherwise they would stay due, and be read again and again.
pub(crate) async fn give_up_trips(transaction: &Transaction, keys: Vec<String>) -> Result<(), QueueError> {
    for key in &keys {
        tracing::error!(circuit = %ShownKey(key), "can't read a stored trip notification; it is not sent");
    }
    transaction.execute(include_str!("sql/records/give_up_outages.sql"), &[&keys]).await.map(drop)
}

/// Reads the trip of a row.
pub(crate) fn trip(row: &Row) -> Result<Notification, Unreadable> {
    let subject: Arc<str> = column::<String>(row, "subject")?.into();
    Ok(Notification {
        tenant: CircuitOwner::of_key(&subject).map(|owner| owner.tenant),
        subject,
        epoch: whole(column(row, "epoch")?),
        at: at(row, "at")?,
        news: serde_json::from_str(column(row, "news")?).map_err(Unreadable::new)?,
    })
}
