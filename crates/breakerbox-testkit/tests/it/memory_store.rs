//! The requirements on every store, tested on the memory store.

use breakerbox::store::MemoryStore;

breakerbox_testkit::store_conformance!(async { MemoryStore::new() });
