//! The embedded backend: everything that the gateway stores, in one SQLite file. It decides nothing, and knows the traits that
//! it implements, not who calls them.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Database`] | opens the file; jobs that write go to one thread, jobs that read to a few |
//! | [`Routes`] | tenants and endpoints as the writer sees them, from memory |
//! | [`SqliteQueue`] | the hot path: `accept`, `claim`, `settle`, `upkeep`, `prune`, each a file |
//! | [`SqliteRecords`] | what is kept besides the hot queue, in the same file |
//! | [`SqliteCircuits`] | the circuits' store, so that they survive a restart |
//! | `fan_out` | the deliveries of large fan-outs, by durable jobs in pieces |
//! | `reminders` | reminders: what is due, what was decided, what becomes of runs |
//! | `writer`, `job` | the one thread that writes: many jobs, one commit, then the answers |
//! | `line` | where jobs wait for the writer |
//! | `readers` | threads with read-only connections |
//! | `migrations` | brings the schema up to date, forward only |
//! | `checkpoints` | keeps the write-ahead log short without making writers wait |
//! | `ledger` | what the writer knows by heart: leases, backlogs, closed lanes |
//! | `ids` | gives out ids, none twice, also where the clock is set back |
//! | `clock_step`, `waits` | what is done at a start where stored times are ahead of the clock |
//! | `idempotency` | which requests were carried out in the last 24 hours |
//! | `columns` | how values are kept in columns |
//! | [`backup`], [`restore`] | copy a file while it is in use, and put a copy back |
//! | `file_lock` | one process for each folder |
//! | `open_files`, `disk` | whether the files are still there; how much room is left |

mod accept;
mod backup;
mod by_hand;
mod checkpoints;
mod circuits;
mod claim;
mod clock_step;
mod columns;
mod database;
mod disk;
mod error;
mod fan_out;
mod file_lock;
mod idempotency;
mod ids;
mod insert;
mod job;
mod lanes;
mod ledger;
mod line;
mod migrations;
mod notices;
mod open_files;
#[cfg(test)]
mod plans;
mod prune;
mod queue;
mod readers;
mod records;
mod reminders;
mod routes;
mod settle;
mod tombstones;
mod unheard;
mod upkeep;
mod waits;
mod writer;

pub use backup::{CopyError, CopyProgress, DatabaseCopy, backup, restore};
pub use circuits::SqliteCircuits;
pub use clock_step::ClockStep;
pub use database::{Database, OnCommit, Options};
pub use disk::FreeSpace;
pub use error::{JobError, OpenError};
pub use migrations::{NEWEST, Schema};
pub use queue::SqliteQueue;
pub use records::{LoadError, Resealed, SqliteRecords};
pub use routes::{Audience, EndpointRoute, Routes, TenantRoutes};
pub use writer::Writing;
