//! Overrides by an operator. Each has a reason, which is stored with the circuit and in its history, with the name of
//! the API key.

use axum::extract::State;
use breakerbox_core::{MAX_ATTRIBUTION_LENGTH, OverrideCommand};
use breakerbox_model::objects::CircuitId;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::view::CircuitShown;
use super::{obey, seen, shown};
use crate::api::Api;
use crate::api::caller::{Allowed, Caller, Manage};
use crate::api::problem::{Answer, Problem};
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

/// Why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    /// For people. It is shown with the circuit and in its history.
    #[schema(min_length = 1, max_length = 1024, example = "maintenance of the receiver until noon")]
    reason: String,
}

async fn follow(
    api: &Api,
    caller: &Caller,
    id: &CircuitId,
    command: OverrideCommand,
    order: &Order,
) -> Answer<CircuitShown> {
    let key = seen(api, caller, id)?;
    let reason = order.reason.trim();
    if reason.is_empty() || reason.len() > MAX_ATTRIBUTION_LENGTH || reason.chars().any(char::is_control) {
        let why = format!("must be 1 to {MAX_ATTRIBUTION_LENGTH} bytes of text on one line");
        return Err(Problem::invalid("reason", why));
    }
    obey(api, caller, key, command, reason).await?;
    shown(api, caller, key).await
}

macro_rules! orders {
    ($($(#[doc = $doc:literal])* $name:ident $path:literal $command:ident,)*) => {$(
        $(#[doc = $doc])*
        #[utoipa::path(
            post,
            path = $path,
            tag = "circuits",
            request_body = Order,
            params(("circuit" = String, Path, description = "The circuit's id", pattern = "^cir_[A-Za-z0-9_-]{2,1366}$")),
            responses((status = 200, description = "The circuit after it", body = CircuitShown)),
            security(("api_key" = ["manage"])),
        )]
        async fn $name(
            State(api): State<Api>,
            Allowed(caller, _): Allowed<Manage>,
            Named(id): Named<CircuitId>,
            Json(order): Json<Order>,
        ) -> Answer<axum::Json<CircuitShown>> {
            follow(&api, &caller, &id, OverrideCommand::$command, &order).await.map(axum::Json)
        }
    )*};
}

orders! {
    /// Force a circuit open
    ///
    /// Nothing is sent until somebody releases, enables or resets it.
    force_open "/v1/circuits/{circuit}/force_open" ForceOpen,
    /// Force a circuit closed
    ///
    /// Everything is sent, whatever comes of it, until somebody releases, enables or resets it.
    force_closed "/v1/circuits/{circuit}/force_closed" ForceClosed,
    /// Disable a circuit
    ///
    /// Nothing is sent until somebody enables it.
    disable "/v1/circuits/{circuit}/disable" Disable,
    /// Enable a circuit
    ///
    /// Ends an override or being disabled. The next delivery probes; trips are forgotten.
    enable "/v1/circuits/{circuit}/enable" Enable,
    /// Release a circuit
    ///
    /// Ends an override. The next delivery probes; trips are remembered.
    release "/v1/circuits/{circuit}/release" Release,
    /// Reset a circuit
    ///
    /// Closed, without trips, as if nothing had happened.
    reset "/v1/circuits/{circuit}/reset" Reset,
}
