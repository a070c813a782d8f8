//! Lists the circuits of one tenant or of all tenants.
//!
//! A tenant's keys are in four ranges of a store: the key of the whole tenant, and the keys that begin with the tenant,
//! each for deliveries and for reminders. A page takes items from one range after the other until it is full, and its
//! cursor contains the range in which it ended.

use std::sync::Arc;

use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use breakerbox::store::{Cursor, ListQuery};
use breakerbox_core::CircuitStatus;
use breakerbox_model::objects::{CircuitOwner, TenantId};
use breakerbox_storage::records::{PageOf, RecordsError};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::view::CircuitView;
use super::{StateView, is_visible, store_problem, stored};
use crate::api::Api;
use crate::api::caller::{Allowed, Read};
use crate::api::listing::{Limit, Listed};
use crate::api::problem::ApiResult;
use crate::api::reading::Query;
use crate::api::reading::fields::Text;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A filter for circuits.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct CircuitsQuery {
    /// Only circuits of this tenant, including those of its reminders.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only circuits in this state.
    state: Option<StateView>,
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    cursor: Option<String>,
}

/// List circuits
///
/// Lists circuits that have changed at least once; all others are closed. The order is unspecified. A page may have
/// fewer items than `limit`, or none, even if it is not the last; follow `next` until it is null.
#[utoipa::path(
    get,
    path = "/v1/circuits",
    operation_id = "list_circuits",
    tag = "circuits",
    params(CircuitsQuery),
    responses((status = 200, description = "Circuits", body = Listed<CircuitView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(which): Query<CircuitsQuery>,
) -> ApiResult<axum::Json<Listed<CircuitView>>> {
    let tenant = caller.tenant_seen(which.tenant.map(|tenant| tenant.0), &api.services.directory)?;
    let status = which.state.map(CircuitStatus::from);
    let places = places(tenant);
    let mut place = ListPosition::read(which.cursor.as_deref().unwrap_or_default(), places.len())?;
    let limit = which.limit.map_or(PageOf::default().limit, |limit| limit.0.0);
    let mut items = Vec::new();
    while let Some(keys) = places.get(place.number).filter(|_| items.len() < limit) {
        let after = match keys {
            Keys::One(key) => {
                let record = stored(&api, &[Arc::clone(key)]).await?.pop().flatten();
                let record = record.filter(|record| status.is_none_or(|status| record.status() == status));
                let record = record.filter(|record| is_visible(&caller, record));
                items.extend(record.map(|record| CircuitView::new(&api, key, &record)));
                None
            }
            Keys::Beginning(prefix) => {
                let query = ListQuery {
                    prefix: prefix.clone(),
                    status,
                    after: place.after.take().map(Cursor),
                    limit: limit - items.len(),
                };
                let page =
                    api.services.circuit_store.list(&query).await.map_err(|error| store_problem(&error))?;
                let theirs = page.circuits.iter().filter(|(_, record)| is_visible(&caller, record));
                items.extend(theirs.map(|(key, record)| CircuitView::new(&api, key, record)));
                page.next
            }
        };
        place = match after {
            Some(Cursor(after)) => ListPosition { after: Some(after), ..place },
            None => ListPosition { number: place.number + 1, after: None },
        };
    }
    let next = (place.number < places.len()).then(|| place.write());
    Ok(axum::Json(Listed { items, next }))
}

/// The circuit keys to list: one key, or all keys with a prefix.
pub(super) enum Keys {
    One(Arc<str>),
    Beginning(String),
}

/// Returns the key ranges for a tenant's circuits, of deliveries and of reminders. `None` means all circuits.
pub(super) fn places(tenant: Option<TenantId>) -> Vec<Keys> {
    let Some(tenant) = tenant else { return vec![Keys::Beginning(String::new())] };
    let owners = [CircuitOwner::of_deliveries(tenant.clone()), CircuitOwner::of_reminders(tenant)];
    let of_owner =
        |owner: CircuitOwner| [Keys::One(owner.to_string().into()), Keys::Beginning(format!("{owner} "))];
    owners.into_iter().flat_map(of_owner).collect()
}

/// The position after a page: the index of the key range, and the store's cursor within this range.
#[derive(PartialEq, Debug)]
struct ListPosition {
    number: usize,
    after: Option<String>,
}

impl ListPosition {
    /// Encodes the position in URL-safe base64, because the store's cursor can contain any character, and clients put
    /// the result into a URL.
    fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}{}", self.number, self.after.as_deref().unwrap_or_default()))
    }

    fn read(cursor: &str, places: usize) -> ApiResult<Self> {
        if cursor.is_empty() {
            return Ok(Self { number: 0, after: None });
        }
        let read = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
            let number = text.chars().next()?.to_digit(10)? as usize;
            let after = text.get(1..).filter(|after| !after.is_empty()).map(str::to_owned);
            (number < places).then_some(Self { number, after })
        };
        read().ok_or_else(|| RecordsError::Cursor.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back_and_nothing_else_is_one() {
        for place in [
            ListPosition { number: 0, after: Some("acme https://a.example/é?x=1".to_owned()) },
            ListPosition { number: 3, after: None },
        ] {
            assert_eq!(ListPosition::read(&place.write(), 4).unwrap(), place);
        }
        for text in ["acme", "Ng", "!", "_w"] {
            assert!(ListPosition::read(text, 4).is_err(), "{text}");
        }
    }
}
