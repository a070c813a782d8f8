//! The Postgres store, held to what every store must do.

use crate::server::on_shared;

breakerbox_testkit::store_conformance!(on_shared());
