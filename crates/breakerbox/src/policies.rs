//! The policy for each key: its own, its tenant's, or the default. While disabling is suspended, circuits use the same
//! policy without `disable_after`.

use std::collections::HashMap;
use std::sync::Arc;

use breakerbox_core::Policy;

use crate::cell::tenant_of;

pub(crate) struct Policies {
    default: Variants,
    by_tenant: HashMap<Box<str>, Variants>,
    by_key: HashMap<Box<str>, Variants>,
    is_disabling_suspended: bool,
}

/// A policy, and the same policy without disabling. Both are made once, so that circuits share them.
struct Variants {
    policy: Arc<Policy>,
    without_disabling: Arc<Policy>,
}

impl Variants {
    fn new(policy: Policy) -> Self {
        let policy = Arc::new(policy);
        let without_disabling = match policy.disable_after() {
            Some(_) => Arc::new(policy.without_disabling()),
            None => Arc::clone(&policy),
        };
        Self { policy, without_disabling }
    }
}

impl Policies {
    pub(crate) fn new(default: Policy) -> Self {
        Self {
            default: Variants::new(default),
            by_tenant: HashMap::new(),
            by_key: HashMap::new(),
            is_disabling_suspended: false,
        }
    }

    /// Returns the policy that the key's circuit applies at present.
    pub(crate) fn of(&self, key: &str) -> Arc<Policy> {
        let variants = self.variants(key);
        let policy = if self.is_disabling_suspended { &variants.without_disabling } else { &variants.policy };
        Arc::clone(policy)
    }

    /// Returns the policy that was set for the key, also while disabling is suspended.
    pub(crate) fn set_for(&self, key: &str) -> Arc<Policy> {
        Arc::clone(&self.variants(key).policy)
    }

    fn variants(&self, key: &str) -> &Variants {
        let of_tenant = || self.by_tenant.get(tenant_of(key));
        self.by_key.get(key).or_else(of_tenant).unwrap_or(&self.default)
    }

    pub(crate) fn set_default(&mut self, policy: Policy) {
        self.default = Variants::new(policy);
    }

    pub(crate) fn set_for_tenant(&mut self, tenant: &str, policy: Option<Policy>) {
        put(&mut self.by_tenant, tenant, policy);
    }

    pub(crate) fn set_for_key(&mut self, key: &str, policy: Option<Policy>) {
        put(&mut self.by_key, key, policy);
    }

    pub(crate) const fn suspend_disabling(&mut self, is_suspended: bool) {
        self.is_disabling_suspended = is_suspended;
    }
}

fn put(policies: &mut HashMap<Box<str>, Variants>, name: &str, policy: Option<Policy>) {
    match policy {
        Some(policy) => policies.insert(name.into(), Variants::new(policy)),
        None => policies.remove(name),
    };
}
