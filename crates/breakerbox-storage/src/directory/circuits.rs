//! The endpoints of each circuit, and the policy that applies to it.
//!
//! Endpoints of one tenant with the same URL share one circuit, and a circuit has one policy. So one endpoint
//! determines that policy: the oldest with a policy or a timeout of its own, regardless of which endpoint was called
//! or changed last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use breakerbox_core::{Policy, Timestamp};
use breakerbox_model::objects::{Id, LaneId};

use super::EndpointEntry;

/// Records which endpoints share each circuit, and which of them have a policy of their own.
#[derive(Default)]
pub(super) struct Circuits {
    all: BTreeSet<(Arc<str>, LaneId)>,
    /// The endpoints that have a policy of their own.
    own: BTreeMap<(Arc<str>, LaneId), Arc<EndpointEntry>>,
}

impl Circuits {
    /// Records that an endpoint was created, changed or deleted. Returns each circuit whose own policy changed, with
    /// the new policy, or `None` if the circuit no longer has its own policy.
    pub(super) fn change(
        &mut self,
        before: Option<&Arc<EndpointEntry>>,
        after: Option<&Arc<EndpointEntry>>,
    ) -> Vec<(Arc<str>, Option<Arc<Policy>>)> {
        let mut concerned: Vec<Arc<str>> =
            before.into_iter().chain(after).map(|entry| Arc::clone(&entry.circuit)).collect();
        concerned.dedup();
        let policies = |circuits: &Self| -> Vec<Option<Arc<Policy>>> {
            let policy = |key: &Arc<str>| circuits.deciding(key).map(|entry| Arc::clone(&entry.policy));
            concerned.iter().map(policy).collect()
        };
        let were = policies(self);
        if let Some(before) = before {
            let place = (Arc::clone(&before.circuit), before.lane());
            self.all.remove(&place);
            self.own.remove(&place);
        }
        if let Some(after) = after {
            let place = (Arc::clone(&after.circuit), after.lane());
            if after.has_own_policy {
                self.own.insert(place.clone(), Arc::clone(after));
            }
            self.all.insert(place);
        }
        let are = policies(self);
        let pairs = concerned.into_iter().zip(were.into_iter().zip(are));
        pairs.filter(|(_, (was, is))| was != is).map(|(key, (_, is))| (key, is)).collect()
    }

    /// Returns whether any endpoint uses this circuit.
    pub(super) fn has(&self, key: &str) -> bool {
        self.all.range(first_of(key)..).next().is_some_and(|(found, _)| **found == *key)
    }

    /// Iterates over the lanes of the endpoints that use this circuit.
    pub(super) fn lanes(&self, key: &str) -> impl Iterator<Item = LaneId> {
        self.all.range(first_of(key)..).take_while(move |(found, _)| **found == *key).map(|(_, lane)| *lane)
    }

    /// Returns the endpoint whose own policy applies to the circuit, if any.
    pub(super) fn deciding(&self, key: &str) -> Option<&Arc<EndpointEntry>> {
        let ((found, _), entry) = self.own.range(first_of(key)..).next()?;
        (**found == *key).then_some(entry)
    }

    /// Returns the circuits that have a policy of their own, with that policy.
    pub(super) fn policies(&self) -> Vec<(Arc<str>, Arc<Policy>)> {
        let mut policies: Vec<(Arc<str>, Arc<Policy>)> = Vec::new();
        for ((key, _), entry) in &self.own {
            if policies.last().is_none_or(|(last, _)| last != key) {
                policies.push((Arc::clone(key), Arc::clone(&entry.policy)));
            }
        }
        policies
    }
}

/// Returns a key that sorts at or before all entries of a circuit, as the start of a range.
fn first_of(key: &str) -> (Arc<str>, LaneId) {
    (Arc::from(key), LaneId(Id::first_at(Timestamp::ZERO)))
}
