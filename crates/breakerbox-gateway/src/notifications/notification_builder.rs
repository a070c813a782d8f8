//! Builds notifications for circuit changes, with the policy and the endpoints concerned.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use breakerbox::Breakerbox;
use breakerbox_model::notifications::{CircuitContext, OutageStep, notifications};
use breakerbox_model::objects::{CircuitOwner, EndpointId, PastChange, TenantId};
use breakerbox_storage::Directory;
use breakerbox_storage::records::ObservedChange;

/// Builds notifications for circuit changes.
#[derive(Clone)]
pub struct NotificationBuilder {
    breakers: Breakerbox,
    directory: Arc<Directory>,
    trip_after: Duration,
}

/// A circuit change for the history, from which notifications are built.
pub struct ChangeToReport {
    /// The change to report.
    pub change: PastChange,
    /// Whether the change that started the outage is missing from the history, so that this change has to report the
    /// outage.
    pub is_unreported_outage: bool,
}

impl From<PastChange> for ChangeToReport {
    fn from(change: PastChange) -> Self {
        Self { change, is_unreported_outage: false }
    }
}

impl NotificationBuilder {
    /// Creates a builder that looks up policies in `breakers` and endpoints in `directory`. A trip is sent if the
    /// circuit has not closed after `trip_after`.
    #[must_use]
    pub fn new(breakers: Breakerbox, directory: Arc<Directory>, trip_after: Duration) -> Self {
        Self { breakers, directory, trip_after }
    }

    /// Returns each change with its notifications, and its effect on the circuit's outage.
    #[must_use]
    pub fn build(&self, changes: Vec<ChangeToReport>) -> Vec<ObservedChange> {
        let sharing = self.sharing(&changes);
        let observed = changes.into_iter().map(|ChangeToReport { change, is_unreported_outage }| {
            let policy = self.breakers.policy_of(&change.key);
            let endpoints = sharing.get(&change.key).map(Vec::as_slice).unwrap_or_default();
            let last = self.directory.last_attempt_of_circuit(&change.key);
            let known =
                CircuitContext { policy: &policy, endpoints, last: last.as_ref(), is_unreported_outage };
            let notifications = notifications(&change.key, &change.change, &known);
            let outage = OutageStep::of(&change.key, &change.change, &known, self.trip_after);
            ObservedChange { change, notifications, outage }
        });
        observed.collect()
    }

    /// Returns the endpoints that share these circuits. Reads each tenant's endpoints only once.
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
