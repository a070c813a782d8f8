//! The shared backend: everything that a fleet of gateways stores, in one Postgres database. It makes no decisions, and
//! depends on the storage traits, not on their callers. Requires Postgres 14 or later.
//!
//! | part | task |
//! | --- | --- |
//! | [`Database`] | connects, migrates the schema, and hands out transactions |
//! | [`Transaction`] | a transaction: the connection, the times, new ids |
//! | [`PostgresQueue`] | the durable queue: `submit`, `claim`, `settle`, `maintenance`, `fan_out`, `prune`, a module each |
//! | `batcher` | a writer: gathers the jobs that are waiting, and commits them together |
//! | `database` | connections and transactions; notes that this process is there |
//! | `fresh`, `rows` | the rows of new events and deliveries, and their direct dispatch |
//! | `backlogs` | counters of unfinished deliveries |
//! | `lanes` | lanes with waiting deliveries, lanes of dynamic URLs |
//! | `idempotency` | idempotency keys of the last 24 hours |
//! | [`PostgresRecords`] | everything except the queue: what the API shows and changes |
//! | `reminders`, `reminder_store` | due reminders, decisions about them |
//! | `notifications`, `outages` | notifications and outages, written with their cause |
//! | `listen`, `wakeups` | messages between processes: lanes in which something waits, changes of tenants and endpoints |
//! | `tombstones` | forgets deleted tenants that nothing refers to |
//! | `abandoned` | results whose caller is gone |
//! | `migrations` | migrates the schema to the newest version |
//! | `ids` | generates ids that sort by time and that no other process generates |
//! | `server_clock` | the database's clock, as this process reads it |
//! | `columns` | the columns of rows that were read |
//! | `values` | the parameters of statements, with their types |
//! | `error` | converts errors of the client library |
//!
//! **No session state.** Each transaction sets its search path and its timeout itself, statements are not prepared, and locks
//! end with the transaction. So there may be a connection pooler in transaction mode in between; only the connection
//! that listens has to be direct.
//!
//! **Commits whose response was lost.** If the connection is lost while a commit is under way, the caller gets an error,
//! although the commit may have taken effect. Nothing is reported as accepted that may not be.

mod abandoned;
mod audience;
mod backlogs;
mod batcher;
mod claim;
mod columns;
mod database;
mod error;
mod fan_out;
mod fresh;
mod idempotency;
mod ids;
mod lanes;
mod listen;
mod maintenance;
mod migrations;
mod notifications;
mod outages;
#[cfg(test)]
mod plans;
mod prune;
mod queue;
mod records;
mod reminder_store;
mod reminders;
mod rows;
mod server_clock;
mod settle;
mod submit;
mod tombstones;
mod values;
mod wakeups;

pub use database::{Database, FreeSpace, OpenError, Options, Transaction};
pub use error::{DatabaseError, sql_state};
pub use listen::Heard;
pub use queue::PostgresQueue;
pub use records::{POLL_EVERY, PostgresRecords, Resealed};
pub use values::Value;
