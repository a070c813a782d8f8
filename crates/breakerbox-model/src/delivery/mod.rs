//! Decides what happens to a delivery next. Pure: times, random bits and settings are arguments.
//!
//! | part | decision |
//! | --- | --- |
//! | [`Reply`], [`Fault`] | the response to a request, or why there was none |
//! | [`LastAttempt`] | the result of the latest attempt, for people |
//! | [`LocalFaultPace`] | when a delivery is retried after a local fault |
//! | [`ReplyEffect`], [`ResponseRules`] | the effect of a reply on the delivery, its circuit and its throttle (response rules) |
//! | [`RetrySchedule`] | when a failed attempt is retried |
//! | [`ResponseRules::for_reminders`], [`RetrySchedule::for_reminders`] | the differences for reminder runs |
//! | [`AttemptContext`], [`NextStep`] | the next step after an attempt |
//! | [`ProbeCandidate`], [`ProbeChoice`] | which waiting delivery probes a circuit |
//! | [`lanes`] | which lane sends next, fairly among tenants, lanes and priorities; which lanes sleep |
//! | [`Wait`], [`WaitsFor`] | what a delivery waits for, and until when |
//! | [`TokenBucket`], [`KeyedBuckets`] | how many requests are sent per second |
//! | [`CustomHeaders`] | which headers an endpoint's owner may set |
//! | [`Signer`] | the signature that a receiver verifies |
//! | [`Target`] | whether a request can be sent to a URL |

mod buckets;
mod headers;
pub mod lanes;
mod last_attempt;
mod local_fault_pace;
mod next_step;
mod probe_choice;
mod rate;
mod reply;
mod response_rules;
mod retry;
mod signature;
mod target;
mod wait;

pub use buckets::KeyedBuckets;
pub use headers::{
    CustomHeaders, HeaderError, MAX_HEADERS, MAX_NAME_LENGTH, MAX_TOTAL_LENGTH, MAX_VALUE_LENGTH,
};
pub use last_attempt::LastAttempt;
pub use local_fault_pace::LocalFaultPace;
pub use next_step::{AttemptContext, NextStep, bounded_due};
pub use probe_choice::{ProbeCandidate, ProbeChoice, ProbeRank};
pub use rate::TokenBucket;
pub use reply::{Connection, Fault, LocalFault, Reach, Reply};
pub use response_rules::{
    Disposition, MAX_LANE_SLEEP, MAX_RESPONSE_RULES, ReplyEffect, ResponseRules, ResponseRulesError,
};
pub use retry::{MAX_RETRY_AFTER, MAX_WAIT, MAX_WAITS, MIN_WAIT, RetrySchedule, RetryScheduleError};
pub use signature::{
    SignatureError, Signer, TOLERANCE, WEBHOOK_EVENT_TYPE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP,
};
pub use target::{Target, TargetError};
pub use wait::{Wait, WaitsFor};
