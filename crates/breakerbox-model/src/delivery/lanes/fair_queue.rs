//! The order in which lanes get turns: first the tenant that uses the fewest slots, round-robin among equals; then
//! the tenant's lanes, round-robin.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::values::{LaneId, TenantId};

/// The lanes that wait for a turn, grouped by tenant.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    tenants: HashMap<TenantId, TenantLanes>,
    /// The tenants in the order in which they get turns: fewest slots in use first, then longest since the last turn.
    order: BTreeSet<(u32, u64, TenantId)>,
    turn_count: u64,
}

#[derive(Debug)]
struct TenantLanes {
    used: u32,
    last_turn: u64,
    lanes: VecDeque<LaneId>,
}

impl FairQueue {
    /// Adds a lane behind its tenant's other lanes. `used` is the number of slots that the tenant uses.
    pub(super) fn push(&mut self, tenant: &TenantId, lane: LaneId, used: u32) {
        if let Some(tenant_lanes) = self.tenants.get_mut(tenant) {
            tenant_lanes.lanes.push_back(lane);
            return;
        }
        let last_turn = self.turn_count;
        self.turn_count += 1;
        self.order.insert((used, last_turn, tenant.clone()));
        self.tenants.insert(tenant.clone(), TenantLanes { used, last_turn, lanes: VecDeque::from([lane]) });
    }

    /// Returns the tenant whose turn is next, or `None` if no lane waits.
    pub(super) fn next_tenant(&self) -> Option<&TenantId> {
        self.order.first().map(|(_, _, tenant)| tenant)
    }

    /// Removes and returns the tenant's next lane. The tenant moves behind other tenants that use the same number of
    /// slots.
    pub(super) fn pop(&mut self, tenant: &TenantId) -> Option<LaneId> {
        let tenant_lanes = self.tenants.get_mut(tenant)?;
        let lane = tenant_lanes.lanes.pop_front();
        self.order.remove(&(tenant_lanes.used, tenant_lanes.last_turn, tenant.clone()));
        if tenant_lanes.lanes.is_empty() {
            self.tenants.remove(tenant);
        } else {
            tenant_lanes.last_turn = self.turn_count;
            self.turn_count += 1;
            self.order.insert((tenant_lanes.used, tenant_lanes.last_turn, tenant.clone()));
        }
        lane
    }

    /// Records the number of slots that a tenant uses.
    pub(super) fn tenant_uses(&mut self, tenant: &TenantId, used: u32) {
        let Some(tenant_lanes) = self.tenants.get_mut(tenant) else { return };
        if tenant_lanes.used != used {
            self.order.remove(&(tenant_lanes.used, tenant_lanes.last_turn, tenant.clone()));
            tenant_lanes.used = used;
            self.order.insert((used, tenant_lanes.last_turn, tenant.clone()));
        }
    }
}
