//! What happens next to a delivery. Pure: times, random bits and settings are arguments.
//!
//! | part | what it decides |
//! | --- | --- |
//! | [`Reply`], [`Fault`] | what came back, or why nothing did |
//! | [`LocalFaultPace`] | when a delivery that met a local fault is tried again |
//! | [`Ruling`], [`Rulings`] | what a reply means for the delivery, its circuit and its throttle |
//! | [`RetrySchedule`] | when a failed attempt is tried again |
//! | [`Rulings::for_reminders`], [`RetrySchedule::for_reminders`] | what is otherwise for a reminder's run |
//! | [`Tried`], [`Next`] | what comes next after an attempt |
//! | [`lanes`] | whose turn it is: fair slots over tenants, lanes and priorities; who sleeps |
//! | [`TokenBucket`], [`KeyedBuckets`] | how many requests in a second |
//! | [`CustomHeaders`] | which headers an endpoint's owner may set |
//! | [`Signer`] | what a receiver can believe |
//! | [`Target`] | whether a request can be sent to a URL |

mod buckets;
mod headers;
pub mod lanes;
mod local_fault_pace;
mod next;
mod of_reminders;
mod rate;
mod reply;
mod retry;
mod ruling;
mod rulings;
mod signature;
mod target;

pub use buckets::KeyedBuckets;
pub use headers::{
    CustomHeaders, HeaderError, MAX_HEADERS, MAX_NAME_LENGTH, MAX_TOTAL_LENGTH, MAX_VALUE_LENGTH,
};
pub use local_fault_pace::LocalFaultPace;
pub use next::{Next, Tried, bounded_due};
pub use rate::TokenBucket;
pub use reply::{Fault, LocalFault, Reply};
pub use retry::{MAX_RETRY_AFTER, MAX_WAIT, MAX_WAITS, MIN_WAIT, RetrySchedule, RetryScheduleError};
pub use ruling::{Fate, MAX_LANE_SLEEP, Ruling};
pub use rulings::{MAX_RULINGS, Rulings, RulingsError};
pub use signature::{SignatureError, Signer, TOLERANCE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
pub use target::{Target, TargetError};
