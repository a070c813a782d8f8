//! Sampled fleets, with the real sampling loop, in virtual time.

mod checks;
mod leaders;
mod polls;
mod rig;
mod rules;
