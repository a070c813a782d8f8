//! Tests of the records in a Postgres database.

mod fleet;
mod notifications;
mod plans;
mod unreadable;
mod world;

use world::World;

breakerbox_storage::records_conformance!(World::on_postgres());
