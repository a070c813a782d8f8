//! One private server that all tests share, except those that stop or damage it. It ends with the last of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use breakerbox_postgres::{PostgresStore, PostgresStoreBuilder};
use breakerbox_testkit::servers::PostgresServer;
use tokio_postgres::{Client, NoTls};

/// The maximum time that a test waits for an expected event, so that no test hangs forever.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Returns the server that the tests share.
pub(crate) fn shared() -> Arc<PostgresServer> {
    static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(PostgresServer::start().unwrap());
        *shared = Arc::downgrade(&server);
        server
    })
}

/// Returns a builder with long timeouts, for tests that are not about time, because the machine may be busy.
pub(crate) fn patient(url: &str) -> PostgresStoreBuilder {
    PostgresStore::builder(url).time_limit(Duration::from_secs(20)).start_within(Duration::from_secs(20))
}

/// Returns a connection that no store uses.
pub(crate) async fn client(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A store on the server that the tests share.
pub(crate) type StoreWithServer = breakerbox_testkit::StoreWithServer<PostgresStore, Arc<PostgresServer>>;

pub(crate) async fn on_shared() -> StoreWithServer {
    on_shared_with(|builder| builder).await
}

/// Returns a store on the shared server, in a schema that no other test uses.
pub(crate) async fn alone(schema: &str) -> StoreWithServer {
    on_shared_with(|builder| builder.schema(schema)).await
}

pub(crate) async fn on_shared_with(
    choose: impl FnOnce(PostgresStoreBuilder) -> PostgresStoreBuilder,
) -> StoreWithServer {
    let server = tokio::task::spawn_blocking(shared).await.unwrap();
    StoreWithServer { store: choose(patient(&server.url())).connect().await.unwrap(), server }
}

/// Waits until a condition is met, for as long as a busy machine may take.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + WAIT_LIMIT;
    while !holds().await {
        assert!(Instant::now() < limit, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
