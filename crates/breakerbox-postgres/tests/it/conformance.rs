//! The requirements on every store, tested on Postgres.

use crate::server::on_shared;

breakerbox_testkit::store_conformance!(on_shared());
