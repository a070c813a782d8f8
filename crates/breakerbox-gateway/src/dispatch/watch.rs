//! Reacts to changes of tenants, endpoints and circuits: wakes the affected lanes and drops cached destinations.

use std::sync::{Arc, PoisonError, Weak};

use breakerbox::{CircuitChange, CircuitStatus, KeyError};
use breakerbox_model::objects::{CircuitOwner, ShownKey};
use breakerbox_storage::{Changed, TenantEntry, Watcher};
use tracing::warn;

use super::dispatcher::Dispatch;

/// Makes a dispatcher react to changes of tenants, endpoints, policies and reminders.
pub struct Watch(Weak<Dispatch>);

impl Watch {
    /// Creates an observer for this dispatcher. It does not keep the dispatcher alive.
    #[must_use]
    pub fn over(dispatch: &Arc<Dispatch>) -> Self {
        Self(Arc::downgrade(dispatch))
    }
}

impl Watcher for Watch {
    fn changed(&self, changed: Changed<'_>) {
        let Some(dispatch) = self.0.upgrade() else { return };
        let now = dispatch.now();
        match changed {
            Changed::Tenant(tenant) => {
                dispatch.destinations.forget_dynamic(&tenant.id);
                if let Err(error) = dispatch.set_policies(tenant) {
                    warn!(tenant = %tenant.id, %error, "can't apply the policy");
                }
                dispatch.lanes().wake_tenant(&tenant.id, now);
            }
            Changed::TenantGone(tenant) => dispatch.destinations.forget_dynamic(tenant),
            Changed::CircuitPolicy(circuit, policy) => {
                let policy = policy.map(|policy| (**policy).clone());
                if let Err(error) = dispatch.breakers.set_key_policy(circuit, policy) {
                    warn!(circuit = %ShownKey(circuit), %error, "can't apply the policy");
                }
            }
            Changed::Endpoint(endpoint) => {
                let before = dispatch.destinations.forget(endpoint.lane());
                // The URL or `circuit_by` changed. There may be no endpoint left that could probe the former circuit.
                let had = before.filter(|before| *before.key() != *endpoint.circuit);
                dispatch.orphaned(had.map(|before| Arc::from(before.key())));
                let mut lanes = dispatch.lanes();
                if lanes.contains(endpoint.lane()) {
                    lanes.register(endpoint.lane(), &endpoint.tenant.id, endpoint.max_in_flight);
                }
                lanes.wake(endpoint.lane(), now);
            }
            Changed::EndpointGone(lane) => {
                let gone = dispatch.destinations.drop_lane(lane);
                dispatch.orphaned(gone.map(|destination| Arc::from(destination.key())));
                // Waiting deliveries are cancelled. Requests in flight finish without their lane.
                dispatch.lanes().forget(lane);
            }
            Changed::Woken(waiting) => dispatch.arrived(std::slice::from_ref(waiting)),
            Changed::Reminders => dispatch.wake_scheduler(),
        }
        dispatch.wake();
    }
}

impl Dispatch {
    /// Sets the policies of a tenant's circuits, for deliveries and for reminders.
    ///
    /// # Errors
    /// Returns an error if the tenant's name can't be the prefix of a circuit key.
    pub fn set_policies(&self, tenant: &TenantEntry) -> Result<(), KeyError> {
        let own = tenant.has_own_policy.then(|| (*tenant.policy).clone());
        self.breakers.set_tenant_policy(tenant.id.as_str(), own)?;
        let reminders = CircuitOwner::of_reminders(tenant.id.clone()).to_string();
        self.breakers.set_tenant_policy(&reminders, Some((*tenant.reminders.policy).clone()))
    }

    /// Records that an endpoint no longer uses this circuit.
    fn orphaned(&self, circuit: Option<Arc<str>>) {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).extend(circuit);
    }

    /// Handles a circuit change: wakes the circuit's lanes, and records the start or end of its outage.
    pub fn circuit_changed(&self, heard: &CircuitChange) {
        let change = &heard.change;
        {
            let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
            match (change.from, change.to) {
                (_, CircuitStatus::Closed) => _ = outages.remove(&heard.key),
                (CircuitStatus::Closed, _) => _ = outages.insert(Arc::clone(&heard.key), change.epoch),
                _ => {}
            }
        }
        let now = self.now();
        self.lanes().circuit_changed(&heard.key, now);
        self.wake();
    }
}
