//! An open SQLite file. Write jobs go to one thread, read jobs to a few.
//!
//! The write-ahead log is synced at every commit: confirmed writes survive a power cut. Only one process may have the
//! file. The folder is created if it is missing; only its owner can read the file, since payloads are confidential.

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

/// The name of the file in a folder.
const FILE: &str = "breakerbox.db";

/// Options for opening a file.
#[derive(Clone)]
pub struct Options {
    /// The clock for leases, retries and expiry: the wall clock at the start, and monotonic since.
    pub clock: Arc<dyn Clock>,
    /// The wall clock, for recorded times and for ids. `None`: the same as `clock`.
    pub wall: Option<WallClock>,
    /// Whether to open a file whose newest time is more than a day ahead of the clock.
    pub accept_clock_step: bool,
    /// The number of bytes of the disk that are reserved for settlements.
    pub reserve: u64,
    /// The source of the number of free bytes. `None`: the file system.
    pub free_space: Option<FreeSpace>,
    /// Receives each commit: the number of its jobs, and how long it took. It must not block.
    pub on_commit: Option<OnCommit>,
    /// The number of threads that read.
    pub readers: usize,
    /// The maximum number of jobs that wait for the writer.
    pub waiting_jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(breakerbox::WallClock),
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

/// An open file. A clone shares it. It is closed when the last clone is dropped, or by [`close`](Self::close).
#[derive(Clone)]
pub struct Database(Arc<Open>);

struct Open {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    wall: WallClock,
    clock_step: Option<ClockStep>,
    /// The drift that is stored in the file, in microseconds; positive if the store clock is ahead.
    noted_drift: AtomicI64,
    write_queue: Arc<WriteQueue>,
    readers: Readers,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Closing any descriptor of the file releases the locks that SQLite has on it: so this one is closed after the
    /// threads.
    _file: Arc<File>,
}

impl Database {
    /// Opens a file, or `breakerbox.db` in a folder, and brings its schema up to date.
    ///
    /// # Errors
    /// If another process has it open, a newer version wrote it, or it can't be opened or migrated.
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
        // The ledger has written to the file, so the write-ahead log exists.
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
            // Only now may another process open the file.
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

    /// Returns the schema of a file. Nothing is changed; a missing file is new.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn schema(path: &Path) -> Result<Schema, OpenError> {
        let path = file_of(path);
        if !path.exists() {
            return Ok(Schema { current: 0, newest: migrations::NEWEST });
        }
        let (connection, _lock) = connect(&path)?;
        Schema::of(&connection, &path)
    }

    /// Brings the schema of a file up to date, and returns the previous one.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn migrate(path: &Path) -> Result<Schema, OpenError> {
        let path = file_of(path);
        let (mut connection, _lock) = connect(&path)?;
        migrations::migrate(&mut connection, &path)
    }

    /// Runs a job in a transaction, in a group commit with other waiting jobs, and returns once it is durable. If the
    /// closure returns an error, nothing of it is written.
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
    /// What the closure says, or why the transaction failed.
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

    /// Runs a job with a read-only connection, in one snapshot of the committed data.
    ///
    /// # Errors
    /// The error of the closure, or why it could not run.
    pub async fn read<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, JobError<E>> + Send + 'static,
        T: Send + 'static,
        E: From<QueueError> + Send + 'static,
    {
        self.0.readers.read(job).await
    }

    /// Runs a command of the hot path, as soon as there is room for it.
    pub(super) async fn request<C: Command>(
        &self,
        command: C,
        urgency: Urgency,
    ) -> Result<C::Output, QueueError> {
        let (job, answered) = CommandJob::new(command);
        self.0.write_queue.add(job, urgency).await?;
        received(answered).await
    }

    /// Runs a command of the hot path, if there is room for it now.
    pub(super) async fn try_request<C: Command>(
        &self,
        command: C,
        urgency: Urgency,
    ) -> Result<C::Output, QueueError> {
        let (job, answered) = CommandJob::new(command);
        self.0.write_queue.try_add(job, urgency)?;
        received(answered).await
    }

    /// Writes a few bytes, and returns once they are durable: only a write shows whether a database accepts writes.
    ///
    /// # Errors
    /// Why it accepts none.
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

    /// Returns the queue's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Returns the wall-clock time.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        (self.0.wall)()
    }

    /// Returns by how much the newest stored time was ahead of the clock at the start, if it was.
    #[must_use]
    pub fn clock_step(&self) -> Option<ClockStep> {
        self.0.clock_step
    }

    /// Stores how far the wall clock is from the queue's time, for the next start. Writes nothing if that has hardly
    /// changed.
    ///
    /// # Errors
    /// If it can't be written.
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

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Runs the waiting jobs, refuses new ones, and returns once the file is closed.
    pub async fn close(self) {
        let open = Arc::clone(&self.0);
        // If the runtime ends first, the threads end by themselves.
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
            // The last clone may have been in a job.
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

/// Opens the connection that writes, and takes the lock that is required for it.
fn connect(path: &Path) -> Result<(Connection, FileLock), OpenError> {
    let file = |error| OpenError::File { path: path.to_owned(), error };
    fs::create_dir_all(folder_of(path)).map_err(file)?;
    let lock = FileLock::of(path, folder_of(path))?;
    create_for_owner(path).map_err(file)?;
    let failed = |error| OpenError::Database { path: path.to_owned(), error };
    let connection = Connection::open(path).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(128);
    // The cache is small on purpose. A commit in which pages were split scans all cached pages (SQLite moves a page
    // over a number beyond the end of the file, and truncates its cache to the file afterwards): with 64 MiB that took
    // about a millisecond. Pages that are not cached here come from the cache of the operating system.
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
