//! Tests of the records in a database file.

mod circuits;
mod kept_before;
mod pages;
mod renamed;
mod sealed;
mod tombstones;
mod unreadable;
mod world;

use world::World;

breakerbox_storage::records_conformance!(World::on_sqlite());
