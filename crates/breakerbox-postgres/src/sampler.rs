//! A sampler for a table in Postgres: one query for each poll, on a connection of its own.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::Sample;
use breakerbox::sampling::{Dialect, Poll, SampleError, Sampler, SqlError, SqlSource};
use breakerbox::store::StoreError;
use tokio_postgres::Row;

use crate::bigint::micros;
use crate::builder::Builder;
use crate::database::Database;
use crate::error::ConnectError;

/// How long a poll may take at the server, unless it is told otherwise.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Counts attempts in a table of a Postgres database, which need not be the one that the store is in.
///
/// ```
/// # let server = breakerbox_testkit::servers::PostgresServer::start()?;
/// # let url = &server.url();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use breakerbox::sampling::{Poll, Sampler, SqlTable};
/// use breakerbox_postgres::PostgresSampler;
/// use std::time::Duration;
///
/// let table = SqlTable::new("attempts").key_column("endpoint");
/// let sampler = PostgresSampler::new(url, table)?;
/// // The leader asks it. Whoever wants to see what it finds can, too:
/// let found = sampler.sample(&Poll::new(Duration::from_secs(300), Vec::new())).await;
/// assert!(found.is_err(), "there is no such table here");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The table needs two [indices](breakerbox::sampling::SqlTable). Ages are taken from the server's clock. A poll that takes
/// too long, or that nobody waits for any more, is cancelled.
pub struct PostgresSampler {
    database: Database,
    query: String,
}

/// Why there is no such sampler.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The table's description can't be.
    #[error(transparent)]
    Table(#[from] SqlError),
    /// The database can't be.
    #[error(transparent)]
    Database(#[from] ConnectError),
}

impl PostgresSampler {
    /// A sampler for the database of this URL. Nothing is connected yet.
    ///
    /// # Errors
    /// If the URL or the table's description can't be.
    pub fn new(url: &str, source: impl Into<SqlSource>) -> Result<Self, SamplerError> {
        let builder = Builder::new(url).connections(1).time_limit(DEFAULT_TIME_LIMIT);
        Ok(Self { query: source.into().text(Dialect::Postgres)?, database: builder.database()? })
    }

    /// A sampler that uses connections which are there, with their time limit.
    ///
    /// # Errors
    /// If the table's description can't be.
    pub fn on(database: Database, source: impl Into<SqlSource>) -> Result<Self, SamplerError> {
        Ok(Self { query: source.into().text(Dialect::Postgres)?, database })
    }

    /// The query that it asks, for those who want to see how it is planned.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    async fn rows(&self, poll: &Poll) -> Result<Vec<Row>, StoreError> {
        let keys: Vec<_> = poll.since.iter().map(|since| &*since.key).collect();
        let ages: Vec<_> = poll.since.iter().map(|since| micros(since.age.min(OLDEST))).collect();
        let started: Vec<_> = poll.since.iter().map(|since| since.started).collect();
        let window = micros(poll.window.min(OLDEST));
        self.database
            .within(async {
                let loan = self.database.lend().await?;
                let answer = async {
                    let statement = loan.prepare_cached(&self.query).await?;
                    loan.query(&statement, &[&window, &keys, &ages, &started]).await
                };
                let answer = answer.await;
                loan.settle(answer)
            })
            .await
    }
}

/// The longest age: a hundred years.
const OLDEST: Duration = Duration::from_secs(100 * 366 * 24 * 3_600);

#[async_trait]
impl Sampler for PostgresSampler {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        let rows = self.rows(poll).await.map_err(|error| match error {
            StoreError::TimedOut { limit } => SampleError::TimedOut { limit },
            // Its words are about a store, and this is none.
            StoreError::Unavailable(cause) => SampleError::Failed(cause),
            error => SampleError::failed(error),
        })?;
        let has_latency = rows
            .first()
            .is_some_and(|row| row.columns().iter().any(|column| column.name() == "latency_sum_us"));
        rows.iter().map(|row| sample(row, has_latency)).collect()
    }
}

fn sample(row: &Row, has_latency: bool) -> Result<(String, Sample), SampleError> {
    let latency_sum = if has_latency {
        let sum: Option<i64> =
            row.try_get("latency_sum_us").map_err(|error| unreadable("latency_sum_us", &error))?;
        sum.map(|sum| Duration::from_micros(u64::try_from(sum).unwrap_or(0)))
    } else {
        None
    };
    let key = row.try_get("key").map_err(|error| unreadable("key", &error))?;
    let (successes, failures) = (count(row, "successes")?, count(row, "failures")?);
    Ok((key, Sample { successes, failures, latency_sum }))
}

fn count(row: &Row, field: &'static str) -> Result<u64, SampleError> {
    let number: i64 = row.try_get(field).map_err(|error| unreadable(field, &error))?;
    u64::try_from(number).map_err(|_| SampleError::Unreadable {
        field,
        reason: format!("must be at least 0, but is {number}"),
    })
}

fn unreadable(field: &'static str, error: &tokio_postgres::Error) -> SampleError {
    SampleError::Unreadable { field, reason: crate::error::whole(error) }
}

impl fmt::Debug for PostgresSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSampler").field("database", &self.database).finish_non_exhaustive()
    }
}
