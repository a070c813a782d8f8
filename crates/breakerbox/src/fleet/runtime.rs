//! Where things go on in the background: on the caller's runtime, on a thread of its own, or wherever the caller says.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use tokio::runtime::Handle;

/// Something that goes on in the background, until it ends by itself.
pub type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone)]
pub(crate) enum Runtime {
    Tokio(Handle),
    /// Somebody who runs them as he likes.
    Custom(Arc<dyn Fn(BackgroundTask) + Send + Sync>),
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
        Self::Tokio(Handle::try_current().unwrap_or_else(|_| OWN.clone()))
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Tokio(handle) => drop(handle.spawn(task)),
            Self::Custom(spawn) => spawn(Box::pin(task)),
        }
    }
}
