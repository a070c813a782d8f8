//! The order of turns: tenants by the slots that they use, in turns among equals; then their lanes in turns.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::objects::{LaneId, TenantId};

/// Lanes that wait for a turn.
#[derive(Debug, Default)]
pub(super) struct Ring {
    tenants: HashMap<TenantId, Standing>,
    /// Ordered by slots in use, then by the time since the last turn, the longest first.
    order: BTreeSet<(u32, u64, TenantId)>,
    turns: u64,
}

#[derive(Debug)]
struct Standing {
    used: u32,
    had_turn: u64,
    lanes: VecDeque<LaneId>,
}

impl Ring {
    /// Appends a lane.
    pub(super) fn push(&mut self, tenant: &TenantId, lane: LaneId, used: u32) {
        if let Some(standing) = self.tenants.get_mut(tenant) {
            standing.lanes.push_back(lane);
            return;
        }
        let had_turn = self.turns;
        self.turns += 1;
        self.order.insert((used, had_turn, tenant.clone()));
        self.tenants.insert(tenant.clone(), Standing { used, had_turn, lanes: VecDeque::from([lane]) });
    }

    /// Returns the tenant whose turn it is.
    pub(super) fn next_tenant(&self) -> Option<&TenantId> {
        self.order.first().map(|(_, _, tenant)| tenant)
    }

    /// Removes that tenant's next lane. The tenant goes to the end of those that use as many slots.
    pub(super) fn pop(&mut self, tenant: &TenantId) -> Option<LaneId> {
        let standing = self.tenants.get_mut(tenant)?;
        let lane = standing.lanes.pop_front();
        self.order.remove(&(standing.used, standing.had_turn, tenant.clone()));
        if standing.lanes.is_empty() {
            self.tenants.remove(tenant);
        } else {
            standing.had_turn = self.turns;
            self.turns += 1;
            self.order.insert((standing.used, standing.had_turn, tenant.clone()));
        }
        lane
    }

    /// Records how many slots a tenant uses now.
    pub(super) fn tenant_uses(&mut self, tenant: &TenantId, used: u32) {
        let Some(standing) = self.tenants.get_mut(tenant) else { return };
        if standing.used != used {
            self.order.remove(&(standing.used, standing.had_turn, tenant.clone()));
            standing.used = used;
            self.order.insert((used, standing.had_turn, tenant.clone()));
        }
    }
}
