//! The writer's state in memory: leases, each tenant's unfinished deliveries, closed lanes, and the last id.
//!
//! It changes with the transaction. Each change adds an undo entry, so that a rollback on disk is also a rollback in
//! memory. Leases are kept in memory only: a single process has the file open, so they are void when it ends.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::LastAttempt;
use breakerbox_model::objects::{Id, LaneId, TenantId};
use breakerbox_storage::Lease;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{micros, number, whole};
use super::disk::Disk;
use super::ids::Ids;
use super::last_attempts::StoredAttempts;

/// The number of low bits in a lease number, which count the leases since startup. The high bits count the
/// startups, so that no lease number is reused.
const STARTS_SHIFT: u32 = 32;

/// The maximum number of deliveries that one tenant's submits may write in one group of jobs. Fan-out jobs
/// write the rest later, so that a large batch does not delay the other tenants' jobs in the group.
const ROWS_IN_GROUP: u32 = 1_000;

/// A leased delivery, with the data needed to settle it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) lease: Lease,
    pub(super) until: Timestamp,
    pub(super) lane: i64,
    pub(super) tenant: i64,
    pub(super) bytes: u64,
    pub(super) requests: u32,
    /// The reminder that fired the delivery. `None`: it is not a reminder run.
    pub(super) reminder: Option<i64>,
}

/// The number and payload bytes of unfinished deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unfinished {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Unfinished {
    fn plus(self, bytes: u64) -> Self {
        Self { count: self.count.saturating_add(1), bytes: self.bytes.saturating_add(bytes) }
    }

    fn minus(self, bytes: u64) -> Self {
        Self { count: self.count.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

/// A lane's unfinished deliveries.
#[derive(Clone, Copy, Debug)]
struct LaneBacklog {
    tenant: i64,
    unfinished: Unfinished,
    is_dirty: bool,
}

enum Undo {
    Held(i64),
    Released(i64, Held),
    Backlog { lane: i64, was: Unfinished, tenant: i64, of_tenant: Unfinished },
    Deferred { tenant: i64, was: Unfinished, of_tenant: Unfinished },
    Closed(i64),
    Opened(i64),
    AttemptStored(i64),
}

pub(super) struct WriterState {
    held: HashMap<i64, Held>,
    lanes: HashMap<i64, LaneBacklog>,
    /// Each tenant's unfinished deliveries, including those that are not written yet.
    backlogs: HashMap<i64, Unfinished>,
    /// Each tenant's deliveries that are not written yet, because their fan-out is still running.
    deferred: HashMap<i64, Unfinished>,
    /// The latest stored audience of each tenant with a running fan-out: its id and its endpoints.
    audiences: HashMap<i64, (i64, Vec<u8>)>,
    /// The number of deliveries that each tenant's submits have written in this group of jobs.
    in_group: HashMap<i64, u32>,
    closed: BTreeSet<i64>,
    names: HashMap<i64, TenantId>,
    pub(super) ids: Ids,
    /// The latest attempts that are stored.
    pub(super) stored_attempts: StoredAttempts,
    last_lease: i64,
    undo: Vec<Undo>,
    /// Lanes whose backlog has changed and is not written to the database yet.
    dirty: Vec<i64>,
    pub(super) disk: Disk,
}

impl WriterState {
    /// Reads the stored state, and voids the leases of earlier processes, so that their deliveries wait again.
    pub(super) fn open(connection: &mut Connection, disk: Disk, now: Timestamp) -> rusqlite::Result<Self> {
        let transaction = connection.transaction()?;
        let starts: i64 = transaction.query_row(
            "INSERT INTO meta (name, value) VALUES ('starts', 1)
             ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
            [],
            |row| row.get(0),
        )?;
        transaction.execute("UPDATE deliveries INDEXED BY leased SET state = 0 WHERE state = 1", [])?;
        transaction.commit()?;
        let mut writer_state = Self {
            held: HashMap::new(),
            lanes: HashMap::new(),
            backlogs: HashMap::new(),
            deferred: HashMap::new(),
            audiences: HashMap::new(),
            in_group: HashMap::new(),
            closed: BTreeSet::new(),
            names: HashMap::new(),
            ids: Ids::open(connection, now)?,
            stored_attempts: StoredAttempts::default(),
            last_lease: starts << STARTS_SHIFT,
            undo: Vec::new(),
            dirty: Vec::new(),
            disk,
        };
        let mut statement = connection.prepare("SELECT lane, tenant, count, bytes FROM backlogs")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let tenant = row.get(1)?;
            let unfinished = Unfinished { count: whole(row.get(2)?), bytes: whole(row.get(3)?) };
            writer_state.lanes.insert(row.get(0)?, LaneBacklog { tenant, unfinished, is_dirty: false });
            let total = writer_state.backlogs.entry(tenant).or_default();
            total.count = total.count.saturating_add(unfinished.count);
            total.bytes = total.bytes.saturating_add(unfinished.bytes);
        }
        let mut statement = connection.prepare(
            "SELECT f.tenant, e.fan_out - f.position, e.size FROM fan_outs f JOIN events e ON e.id = f.event",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            writer_state.deferred(row.get(0)?, whole(row.get(1)?), whole(row.get(2)?));
        }
        writer_state.undo.clear();
        let mut statement = connection.prepare("SELECT lane FROM closed_lanes")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            writer_state.closed.insert(row.get(0)?);
        }
        Ok(writer_state)
    }

    /// Reserves `count` consecutive ids, and returns the first. They are not reused even if the transaction fails.
    pub(super) fn next_ids(&mut self, count: u32, now: Timestamp) -> Id {
        self.ids.next(count, now)
    }

    /// Records a delivery as leased, and returns its new lease.
    pub(super) fn hold(&mut self, delivery: i64, mut held: Held) -> Lease {
        self.last_lease += 1;
        held.lease = Lease(self.last_lease);
        self.held.insert(delivery, held);
        self.undo.push(Undo::Held(delivery));
        held.lease
    }

    /// Ends a lease, and returns the delivery that was held, or `None` if the lease is not current.
    pub(super) fn release(&mut self, delivery: i64, lease: Lease) -> Option<Held> {
        let held = *self.held.get(&delivery).filter(|held| held.lease == lease)?;
        self.held.remove(&delivery);
        self.undo.push(Undo::Released(delivery, held));
        Some(held)
    }

    /// Returns up to `limit` deliveries whose lease has expired.
    pub(super) fn overdue(&self, now: Timestamp, limit: usize) -> Vec<(i64, Lease)> {
        let ended = self.held.iter().filter(|(_, held)| held.until <= now);
        ended.map(|(delivery, held)| (*delivery, held.lease)).take(limit).collect()
    }

    /// Returns whether any of a lane's deliveries is leased.
    pub(super) fn holds_any_of(&self, lane: i64) -> bool {
        self.held.values().any(|held| held.lane == lane)
    }

    pub(super) fn unfinished(&self, tenant: i64) -> Unfinished {
        self.backlogs.get(&tenant).copied().unwrap_or_default()
    }

    /// Returns a lane's unfinished deliveries.
    pub(super) fn unfinished_in(&self, lane: i64) -> Unfinished {
        self.lanes.get(&lane).map(|in_lane| in_lane.unfinished).unwrap_or_default()
    }

    /// Returns the number of waiting deliveries in a lane: unfinished and not leased.
    pub(super) fn waiting_in(&self, lane: i64) -> u64 {
        let held = self.held.values().filter(|held| held.lane == lane).count() as u64;
        self.unfinished_in(lane).count.saturating_sub(held)
    }

    /// Returns all unfinished deliveries, and the number of tenants that have any.
    pub(super) fn total(&self) -> (Unfinished, u64) {
        let any = self.backlogs.values().filter(|unfinished| unfinished.count > 0);
        any.fold((Unfinished::default(), 0), |(sum, tenants), one| {
            let count = sum.count.saturating_add(one.count);
            (Unfinished { count, bytes: sum.bytes.saturating_add(one.bytes) }, tenants + 1)
        })
    }

    /// Counts a delivery that is new, or waits again after it had finished.
    pub(super) fn begun(&mut self, tenant: i64, lane: i64, bytes: u64) {
        self.change(tenant, lane, |was| was.plus(bytes));
    }

    /// Subtracts a delivery that has finished.
    pub(super) fn finished(&mut self, tenant: i64, lane: i64, bytes: u64) {
        self.change(tenant, lane, |was| was.minus(bytes));
    }

    fn change(&mut self, tenant: i64, lane: i64, change: impl Fn(Unfinished) -> Unfinished) {
        let fresh = LaneBacklog { tenant, unfinished: Unfinished::default(), is_dirty: false };
        let in_lane = self.lanes.entry(lane).or_insert(fresh);
        let of_tenant = self.backlogs.entry(tenant).or_default();
        self.undo.push(Undo::Backlog { lane, was: in_lane.unfinished, tenant, of_tenant: *of_tenant });
        in_lane.unfinished = change(in_lane.unfinished);
        *of_tenant = change(*of_tenant);
        if !in_lane.is_dirty {
            in_lane.is_dirty = true;
            self.dirty.push(lane);
        }
    }

    /// Counts accepted deliveries that are written later. `bytes` is the size of each.
    pub(super) fn deferred(&mut self, tenant: i64, count: u64, bytes: u64) {
        self.change_deferred(tenant, |was| Unfinished {
            count: was.count.saturating_add(count),
            bytes: was.bytes.saturating_add(count.saturating_mul(bytes)),
        });
    }

    /// Subtracts deferred deliveries, because they are written now. From then on, [`begun`](Self::begun)
    /// counts them.
    pub(super) fn written_later(&mut self, tenant: i64, count: u64, bytes: u64) {
        self.change_deferred(tenant, |was| Unfinished {
            count: was.count.saturating_sub(count),
            bytes: was.bytes.saturating_sub(count.saturating_mul(bytes)),
        });
    }

    fn change_deferred(&mut self, tenant: i64, change: impl Fn(Unfinished) -> Unfinished) {
        let deferred = self.deferred.entry(tenant).or_default();
        let of_tenant = self.backlogs.entry(tenant).or_default();
        self.undo.push(Undo::Deferred { tenant, was: *deferred, of_tenant: *of_tenant });
        *deferred = change(*deferred);
        *of_tenant = change(*of_tenant);
    }

    /// Returns the number of deliveries that are not written yet.
    pub(super) fn fanning_out(&self) -> u64 {
        self.deferred.values().fold(0, |sum, deferred| sum.saturating_add(deferred.count))
    }

    /// Returns the id of the tenant's latest audience, if it has these endpoints.
    pub(super) fn audience_like(&self, tenant: i64, endpoints: &[u8]) -> Option<i64> {
        self.audiences.get(&tenant).filter(|(_, known)| known == endpoints).map(|(id, _)| *id)
    }

    pub(super) fn remember_audience(&mut self, tenant: i64, id: i64, endpoints: Vec<u8>) {
        self.audiences.insert(tenant, (id, endpoints));
    }

    /// Prepares for a new group of jobs: resets the counts per group, and forgets audiences that no fan-out
    /// needs any more.
    pub(super) fn begin_group(&mut self) {
        self.in_group.clear();
        if !self.audiences.is_empty() {
            let deferred = &self.deferred;
            self.audiences.retain(|tenant, _| deferred.get(tenant).is_some_and(|one| one.count > 0));
        }
    }

    /// Returns the number of deliveries that a tenant's submits may still write in this group of jobs.
    pub(super) fn room_in_group(&self, tenant: i64) -> u32 {
        ROWS_IN_GROUP.saturating_sub(self.in_group.get(&tenant).copied().unwrap_or(0))
    }

    /// Counts deliveries that a submit has written in this group of jobs.
    pub(super) fn wrote_in_group(&mut self, tenant: i64, rows: u32) {
        *self.in_group.entry(tenant).or_default() += rows;
    }

    pub(super) fn is_closed(&self, lane: i64) -> bool {
        self.closed.contains(&lane)
    }

    /// Returns the closed lane with the next higher number, if there is one.
    pub(super) fn closed_after(&self, lane: i64) -> Option<i64> {
        self.closed.range(lane.saturating_add(1)..).next().copied()
    }

    /// Closes a lane: its waiting deliveries are cancelled, and no more are leased.
    pub(super) fn close(
        &mut self,
        connection: &Connection,
        lane: i64,
        at: Timestamp,
    ) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT OR IGNORE INTO closed_lanes (lane, closed_at) VALUES (?1, ?2)")?
            .execute([lane, micros(at)])?;
        if self.closed.insert(lane) {
            self.undo.push(Undo::Closed(lane));
        }
        Ok(())
    }

    /// Forgets a closed lane that is empty.
    pub(super) fn forget_closed(&mut self, connection: &Connection, lane: i64) -> rusqlite::Result<()> {
        connection.prepare_cached("DELETE FROM closed_lanes WHERE lane = ?1")?.execute([lane])?;
        self.stored_attempts.delete(connection, lane)?;
        if self.closed.remove(&lane) {
            self.undo.push(Undo::Opened(lane));
        }
        Ok(())
    }

    /// Stores an attempt as the latest one in its lane, unless that is stored already or the lane is closed.
    pub(super) fn note_attempt(
        &mut self,
        connection: &Connection,
        lane: i64,
        attempt: LastAttempt,
    ) -> rusqlite::Result<()> {
        if !self.is_closed(lane) && self.stored_attempts.write(connection, lane, attempt)? {
            self.undo.push(Undo::AttemptStored(lane));
        }
        Ok(())
    }

    /// Deletes a lane's stored attempt, because its endpoint has another URL now.
    pub(super) fn forget_attempt(&mut self, connection: &Connection, lane: LaneId) -> rusqlite::Result<()> {
        self.stored_attempts.delete(connection, lane.number())
    }

    /// Returns a tenant's name, which never changes.
    pub(super) fn tenant(&mut self, connection: &Connection, row: i64) -> rusqlite::Result<TenantId> {
        if let Some(known) = self.names.get(&row) {
            return Ok(known.clone());
        }
        let text: Option<String> = connection
            .prepare_cached("SELECT id FROM tenants WHERE row = ?1")?
            .query_row([row], |row| row.get(0))
            .optional()?;
        let id: TenantId = text
            .and_then(|text| text.parse().ok())
            .ok_or(rusqlite::Error::IntegralValueOutOfRange(0, row))?;
        self.names.insert(row, id.clone());
        Ok(id)
    }

    /// Returns a mark for [`undo_to`](Self::undo_to): the current length of the undo list.
    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Undoes all changes made since a mark.
    pub(super) fn undo_to(&mut self, mark: usize) {
        for undo in self.undo.drain(mark..).rev() {
            match undo {
                Undo::Held(delivery) => {
                    self.held.remove(&delivery);
                }
                Undo::Released(delivery, held) => {
                    self.held.insert(delivery, held);
                }
                Undo::Backlog { lane, was, tenant, of_tenant } => {
                    if let Some(in_lane) = self.lanes.get_mut(&lane) {
                        in_lane.unfinished = was;
                    }
                    self.backlogs.insert(tenant, of_tenant);
                }
                Undo::Deferred { tenant, was, of_tenant } => {
                    self.deferred.insert(tenant, was);
                    self.backlogs.insert(tenant, of_tenant);
                }
                Undo::Closed(lane) => {
                    self.closed.remove(&lane);
                }
                Undo::Opened(lane) => {
                    self.closed.insert(lane);
                }
                Undo::AttemptStored(lane) => self.stored_attempts.forget(lane),
            }
        }
    }

    /// Writes the backlogs that have changed to the database, in the current transaction.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO backlogs (lane, tenant, count, bytes) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (lane) DO UPDATE SET count = excluded.count, bytes = excluded.bytes",
        )?;
        let mut nothing = connection.prepare_cached("DELETE FROM backlogs WHERE lane = ?1")?;
        for lane in &self.dirty {
            let Some(in_lane) = self.lanes.get(lane) else { continue };
            let Unfinished { count, bytes } = in_lane.unfinished;
            if count == 0 {
                nothing.execute([lane])?;
            } else {
                statement.execute(params![lane, in_lane.tenant, number(count), number(bytes)])?;
            }
        }
        Ok(())
    }

    /// Clears the undo list, because the transaction has ended.
    pub(super) fn settled(&mut self) {
        self.undo.clear();
        self.deferred.retain(|_, deferred| deferred.count > 0);
        for lane in self.dirty.drain(..) {
            if let Entry::Occupied(mut entry) = self.lanes.entry(lane) {
                entry.get_mut().is_dirty = false;
                if entry.get().unfinished.count == 0 {
                    entry.remove();
                }
            }
        }
    }
}
