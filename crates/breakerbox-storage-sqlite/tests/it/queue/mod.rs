//! The durable queue in a file.

mod database;
mod rig;
mod speed;

use rig::SqliteRig;

breakerbox_storage::queue_conformance!(SqliteRig);
