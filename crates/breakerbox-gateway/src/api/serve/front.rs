//! Responds to requests while the gateway starts. The port is bound before the database is opened, so that a wrong
//! address is found at once. Until the gateway is ready, `/healthz` reports that the process is alive, and all other
//! requests get 503, so that a load balancer waits and no request hangs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::routing::get;

use crate::api::problem::{Code, Problem};
use crate::api::system;

/// The `Retry-After` of these responses.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Responds with the router that was opened, and until then as a starting gateway. Clones share the router.
#[derive(Clone)]
pub struct Front {
    open: Arc<OnceLock<Router>>,
    starting: Router,
}

impl Front {
    /// Builds the front of a starting gateway.
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

    /// Responds with this router from now on. Further calls have no effect.
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
