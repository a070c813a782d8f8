//! A sampler for a Postgres table: one query per poll, on a separate connection.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::sampling::{Dialect, Poll, SampleError, Sampler, SqlError, SqlSource};
use breakerbox::store::StoreError;
use breakerbox::{RecentSample, Sample};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::bigint::micros;
use crate::builder::PostgresStoreBuilder;
use crate::database::Database;
use crate::error::ConnectError;

/// The default timeout for a poll.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Counts attempts in a Postgres table, which may be in a different database than the store.
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
/// // The leader calls it. You can call it, too, to see its result:
/// let found = sampler.sample(&Poll::new(Duration::from_secs(300), Vec::new())).await;
/// assert!(found.is_err(), "there is no such table here");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The table needs two [indices](breakerbox::sampling::SqlTable). Ages are relative to the server's clock. A
/// poll that takes too long, or whose caller drops it, is cancelled.
pub struct PostgresSampler {
    database: Database,
    query: String,
    returns_runs: bool,
}

/// The reason why a [`PostgresSampler`] can't be created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The description of the table is invalid.
    #[error(transparent)]
    Table(#[from] SqlError),
    /// The URL or a setting for the database is invalid.
    #[error(transparent)]
    Database(#[from] ConnectError),
}

impl PostgresSampler {
    /// Creates a sampler for the database that this URL names. Does not connect yet.
    ///
    /// # Errors
    /// Returns a [`SamplerError`] if the URL or the description of the table is invalid.
    pub fn new(url: &str, source: impl Into<SqlSource>) -> Result<Self, SamplerError> {
        let builder = PostgresStoreBuilder::new(url).connections(1).time_limit(DEFAULT_TIME_LIMIT);
        Self::with(builder.database()?, &source.into())
    }

    /// Creates a sampler that uses an existing database's connections and timeout.
    ///
    /// # Errors
    /// Returns a [`SamplerError`] if the description of the table is invalid.
    pub fn on(database: Database, source: impl Into<SqlSource>) -> Result<Self, SamplerError> {
        Self::with(database, &source.into())
    }

    fn with(database: Database, source: &SqlSource) -> Result<Self, SamplerError> {
        Ok(Self { query: source.text(Dialect::Postgres)?, returns_runs: source.returns_runs(), database })
    }

    /// Returns the SQL of the query, for example to inspect its plan.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    async fn rows(&self, poll: &Poll) -> Result<Vec<Row>, StoreError> {
        let keys: Vec<_> = poll.since.iter().map(|since| &*since.key).collect();
        let ages: Vec<_> = poll.since.iter().map(|since| micros(since.age.min(OLDEST))).collect();
        let started: Vec<_> = poll.since.iter().map(|since| since.started).collect();
        let window = micros(poll.window.min(OLDEST));
        let recent = micros(poll.recent.unwrap_or_default().min(OLDEST));
        self.database
            .within(async {
                let loan = self.database.lend().await?;
                let answer = async {
                    let statement = loan.prepare_cached(&self.query).await?;
                    let asked: [&(dyn ToSql + Sync); 5] = [&window, &keys, &ages, &started, &recent];
                    // A custom query need not count recent attempts separately, so it may have fewer
                    // parameters.
                    let asked = asked.get(..statement.params().len()).unwrap_or(&asked);
                    loan.query(&statement, asked).await
                };
                let answer = answer.await;
                loan.settle(answer)
            })
            .await
    }
}

/// The maximum age in a query: a hundred years.
const OLDEST: Duration = Duration::from_secs(100 * 366 * 24 * 3_600);

#[async_trait]
impl Sampler for PostgresSampler {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        let rows = self.rows(poll).await.map_err(|error| match error {
            StoreError::TimedOut { limit } => SampleError::TimedOut { limit },
            // The outer error's message is about a store, which a sampler is not.
            StoreError::Unavailable(cause) => SampleError::Failed(cause),
            error => SampleError::failed(error),
        })?;
        rows.iter().map(|row| sample(row, poll.recent.is_some())).collect()
    }

    fn returns_runs(&self) -> bool {
        self.returns_runs
    }
}

fn sample(row: &Row, wants_recent: bool) -> Result<(String, Sample), SampleError> {
    let key = row.try_get("key").map_err(|error| unreadable("key", &error))?;
    // Half-open circuits have neither recent counts nor a run of failures.
    let recent = match known(row, "recent_successes")?.filter(|_| wants_recent) {
        Some(_) => {
            let mut recent =
                RecentSample::new(count(row, "recent_successes")?, count(row, "recent_failures")?);
            recent.latency_sum = latency(row, "recent_latency_sum_us")?;
            Some(recent)
        }
        None => None,
    };
    let mut sample = Sample::new(count(row, "successes")?, count(row, "failures")?);
    sample.latency_sum = latency(row, "latency_sum_us")?;
    sample.recent = recent;
    sample.failure_run = known(row, "failure_run")?.map(|run| u64::try_from(run).unwrap_or(0));
    Ok((key, sample))
}

/// Returns the value of an optional column; `None` if it is null.
fn known(row: &Row, field: &'static str) -> Result<Option<i64>, SampleError> {
    if !row.columns().iter().any(|column| column.name() == field) {
        return Ok(None);
    }
    row.try_get(field).map_err(|error| unreadable(field, &error))
}

fn latency(row: &Row, field: &'static str) -> Result<Option<Duration>, SampleError> {
    Ok(known(row, field)?.map(|sum| Duration::from_micros(u64::try_from(sum).unwrap_or(0))))
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
