//! The decision API, over real HTTP, with a whole gateway in this process: what workers are given, and what their reports do.

mod asking;
mod guide;
mod offices;
mod rig;
mod settling;
mod wrong;
