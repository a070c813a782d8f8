//! Builds the notifications of circuit changes, with the policy and the endpoints that each concerns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use breakerbox::Breakerbox;
use breakerbox_model::notifications::{Known, notifications};
use breakerbox_model::objects::{CircuitOwner, EndpointId, PastChange, TenantId};
use breakerbox_storage::Directory;
use breakerbox_storage::records::ObservedChange;

/// Builds notifications.
#[derive(Clone)]
pub struct NotificationBuilder {
    breakers: Breakerbox,
    directory: Arc<Directory>,
}

/// A change, and whether it stands for an outage of which no notification was sent.
pub struct ChangeToReport {
    /// The change of the circuit.
    pub change: PastChange,
    /// Whether the change that began the outage is missing in the history.
    pub is_unreported_outage: bool,
}

impl From<PastChange> for ChangeToReport {
    fn from(change: PastChange) -> Self {
        Self { change, is_unreported_outage: false }
    }
}

impl NotificationBuilder {
    /// Builds notifications with these policies and endpoints.
    #[must_use]
    pub fn new(breakers: Breakerbox, directory: Arc<Directory>) -> Self {
        Self { breakers, directory }
    }

    /// Returns each change with its notifications.
    #[must_use]
    pub fn build(&self, changes: Vec<ChangeToReport>) -> Vec<ObservedChange> {
        let sharing = self.sharing(&changes);
        let observed = changes.into_iter().map(|ChangeToReport { change, is_unreported_outage }| {
            let policy = self.breakers.policy_of(&change.key);
            let endpoints = sharing.get(&change.key).map(Vec::as_slice).unwrap_or_default();
            let known = Known { policy: &policy, endpoints, is_unreported_outage };
            let notifications = notifications(&change.key, &change.change, &known);
            ObservedChange { change, notifications }
        });
        observed.collect()
    }

    /// Returns the endpoints that share these circuits. Reads each tenant's endpoints once, however many circuits there
    /// are.
    fn sharing(&self, changes: &[ChangeToReport]) -> HashMap<Arc<str>, Vec<EndpointId>> {
        let keys: HashSet<&str> =
            changes.iter().map(|change_to_report| &*change_to_report.change.key).collect();
        let tenants: HashSet<TenantId> =
            keys.iter().filter_map(|key| CircuitOwner::of_key(key)).map(|owner| owner.tenant).collect();
        let mut sharing: HashMap<Arc<str>, Vec<EndpointId>> = HashMap::new();
        for tenant in &tenants {
            for endpoint in self.directory.endpoints_of(tenant) {
                if keys.contains(&*endpoint.circuit) {
                    sharing.entry(Arc::clone(&endpoint.circuit)).or_default().push(endpoint.id);
                }
            }
        }
        sharing
    }
}
