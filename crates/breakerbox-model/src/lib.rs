//! The gateway's objects and every decision about them. Times, random bits and settings are arguments: nothing here
//! reads a clock, waits, opens a file, or depends on a database, an async runtime or a network connection.
//!
//! | part | content |
//! | --- | --- |
//! | [`objects`] | tenants, endpoints, events, deliveries, reminders, API keys, as plain values |
//! | `values` | ids, names, times, secrets and limits, which [`objects`] exports |
//! | [`delivery`] | response rules, retries, the choice of the next lane, headers, signatures, rate limits |
//! | [`reminder`] | when a reminder runs, and what follows a run |
//! | [`notifications`] | which change causes a notification, its text, and how often notifications are sent |
//! | [`shares`] | fair shares of a limited resource, by tenant, key or address |
//! | [`policy_value`], [`policy_values`] | a policy's values, by their names in the policy file |
//!
//! One exception: new secrets, API keys and permit ids take their bytes from the system's random source.

pub mod delivery;
pub mod notifications;
pub mod objects;
mod policy_value;
pub mod reminder;
pub mod shares;
mod values;

pub use self::policy_value::{PROBE_MARGIN, policy_value, policy_values};
