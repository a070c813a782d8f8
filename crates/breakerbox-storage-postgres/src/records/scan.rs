//! Finds deliveries by filter. A scan uses one index, reads a bounded number of rows, and returns where it stopped.
//! So its cost depends neither on the number of rows nor on the number of matches.
//!
//! There is no index for each filter field: each would slow down every delivery, and few filters are ever used. Times
//! and events narrow a scan without an index of their own, because ids sort by time. Dead letters, the most frequent
//! query, have an index.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryFilter, EndpointId, Id, StateName};
use breakerbox_storage::QueueError;
use breakerbox_storage::stored::codes::number;

use crate::database::Transaction;
use crate::error::get;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    NewestFirst,
    OldestFirst,
}

/// The matches of a scan, and where it stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) ids: Vec<i64>,
    /// The last row read, if there may be more. `None`: all rows were read.
    pub(super) stopped_at: Option<i64>,
}

/// A delivery filter, converted to the column values that its query needs.
pub(super) struct Scan {
    /// The lowest matching id.
    from: i64,
    /// The exclusive upper bound of matching ids.
    until: i64,
    tenant: Option<i64>,
    lane: Option<i64>,
    kind: Option<String>,
    state: Option<StateName>,
}

impl Scan {
    /// Creates a scan, or returns `None` if nothing can match because the tenant or the event does not exist.
    pub(super) async fn new(
        filter: &DeliveryFilter,
        transaction: &Transaction,
    ) -> Result<Option<Self>, QueueError> {
        let mut scan = Self {
            from: filter.from.map_or(0, first_at_or_after),
            until: filter.until.map_or(i64::MAX, first_at_or_after),
            tenant: None,
            lane: filter.endpoint.map(EndpointId::number),
            kind: filter.kind.as_ref().map(ToString::to_string),
            state: filter.state,
        };
        if let Some(tenant) = &filter.tenant {
            let sql = include_str!("../sql/records/tenant_by_name.sql");
            let Some(row) = transaction.query_opt(sql, &[&tenant.as_str()]).await? else { return Ok(None) };
            scan.tenant = Some(get(&row, 0)?);
        }
        if let Some(event) = filter.event {
            let sql = include_str!("../sql/records/fan_out_of_event.sql");
            let Some(row) = transaction.query_opt(sql, &[&event.number()]).await? else { return Ok(None) };
            let fan_out: i64 = get(&row, 0)?;
            // The ids of an event's deliveries follow the event's id.
            scan.from = scan.from.max(event.number() + 1);
            scan.until = scan.until.min(event.number() + 1 + fan_out);
        }
        Ok(Some(scan))
    }

    /// Returns the number of the tenant whose deliveries match. `None`: the deliveries of all tenants match.
    pub(super) fn tenant(&self) -> Option<i64> {
        self.tenant
    }

    /// Reads at most `looks` rows after a position, and stops after `limit` matches.
    pub(super) async fn run(
        &self,
        transaction: &Transaction,
        order: Order,
        after: Option<i64>,
        limit: usize,
        looks: usize,
    ) -> Result<Found, QueueError> {
        let (mut from, mut until) = (self.from, self.until);
        match (order, after) {
            (Order::NewestFirst, Some(after)) => until = until.min(after),
            (Order::OldestFirst, Some(after)) => from = from.max(after.saturating_add(1)),
            (_, None) => {}
        }
        let state = self.state.map(StateName::name);
        let (looks, limit) = (number(looks as u64), number(limit as u64));
        let rows = transaction
            .query(
                &self.question(order, include_str!("../sql/records/find_deliveries.sql")),
                &[&from, &until, &self.tenant, &self.lane, &self.kind, &state, &looks, &limit],
            )
            .await?;
        let ids = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
        if number(ids.len() as u64) == limit {
            let stopped_at = ids.last().copied();
            return Ok(Found { ids, stopped_at });
        }
        let end = transaction
            .query_opt(
                &self.question(order, include_str!("../sql/records/end_of_deliveries.sql")),
                &[&from, &until, &self.tenant, &looks],
            )
            .await?;
        Ok(Found { ids, stopped_at: end.map_or(Ok(None), |row| get(&row, 0))? })
    }

    /// Returns the SQL query, from a file in which the index to use and the direction are left open.
    fn question(&self, order: Order, text: &str) -> String {
        let (source, condition) = match (self.state, self.tenant) {
            (Some(StateName::Failed), Some(_)) => ("finished", "state = 3 AND tenant = $3"),
            (Some(StateName::Failed), None) => ("finished", "state = 3"),
            _ => ("all_deliveries", "true"),
        };
        let (direction, last) = match order {
            Order::NewestFirst => ("DESC", "min"),
            Order::OldestFirst => ("ASC", "max"),
        };
        text.replace("{source}", source)
            .replace("{condition}", condition)
            .replace("{direction}", direction)
            .replace("{last}", last)
    }
}

/// Returns the lowest id at or after this time. Ids have a resolution of milliseconds.
pub(super) fn first_at_or_after(at: Timestamp) -> i64 {
    let up = Timestamp::from_micros(at.as_micros().saturating_add(999));
    Id::first_at(up).number()
}
