//! The latest attempt of each endpoint and of each circuit with dynamic URLs, in memory.
//!
//! The dispatcher records every attempt here, before it reports the attempt's outcome to the circuit. So a change of
//! the circuit, and a notification about it, can state the response that caused it. Backends store the attempts of
//! endpoints with the settlements and put them back at startup.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use breakerbox_model::delivery::LastAttempt;
use breakerbox_model::objects::{CircuitOwner, LaneId, TenantId};

/// The number of circuits of dynamic URLs after which the older ones are forgotten. At most twice as many are kept.
const MOST_DYNAMIC: usize = 50_000;

/// The latest attempts, by lane and by circuit.
#[derive(Default)]
pub(super) struct LastAttempts(RwLock<Known>);

#[derive(Default)]
struct Known {
    endpoints: HashMap<LaneId, LastAttempt>,
    dynamic: HashMap<Arc<str>, LastAttempt>,
    /// Circuits that were in `dynamic` when it was full.
    dynamic_before: HashMap<Arc<str>, LastAttempt>,
}

/// Puts the later one of two attempts into its place. Attempts that run at the same time end in any order.
fn put<K: std::hash::Hash + Eq>(known: &mut HashMap<K, LastAttempt>, key: K, attempt: LastAttempt) {
    let is_older = |before: &LastAttempt| before.started_at > attempt.started_at;
    if !known.get(&key).is_some_and(is_older) {
        known.insert(key, attempt);
    }
}

impl LastAttempts {
    pub(super) fn note_endpoint(&self, lane: LaneId, attempt: LastAttempt) {
        put(&mut self.write().endpoints, lane, attempt);
    }

    pub(super) fn note_dynamic(&self, circuit: &str, attempt: LastAttempt) {
        let mut known = self.write();
        if known.dynamic.len() >= MOST_DYNAMIC && !known.dynamic.contains_key(circuit) {
            known.dynamic_before = std::mem::take(&mut known.dynamic);
        }
        put(&mut known.dynamic, Arc::from(circuit), attempt);
    }

    pub(super) fn forget_endpoint(&self, lane: LaneId) {
        self.write().endpoints.remove(&lane);
    }

    /// Forgets the circuits of a tenant's dynamic URLs. Another tenant may get the same name.
    pub(super) fn forget_tenant(&self, tenant: &TenantId) {
        let is_others =
            |key: &Arc<str>| CircuitOwner::of_key(key).is_none_or(|owner| owner.tenant != *tenant);
        let mut known = self.write();
        known.dynamic.retain(|key, _| is_others(key));
        known.dynamic_before.retain(|key, _| is_others(key));
    }

    pub(super) fn of_endpoint(&self, lane: LaneId) -> Option<LastAttempt> {
        self.read().endpoints.get(&lane).cloned()
    }

    /// Returns the latest attempt of these endpoints, or of dynamic URLs with this circuit.
    pub(super) fn of_circuit(
        &self,
        circuit: &str,
        endpoints: impl Iterator<Item = LaneId>,
    ) -> Option<LastAttempt> {
        let known = self.read();
        let dynamic = known.dynamic.get(circuit).or_else(|| known.dynamic_before.get(circuit));
        let endpoints = endpoints.filter_map(|lane| known.endpoints.get(&lane));
        endpoints.chain(dynamic).max_by_key(|attempt| attempt.started_at).cloned()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Known> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::Timestamp;
    use breakerbox_model::objects::Id;

    use super::*;

    fn attempt(second: u64, status: u16) -> LastAttempt {
        LastAttempt {
            started_at: Timestamp::from_micros(second * 1_000_000),
            status: Some(status),
            fault: None,
            detail: None,
        }
    }

    #[test]
    fn the_latest_attempt_of_a_circuit_is_the_latest_of_all_that_share_it() {
        let last = LastAttempts::default();
        let lanes = [1, 2, 3].map(|number| LaneId(Id::from_number(number).unwrap()));
        last.note_endpoint(lanes[0], attempt(10, 500));
        last.note_endpoint(lanes[1], attempt(30, 200));
        last.note_endpoint(lanes[1], attempt(20, 503)); // It began earlier, and ended later.
        last.note_endpoint(lanes[2], attempt(40, 404));
        let of = |lanes: &[LaneId]| last.of_circuit("acme", lanes.iter().copied());
        assert_eq!(of(&lanes[..2]), Some(attempt(30, 200)));
        assert_eq!(of(&[]), None);
        last.note_dynamic("acme", attempt(35, 418));
        assert_eq!((of(&lanes[..2]), of(&lanes)), (Some(attempt(35, 418)), Some(attempt(40, 404))));
        last.forget_endpoint(lanes[2]);
        assert_eq!((of(&lanes), last.of_endpoint(lanes[2])), (Some(attempt(35, 418)), None));
        last.forget_tenant(&"other".parse().unwrap());
        assert_eq!(of(&[]), Some(attempt(35, 418)));
        last.forget_tenant(&"acme".parse().unwrap());
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_number_of_dynamic_urls_is_bounded() {
        let last = LastAttempts::default();
        for n in 0..=2 * MOST_DYNAMIC {
            last.note_dynamic(&format!("acme {n}"), attempt(1, 200));
        }
        let of = |n: usize| last.of_circuit(&format!("acme {n}"), std::iter::empty());
        assert_eq!((of(0), of(MOST_DYNAMIC - 1)), (None, None), "the oldest are forgotten");
        assert!(of(MOST_DYNAMIC).is_some() && of(2 * MOST_DYNAMIC).is_some());
        let known = last.read();
        assert!(known.dynamic.len() + known.dynamic_before.len() <= 2 * MOST_DYNAMIC);
    }
}
