//! The Postgres store of Breakerbox.
mod backoff;
mod batch;
mod bigint;
mod clean;
mod database;
mod error;
mod listen;
mod loan;
mod migrations;
mod notice;
mod options;
mod record;
mod statements;
mod store;
mod task;
mod tls;
mod url;
mod verbs;

pub use database::Database;
pub use error::ConnectError;
pub use options::Options;
pub use store::PostgresStore;
