//! The decision API: a worker asks whether it may call a destination, makes the call itself, and says how it went.
//!
//! That there is no permit is an answer, and no problem. What is decided, and what an outcome does, is in
//! [`permits`](crate::permits).

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
