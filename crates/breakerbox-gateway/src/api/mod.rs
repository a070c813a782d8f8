//! The REST API under `/v1`. Requests and responses are JSON; errors are problems with stable codes.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Services`] | the dependencies of the API |
//! | [`serve`] | listens, responds and stops |
//! | [`router`] | all routes, and the document that describes them |
//! | `caller` | authentication and authorization |
//! | `reading` | parses bodies, queries and paths, and explains errors in them |
//! | `idempotency` | requests that take effect once, however often they are sent |
//! | [`Problem`], [`Code`] | error responses |
//! | `tenants`, `endpoints`, `events`, `deliveries`, `resends`, `reminders` | routes, one module per resource |
//! | `circuits`, `notifications`, `permits`, `policies`, `keys` | routes, one module per resource |
//! | `lanes`, `waits` | what lanes and deliveries wait for |
//! | `system` | health and metrics |
//! | `document` | `/openapi.json`, and a page that shows it |
//!
//! The API authorizes and parses requests. Other modules store the data and act on it.

mod caller;
mod circuits;
mod deliveries;
mod document;
mod endpoints;
mod events;
mod idempotency;
mod keys;
mod lanes;
mod listing;
mod notifications;
mod permits;
mod policies;
mod problem;
mod reading;
mod reminders;
mod resends;
mod revision;
mod serve;
mod services;
mod system;
mod tenants;
mod test_sends;
mod waits;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::Moment;
use breakerbox_storage::clock::Drift;
use http::{Method, Uri};
use tokio::net::TcpListener;
use utoipa_axum::router::OpenApiRouter;

pub use self::caller::DEFAULT_TENANT;
pub use self::problem::{Code, Problem};
pub use self::serve::{Connections, Front};
pub use self::services::{
    Health, HealthReport, Limits, NotificationTest, Services, TestEvent, TestSend, TestedTarget,
};

use self::caller::Failures;
use self::events::IngestRates;
use self::reading::Budget;
use self::test_sends::TestSends;
use crate::telemetry::Metrics;

/// The state that every handler can access.
#[derive(Clone)]
struct Api(Arc<Reach>);

struct Reach {
    services: Services,
    budget: Budget,
    failures: Failures,
    rates: IngestRates,
    test_sends: TestSends,
}

impl Deref for Api {
    type Target = Reach;

    fn deref(&self) -> &Reach {
        &self.0
    }
}

impl Reach {
    /// Returns the store clock's time, which the queue uses.
    fn now(&self) -> Timestamp {
        (self.services.clock)()
    }

    /// Returns the wall-clock time.
    fn wall(&self) -> Timestamp {
        (self.services.wall)()
    }

    /// Converts a store-clock time to wall-clock time, for responses.
    fn shown(&self, at: Timestamp) -> Moment {
        Moment(Drift::between(self.wall(), self.now()).noticeable().to_wall(at))
    }
}

/// Serves requests until `stop` completes, and then lets the requests in flight finish.
pub async fn serve(listener: TcpListener, services: Services, stop: impl Future<Output = ()> + Send) {
    let (connections, metrics) = (services.limits.connections, Arc::clone(&services.metrics));
    serve_front(listener, router(services).into(), connections, &metrics, stop).await;
}

/// Like `serve`, with a `Front`, which can respond while the gateway is still starting, or serve additional routes.
pub async fn serve_front(
    listener: TcpListener,
    front: Front,
    connections: Connections,
    metrics: &Metrics,
    stop: impl Future<Output = ()> + Send,
) {
    serve::serve(listener, front, connections, metrics, stop).await;
}

/// Returns all routes of the API.
pub fn router(services: Services) -> Router {
    let limits = &services.limits;
    let api = Api(Arc::new(Reach {
        budget: Budget::new(limits.bodies, limits.tenant_share, limits.body_timeout),
        failures: Failures::new(limits.auth_failures),
        rates: IngestRates::default(),
        test_sends: TestSends::new(limits.tenant_share),
        services,
    }));
    let (router, document) = routes().split_for_parts();
    router
        .merge(document::routes(&document::completed(document)))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .with_state(api)
}

/// Returns the OpenAPI document.
#[must_use]
pub fn document() -> serde_json::Value {
    document::completed(routes().into_openapi())
}

fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(document::frame())
        .merge(events::routes())
        .merge(tenants::routes())
        .merge(endpoints::routes())
        .merge(policies::routes())
        .merge(deliveries::routes())
        .merge(lanes::routes())
        .merge(resends::routes())
        .merge(reminders::routes())
        .merge(circuits::routes())
        .merge(permits::routes())
        .merge(keys::routes())
        .merge(notifications::routes())
        .merge(system::routes())
}

async fn no_such_path(uri: Uri) -> Problem {
    let detail = format!("there is no path {:?}; /docs lists all paths", uri.path());
    Problem::new(Code::NotFound, detail)
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail =
        format!("{:?} does not allow {method}; the header `allow` lists the allowed methods", uri.path());
    Problem::new(Code::MethodNotAllowed, detail)
}
