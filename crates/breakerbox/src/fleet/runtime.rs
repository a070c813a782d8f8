//! Where background tasks run: on the caller's runtime, on a thread of the library's own, or wherever the caller says.

use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Something that goes on in the background, until it ends by itself.
pub type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

type Spawner = Arc<dyn Fn(BackgroundTask) + Send + Sync>;

pub(crate) struct Runtime {
    place: Place,
    /// The runtime of the last flush, which takes the place of one that is shut down or blocked.
    last: OnceLock<Handle>,
}

enum Place {
    Tokio(Handle),
    Custom(Spawner),
}

impl Runtime {
    /// The runtime that this is called in, or else a thread that is started for it.
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
        Self::on(Place::Tokio(Handle::try_current().unwrap_or_else(|_| OWN.clone())))
    }

    pub(crate) fn custom(spawn: impl Fn(BackgroundTask) + Send + Sync + 'static) -> Self {
        Self::on(Place::Custom(Arc::new(spawn)))
    }

    const fn on(place: Place) -> Self {
        Self { place, last: OnceLock::new() }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match (&self.place, self.last.get()) {
            (Place::Tokio(handle), None) | (_, Some(handle)) => drop(handle.spawn(task)),
            (Place::Custom(spawn), None) => spawn(Box::pin(task)),
        }
    }

    pub(super) const fn is_custom(&self) -> bool {
        matches!(self.place, Place::Custom(_))
    }

    /// Whether tasks can't run while the caller blocks this thread. Only a runtime with a single thread has that problem.
    pub(super) fn stops_with_this_thread(&self) -> bool {
        let Place::Tokio(handle) = &self.place else { return true };
        handle.runtime_flavor() == RuntimeFlavor::CurrentThread
            && Handle::try_current().is_ok_and(|current| current.id() == handle.id())
    }

    /// From now on tasks run here. False: that was said before.
    pub(super) fn move_to(&self, last: Handle) -> bool {
        self.last.set(last).is_ok()
    }

    pub(super) fn has_moved(&self) -> bool {
        self.last.get().is_some()
    }
}
