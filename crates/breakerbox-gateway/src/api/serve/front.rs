//! Responds to requests while the gateway starts. The port is bound before the database is opened, so that an invalid
//! address is detected immediately. Until the gateway is ready, `/healthz` reports that the process is alive, and all
//! other requests get 503, so that a load balancer waits and no request hangs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::routing::get;

use crate::api::problem::{Code, Problem};
use crate::api::system;

/// The `Retry-After` of 503 responses while the gateway starts.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Responds as a starting gateway until [`open`](Self::open) sets the router. Clones share the router.
#[derive(Clone)]
pub struct Front {
    open: Arc<OnceLock<Router>>,
    starting: Router,
}

impl Front {
    /// Creates the front for a gateway that is starting.
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

    /// Passes all further requests to this router. Later calls have no effect.
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
