//! Reminders on a running gateway: they start on time, many cost little, none is lost, and a tenant that
//! exceeds its limits does not affect others.
//!
//! | module | guarantee or content |
//! | --- | --- |
//! | [`burst`] | many reminders due at the same moment start on time, within their limits, and other traffic continues |
//! | [`future`] | a million reminders that are not due cost nothing |
//! | [`kills`] | `kill -9` while reminders fire: no run is lost, none is fired twice |
//! | [`limits`] | the circuit of a tenant that exceeds its limits opens at once, its runs are parked, and they fire after its recovery |
//! | [`counters`] | at many callbacks per second, the circuit's window counts all of them |
//! | `folder`, `database_probe` | a data directory that no gateway uses; read access to a running gateway's database |
//! | `circuits`, `runs`, `times` | a circuit as returned by the API; which runs arrived; conversions between clocks |

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
