//! A sampler for a table in SQLite. It only reads, on a thread that may wait, and is interrupted when its time is over.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Sample;
use rusqlite::{Connection, InterruptHandle, OpenFlags};

use super::sampler::{Poll, SampleError, Sampler, Since};
use super::sql::{Dialect, SqlError, SqlSource};

/// How long a writer may keep the file to itself.
const BUSY: Duration = Duration::from_secs(2);

/// The longest age, in microseconds: a hundred years.
const OLDEST: u128 = 100 * 366 * 24 * 3_600 * 1_000_000;

/// Counts attempts in a table of an SQLite file.
///
/// ```
/// use breakerbox::sampling::{SqlTable, SqliteSampler, TimeFormat};
///
/// let table = SqlTable::new("attempts").key_column("endpoint").times(TimeFormat::UnixMillis);
/// let sampler = SqliteSampler::new("/var/lib/shop/deliveries.db", table)?;
/// # Ok::<(), breakerbox::sampling::SqlError>(())
/// ```
///
/// The table needs two [indices](super::SqlTable). Ages are taken from the clock of the machine that asks: the file is its own.
#[derive(Debug)]
pub struct SqliteSampler {
    file: Arc<File>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    query: String,
    /// Held by whoever asks, so that no two polls are under way at once. None: it is opened when it is first needed, and again
    /// after an error.
    connection: Mutex<Option<Connection>>,
}

/// One poll: what ends its query, and whether it has been ended.
#[derive(Default)]
struct Asking {
    over: AtomicBool,
    query: Mutex<Option<InterruptHandle>>,
}

impl SqliteSampler {
    /// A sampler for this file. It is opened when it is first asked, for reading only.
    ///
    /// # Errors
    /// Names the part of the table's description that can't be.
    pub fn new(path: impl AsRef<Path>, source: impl Into<SqlSource>) -> Result<Self, SqlError> {
        let query = source.into().text(Dialect::Sqlite)?;
        let path = path.as_ref().to_owned();
        Ok(Self { file: Arc::new(File { path, query, connection: Mutex::default() }) })
    }

    /// The query that it asks, for those who want to see how it is planned.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.file.query
    }
}

#[async_trait]
impl Sampler for SqliteSampler {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        let (window, since) = (micros(poll.window), poll.since.clone());
        let (file, asking) = (Arc::clone(&self.file), Arc::new(Asking::default()));
        // If this is dropped, because the time is over, the query ends too.
        let _ended = Ended(Arc::clone(&asking));
        let answer = tokio::task::spawn_blocking(move || file.ask(&asking, window, &since));
        answer.await.map_err(SampleError::failed)?
    }
}

impl File {
    fn ask(
        &self,
        asking: &Asking,
        window: i64,
        since: &[Since],
    ) -> Result<HashMap<String, Sample>, SampleError> {
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match held.take() {
            Some(connection) => connection,
            None => self.open().map_err(SampleError::failed)?,
        };
        asking.set(Some(connection.get_interrupt_handle()));
        // Whoever ends it from now on finds it.
        if asking.over.load(Ordering::SeqCst) {
            return Err(SampleError::failed("nobody waits for the answer any more"));
        }
        let samples = self.read(&connection, window, since);
        asking.set(None);
        if samples.is_ok() {
            *held = Some(connection);
        }
        samples
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY)?;
        Ok(connection)
    }

    fn read(
        &self,
        connection: &Connection,
        window: i64,
        since: &[Since],
    ) -> Result<HashMap<String, Sample>, SampleError> {
        write_since(connection, since).map_err(SampleError::failed)?;
        let mut statement = connection.prepare(&self.query).map_err(SampleError::failed)?;
        let column = |name: &'static str| {
            let missing =
                |_| SampleError::Unreadable { field: name, reason: "the query has no such column".into() };
            statement.column_index(name).map_err(missing)
        };
        let (key, successes, failures) = (column("key")?, column("successes")?, column("failures")?);
        let latency_sum = column("latency_sum_us").ok();
        let mut samples = HashMap::new();
        // A query of the user's own need not ask for the window.
        if statement.parameter_count() > 0 {
            statement.raw_bind_parameter(1, window).map_err(SampleError::failed)?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(SampleError::failed)? {
            let number = |field, column| count(field, row.get(column));
            let sample = Sample {
                successes: number("successes", successes)?,
                failures: number("failures", failures)?,
                latency_sum: match latency_sum {
                    Some(column) => row
                        .get::<_, Option<i64>>(column)
                        .map_err(|error| unreadable("latency_sum_us", &error))?
                        .map(|sum| Duration::from_micros(u64::try_from(sum).unwrap_or(0))),
                    None => None,
                },
            };
            let key: String = row.get(key).map_err(|error| unreadable("key", &error))?;
            samples.insert(key, sample);
        }
        Ok(samples)
    }
}

impl Asking {
    fn set(&self, query: Option<InterruptHandle>) {
        *self.query.lock().unwrap_or_else(PoisonError::into_inner) = query;
    }
}

/// Ends a query that nobody waits for any more. One that is done hears nothing.
struct Ended(Arc<Asking>);

impl Drop for Ended {
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

/// Writes down the keys of which fewer attempts count, where the query finds them: in a table that nobody else sees.
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
