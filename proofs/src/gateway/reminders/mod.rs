//! Reminders on a running gateway: that they start on time, that many cost little, that none is lost, and that a tenant in
//! trouble is held back alone.
//!
//! | part | what it proves |
//! | --- | --- |
//! | [`burst`] | a crowd due at one moment starts on time, within its limits, and others go on |
//! | [`future`] | a million reminders that are not due cost nothing |
//! | [`kills`] | `kill -9` while reminders fire: no run is lost, none is fired twice |
//! | [`limits`] | a tenant over its limits is opened at once, its runs are parked, and they fire after its recovery |
//! | [`counters`] | at many callbacks in a second, none is missing in the window of its circuit |
//! | `folder`, `glance` | a data folder that no gateway has; a look into that of one that runs |
//! | `circuits`, `runs`, `times` | a circuit as it is shown; which runs came; clocks side by side |

pub mod burst;
mod circuits;
pub mod counters;
pub(super) mod folder;
pub mod future;
pub(super) mod glance;
pub mod kills;
pub mod limits;
mod runs;
pub(super) mod times;
