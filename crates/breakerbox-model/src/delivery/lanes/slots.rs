//! Slots: the number of requests that a process may have in flight, and which tenants the last slots are reserved
//! for.

use std::collections::HashMap;

use crate::values::TenantId;

/// The slots of a process. Each request in flight uses one.
#[derive(Debug)]
pub struct Slots {
    total: u32,
    used: u32,
    /// The number of slots used by unproven lanes: those whose latest outcome was not a success.
    unproven: u32,
    by_tenant: HashMap<TenantId, u32>,
}

impl Slots {
    pub(super) fn new(total: u32) -> Self {
        Self { total: total.max(1), used: 0, unproven: 0, by_tenant: HashMap::new() }
    }

    /// Returns the number of slots, free and in use.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Returns the number of slots in use by requests in flight.
    #[must_use]
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Returns the number of slots used by lanes whose latest outcome was not a success.
    #[must_use]
    pub const fn unproven(&self) -> u32 {
        self.unproven
    }

    pub(super) fn used_by(&self, tenant: &TenantId) -> u32 {
        self.by_tenant.get(tenant).copied().unwrap_or(0)
    }

    /// Returns whether a lane of this tenant may take one more slot. `proven` is whether the lane's latest
    /// outcome was a success.
    pub(super) fn has_room(&self, tenant: &TenantId, proven: bool) -> bool {
        let reserve = self.total / 16;
        let free = self.total.saturating_sub(self.used);
        let may_use_reserve = self.used_by(tenant) < reserve.max(1);
        // Half of the slots, but at least one, so that a lane can prove itself even if there is only one slot.
        let share = (self.total / 2).max(1);
        free > 0 && (free > reserve || may_use_reserve) && (proven || self.unproven < share)
    }

    /// Takes a slot for a lane of this tenant, and returns the number of slots that the tenant now uses.
    pub(super) fn occupy(&mut self, tenant: &TenantId, proven: bool) -> u32 {
        self.used += 1;
        self.unproven += u32::from(!proven);
        match self.by_tenant.get_mut(tenant) {
            Some(used) => {
                *used += 1;
                *used
            }
            None => {
                self.by_tenant.insert(tenant.clone(), 1);
                1
            }
        }
    }

    /// Frees a slot of a lane of this tenant, and returns the number of slots that the tenant now uses.
    pub(super) fn vacate(&mut self, tenant: &TenantId, proven: bool) -> u32 {
        self.used = self.used.saturating_sub(1);
        self.unproven = self.unproven.saturating_sub(u32::from(!proven));
        let Some(used) = self.by_tenant.get_mut(tenant) else { return 0 };
        *used = used.saturating_sub(1);
        let used = *used;
        if used == 0 {
            self.by_tenant.remove(tenant);
        }
        used
    }

    /// Records that a lane with `in_flight` requests in flight changed from proven to unproven, or from unproven to
    /// proven.
    pub(super) fn moved(&mut self, in_flight: u32, was_proven: bool) {
        if was_proven {
            self.unproven += in_flight;
        } else {
            self.unproven = self.unproven.saturating_sub(in_flight);
        }
    }
}
