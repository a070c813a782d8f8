//! Whose circuit a key names, and for what.
//!
//! Every key begins with its owner: `acme` for deliveries, `acme/reminders` for reminders, then a space and the host or the
//! URL, unless the circuit is that of the whole tenant. A tenant's name has neither a space nor a slash. So deliveries and
//! reminders of one tenant never share a circuit, and each has its own policy.

use std::fmt;

use breakerbox_core::{CircuitBy, Key, KeyError};

use super::TenantId;

/// What the keys of reminders have after the tenant.
const REMINDERS: &str = "reminders";

/// Whose circuits they are, and for what.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CircuitOwner {
    /// Whose.
    pub tenant: TenantId,
    /// For what.
    pub purpose: Purpose,
}

/// What a circuit is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// Deliveries, and calls of others who ask.
    Deliveries,
    /// Callbacks of reminders.
    Reminders,
}

impl CircuitOwner {
    /// Of a tenant's circuits for deliveries.
    #[must_use]
    pub const fn of_deliveries(tenant: TenantId) -> Self {
        Self { tenant, purpose: Purpose::Deliveries }
    }

    /// Of a tenant's circuits for reminders.
    #[must_use]
    pub const fn of_reminders(tenant: TenantId) -> Self {
        Self { tenant, purpose: Purpose::Reminders }
    }

    /// The owner of the circuit with this key; none if no tenant can have such a key.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        let owner = key.split(' ').next().unwrap_or_default();
        let (tenant, purpose) = match owner.split_once('/') {
            None => (owner, Purpose::Deliveries),
            Some((tenant, REMINDERS)) => (tenant, Purpose::Reminders),
            Some(_) => return None,
        };
        Some(Self { tenant: tenant.parse().ok()?, purpose })
    }

    /// The key of the circuit that a URL of this owner belongs to.
    ///
    /// # Errors
    /// If the URL can't be a destination.
    pub fn circuit_of(&self, url: &str, by: CircuitBy) -> Result<Key, KeyError> {
        match self.purpose {
            Purpose::Deliveries => Key::of(self.tenant.as_str(), url, by),
            Purpose::Reminders => Key::of(&self.to_string(), url, by),
        }
    }
}

/// What its keys begin with. The library knows it as the tenant of a key.
impl fmt::Display for CircuitOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.purpose {
            Purpose::Deliveries => write!(f, "{}", self.tenant),
            Purpose::Reminders => write!(f, "{}/{REMINDERS}", self.tenant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_whose_circuit_it_is() {
        let acme: TenantId = "acme".parse().unwrap();
        let deliveries = CircuitOwner::of_deliveries(acme.clone());
        let reminders = CircuitOwner::of_reminders(acme);
        for (key, owner) in [
            ("acme", Some(&deliveries)),
            ("acme hooks.example.com", Some(&deliveries)),
            ("acme https://hooks.example.com/in/reminders", Some(&deliveries)),
            ("acme/reminders", Some(&reminders)),
            ("acme/reminders https://hooks.example.com/in", Some(&reminders)),
            ("acme/others", None),
            ("", None),
            (" acme", None),
        ] {
            assert_eq!(CircuitOwner::of_key(key).as_ref(), owner, "{key}");
        }
    }

    #[test]
    fn keys_of_each_purpose_differ() {
        let acme: TenantId = "acme".parse().unwrap();
        let url = "https://Hooks.example.com/in/";
        for (by, below) in [
            (CircuitBy::Endpoint, " https://hooks.example.com/in"),
            (CircuitBy::Host, " hooks.example.com"),
            (CircuitBy::Tenant, ""),
        ] {
            for owner in [CircuitOwner::of_deliveries(acme.clone()), CircuitOwner::of_reminders(acme.clone())]
            {
                let key = owner.circuit_of(url, by).unwrap();
                assert_eq!(key.text(), format!("{owner}{below}"));
                assert_eq!(CircuitOwner::of_key(key.text()), Some(owner));
            }
        }
    }
}
