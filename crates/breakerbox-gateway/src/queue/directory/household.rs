//! A tenant and its endpoints, and which of them get events of a type.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{EndpointEntry, TenantEntry};
use crate::objects::{EndpointId, EventType};

/// For how many event types of a tenant the answer is remembered.
const REMEMBERED_TYPES: usize = 512;

/// A tenant and its endpoints.
#[derive(Debug)]
pub struct Household {
    pub(super) entry: Arc<TenantEntry>,
    /// By age.
    pub(super) endpoints: Vec<Arc<EndpointEntry>>,
    /// Who gets events of a type. Forgotten at each change.
    by_type: Mutex<HashMap<EventType, Arc<[Arc<EndpointEntry>]>>>,
}

impl Household {
    pub(super) fn new(entry: Arc<TenantEntry>, mut endpoints: Vec<Arc<EndpointEntry>>) -> Self {
        endpoints.sort_by_key(|endpoint| endpoint.id);
        Self { entry, endpoints, by_type: Mutex::default() }
    }

    /// The tenant.
    #[must_use]
    pub const fn tenant(&self) -> &Arc<TenantEntry> {
        &self.entry
    }

    /// The endpoints that get events of this type.
    #[must_use]
    pub fn for_type(&self, kind: &EventType) -> Arc<[Arc<EndpointEntry>]> {
        let mut by_type = self.by_type.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoints) = by_type.get(kind) {
            return Arc::clone(endpoints);
        }
        let endpoints: Arc<[_]> =
            self.endpoints.iter().filter(|endpoint| endpoint.filter.admits(kind)).cloned().collect();
        // Types are the customers' to invent: whoever invents one for each event must not fill the memory.
        if by_type.len() >= REMEMBERED_TYPES {
            by_type.clear();
        }
        by_type.insert(kind.clone(), Arc::clone(&endpoints));
        endpoints
    }

    /// The same to be changed: itself if nobody else looks at it, else a copy.
    pub(super) fn change(shared: &mut Arc<Self>) -> &mut Self {
        if Arc::get_mut(shared).is_none() {
            *shared = Arc::new(Self::new(Arc::clone(&shared.entry), shared.endpoints.clone()));
        }
        let household = Arc::get_mut(shared).expect("it is ours, or was just made");
        household.by_type.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        household
    }

    pub(super) fn put(&mut self, entry: &Arc<EndpointEntry>) {
        match self.endpoints.binary_search_by_key(&entry.id, |endpoint| endpoint.id) {
            Ok(at) => self.endpoints[at] = Arc::clone(entry),
            Err(at) => self.endpoints.insert(at, Arc::clone(entry)),
        }
    }

    pub(super) fn remove(&mut self, id: EndpointId) {
        self.endpoints.retain(|endpoint| endpoint.id != id);
    }
}
