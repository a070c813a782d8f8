//! The core, tested from outside: a file for each state with tests that carry the row of the transition table they
//! show, the presets, the policy file, and properties over random lives of a circuit and of a throttle.

#![allow(clippy::unwrap_used, clippy::match_like_matches_macro)]

mod closed;
mod fleet;
mod fleet_alone;
mod fleet_late_news;
mod fleet_local;
mod fleet_of_one;
mod fleet_ramp;
mod fleet_reports;
mod fleet_return;
mod fleet_rig;
mod fleet_stand_back;
mod half_open;
mod hostile;
mod open;
mod overridden;
mod permits;
mod policy_file;
mod presets;
mod properties;
mod ramping;
mod rig;
mod sampling;
mod throttle;
