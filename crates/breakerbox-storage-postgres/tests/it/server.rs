//! One private server that all tests share, except those that stop or damage it. Each test has a schema of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use breakerbox_testkit::servers::PostgresServer;

/// Returns the server that the tests share. It ends with the last of them.
pub(crate) async fn shared() -> Arc<PostgresServer> {
    tokio::task::spawn_blocking(|| {
        static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(PostgresServer::start().unwrap());
            *shared = Arc::downgrade(&server);
            server
        })
    })
    .await
    .unwrap()
}

/// Returns the name of a schema that no other test uses.
pub(crate) fn own_schema() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
