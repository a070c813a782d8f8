//! The memory store, held to what every store must do.

use breakerbox::store::MemoryStore;

breakerbox_testkit::store_conformance!(async { MemoryStore::new() });
