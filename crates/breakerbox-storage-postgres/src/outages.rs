//! The outages of circuits, each from its trip until the circuit closes.

use breakerbox_model::objects::Moment;
use breakerbox_storage::QueueError;
use breakerbox_storage::stored::codes::time;

use super::error::get;
use super::transaction::Transaction;

/// Returns the start of a circuit's outage, if people were notified of it.
pub(crate) async fn notified_outage(
    transaction: &Transaction,
    key: &str,
) -> Result<Option<Moment>, QueueError> {
    let found = transaction.query_opt(include_str!("sql/records/notified_outage.sql"), &[&key]).await?;
    found.map(|row| Ok(Moment(time(get(&row, 0)?)))).transpose()
}
