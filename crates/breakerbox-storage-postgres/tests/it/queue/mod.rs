//! Tests of the durable queue on a Postgres server.

mod faults;
mod fleet;
mod groups;
pub(crate) mod rig;

use rig::PostgresRig;

breakerbox_storage::queue_conformance!(PostgresRig);
