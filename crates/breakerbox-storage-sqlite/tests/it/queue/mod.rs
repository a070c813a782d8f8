//! Tests of the durable queue in a database file.

mod database;
mod rig;
mod speed;

use rig::SqliteRig;

breakerbox_storage::queue_conformance!(SqliteRig);
