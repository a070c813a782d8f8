//! The embedded backend: everything that the gateway stores, in one SQLite file. It makes no decisions, and depends
//! on the storage traits, not on their callers.
//!
//! | part | task |
//! | --- | --- |
//! | [`Database`] | opens the file; one thread runs write jobs, a few threads run read jobs |
//! | [`SqliteQueue`] | the durable queue: `submit`, `claim`, `settle`, `maintenance`, `prune`, a module each |
//! | [`SqliteRecords`] | everything except the queue, in the same file |
//! | [`SqliteCircuits`] | the circuit store, so that circuits survive a restart |
//! | `fresh` | the rows of new events and deliveries, and their direct dispatch |
//! | `fan_out` | the deliveries of large fan-outs, written in batches by durable jobs |
//! | `reminders`, `reminder_store` | due reminders, decisions about them, finished runs |
//! | `writer`, `job`, `transaction` | the writer thread: runs many jobs, commits once, then sends the results |
//! | `write_queue` | the queue of jobs for the writer |
//! | `readers` | threads with read-only connections |
//! | `migrations` | migrates the schema to the newest version |
//! | `checkpoints` | keeps the write-ahead log short without blocking the writer |
//! | `writer_state` | the writer's state in memory: leases, backlogs, closed lanes |
//! | `last_attempts` | the latest attempt in each lane, written when its result changes |
//! | `ids` | generates unique ids, even if the clock is set back |
//! | `clock_step`, `bounded_waits` | startup when stored times are ahead of the clock |
//! | `idempotency` | idempotency keys of the last 24 hours |
//! | `columns` | the conversion of values from and to columns |
//! | [`backup`], [`restore`] | copy a file while it is in use, and restore a copy |
//! | `file_lock` | ensures that only one process uses a data directory |
//! | `open_files`, `disk` | checks that the files still exist, and the free disk space |

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
mod last_attempts;
mod maintenance;
mod migrations;
mod notifications;
mod open_files;
mod outages;
#[cfg(test)]
mod plans;
mod prune;
mod queue;
mod readers;
mod records;
mod reminder_store;
mod reminders;
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
pub use records::{Resealed, SqliteRecords};
pub use transaction::WriteTransaction;
pub use writer::OnCommit;
