//! Sampled fleets, through the real loop, in virtual time.

mod checks;
mod leaders;
mod polls;
mod rig;
mod rules;
