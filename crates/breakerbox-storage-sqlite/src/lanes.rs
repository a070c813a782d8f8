//! Lanes in the database: their waiting deliveries, and the lanes for dynamic URLs.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{LaneId, Priority, TenantId};
use breakerbox_storage::{ProbeSupply, WaitingLane};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{id, micros, number, parsed, time};
use super::writer_state::WriterState;

/// The minimum interval between two updates of a lane's time of last use.
const USED_EVERY: Duration = Duration::from_secs(1_800);
/// The time after which an unused lane for a dynamic URL is deleted, if nothing waits in it.
const UNUSED: Duration = Duration::from_secs(2 * 3_600);

/// Selects the earliest due time for each priority, with one index seek each.
pub(super) const NEXT_DUE: &str = "SELECT
    (SELECT due_at FROM deliveries INDEXED BY waiting WHERE state = 0 AND lane = ?1 AND priority = 0 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM deliveries INDEXED BY waiting WHERE state = 0 AND lane = ?1 AND priority = 1 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM deliveries INDEXED BY waiting WHERE state = 0 AND lane = ?1 AND priority = 2 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM deliveries INDEXED BY waiting WHERE state = 0 AND lane = ?1 AND priority = 3 ORDER BY due_at LIMIT 1)";

/// Returns, for each priority, when the earliest waiting delivery in a lane is due.
pub(super) fn next_due(connection: &Connection, lane: i64) -> rusqlite::Result<[Option<Timestamp>; 4]> {
    connection.prepare_cached(NEXT_DUE)?.query_row([lane], |row| {
        let mut due = [None; 4];
        for (index, due) in due.iter_mut().enumerate() {
            *due = row.get::<_, Option<i64>>(index)?.map(time);
        }
        Ok(due)
    })
}

/// Returns the circuit key of a lane for a dynamic URL, or `None` for an endpoint's lane.
pub(super) fn key(connection: &Connection, lane: i64) -> rusqlite::Result<Option<Arc<str>>> {
    connection
        .prepare_cached("SELECT key FROM lanes WHERE id = ?1")?
        .query_row([lane], |row| row.get::<_, Arc<str>>(0))
        .optional()
}

/// Returns a lane with the due times of its waiting deliveries. Their number is not counted, and so is
/// `u32::MAX`.
pub(super) fn waiting(connection: &Connection, tenant: TenantId, lane: i64) -> rusqlite::Result<WaitingLane> {
    Ok(WaitingLane {
        lane: LaneId(id(lane)),
        tenant,
        dynamic: key(connection, lane)?,
        next_due: next_due(connection, lane)?,
        count: u32::MAX,
    })
}

/// A delivery that was added to a lane.
pub(super) struct OneWaiting<'w> {
    pub(super) lane: LaneId,
    pub(super) tenant: &'w TenantId,
    pub(super) key: Option<&'w Arc<str>>,
}

impl OneWaiting<'_> {
    /// Adds the delivery to the entry for its lane and priority in `woken`, which is created if necessary.
    pub(super) fn wake(self, woken: &mut Vec<WaitingLane>, priority: Priority, due_at: Timestamp) {
        let level = priority.index();
        // One entry for each lane and priority, so that each has its own count.
        let known =
            woken.iter_mut().find(|waiting| waiting.lane == self.lane && waiting.next_due[level].is_some());
        if let Some(waiting) = known {
            waiting.next_due[level] = waiting.next_due[level].min(Some(due_at));
            waiting.count = waiting.count.saturating_add(1);
            return;
        }
        let mut next_due = [None; 4];
        next_due[level] = Some(due_at);
        let Self { lane, tenant, key } = self;
        woken.push(WaitingLane { lane, tenant: tenant.clone(), dynamic: key.cloned(), next_due, count: 1 });
    }
}

/// Selects the next lane with waiting deliveries. It takes one index seek per lane, regardless of how much is
/// waiting.
pub(super) const NEXT_LANE: &str = "SELECT lane, tenant FROM deliveries INDEXED BY waiting
    WHERE state = 0 AND lane > ?1 ORDER BY lane LIMIT 1";

/// Returns up to `limit` lanes with waiting deliveries that follow `after`.
pub(super) fn waiting_after(
    connection: &Connection,
    mut after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<WaitingLane>> {
    let mut found = Vec::new();
    let mut next = connection.prepare_cached(NEXT_LANE)?;
    let mut closed = connection.prepare_cached("SELECT 1 FROM closed_lanes WHERE lane = ?1")?;
    let mut name = connection.prepare_cached("SELECT id FROM tenants WHERE row = ?1")?;
    while found.len() < limit {
        let lane = next.query_row([after], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?))).optional()?;
        let Some((lane, tenant)) = lane else { break };
        after = lane;
        if !closed.exists([lane])? {
            let tenant = name.query_row([tenant], |row| parsed(0, row.get_ref(0)?.as_str()?))?;
            found.push(waiting(connection, tenant, lane)?);
        }
    }
    Ok(found)
}

/// Selects a delivery of one priority that is due in a lane and has not expired.
pub(super) const ANY_DUE: &str = "SELECT 1 FROM deliveries INDEXED BY waiting
    WHERE state = 0 AND lane = ?1 AND priority = ?2 AND due_at <= ?3 AND (expires_at IS NULL OR expires_at > ?3) LIMIT 1";

/// Selects a delivery that may be brought forward for a probe and has not expired.
pub(super) const ANY_PULLABLE: &str = "SELECT 1 FROM deliveries INDEXED BY pullable
    WHERE state = 0 AND attempts > 0 AND pulled = 0 AND lane = ?1 AND due_at > ?2
        AND (expires_at IS NULL OR expires_at > ?2) LIMIT 1";

/// Selects when the next delivery of one priority becomes due.
pub(super) const NEXT_LATER: &str = "SELECT due_at FROM deliveries INDEXED BY waiting
    WHERE state = 0 AND lane = ?1 AND priority = ?2 AND due_at > ?3 ORDER BY due_at LIMIT 1";

/// Returns whether a delivery of a lane may probe the lane's circuit now.
pub(super) fn probe_supply(
    connection: &Connection,
    lane: i64,
    now: Timestamp,
) -> rusqlite::Result<ProbeSupply> {
    let mut supply = ProbeSupply { can_probe: false, next_due: [None; 4] };
    if connection.prepare_cached("SELECT 1 FROM closed_lanes WHERE lane = ?1")?.exists([lane])? {
        return Ok(supply);
    }
    let now = micros(now);
    supply.can_probe = connection.prepare_cached(ANY_PULLABLE)?.exists(params![lane, now])?;
    for (level, next_due) in (0_i64..).zip(&mut supply.next_due) {
        let key = params![lane, level, now];
        supply.can_probe |= connection.prepare_cached(ANY_DUE)?.exists(key)?;
        let next = connection.prepare_cached(NEXT_LATER)?.query_row(key, |row| row.get(0)).optional()?;
        *next_due = next.map(time);
    }
    Ok(supply)
}

/// Selects dynamic-URL lanes that were not used since a time, longest unused first.
pub(super) const UNUSED_LANES: &str =
    "SELECT id FROM lanes INDEXED BY lanes_by_use WHERE used_at < ?1 ORDER BY used_at LIMIT ?2";

/// Deletes dynamic-URL lanes that were not used for a while and have no unfinished deliveries. Finished deliveries do
/// not need them: a resend finds the lane by its URL. Returns the number of lanes checked, at most `limit`.
pub(super) fn forget_unused(
    connection: &Connection,
    writer_state: &mut WriterState,
    now: Timestamp,
    limit: usize,
) -> rusqlite::Result<usize> {
    let unused = connection
        .prepare_cached(UNUSED_LANES)?
        .query_map(params![micros(now.before(UNUSED)), number(limit as u64)], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    let mut delete = connection.prepare_cached("DELETE FROM lanes WHERE id = ?1")?;
    let mut used = connection.prepare_cached("UPDATE lanes SET used_at = ?2 WHERE id = ?1")?;
    for lane in &unused {
        // Read from memory, not from the table: this transaction may have added deliveries.
        if writer_state.unfinished_in(*lane).count == 0 {
            delete.execute([lane])?;
            writer_state.stored_attempts.delete(connection, *lane)?;
        } else {
            // Checked again later, after the others.
            used.execute(params![lane, micros(now)])?;
        }
    }
    Ok(unused.len())
}

/// Returns the tenant's dynamic-URL lane with this circuit key, creating the lane if necessary.
pub(super) fn of_key(
    connection: &Connection,
    writer_state: &mut WriterState,
    tenant: i64,
    key: &str,
    now: Timestamp,
) -> rusqlite::Result<i64> {
    let known = connection
        .prepare_cached("SELECT id, used_at FROM lanes WHERE tenant = ?1 AND key = ?2")?
        .query_row(params![tenant, key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((lane, used_at)) = known {
        if now.since(time(used_at)) >= USED_EVERY {
            connection
                .prepare_cached("UPDATE lanes SET used_at = ?2 WHERE id = ?1")?
                .execute(params![lane, micros(now)])?;
        }
        return Ok(lane);
    }
    let lane = writer_state.next_ids(1, now).number();
    connection
        .prepare_cached("INSERT INTO lanes (id, tenant, key, used_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![lane, tenant, key, micros(now)])?;
    Ok(lane)
}
