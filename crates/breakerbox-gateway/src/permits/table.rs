//! The table of unsettled permits: their slots on this process's ramps, and their throttle passes. Its size is limited.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use breakerbox::throttle::{Overload, Pass};
use breakerbox::{OutcomeKind, OwnedPermit};
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{PermitId, PermitTerm, TenantId};
use breakerbox_model::shares::{NoShare, SharePermit, SharePool};

/// A slot for one permit in the table, taken from its tenant's share.
pub(super) type PermitSlot = SharePermit<TenantId>;

/// The resources held for one permit. The caller that takes them from the table settles or releases them.
pub(super) struct Held {
    pub(super) permit: OwnedPermit,
    pub(super) throttle: Option<Pass<'static, Overload>>,
    #[allow(dead_code, reason = "it is given back when it is dropped")]
    pub(super) slot: PermitSlot,
}

/// All permits that this process holds.
pub(super) struct Table {
    room: SharePool<TenantId>,
    held: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_id: HashMap<PermitId, Held>,
    by_time: BTreeSet<(Timestamp, PermitId)>,
}

impl Table {
    pub(super) fn new(max: usize, tenant_share: u32) -> Self {
        Self { room: SharePool::new(max as u64, tenant_share), held: Mutex::default() }
    }

    /// Reserves a slot for one more permit of this tenant.
    pub(super) fn slot(&self, tenant: &TenantId) -> Result<PermitSlot, NoShare> {
        self.room.try_acquire(tenant, 1)
    }

    pub(super) fn put(&self, term: PermitTerm, held: Held) {
        let mut entries = self.lock();
        entries.by_time.insert((term.expires_at, term.id));
        entries.by_id.insert(term.id, held);
    }

    pub(super) fn take(&self, term: PermitTerm) -> Option<Held> {
        let mut entries = self.lock();
        entries.by_time.remove(&(term.expires_at, term.id));
        entries.by_id.remove(&term.id)
    }

    /// Returns some of the expired permits, longest expired first. They stay in the table.
    pub(super) fn expired(&self, now: Timestamp, limit: usize) -> Vec<PermitTerm> {
        let entries = self.lock();
        let due = entries.by_time.iter().take_while(|(expires_at, _)| *expires_at <= now);
        due.take(limit).map(|(expires_at, id)| PermitTerm { id: *id, expires_at: *expires_at }).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    /// Releases all permits without counting an outcome.
    pub(super) fn release_all(&self) {
        let held = std::mem::take(&mut *self.lock()).by_id;
        held.into_values().for_each(|held| held.permit.settled_elsewhere(OutcomeKind::Ignored));
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases all permits without an outcome, because workers may still be making their calls when the process ends.
impl Drop for Table {
    fn drop(&mut self) {
        self.release_all();
    }
}
