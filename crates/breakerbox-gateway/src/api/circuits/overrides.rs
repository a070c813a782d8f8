//! Operator overrides. Each has a reason, which is stored with the circuit and in its history, together with the ID of
//! the API key.

use axum::extract::State;
use breakerbox_core::{MAX_ATTRIBUTION_LENGTH, OverrideCommand};
use breakerbox_model::objects::CircuitId;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::view::CircuitShown;
use super::{apply_override, seen, shown};
use crate::api::Api;
use crate::api::caller::{Allowed, Caller, Manage};
use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::{Json, Named};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(force_open))
        .routes(routes!(force_closed))
        .routes(routes!(disable))
        .routes(routes!(enable))
        .routes(routes!(release))
        .routes(routes!(reset))
}

/// The reason for an override.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Override)]
struct Order {
    /// A human-readable reason. It is shown with the circuit and in its history.
    #[schema(min_length = 1, max_length = 1024, example = "maintenance of the receiver until noon")]
    reason: String,
}

async fn follow(
    api: &Api,
    caller: &Caller,
    id: &CircuitId,
    command: OverrideCommand,
    order: &Order,
) -> ApiResult<CircuitShown> {
    let key = seen(api, caller, id)?;
    let reason = order.reason.trim();
    if reason.is_empty()
        || order.reason.len() > MAX_ATTRIBUTION_LENGTH
        || reason.chars().any(char::is_control)
    {
        let why = format!("must be 1 to {MAX_ATTRIBUTION_LENGTH} bytes of text on one line");
        return Err(Problem::invalid("reason", why));
    }
    apply_override(api, caller, key, command, reason).await?;
    shown(api, caller, key).await
}

macro_rules! overrides {
    ($($(#[doc = $doc:literal])* $name:ident $path:literal $id:literal $command:ident,)*) => {$(
        $(#[doc = $doc])*
        #[utoipa::path(
            post,
            path = $path,
            operation_id = $id,
            tag = "circuits",
            request_body = Order,
            params(("circuit" = String, Path, description = "Circuit ID", pattern = "^cir_[A-Za-z0-9_-]{2,1366}$")),
            responses((status = 200, description = "The circuit after the override", body = CircuitShown)),
            security(("api_key" = ["manage"])),
        )]
        async fn $name(
            State(api): State<Api>,
            Allowed(caller, _): Allowed<Manage>,
            Named(id): Named<CircuitId>,
            Json(order): Json<Order>,
        ) -> ApiResult<axum::Json<CircuitShown>> {
            follow(&api, &caller, &id, OverrideCommand::$command, &order).await.map(axum::Json)
        }
    )*};
}

overrides! {
    /// Force a circuit open
    ///
    /// All calls are refused until the circuit is released, enabled or reset.
    force_open "/v1/circuits/{circuit}/force_open" "force_circuit_open" ForceOpen,
    /// Force a circuit closed
    ///
    /// All calls are admitted, whatever their outcomes, until the circuit is released, enabled or reset.
    force_closed "/v1/circuits/{circuit}/force_closed" "force_circuit_closed" ForceClosed,
    /// Disable a circuit
    ///
    /// All calls are refused until the circuit is enabled.
    disable "/v1/circuits/{circuit}/disable" "disable_circuit" Disable,
    /// Enable a circuit
    ///
    /// Ends an override, or enables a disabled circuit. The next call is a probe, and the trip count is set to 0.
    enable "/v1/circuits/{circuit}/enable" "enable_circuit" Enable,
    /// Release a circuit
    ///
    /// Ends an override. The next call is a probe, and the trip count is kept.
    release "/v1/circuits/{circuit}/release" "release_circuit" Release,
    /// Reset a circuit
    ///
    /// Closes the circuit, and sets its trip count to 0.
    reset "/v1/circuits/{circuit}/reset" "reset_circuit" Reset,
}
