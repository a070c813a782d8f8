//! The Postgres store: circuits shared by a fleet through a database that is already there. Postgres 14 or later.
//!
//! ```
//! # let server = breakerbox_testkit::servers::PostgresServer::start()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use breakerbox::{Breakerbox, Status};
//! use breakerbox_postgres::PostgresStore;
//!
//! let url = "postgres://fleet:secret@db.example/shop?sslmode=verify-full";
//! # let url = &server.url();
//! let store = PostgresStore::open(url)?; // Connects in the background, and creates its tables if they are missing.
//! let breakers = Breakerbox::builder().store(store).build();
//! let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
//! assert_eq!(circuit.status(), Status::Closed); // And open in every process, as soon as it is in one.
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`PostgresStore::open`] never fails because Postgres is down: the service starts degraded, and joins when the database is
//! there. [`PostgresStore::connect`] waits for the connection, and fails if there is none.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`PostgresStore`] | the store: what [`breakerbox::store`] asks for |
//! | [`Builder`] | schema, time limit, number of connections |
//! | [`Database`] | the connections, for those who use the same database for something else too |
//! | [`ConnectError`] | what is wrong, and what to do about it |
//! | [`PostgresSampler`] | counts attempts in a table of yours, for [sampled circuits](breakerbox::sampling) |
//!
//! SQL counts, compares, swaps and indexes, and decides nothing; the statements are in `src/sql`, one file for each step of a
//! verb. What holds, and why:
//!
//! - **No counts get into a window that they do not belong to.** A window is a row by key *and epoch*. A new epoch is a new
//!   row, so late counts can't reach it, and merges need not wait for swaps.
//! - **One swap wins, and none after its deadline.** A swap first waits for every lock, then reads the time, then compares and
//!   writes. It is one transaction, sent at once.
//! - **Batches do not wait in a circle.** They lock in the order of their keys, and merges lock no records.
//! - **Merges are cheap.** Counts are in an unlogged table: no log, no wait for the disk, nothing to replicate; updates stay in
//!   their pages. A crash of the server empties it: each circuit loses what it counted in its last window, and no record.
//! - **Nothing waits for ever.** Every verb has a [time limit](Builder::time_limit), after which its statement is cancelled. A
//!   connection that is lost is made again, with waits that grow up to two seconds. Nothing is sent twice.
//! - **Changes are pushed**, by `NOTIFY`, for swaps that win and for nothing else. After every gap the listener hears
//!   [`Missed`](breakerbox::store::Heard::Missed).
//!
//! What does not hold: that a server which fails over to a replica keeps counts, or the latest swaps if replication is
//! asynchronous. Nor does a connection pooler in transaction mode do: it has no `LISTEN`.
//!
//! How to run it is in `docs/operating/postgres.md`.

mod backoff;
mod batch;
mod bigint;
mod builder;
mod clean;
mod database;
mod error;
mod listen;
mod loan;
mod migrations;
mod notice;
mod ramping;
mod record;
mod recreate;
mod sampler;
mod statements;
mod store;
mod task;
mod tls;
mod url;
mod verbs;

pub use self::builder::{Builder, DEFAULT_CONNECTIONS, DEFAULT_SCHEMA, DEFAULT_TIME_LIMIT};
pub use self::database::Database;
pub use self::error::ConnectError;
pub use self::sampler::{PostgresSampler, SamplerError};
pub use self::store::PostgresStore;

/// The operator's document, its example compiled.
#[cfg(doctest)]
mod operating {
    #[doc = include_str!("../../../docs/operating/postgres.md")]
    struct Postgres;
}
