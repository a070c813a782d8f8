//! The policy for each key: its own, its tenant's, or the default.

use std::collections::HashMap;
use std::sync::Arc;

use breakerbox_core::Policy;

use crate::cell::tenant_of;

pub(crate) struct Policies {
    default: Arc<Policy>,
    by_tenant: HashMap<Box<str>, Arc<Policy>>,
    by_key: HashMap<Box<str>, Arc<Policy>>,
}

impl Policies {
    pub(crate) fn new(default: Policy) -> Self {
        Self { default: Arc::new(default), by_tenant: HashMap::new(), by_key: HashMap::new() }
    }

    pub(crate) fn of(&self, key: &str) -> Arc<Policy> {
        let of_tenant = || self.by_tenant.get(tenant_of(key));
        Arc::clone(self.by_key.get(key).or_else(of_tenant).unwrap_or(&self.default))
    }

    pub(crate) fn set_default(&mut self, policy: Policy) {
        self.default = Arc::new(policy);
    }

    pub(crate) fn set_for_tenant(&mut self, tenant: &str, policy: Option<Policy>) {
        put(&mut self.by_tenant, tenant, policy);
    }

    pub(crate) fn set_for_key(&mut self, key: &str, policy: Option<Policy>) {
        put(&mut self.by_key, key, policy);
    }
}

fn put(policies: &mut HashMap<Box<str>, Arc<Policy>>, name: &str, policy: Option<Policy>) {
    match policy {
        Some(policy) => policies.insert(name.into(), Arc::new(policy)),
        None => policies.remove(name),
    };
}
