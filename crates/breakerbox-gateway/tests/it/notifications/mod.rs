//! Notifications: created once, rate-limited, to targets of each kind, by a whole gateway.

mod database;
mod delayed;
mod latest_responses;
mod once;
mod pace;
mod rig;
mod ways;
mod whole;
