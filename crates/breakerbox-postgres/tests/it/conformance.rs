//! The Postgres store, held to what every store must do.

use crate::server::Held;

breakerbox_testkit::store_conformance!(Held::new());
