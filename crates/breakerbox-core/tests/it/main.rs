//! Tests of the core's public API: one file per state, whose tests name the rows of the transition table that they
//! verify, the presets, the policy file, and property tests with random sequences of steps for a circuit and a
//! throttle.

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
mod runs;
mod sampling;
mod throttle;
