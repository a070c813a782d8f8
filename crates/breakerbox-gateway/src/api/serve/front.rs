//! Requests while the gateway starts. The port is bound before the database is opened, so that a wrong address is found at
//! once. Until the gateway is ready `/healthz` says that the process lives, and everything else is answered with 503, so
//! that a load balancer waits and no request hangs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::routing::get;

use crate::api::problem::{Code, Problem};
use crate::api::system;

/// When to ask again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Answers requests: by the router that it was opened with, until then as a gateway that starts. A clone is the same.
#[derive(Clone)]
pub struct Front {
    open: Arc<OnceLock<Router>>,
    starting: Router,
}

impl Front {
    /// The front of a gateway that starts.
    #[must_use]
    pub fn starting() -> Self {
        let starting = Router::new()
            .route("/healthz", get(system::alive))
            .route("/readyz", get(system::not_ready_yet))
            .fallback(async || {
                Problem::new(Code::Unavailable, "the gateway is starting").retry_after(RETRY_AFTER)
            });
        Self { open: Arc::default(), starting }
    }

    /// Answers by this router from now on. The first one counts.
    pub fn open(&self, router: Router) {
        let _ = self.open.set(router);
    }

    pub(super) fn router(&self) -> Router {
        self.open.get().unwrap_or(&self.starting).clone()
    }
}

impl From<Router> for Front {
    fn from(router: Router) -> Self {
        let front = Self::starting();
        front.open(router);
        front
    }
}
