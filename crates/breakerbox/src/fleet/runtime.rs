//! Where background tasks run: in the caller's runtime, in a thread of the library, or in the caller's spawner.

use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};

use tokio::runtime::{Handle, RuntimeFlavor};

/// A task that runs in the background until it completes.
pub type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

type Spawner = Arc<dyn Fn(BackgroundTask) + Send + Sync>;

pub(crate) struct Runtime {
    executor: Executor,
    /// The runtime for the last flush, which is used once the original runtime is shut down or blocked; unset until
    /// then.
    last: OnceLock<Handle>,
}

enum Executor {
    Tokio(Handle),
    Custom(Spawner),
}

impl Runtime {
    /// Returns the current tokio runtime. Without one, starts a thread that runs a new runtime.
    pub(crate) fn current() -> Self {
        static OWN: LazyLock<Handle> = LazyLock::new(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.expect("a runtime without IO needs nothing from the system");
            let handle = runtime.handle().clone();
            let forever = move || runtime.block_on(std::future::pending::<()>());
            std::thread::Builder::new()
                .name("breakerbox-fleet".into())
                .spawn(forever)
                .expect("the system can start one more thread");
            handle
        });
        Self::on(Executor::Tokio(Handle::try_current().unwrap_or_else(|_| OWN.clone())))
    }

    pub(crate) fn custom(spawn: impl Fn(BackgroundTask) + Send + Sync + 'static) -> Self {
        Self::on(Executor::Custom(Arc::new(spawn)))
    }

    const fn on(executor: Executor) -> Self {
        Self { executor, last: OnceLock::new() }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match (&self.executor, self.last.get()) {
            (Executor::Tokio(handle), None) | (_, Some(handle)) => drop(handle.spawn(task)),
            (Executor::Custom(spawn), None) => spawn(Box::pin(task)),
        }
    }

    pub(super) const fn is_custom(&self) -> bool {
        matches!(self.executor, Executor::Custom(_))
    }

    /// Returns whether background tasks stop while the caller blocks this thread, because the runtime has only this
    /// thread.
    pub(super) fn stops_with_this_thread(&self) -> bool {
        let Executor::Tokio(handle) = &self.executor else { return true };
        handle.runtime_flavor() == RuntimeFlavor::CurrentThread
            && Handle::try_current().is_ok_and(|current| current.id() == handle.id())
    }

    /// Runs tasks on this runtime from now on. Returns false if the runtime was already replaced.
    pub(super) fn move_to(&self, last: Handle) -> bool {
        self.last.set(last).is_ok()
    }

    pub(super) fn has_moved(&self) -> bool {
        self.last.get().is_some()
    }
}
