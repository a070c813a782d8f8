//! What happens next to a delivery. Pure: times, random bits and settings are arguments.
//!
//! | part | what it decides |
//! | --- | --- |
//! | [`Reply`], [`Fault`] | what came back, or why nothing did |
//! | [`Ruling`], [`Rulings`] | what a reply means for the delivery, its circuit and its throttle |
//! | [`RetrySchedule`] | when a failed attempt is tried again |
//! | [`lanes`] | whose turn it is: fair slots over tenants, lanes and priorities; who sleeps |
//! | [`CustomHeaders`] | which headers an endpoint's owner may set |

mod headers;
pub mod lanes;
mod reply;
mod retry;
mod ruling;

pub use headers::{CustomHeaders, HeaderError};
pub use reply::{Fault, Reply};
pub use retry::{RetrySchedule, RetryScheduleError};
pub use ruling::{Fate, Ruling, Rulings};
