//! The decision API: a worker acquires a permit to call a destination, makes the call itself, and reports the outcome.
//!
//! A refusal is a normal response, not a problem. Decisions and settlements are in [`permits`](crate::permits).

mod acquire;
mod batch;
mod settle;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(acquire::acquire))
        .routes(routes!(acquire::acquire_batch))
        .routes(routes!(settle::settle))
        .routes(routes!(settle::settle_batch))
}
