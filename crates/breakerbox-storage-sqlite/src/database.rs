//! An open SQLite database. One thread runs the write jobs, and a few threads run the read jobs.
//!
//! The write-ahead log is synced at every commit, so that confirmed writes survive a power cut. Only one process may
//! open the file. The directory is created if it is missing. Only its owner can read the file, since payloads are
//! confidential.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use breakerbox::Clock;
use breakerbox_core::Timestamp;
use breakerbox_storage::QueueError;
use breakerbox_storage::clock::{Drift, WallClock};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::checkpoints::Checkpoints;
use super::clock_step::{self, ClockStep};
use super::columns::micros;
use super::disk::{Disk, FreeSpace};
use super::error::OpenError;
use super::file_lock::FileLock;
use super::job::{ClosureJob, Command, CommandJob, CommandResult};
use super::migrations::{self, Schema};
use super::open_files::OpenFiles;
use super::readers::Readers;
use super::transaction::WriteTransaction;
use super::write_queue::{Urgency, WriteQueue};
use super::writer::{OnCommit, Writer};
use super::writer_state::WriterState;
use crate::error::JobError;

/// The name of the database file in a data directory.
const FILE: &str = "breakerbox.db";

/// Options for opening a database.
#[derive(Clone)]
pub struct Options {
    /// The clock for leases, retries and expiry: the wall clock at startup plus the monotonic time since startup.
    pub clock: Arc<dyn Clock>,
    /// The wall clock, for recorded times and for ids. `None`: the same as `clock`.
    pub wall: Option<WallClock>,
    /// Whether to open a file whose newest stored time is more than a day ahead of the clock.
    pub accept_clock_step: bool,
    /// The number of bytes on the disk that are reserved for settlements.
    pub reserve: u64,
    /// The source of the number of free bytes. `None`: the file system.
    pub free_space: Option<FreeSpace>,
    /// Called after each commit with the commit's number of jobs and its duration. The function must not block.
    /// `None`: nothing is called.
    pub on_commit: Option<OnCommit>,
    /// The number of reader threads.
    pub readers: usize,
    /// The maximum number of jobs that may wait for the writer.
    pub waiting_jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(breakerbox::SystemClock),
            wall: None,
            accept_clock_step: false,
            reserve: 512 << 20,
            free_space: None,
            on_commit: None,
            readers: 2,
            waiting_jobs: 4_096,
        }
    }
}

/// An open database, which all clones share. It is closed when the last clone is dropped, or by
/// [`close`](Self::close).
#[derive(Clone)]
pub struct Database(Arc<Open>);

struct Open {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    wall: WallClock,
    clock_step: Option<ClockStep>,
    /// The drift that was last stored in the file: the time by which the store clock was ahead, in
    /// microseconds, or 0 if it was not ahead.
    noted_drift: AtomicI64,
    write_queue: Arc<WriteQueue>,
    readers: Readers,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// A descriptor of the database file. It is closed after the threads have ended, because closing any descriptor
    /// of the file releases SQLite's locks on it.
    _file: Arc<File>,
}

impl Database {
    /// Opens a database file, or `breakerbox.db` in a directory, and migrates its schema to the newest version.
    ///
    /// # Errors
    /// Returns an error if another process has the file open, a newer version wrote it, or it can't be opened or
    /// migrated.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let path = file_of(path);
        let (mut connection, lock) = connect(&path)?;
        migrations::migrate(&mut connection, &path)?;
        let failed = |error| OpenError::Database { path: path.clone(), error };
        let free_space = match options.free_space {
            Some(free_space) => free_space,
            None => FreeSpace::of(folder_of(&path))
                .map_err(|error| OpenError::File { path: path.clone(), error })?,
        };
        let wall = options.wall.unwrap_or_else(|| {
            let clock = Arc::clone(&options.clock);
            Arc::new(move || clock.now())
        });
        let now = wall();
        let clock_step = clock_step::look(&mut connection, &path, now, options.accept_clock_step)?;
        let disk = Disk::new(free_space, options.reserve);
        let writer_state = WriterState::open(&mut connection, disk, now).map_err(failed)?;
        // The writer's state has already written to the file, so the write-ahead log exists.
        let files = OpenFiles::of(&path).map_err(|error| OpenError::File { path: path.clone(), error })?;
        let write_queue = Arc::new(WriteQueue::new(options.waiting_jobs));
        let (readers, mut threads) = Readers::start(&path, options.readers).map_err(failed)?;
        let file = File::open(&path).map_err(|error| OpenError::File { path: path.clone(), error })?;
        let file = Arc::new(file);
        let (checkpoints, thread) = Checkpoints::start(&path, Arc::clone(&file)).map_err(failed)?;
        threads.extend(thread);
        let writer = Writer {
            connection,
            writer_state,
            files,
            write_queue: Arc::clone(&write_queue),
            clock: Arc::clone(&options.clock),
            wall: Arc::clone(&wall),
            checkpoints,
            on_commit: options.on_commit,
        };
        let for_writer = Arc::clone(&file);
        let thread = thread::Builder::new().name("queue-writer".to_owned()).spawn(move || {
            writer.run();
            // Only from here on may another process open the file.
            drop(for_writer);
            drop(lock);
        });
        threads.push(thread.map_err(|error| OpenError::File { path: path.clone(), error })?);
        Ok(Self(Arc::new(Open {
            path,
            clock: options.clock,
            wall,
            clock_step,
            noted_drift: AtomicI64::new(0),
            write_queue,
            readers,
            threads: Mutex::new(threads),
            _file: file,
        })))
    }

    /// Returns the schema version of a file without changing it. A missing file counts as new.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn schema(path: &Path) -> Result<Schema, OpenError> {
        let path = file_of(path);
        if !path.exists() {
            return Ok(Schema { current: 0, newest: migrations::NEWEST });
        }
        let (connection, _lock) = connect(&path)?;
        Schema::of(&connection, &path)
    }

    /// Migrates a file's schema to the newest version, and returns the previous one.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn migrate(path: &Path) -> Result<Schema, OpenError> {
        let path = file_of(path);
        let (mut connection, _lock) = connect(&path)?;
        migrations::migrate(&mut connection, &path)
    }

    /// Runs a job in a transaction, in a group commit with other waiting jobs, and returns once it is durable. If the
    /// closure returns an error, its writes are rolled back.
    ///
    /// ```
    /// use breakerbox_storage::QueueError;
    /// use breakerbox_storage_sqlite::{Database, JobError, Options};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let database = Database::open(folder.path(), Options::default())?;
    /// database
    ///     .write(|transaction| {
    ///         transaction.connection().execute("INSERT INTO meta (name, value) VALUES ('example', 7)", [])?;
    ///         transaction.after_commit(|| println!("memory may change now"));
    ///         Ok::<_, JobError<QueueError>>(())
    ///     })
    ///     .await?;
    /// let question = "SELECT value FROM meta WHERE name = 'example'";
    /// let value: i64 =
    ///     database.read(move |connection| Ok::<_, JobError<QueueError>>(connection.query_row(question, [], |row| row.get(0))?)).await?;
    /// assert_eq!(value, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the closure's error, or the reason why the transaction failed.
    pub async fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&mut WriteTransaction<'_>) -> Result<T, JobError<E>> + Send + 'static,
        T: Send + 'static,
        E: From<QueueError> + Send + 'static,
    {
        let (job, answered) = ClosureJob::new(job);
        self.0.write_queue.add(job, Urgency::Urgent).await?;
        answered.await.map_err(|_| QueueError::Closed)?
    }

    /// Runs a job on a read-only connection. The job sees one snapshot of the committed data.
    ///
    /// # Errors
    /// Returns the closure's error, or the reason why the job could not run.
    pub async fn read<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, JobError<E>> + Send + 'static,
        T: Send + 'static,
        E: From<QueueError> + Send + 'static,
    {
        self.0.readers.read(job).await
    }

    /// Runs a hot-path command, after waiting for room in the write queue.
    pub(super) async fn request<C: Command>(
        &self,
        command: C,
        urgency: Urgency,
    ) -> Result<C::Output, QueueError> {
        let (job, answered) = CommandJob::new(command);
        self.0.write_queue.add(job, urgency).await?;
        received(answered).await
    }

    /// Runs a hot-path command, or returns an error if the write queue is full.
    pub(super) async fn try_request<C: Command>(
        &self,
        command: C,
        urgency: Urgency,
    ) -> Result<C::Output, QueueError> {
        let (job, answered) = CommandJob::new(command);
        self.0.write_queue.try_add(job, urgency)?;
        received(answered).await
    }

    /// Checks that the database accepts writes, by writing a few bytes. Returns once they are durable.
    ///
    /// # Errors
    /// Returns the reason why the write failed.
    pub async fn check_write(&self) -> Result<(), QueueError> {
        self.write(|transaction| {
            transaction
                .connection()
                .prepare_cached(
                    "INSERT INTO meta (name, value) VALUES ('checked_at', ?1)
                     ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                )?
                .execute([micros(transaction.now())])?;
            Ok(())
        })
        .await
    }

    /// Returns the current store-clock time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Returns the current wall-clock time.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        (self.0.wall)()
    }

    /// Returns by how much the newest stored time was ahead of the clock at startup, or `None` if no stored
    /// times have to be bounded.
    #[must_use]
    pub fn clock_step(&self) -> Option<ClockStep> {
        self.0.clock_step
    }

    /// Stores the drift between the wall clock and the store clock, for the next startup. Does nothing if the
    /// drift has changed by less than a second since it was last stored.
    ///
    /// # Errors
    /// Returns an error if the write fails.
    pub async fn note_drift(&self, drift: Drift) -> Result<(), QueueError> {
        let ahead = match drift.noticeable() {
            Drift::Ahead(_) => 0,
            Drift::Behind(by) => i64::try_from(by.as_micros()).unwrap_or(i64::MAX),
        };
        if ahead.abs_diff(self.0.noted_drift.load(Ordering::Relaxed)) < 1_000_000 {
            return Ok(());
        }
        self.write(move |transaction| {
            Ok::<_, JobError<QueueError>>(clock_step::note(transaction.connection(), drift)?)
        })
        .await?;
        self.0.noted_drift.store(ahead, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the path of the database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Rejects new jobs, runs the waiting ones, and returns once the file is closed.
    pub async fn close(self) {
        let open = Arc::clone(&self.0);
        // If the async runtime shuts down first, the threads end by themselves.
        let _ = tokio::task::spawn_blocking(move || open.end()).await;
    }
}

async fn received<C: Command>(
    answered: oneshot::Receiver<Result<CommandResult<C>, QueueError>>,
) -> Result<C::Output, QueueError> {
    let received = answered.await.map_err(|_| QueueError::Closed)??;
    received.answer().ok_or(QueueError::Closed)
}

impl Open {
    fn end(&self) {
        self.write_queue.close();
        self.readers.close();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The last clone may have been dropped in a job, on the thread itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end();
    }
}

pub(super) fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_owned() }
}

pub(super) fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Locks the data directory, and opens the write connection.
fn connect(path: &Path) -> Result<(Connection, FileLock), OpenError> {
    let file = |error| OpenError::File { path: path.to_owned(), error };
    fs::create_dir_all(folder_of(path)).map_err(file)?;
    let lock = FileLock::of(path, folder_of(path))?;
    create_for_owner(path).map_err(file)?;
    let failed = |error| OpenError::Database { path: path.to_owned(), error };
    let connection = Connection::open(path).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(128);
    // The cache is small on purpose. A commit in which pages were split scans all cached pages (SQLite moves a page
    // over a number beyond the end of the file, and truncates its cache to the file afterwards): with 64 MiB that
    // took about a millisecond. Other pages come from the operating system's cache.
    connection
        .execute_batch(
            "PRAGMA busy_timeout = 10000;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA cache_size = -16384;
             PRAGMA temp_store = MEMORY;",
        )
        .map_err(failed)?;
    Ok((connection, lock))
}

fn create_for_owner(path: &Path) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
