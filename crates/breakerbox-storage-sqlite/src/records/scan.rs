//! Finds deliveries by filter. A scan uses one index, reads a bounded number of rows, and returns where it stopped.
//! So its cost depends neither on the number of rows nor on the number of matches.
//!
//! There is no index for each filter field: each would slow down every delivery, and few filters are ever used. Times
//! and events narrow a scan without an index of their own, because ids sort by time. Dead letters, the most frequent
//! query, have an index.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryFilter, EndpointId, Id, StateName};
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use crate::columns::{CANCELLED, WAITING, state};

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
    pub(super) fn new(filter: &DeliveryFilter, connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let mut scan = Self {
            from: filter.from.map_or(0, first_at_or_after),
            until: filter.until.map_or(i64::MAX, first_at_or_after),
            tenant: None,
            lane: filter.endpoint.map(EndpointId::number),
            kind: filter.kind.as_ref().map(ToString::to_string),
            state: filter.state,
        };
        if let Some(tenant) = &filter.tenant {
            scan.tenant = connection
                .prepare_cached("SELECT row FROM tenants WHERE id = ?1 AND deleted_at IS NULL")?
                .query_row([tenant.as_str()], |row| row.get(0))
                .optional()?;
            if scan.tenant.is_none() {
                return Ok(None);
            }
        }
        if let Some(event) = filter.event {
            let fan_out: Option<i64> = connection
                .prepare_cached("SELECT fan_out FROM events WHERE id = ?1")?
                .query_row([event.number()], |row| row.get(0))
                .optional()?;
            let Some(fan_out) = fan_out else { return Ok(None) };
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
    pub(super) fn run(
        &self,
        connection: &Connection,
        order: Order,
        after: Option<i64>,
        limit: usize,
        looks: usize,
    ) -> rusqlite::Result<Found> {
        let (mut from, mut until) = (self.from, self.until);
        match (order, after) {
            (Order::NewestFirst, Some(after)) => until = until.min(after),
            (Order::OldestFirst, Some(after)) => from = from.max(after.saturating_add(1)),
            (_, None) => {}
        }
        let mut statement = connection.prepare_cached(&self.question(order))?;
        let values = [Some(from), Some(until), self.tenant.filter(|_| self.state == Some(StateName::Failed))];
        let mut rows = statement.query(params_from_iter(values.into_iter().flatten()))?;
        let any_closed = connection.prepare_cached("SELECT 1 FROM closed_lanes LIMIT 1")?.exists([])?;
        let mut is_closed = connection.prepare_cached("SELECT 1 FROM closed_lanes WHERE lane = ?1")?;
        let mut kind_of = connection.prepare_cached("SELECT kind FROM events WHERE id = ?1")?;
        let mut ids = Vec::new();
        let mut last = None;
        for _ in 0..looks {
            if ids.len() == limit {
                break;
            }
            let Some(row) = rows.next()? else { return Ok(Found { ids, stopped_at: None }) };
            let id = row.get(0)?;
            last = Some(id);
            if self.tenant.is_some_and(|tenant| row.get(2) != Ok(tenant))
                || self.lane.is_some_and(|lane| row.get(3) != Ok(lane))
            {
                continue;
            }
            if let Some(wanted) = self.state {
                let stored = row.get(4)?;
                // A delivery that waits in a closed lane counts as cancelled, even if its row does not say so yet.
                let is_cancelled =
                    stored == WAITING && any_closed && is_closed.exists([row.get::<_, i64>(3)?])?;
                let stored = if is_cancelled { CANCELLED } else { stored };
                if state(stored, None, row.get(5)?).name() != wanted {
                    continue;
                }
            }
            if let Some(wanted) = &self.kind {
                let kind: Option<String> =
                    kind_of.query_row([row.get::<_, i64>(1)?], |row| row.get(0)).optional()?;
                if kind.as_ref() != Some(wanted) {
                    continue;
                }
            }
            ids.push(id);
        }
        Ok(Found { ids, stopped_at: last })
    }

    /// Returns the SQL query. It filters by tenant if an index contains the tenant.
    fn question(&self, order: Order) -> String {
        let (index, condition) = match (self.state, self.tenant) {
            (Some(StateName::Failed), Some(_)) => {
                ("INDEXED BY dead_letters", "AND state = 3 AND tenant = ?3")
            }
            (Some(StateName::Failed), None) => ("INDEXED BY all_dead_letters", "AND state = 3"),
            _ => ("NOT INDEXED", ""),
        };
        let direction = match order {
            Order::NewestFirst => "DESC",
            Order::OldestFirst => "ASC",
        };
        format!(
            "SELECT id, event, tenant, lane, state, attempts FROM deliveries {index}
             WHERE id >= ?1 AND id < ?2 {condition} ORDER BY id {direction}"
        )
    }
}

/// Returns the lowest id at or after this time. Ids have a resolution of milliseconds.
pub(super) fn first_at_or_after(at: Timestamp) -> i64 {
    let up = Timestamp::from_micros(at.as_micros().saturating_add(999));
    Id::first_at(up).number()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns SQLite's query plan.
    fn plan(connection: &Connection, question: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {question}")).unwrap();
        // Unbound parameters are NULL, and do not change the plan.
        let mut rows = statement.raw_query();
        let mut plan = String::new();
        while let Some(row) = rows.next().unwrap() {
            plan += &row.get::<_, String>(3).unwrap();
            plan.push('\n');
        }
        plan
    }

    #[test]
    fn a_scan_goes_along_one_index_and_sorts_nothing() {
        let connection = crate::migrations::in_memory();
        let scan = |state, tenant| Scan { from: 0, until: 9, tenant, lane: None, kind: None, state };
        for order in [Order::NewestFirst, Order::OldestFirst] {
            for (scan, expected) in [
                (scan(None, None), "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
                (scan(None, Some(1)), "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
                (
                    scan(Some(StateName::Delivered), Some(1)),
                    "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
                ),
                (scan(Some(StateName::Failed), None), "USING INDEX all_dead_letters (id>? AND id<?)"),
                (
                    scan(Some(StateName::Failed), Some(1)),
                    "USING INDEX dead_letters (tenant=? AND id>? AND id<?)",
                ),
            ] {
                let plan = plan(&connection, &scan.question(order));
                assert!(plan.contains(expected), "{plan}");
                assert_eq!(plan.lines().count(), 1, "{plan}");
            }
        }
    }

    #[test]
    fn a_scan_looks_at_its_share_and_says_where_it_stopped() {
        let connection = crate::migrations::in_memory();
        connection
            .execute_batch(
                "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100)
                 INSERT INTO deliveries (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe)
                 SELECT n, 0, 1, n % 50, 2, 0, 1, 1, 0, 0 FROM n",
            )
            .unwrap();
        let scan = Scan { from: 0, until: i64::MAX, tenant: None, lane: Some(7), kind: None, state: None };
        let run = |order, after, limit, looks| scan.run(&connection, order, after, limit, looks).unwrap();
        let stopped = |ids: &[i64], stopped_at| Found { ids: ids.to_vec(), stopped_at };
        assert_eq!(run(Order::NewestFirst, None, 5, 30), stopped(&[], Some(71)), "none among its share");
        assert_eq!(run(Order::NewestFirst, Some(71), 5, 30), stopped(&[57], Some(41)));
        assert_eq!(run(Order::NewestFirst, Some(41), 1, 1_000), stopped(&[7], Some(7)), "full");
        assert_eq!(run(Order::NewestFirst, Some(7), 1, 1_000), stopped(&[], None), "that was all");
        assert_eq!(run(Order::OldestFirst, Some(7), 5, 1_000), stopped(&[57], None));
    }
}
