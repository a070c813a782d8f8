//! Reminders on a running gateway: they start on time, many cost little, none is lost, and a tenant over its limits
//! affects no other.
//!
//! | part | guarantee or content |
//! | --- | --- |
//! | [`burst`] | many reminders due at one moment start on time, within their limits, and other traffic continues |
//! | [`future`] | a million reminders that are not due cost nothing |
//! | [`kills`] | `kill -9` while reminders fire: no run is lost, none is fired twice |
//! | [`limits`] | the circuit of a tenant over its limits opens at once, its runs are parked, and they fire after its recovery |
//! | [`counters`] | at many callbacks a second, none is missing in the window of its circuit |
//! | `folder`, `database_probe` | a data folder that no gateway uses; read access to the database of a running gateway |
//! | `circuits`, `runs`, `times` | a circuit as the API shows it; which runs arrived; conversions between clocks |

pub mod burst;
mod circuits;
pub mod counters;
pub(super) mod database_probe;
pub(super) mod folder;
pub mod future;
pub mod kills;
pub mod limits;
mod runs;
pub(super) mod times;
