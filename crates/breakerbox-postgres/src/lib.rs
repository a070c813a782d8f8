//! The Postgres store for Breakerbox: a fleet shares its circuits through an existing database. Requires
//! Postgres 14 or later.
//!
//! ```
//! # let server = breakerbox_testkit::servers::PostgresServer::start()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use breakerbox::{Breakerbox, CircuitStatus};
//! use breakerbox_postgres::PostgresStore;
//!
//! let url = "postgres://fleet:secret@db.example/shop?sslmode=verify-full";
//! # let url = &server.url();
//! let store = PostgresStore::open(url)?; // Connects in the background, and creates its tables if they are missing.
//! let breakers = Breakerbox::builder().store(store).build();
//! let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
//! assert_eq!(circuit.status(), CircuitStatus::Closed); // And open in every process, as soon as it is in one.
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`PostgresStore::open`] never fails because Postgres is down: the service starts degraded, and joins the
//! fleet when the database is up. [`PostgresStore::connect`] waits for the connection, and fails if none can be
//! made.
//!
//! | item | description |
//! | --- | --- |
//! | [`PostgresStore`] | the implementation of [`breakerbox::store`] |
//! | [`PostgresStoreBuilder`] | schema, timeout, number of connections |
//! | [`Database`] | the connections, which a store and a sampler can share |
//! | [`ConnectError`] | the reason why there is no connection, and how to solve the problem |
//! | [`PostgresSampler`] | counts attempts in one of your tables, for [sampled circuits](breakerbox::sampling) |
//!
//! SQL counts, compares, swaps and indexes, and never decides. The statements are in `src/sql`, one file for
//! each step of an operation. Guarantees, and how they are met:
//!
//! - **Counts never get into the wrong window.** A window is a row identified by key *and epoch*. A new epoch
//!   is a new row, so late counts can't reach it, and merges need not wait for swaps.
//! - **One swap wins, and none after its deadline.** A swap first waits for all locks, then reads the time,
//!   then compares and writes. It is one transaction, sent in one round trip.
//! - **Batches do not deadlock.** They acquire locks in key order, and merges do not lock records.
//! - **Merges are cheap.** Counts are in an unlogged table: no WAL, no wait for the disk, nothing to replicate;
//!   updates stay in their pages. A server crash empties the table: each circuit loses the counts in its
//!   current window, but no record.
//! - **Every wait is bounded.** Every operation has a [timeout](PostgresStoreBuilder::time_limit), after which its statement
//!   is cancelled. A lost connection is reestablished, with a backoff of up to two seconds. Nothing is sent
//!   twice.
//! - **Changes are pushed** with `NOTIFY`, only for swaps that win. After every gap the listener receives
//!   [`Missed`](breakerbox::store::StoreEvent::Missed).
//!
//! Not guaranteed: a server that fails over to a replica loses counts, and the latest swaps if replication is
//! asynchronous. A connection pooler in transaction mode is not supported, because it does not support
//! `LISTEN`.
//!
//! To operate the store, see `docs/operating/postgres.md` in the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backoff;
mod batch;
mod bigint;
mod builder;
mod clean;
mod database;
mod error;
mod listen;
mod loan;
mod message;
mod migrations;
mod operations;
mod ramping;
mod record;
mod recreate;
mod sampler;
mod statements;
mod store;
mod tables;
mod task;
mod tls;
mod url;

pub use self::builder::{DEFAULT_CONNECTIONS, DEFAULT_SCHEMA, DEFAULT_TIME_LIMIT, PostgresStoreBuilder};
pub use self::database::Database;
pub use self::error::ConnectError;
pub use self::sampler::{PostgresSampler, SamplerError};
pub use self::store::PostgresStore;

/// How to talk to Postgres, for the gateway, which keeps its queue in the same database. It is not part of the public
/// interface, and may change at any time.
#[doc(hidden)]
pub mod connections {
    pub use crate::backoff::Backoff;
    pub use crate::database::{Database, Wire};
    pub use crate::error::ConnectError;
    pub use crate::loan::Loan;
    pub use crate::migrations::Migrations;
    pub use crate::task::Task;
}

/// Compiles and runs the examples in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
