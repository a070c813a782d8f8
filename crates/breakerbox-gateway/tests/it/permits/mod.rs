//! The decision API over real HTTP, with a whole gateway in this process: the permits that workers get, and the effect
//! of their reports.

mod asking;
mod guide;
mod offices;
mod rig;
mod settling;
mod wrong;
