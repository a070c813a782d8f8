//! Threads with read-only connections, for jobs that only read. They see committed data, and never block the writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use breakerbox_storage::QueueError;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, oneshot};

use super::error::{JobError, queue_error};
use super::job::text_of;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The reader threads, and the queue of their jobs.
pub(super) struct Readers {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    room: Arc<Semaphore>,
}

/// The maximum number of jobs that may wait for a reader.
const ROOM: usize = 256;

impl Readers {
    /// Starts `count` threads.
    pub(super) fn start(path: &Path, count: usize) -> rusqlite::Result<(Self, Vec<JoinHandle<()>>)> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut threads = Vec::new();
        for _ in 0..count.max(1) {
            let connection = open(path)?;
            let waiting = Arc::clone(&waiting);
            let thread = thread::Builder::new().name("queue-reader".to_owned());
            threads.extend(thread.spawn(move || work(connection, &waiting)).ok());
        }
        Ok((Self { jobs: Mutex::new(Some(jobs)), room: Arc::new(Semaphore::new(ROOM)) }, threads))
    }

    /// Runs a job on a read-only connection.
    pub(super) async fn read<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, JobError<E>> + Send + 'static,
        T: Send + 'static,
        E: From<QueueError> + Send + 'static,
    {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| QueueError::Closed)?;
        let (asker, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let _room = room;
            let answer = in_one_snapshot(connection, job);
            let _ = asker.send(answer);
        });
        let sent = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.send(job).is_ok(),
            None => false,
        };
        if !sent {
            return Err(QueueError::Closed.into());
        }
        answered.await.map_err(|_| QueueError::Closed)?
    }

    /// Lets the threads end once the waiting jobs are done.
    pub(super) fn close(&self) {
        self.room.close();
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Runs a job in one transaction, so that all its queries see the same snapshot.
fn in_one_snapshot<T, E: From<QueueError>>(
    connection: &mut Connection,
    job: impl FnOnce(&Connection) -> Result<T, JobError<E>>,
) -> Result<T, E> {
    let transaction = connection.transaction().map_err(queue_error)?;
    match catch_unwind(AssertUnwindSafe(|| job(&transaction))) {
        Ok(answer) => answer.map_err(|JobError(error)| error),
        Err(panic) => Err(QueueError::Panicked(text_of(&*panic)).into()),
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection
        .execute_batch("PRAGMA busy_timeout = 10000; PRAGMA query_only = 1; PRAGMA cache_size = -8192;")?;
    Ok(connection)
}

fn work(mut connection: Connection, waiting: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(&mut connection),
            Err(mpsc::RecvError) => return,
        }
    }
}
