//! A connection on loan from the pool for one operation. It returns to the pool when the operation is done. If
//! the operation is abandoned, its statement is cancelled on the server, and the connection is closed.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::StoreError;
use deadpool_postgres::{ClientWrapper, Object};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::of_statement;

/// The timeout for cancelling a statement.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// A pooled connection, on loan for one operation. If it is dropped instead of given back, the running statement is
/// cancelled on the server, and the connection is closed.
pub struct Loan {
    /// The connection; `None` once it has been returned to the pool.
    client: Option<Object>,
    canceller: Canceller,
    config: Arc<Config>,
    time_limit: Duration,
}

impl Loan {
    pub(crate) fn new(
        client: Object,
        canceller: Canceller,
        config: Arc<Config>,
        time_limit: Duration,
    ) -> Self {
        Self { client: Some(client), canceller, config, time_limit }
    }

    /// Gives the connection back to the pool. No transaction may be open on it.
    pub fn give_back(mut self) {
        self.client = None;
    }

    /// Ends the operation. The connection returns to the pool after a success or a server error, unless the
    /// server rejects writes.
    pub(crate) fn settle<T>(mut self, answer: Result<T, tokio_postgres::Error>) -> Result<T, StoreError> {
        let failed = answer.as_ref().err();
        let spoke = failed.is_none_or(|error| error.as_db_error().is_some());
        let writes = failed.is_none_or(|error| error.code() != Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
        if spoke && writes {
            self.client = None;
        }
        answer.map_err(|error| of_statement(&error, &self.config, self.time_limit))
    }
}

impl Deref for Loan {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.client.as_ref().expect("it is given back by value, so nobody can ask afterwards")
    }
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let busy = !client.is_closed();
        // The connection was detached from the pool, so dropping it closes it.
        drop(Object::take(client));
        if busy {
            self.canceller.cancel();
        }
    }
}

/// Cancels statements that are running on the server.
pub(crate) struct Canceller {
    token: CancelToken,
    tls: MakeRustlsConnect,
    /// Limits how many cancellations run concurrently.
    at_once: Arc<Semaphore>,
}

impl Canceller {
    pub(crate) fn new(client: &Object, tls: MakeRustlsConnect, at_once: Arc<Semaphore>) -> Self {
        Self { token: client.cancel_token(), tls, at_once }
    }

    /// Tries to cancel the running statement, on a separate connection. If that fails, the server's own timeout
    /// ends the statement.
    fn cancel(&self) {
        let Ok(turn) = Arc::clone(&self.at_once).try_acquire_owned() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let (token, tls) = (self.token.clone(), self.tls.clone());
        runtime.spawn(async move {
            let _ = tokio::time::timeout(CANCEL_WITHIN, token.cancel_query(tls)).await;
            drop(turn);
        });
    }
}
