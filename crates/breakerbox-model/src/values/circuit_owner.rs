//! The owner of a circuit: the tenant and the purpose, as read from the circuit's key.
//!
//! Every key begins with its owner: `acme` for deliveries, `acme/reminders` for reminders. A space and the host or
//! URL follow, unless one circuit serves the whole tenant. Tenant names contain neither spaces nor slashes. So a
//! tenant's deliveries and reminders never share a circuit, and each kind has its own policy.

use std::fmt;

use breakerbox_core::{CircuitBy, Key, KeyError};

use super::TenantId;

/// The part that follows the tenant's name in the keys of reminder circuits.
const REMINDERS: &str = "reminders";

/// The owner of a circuit: a tenant and a purpose.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CircuitOwner {
    /// The tenant that the circuit belongs to.
    pub tenant: TenantId,
    /// The kind of calls that the circuit is for.
    pub purpose: Purpose,
}

/// The kind of calls that a circuit is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// Deliveries, and calls by workers that acquire permits through the decision API.
    Deliveries,
    /// Callbacks fired by reminders.
    Reminders,
}

impl CircuitOwner {
    /// Returns the owner of a tenant's delivery circuits.
    #[must_use]
    pub const fn of_deliveries(tenant: TenantId) -> Self {
        Self { tenant, purpose: Purpose::Deliveries }
    }

    /// Returns the owner of a tenant's reminder circuits.
    #[must_use]
    pub const fn of_reminders(tenant: TenantId) -> Self {
        Self { tenant, purpose: Purpose::Reminders }
    }

    /// Returns the owner of the circuit with this key, or `None` if the key can't belong to a tenant.
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

    /// Returns the key of this owner's circuit for a URL.
    ///
    /// # Errors
    /// Returns an error if the URL can't be a destination.
    pub fn circuit_of(&self, url: &str, by: CircuitBy) -> Result<Key, KeyError> {
        match self.purpose {
            Purpose::Deliveries => Key::of(self.tenant.as_str(), url, by),
            Purpose::Reminders => Key::of(&self.to_string(), url, by),
        }
    }
}

/// Writes the prefix of the owner's keys, which the circuit library treats as a key's tenant.
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
