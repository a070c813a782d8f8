//! The embedded backend: everything that the gateway stores, in one SQLite file. It decides nothing, and depends on the
//! traits that it implements, not on their callers.
//!
//! | part | task |
//! | --- | --- |
//! | [`Database`] | opens the file; write jobs go to one thread, read jobs to a few |
//! | [`Routes`] | tenants and endpoints as the writer sees them, from memory |
//! | [`SqliteQueue`] | the hot path: `accept`, `claim`, `settle`, `upkeep`, `prune`, each a file |
//! | [`SqliteRecords`] | everything besides the hot queue, in the same file |
//! | [`SqliteCircuits`] | the store of circuits, so that they survive a restart |
//! | `fresh` | the rows of new events and deliveries, and their direct dispatch |
//! | `fan_out` | the deliveries of large fan-outs, by durable jobs in pieces |
//! | `reminders`, `reminder_store` | due reminders, decisions about them, ends of runs |
//! | `writer`, `job`, `transaction` | the one thread that writes: many jobs, one commit, then the results |
//! | `write_queue` | the queue of jobs for the writer |
//! | `readers` | threads with read-only connections |
//! | `migrations` | brings the schema up to date, forward only |
//! | `checkpoints` | keeps the write-ahead log short without making writers wait |
//! | `writer_state` | the writer's state in memory: leases, backlogs, closed lanes |
//! | `ids` | generates ids, none twice, even if the clock is set back |
//! | `clock_step`, `bounded_waits` | a start at which stored times are ahead of the clock |
//! | `idempotency` | the requests that were carried out in the last 24 hours |
//! | `columns` | the form of values in columns |
//! | [`backup`], [`restore`] | copy a file while it is in use, and restore a copy |
//! | `file_lock` | one process for each folder |
//! | `open_files`, `disk` | whether the files still exist; how much space is free |

mod abandoned;
mod backup;
mod bounded_waits;
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
mod fresh;
mod idempotency;
mod ids;
mod insert;
mod job;
mod lanes;
mod maintenance;
mod migrations;
mod notifications;
mod open_files;
#[cfg(test)]
mod plans;
mod prune;
mod queue;
mod readers;
mod records;
mod reminder_store;
mod reminders;
mod routes;
mod settle;
mod submit;
mod tombstones;
mod transaction;
mod write_queue;
mod writer;
mod writer_state;

pub use backup::{CopyError, CopyProgress, DatabaseCopy, backup, restore};
pub use circuits::SqliteCircuits;
pub use clock_step::ClockStep;
pub use database::{Database, Options};
pub use disk::FreeSpace;
pub use error::{JobError, OpenError};
pub use migrations::{NEWEST, Schema};
pub use queue::SqliteQueue;
pub use records::{LoadError, Resealed, SqliteRecords};
pub use routes::{Audience, EndpointRoute, Routes, TenantRoutes};
pub use transaction::WriteTransaction;
pub use writer::OnCommit;
