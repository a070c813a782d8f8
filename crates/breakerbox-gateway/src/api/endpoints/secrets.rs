//! Signing secrets: show and rotate. Both need the scope `manage`.

use std::time::Duration;

use axum::extract::State;
use breakerbox_core::{Timestamp, parse_duration};
use breakerbox_model::objects::{Endpoint, EndpointId, Secret, SigningSecrets};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::seen;
use crate::api::Api;
use crate::api::caller::{Allowed, Manage};
use crate::api::idempotency::{self, Created, CreatedOnce, KeyHeader, Keyed};
use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::fields::{Moment, Text};
use crate::api::reading::{Named, OptionalJson};

/// How long the previous secret stays valid after a rotation, by default.
const OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum time that the previous secret may stay valid after a rotation.
const LONGEST_OVERLAP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(secrets)).routes(routes!(rotate))
}

/// Signing secrets, newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = SigningSecrets)]
pub(in crate::api) struct SecretsView {
    /// The secrets in use: one, or two during a rotation.
    secrets: Vec<SecretView>,
}

/// A signing secret and the period of its use.
#[derive(Serialize, ToSchema)]
#[schema(as = SigningSecret)]
struct SecretView {
    /// The secret that signs requests, in the Standard Webhooks format.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: String,
    /// The time at which signing with this secret started.
    #[schema(value_type = String, format = "date-time")]
    since: Moment,
    /// The time at which signing with this secret ends; null until the secret is replaced.
    #[schema(value_type = Option<String>, format = "date-time")]
    until: Option<Moment>,
}

impl SecretsView {
    /// Builds the view of the secrets that are currently in use.
    pub(in crate::api) fn new(secrets: &SigningSecrets, now: Timestamp) -> Self {
        let in_use = secrets.iter().filter(|one| one.until.is_none_or(|until| now < until));
        let secrets = in_use.map(|one| SecretView {
            secret: one.secret.reveal(),
            since: Moment(one.since),
            until: one.until.map(Moment),
        });
        Self { secrets: secrets.collect() }
    }

    /// Returns the response to a rotation. `of` is the ID of the endpoint or tenant.
    pub(in crate::api) fn rotated(&self, of: impl ToString) -> Created {
        Created::new(of, self).with_status(StatusCode::OK).secret(true)
    }
}

/// The secret that replaces the current one.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"overlap": "24h"}))]
pub(in crate::api) struct NewSecret {
    /// The new secret. Default: a generated one.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
    secret: Option<Text<Secret>>,
    /// The time during which requests are also signed with the previous secret, from `0s` to `30d`. Default: `24h`.
    #[serde(default)]
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "24h")]
    overlap: Option<String>,
}

impl NewSecret {
    /// Returns the new secret, and how long the previous one stays valid.
    pub(in crate::api) fn split(self) -> ApiResult<(Secret, Duration)> {
        let overlap = match self.overlap {
            None => OVERLAP,
            Some(text) => parse_duration(&text).map_err(|why| Problem::invalid("overlap", why))?,
        };
        if overlap > LONGEST_OVERLAP {
            return Err(Problem::invalid("overlap", "must be at most 30d"));
        }
        Ok((self.secret.map_or_else(Secret::random, |secret| secret.0), overlap))
    }
}

/// Show the secrets of an endpoint
///
/// Newest first; two during a rotation.
#[utoipa::path(
    get,
    path = "/v1/endpoints/{endpoint}/secrets",
    operation_id = "show_endpoint_secrets",
    tag = "endpoints",
    params(("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The secrets", body = SecretsView)),
    security(("api_key" = ["manage"])),
)]
async fn secrets(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<EndpointId>,
) -> ApiResult<axum::Json<SecretsView>> {
    let endpoint = seen(&api, &caller, id).await?;
    Ok(axum::Json(SecretsView::new(&endpoint.secrets, api.wall())))
}

/// Rotate the secret of an endpoint
///
/// Requests are signed with the new secret immediately, and during `overlap` also with the previous one.
#[utoipa::path(
    post,
    path = "/v1/endpoints/{endpoint}/secrets/rotate",
    operation_id = "rotate_endpoint_secret",
    tag = "endpoints",
    request_body(content = Option<NewSecret>),
    params(KeyHeader, ("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The secrets", body = SecretsView)),
    security(("api_key" = ["manage"])),
)]
async fn rotate(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<EndpointId>,
    Keyed(OptionalJson(body), key): Keyed<OptionalJson<NewSecret>>,
) -> ApiResult<CreatedOnce> {
    let tenant = seen(&api, &caller, id).await?.tenant;
    let (secret, overlap) = body.split()?;
    let now = api.wall();
    let request = idempotency::request(key, Some(&tenant), move |endpoint: &Endpoint| {
        SecretsView::new(&endpoint.secrets, now).rotated(endpoint.id)
    });
    Ok(api.services.records.rotate_endpoint_secret_for(request, id, secret, overlap).await?.into())
}
