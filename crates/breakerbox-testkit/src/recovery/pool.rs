//! The callers, as tasks and threads that live as long as the test. Creating them for each wave would take
//! longer than the wave, and they would not acquire at the same time.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use breakerbox::Circuit;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::timeout;

use super::caller::{Kind, serve};
use super::wave::Wave;

/// The number of callers.
pub(super) const CALLERS: u32 = 100;

/// The number of callers that are threads. The others are tasks.
const THREADS: u32 = 8;

/// The number of threads on which the tasks run.
const WORKERS: usize = 4;

/// The maximum duration of a wave. A wave normally takes less than a millisecond, so a longer one has hung.
const LIMIT: Duration = Duration::from_secs(60);

type Orders = watch::Sender<Option<Arc<Wave>>>;

/// All callers for one circuit.
pub(super) struct Pool {
    runtime: Option<Runtime>,
    /// A runtime with its own timer for the timeout, because the callers' runtime does not advance if all
    /// callers hang.
    waiting: Runtime,
    to_tasks: Orders,
    to_threads: Orders,
}

impl Pool {
    pub(super) fn new(circuit: &Circuit) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_time().build()?;
        let (to_tasks, to_threads) = (Orders::new(None), Orders::new(None));
        for _ in THREADS..CALLERS {
            runtime.spawn(serve(Kind::Task, circuit.clone(), to_tasks.subscribe()));
        }
        for _ in 0..THREADS {
            let caller = serve(Kind::Thread, circuit.clone(), to_threads.subscribe());
            let handle = runtime.handle().clone();
            thread::Builder::new().name("caller".into()).spawn(move || handle.block_on(caller))?;
        }
        let waiting = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { runtime: Some(runtime), waiting, to_tasks, to_threads })
    }

    /// Runs a wave with all callers, and waits for its end. Returns `false` if some callers did not finish in
    /// time.
    pub(super) fn run(&self, wave: &Arc<Wave>, threads_first: bool) -> bool {
        let mut orders = [&self.to_tasks, &self.to_threads];
        if threads_first {
            orders.reverse();
        }
        for order in orders {
            order.send_replace(Some(Arc::clone(wave)));
        }
        self.waiting.block_on(async { timeout(LIMIT, wave.finished.wait()).await.is_ok() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.to_tasks.send_replace(None);
        self.to_threads.send_replace(None);
        // Does not wait: a caller that hangs would prevent the test from reporting it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
