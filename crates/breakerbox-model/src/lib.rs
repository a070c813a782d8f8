//! The gateway's objects and every decision about them. Times, random bits and settings are arguments: nothing here
//! reads a clock, waits, opens a file, or depends on a database, a runtime or a connection.
//!
//! | part | content |
//! | --- | --- |
//! | [`objects`] | tenants, endpoints, events, deliveries, reminders, API keys, as plain values |
//! | `values` | ids, names, times, secrets and limits, which [`objects`] exports |
//! | [`delivery`] | the effect of a reply, when to retry, which lane sends next, headers, signatures, rates |
//! | [`reminder`] | when a reminder runs, and what follows a run |
//! | [`notifications`] | which change causes a notification, its text, and the rate of sending |
//! | [`shares`] | fair shares of a limited resource, by tenant, key or address |
//! | [`policy_value`], [`policy_values`] | a policy by the names of the policy file |
//!
//! The one exception to purity: new secrets, API keys and permit ids take their bytes from the system's random source.

pub mod delivery;
pub mod notifications;
pub mod objects;
mod policy_value;
pub mod reminder;
pub mod shares;
mod values;

pub use self::policy_value::{PROBE_MARGIN, policy_value, policy_values};
