//! Memory for request bodies, divided fairly: each tenant has a share of the total, and each API key a share of its
//! tenant's. Keys for all tenants belong to the operator, and together have the share of one tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_model::objects::{ApiKeyId, TenantId};
use breakerbox_model::shares::{NoShare, Shares};

use crate::api::caller::Caller;

/// The owner of a share: a tenant, or `None` for the operator.
type Owner = Option<TenantId>;

/// The memory budget for all request bodies, which tenants and their API keys share.
#[derive(Clone, Debug)]
pub(super) struct BodyMemory(Arc<Mutex<MemoryShares>>);

#[derive(Debug)]
struct MemoryShares {
    percent: u32,
    owners: Shares<Owner>,
    /// For each owner that currently holds memory, the shares of its API keys.
    keys: HashMap<Owner, Shares<ApiKeyId>>,
}

/// The memory reserved for one body, released on drop.
#[derive(Debug)]
pub(in crate::api) struct HeldMemory {
    body_memory: BodyMemory,
    owner: Owner,
    key: ApiKeyId,
    bytes: u64,
}

impl BodyMemory {
    /// Creates a budget of `bytes`, of which one owner may hold `percent` percent.
    pub(super) fn new(bytes: u64, percent: u32) -> Self {
        let owners = Shares::new(bytes, percent);
        Self(Arc::new(Mutex::new(MemoryShares { percent, owners, keys: HashMap::new() })))
    }

    /// Creates an empty memory reservation for a body from this caller.
    pub(super) fn held_by(&self, caller: &Caller) -> HeldMemory {
        HeldMemory { body_memory: self.clone(), owner: caller.0.tenant.clone(), key: caller.0.id, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryShares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldMemory {
    /// Grows the reservation to this total, in bytes.
    ///
    /// # Errors
    /// Returns [`NoShare`] if the key, its tenant or all callers together would hold too much. The reservation keeps
    /// its size.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<(), NoShare> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        self.body_memory.lock().take(&self.owner, self.key, more)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.body_memory.lock().give_back(&self.owner, self.key, self.bytes);
        }
    }
}

impl MemoryShares {
    fn take(&mut self, owner: &Owner, key: ApiKeyId, bytes: u64) -> Result<(), NoShare> {
        // The keys of an owner share what the owner may currently hold.
        let allowance = self.owners.allowance(owner);
        let percent = self.percent;
        let keys = self.keys.entry(owner.clone()).or_insert_with(|| Shares::new(allowance, percent));
        keys.resize(allowance);
        let refused = |why| if percent < 100 { NoShare::OwnerOver } else { why };
        let mut taken = keys.try_take(&key, bytes).map_err(refused);
        if taken.is_ok() {
            taken = self.owners.try_take(owner, bytes).inspect_err(|_| keys.give_back(&key, bytes));
        }
        if keys.is_unused() {
            self.keys.remove(owner);
        }
        taken
    }

    fn give_back(&mut self, owner: &Owner, key: ApiKeyId, bytes: u64) {
        self.owners.give_back(owner, bytes);
        if let Some(keys) = self.keys.get_mut(owner) {
            keys.give_back(&key, bytes);
            if keys.is_unused() {
                self.keys.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use breakerbox_model::objects::Id;

    fn memory_shares() -> MemoryShares {
        MemoryShares { percent: 25, owners: Shares::new(1_600, 25), keys: HashMap::new() }
    }

    fn owner(name: &str) -> Owner {
        Some(name.parse().unwrap())
    }

    fn key(number: i64) -> ApiKeyId {
        ApiKeyId(Id::from_number(number).unwrap())
    }

    #[test]
    fn a_key_leaves_room_for_its_tenants_other_keys_and_a_tenant_for_others() {
        let mut memory_shares = memory_shares();
        let (acme, other) = (owner("acme"), owner("other"));
        assert_eq!(
            memory_shares.take(&acme, key(1), 901),
            Err(NoShare::OwnerOver),
            "three quarters of three quarters"
        );
        assert_eq!(memory_shares.take(&acme, key(1), 900), Ok(()));
        assert_eq!(memory_shares.take(&acme, key(2), 300), Ok(()), "another key of the tenant");
        assert_eq!(
            memory_shares.take(&acme, key(3), 1),
            Err(NoShare::OwnerOver),
            "the tenant has all it may have"
        );
        assert_eq!(memory_shares.take(&other, key(4), 300), Ok(()));
        memory_shares.give_back(&acme, key(2), 300);
        assert_eq!(
            memory_shares.take(&acme, key(2), 1),
            Err(NoShare::OwnerOver),
            "no longer alone: it may have half"
        );
        memory_shares.give_back(&acme, key(1), 900);
        assert_eq!(memory_shares.take(&acme, key(2), 600), Ok(()));
        memory_shares.give_back(&acme, key(2), 600);
        memory_shares.give_back(&other, key(4), 300);
        assert!(memory_shares.keys.is_empty() && memory_shares.owners.is_unused());
    }

    #[test]
    fn what_is_refused_leaves_nothing_behind() {
        let mut memory_shares = memory_shares();
        assert_eq!(memory_shares.take(&owner("acme"), key(1), 1_601), Err(NoShare::OwnerOver));
        assert!(memory_shares.keys.is_empty() && memory_shares.owners.is_unused());
    }
}
