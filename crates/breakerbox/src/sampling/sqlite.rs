//! A sampler for a table in SQLite. It only reads, on a blocking thread, and is interrupted at its timeout.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::{RecentSample, Sample};
use rusqlite::{Connection, InterruptHandle, OpenFlags};

use super::sampler::{Poll, SampleError, Sampler, Since};
use super::sql::{Dialect, SqlError, SqlSource};

/// How long to wait for a writer that locks the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum age in a query, in microseconds: a hundred years.
const OLDEST: u128 = 100 * 366 * 24 * 3_600 * 1_000_000;

/// Counts attempts in a table in an SQLite file.
///
/// ```
/// use breakerbox::sampling::{SqlTable, SqliteSampler, TimeFormat};
///
/// let table = SqlTable::new("attempts").key_column("endpoint").times(TimeFormat::UnixMillis);
/// let sampler = SqliteSampler::new("/var/lib/shop/deliveries.db", table)?;
/// # Ok::<(), breakerbox::sampling::SqlError>(())
/// ```
///
/// The table needs two [indices](super::SqlTable). Ages are relative to the clock of the machine that runs the query,
/// which is the one with the file.
#[derive(Debug)]
pub struct SqliteSampler {
    file: Arc<File>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    query: String,
    returns_runs: bool,
    /// The connection; `None` before the first poll and after an error, so that the next poll opens it. Locked during a
    /// poll, so that polls never overlap.
    connection: Mutex<Option<Connection>>,
}

/// A running query, the handle that interrupts it, and whether it was interrupted.
#[derive(Default)]
struct RunningQuery {
    over: AtomicBool,
    query: Mutex<Option<InterruptHandle>>,
}

impl SqliteSampler {
    /// Creates a sampler for this file. The first poll opens the file, read-only.
    ///
    /// # Errors
    /// If a part of the table's description is not valid; the error names it.
    pub fn new(path: impl AsRef<Path>, source: impl Into<SqlSource>) -> Result<Self, SqlError> {
        let source = source.into();
        let (query, returns_runs) = (source.text(Dialect::Sqlite)?, source.returns_runs());
        let path = path.as_ref().to_owned();
        Ok(Self { file: Arc::new(File { path, query, returns_runs, connection: Mutex::default() }) })
    }

    /// Returns the SQL of the query, for example to inspect its plan.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.file.query
    }
}

#[async_trait]
impl Sampler for SqliteSampler {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        let poll = poll.clone();
        let (file, query) = (Arc::clone(&self.file), Arc::new(RunningQuery::default()));
        // If this future is dropped at its timeout, the query is interrupted too.
        let _interrupt = InterruptOnDrop(Arc::clone(&query));
        let answer = tokio::task::spawn_blocking(move || file.query_totals(&query, &poll));
        answer.await.map_err(SampleError::failed)?
    }

    fn returns_runs(&self) -> bool {
        self.file.returns_runs
    }
}

impl File {
    fn query_totals(
        &self,
        query: &RunningQuery,
        poll: &Poll,
    ) -> Result<HashMap<String, Sample>, SampleError> {
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match held.take() {
            Some(connection) => connection,
            None => self.open().map_err(SampleError::failed)?,
        };
        query.set(Some(connection.get_interrupt_handle()));
        // From now on, an interrupt reaches the query.
        if query.over.load(Ordering::SeqCst) {
            return Err(SampleError::failed("the caller no longer waits for the result"));
        }
        let samples = self.read(&connection, poll);
        query.set(None);
        if samples.is_ok() {
            *held = Some(connection);
        }
        samples
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    }

    fn read(&self, connection: &Connection, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        write_since(connection, &poll.since).map_err(SampleError::failed)?;
        let mut statement = connection.prepare(&self.query).map_err(SampleError::failed)?;
        let column = |name: &'static str| {
            let missing =
                |_| SampleError::Unreadable { field: name, reason: "the query has no such column".into() };
            statement.column_index(name).map_err(missing)
        };
        let (key, successes, failures) = (column("key")?, column("successes")?, column("failures")?);
        let optional = |name| statement.column_index(name).ok();
        let latency_sum = optional("latency_sum_us");
        let recent = optional("recent_successes").zip(optional("recent_failures"));
        let (recent_latency, run) = (optional("recent_latency_sum_us"), optional("failure_run"));
        let mut samples = HashMap::new();
        // The user's own query need not use these parameters.
        let ages = [poll.window, poll.recent.unwrap_or_default()];
        for (index, age) in (1..=statement.parameter_count()).zip(ages) {
            statement.raw_bind_parameter(index, micros(age)).map_err(SampleError::failed)?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(SampleError::failed)? {
            let number = |field, column| count(field, row.get(column));
            // Half-open circuits have neither recent totals nor a run of failures.
            let known = |field, column: Option<usize>| -> Result<Option<i64>, SampleError> {
                let value = column.map(|column| row.get(column).map_err(|error| unreadable(field, &error)));
                Ok(value.transpose()?.flatten())
            };
            let latency = |field, column| {
                let sum = known(field, column)?;
                Ok(sum.map(|sum| Duration::from_micros(u64::try_from(sum).unwrap_or(0))))
            };
            let recent = match recent.filter(|_| poll.recent.is_some()) {
                Some((successes, failures)) if known("recent_successes", Some(successes))?.is_some() => {
                    let (successes, failures) =
                        (number("recent_successes", successes)?, number("recent_failures", failures)?);
                    let mut recent = RecentSample::new(successes, failures);
                    recent.latency_sum = latency("recent_latency_sum_us", recent_latency)?;
                    Some(recent)
                }
                _ => None,
            };
            let mut sample = Sample::new(number("successes", successes)?, number("failures", failures)?);
            sample.latency_sum = latency("latency_sum_us", latency_sum)?;
            sample.recent = recent;
            sample.failure_run = known("failure_run", run)?.map(|run| u64::try_from(run).unwrap_or(0));
            let key: String = row.get(key).map_err(|error| unreadable("key", &error))?;
            samples.insert(key, sample);
        }
        Ok(samples)
    }
}

impl RunningQuery {
    fn set(&self, query: Option<InterruptHandle>) {
        *self.query.lock().unwrap_or_else(PoisonError::into_inner) = query;
    }
}

/// A guard that interrupts a query when its caller stops waiting. It has no effect on a finished query.
struct InterruptOnDrop(Arc<RunningQuery>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
        if let Some(query) = &*self.0.query.lock().unwrap_or_else(PoisonError::into_inner) {
            query.interrupt();
        }
    }
}

fn count(field: &'static str, value: rusqlite::Result<i64>) -> Result<u64, SampleError> {
    let number = value.map_err(|error| unreadable(field, &error))?;
    u64::try_from(number).map_err(|_| SampleError::Unreadable {
        field,
        reason: format!("must be at least 0, but is {number}"),
    })
}

fn unreadable(field: &'static str, error: &rusqlite::Error) -> SampleError {
    SampleError::Unreadable { field, reason: error.to_string() }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros().min(OLDEST)).unwrap_or(i64::MAX)
}

/// Writes the keys for which fewer attempts count into a temporary table that only this connection sees.
fn write_since(connection: &Connection, since: &[Since]) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS breakerbox_since
             (key TEXT PRIMARY KEY, age INTEGER NOT NULL, started INTEGER NOT NULL) WITHOUT ROWID;
         BEGIN;
         DELETE FROM temp.breakerbox_since;",
    )?;
    let mut insert =
        connection.prepare("INSERT OR REPLACE INTO temp.breakerbox_since VALUES (?1, ?2, ?3)")?;
    for Since { key, age, started } in since {
        insert.execute((&**key, micros(*age), *started))?;
    }
    connection.execute_batch("COMMIT")
}
