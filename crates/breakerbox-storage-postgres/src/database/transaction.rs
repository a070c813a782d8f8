//! A transaction, as the parts of this crate see it: statements, the times, new ids.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::Id;
use breakerbox_postgres::connections::Loan;
use breakerbox_storage::QueueError;
use tokio::runtime::Handle;
use tokio_postgres::Row;

use super::Database;
use crate::error::failed;
use crate::values::{Value, typed};

/// The time for the server's response to arrive after the server has ended a statement.
const RESPONSE_WITHIN: Duration = Duration::from_secs(2);
/// The timeout for rolling back a transaction that was dropped.
const ROLLBACK_WITHIN: Duration = Duration::from_secs(2);

/// An open transaction. It is rolled back when it is dropped, unless it was committed.
#[derive(Debug)]
pub struct Transaction {
    database: Database,
    /// The connection; `None` once it has been given back.
    loan: Option<Loan>,
}

impl Transaction {
    pub(crate) fn new(database: Database, loan: Loan) -> Self {
        Self { database, loan: Some(loan) }
    }

    fn loan(&self) -> Result<&Loan, QueueError> {
        self.loan.as_ref().ok_or(QueueError::Closed)
    }

    /// Runs SQL without parameters, such as the beginning of the transaction.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), QueueError> {
        self.bounded(self.loan()?.batch_execute(sql)).await
    }

    /// Waits for a statement, a little longer than the server lets it run. A server that does not respond at all is so
    /// noticed, too.
    async fn bounded<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, QueueError> {
        match tokio::time::timeout(self.database.time_limit() + RESPONSE_WITHIN, statement).await {
            Ok(result) => result.map_err(failed),
            Err(_) => Err(QueueError::Busy),
        }
    }

    /// Runs a statement, and returns its rows. Statements whose futures are polled together are sent in one round
    /// trip, in the order in which they are first polled.
    ///
    /// # Errors
    /// Returns an error if the statement fails. After that, every other statement of the transaction fails, too.
    pub async fn query(&self, sql: &str, parameters: &[&dyn Value]) -> Result<Vec<Row>, QueueError> {
        self.bounded(self.loan()?.query_typed(sql, &typed(parameters))).await
    }

    /// Runs a statement that returns at most one row.
    ///
    /// # Errors
    /// The same as for [`query`](Self::query).
    pub async fn query_opt(&self, sql: &str, parameters: &[&dyn Value]) -> Result<Option<Row>, QueueError> {
        Ok(self.query(sql, parameters).await?.into_iter().next())
    }

    /// Runs a statement, and returns the number of rows that it changed.
    ///
    /// # Errors
    /// The same as for [`query`](Self::query).
    pub async fn execute(&self, sql: &str, parameters: &[&dyn Value]) -> Result<u64, QueueError> {
        self.bounded(self.loan()?.execute_typed(sql, &typed(parameters))).await
    }

    /// Commits the transaction. If the connection is lost meanwhile, the commit may have taken effect in spite of the
    /// error.
    ///
    /// # Errors
    /// Returns an error if the commit fails, or its result is unknown.
    pub async fn commit(mut self) -> Result<(), QueueError> {
        self.bounded(self.loan()?.batch_execute("COMMIT")).await?;
        self.give_back();
        Ok(())
    }

    /// Gives the connection back after a commit that was sent together with other statements.
    pub(crate) fn give_back(&mut self) {
        if let Some(loan) = self.loan.take() {
            loan.give_back();
        }
    }

    /// Sends the commit. The transaction is committed only if all statements before it succeeded.
    pub(crate) async fn send_commit(&self) -> Result<(), QueueError> {
        self.loan()?.batch_execute("COMMIT").await.map_err(failed)
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub async fn rollback(mut self) -> Result<(), QueueError> {
        self.loan()?.batch_execute("ROLLBACK").await.map_err(failed)?;
        self.give_back();
        Ok(())
    }

    /// Returns the database of the transaction.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.database.now()
    }

    /// Generates a new id.
    #[must_use]
    pub fn next_id(&self) -> Id {
        self.database.next_id()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(loan) = self.loan.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            // A loan that is not given back is cancelled on the server, and its connection closed.
            if let Ok(Ok(())) = tokio::time::timeout(ROLLBACK_WITHIN, loan.batch_execute("ROLLBACK")).await {
                loan.give_back();
            }
        });
    }
}
