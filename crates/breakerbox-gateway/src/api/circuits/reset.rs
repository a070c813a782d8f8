//! Resets circuits when a tenant's name is reused. Circuit keys begin with the tenant's name, so circuits that a
//! deleted tenant left behind would otherwise govern the calls of a new tenant with that name, and keep their counts.

use std::collections::BTreeSet;
use std::sync::Arc;

use breakerbox::store::ListQuery;
use breakerbox_core::{Cause, OverrideCommand, Record};
use breakerbox_model::objects::{CircuitOwner, TenantId};
use futures_util::stream::{StreamExt, TryStreamExt, iter};

use super::list::{Keys, places};
use super::{apply_override, store_problem, stored};
use crate::api::Api;
use crate::api::caller::Caller;
use crate::api::problem::ApiResult;

/// The maximum number of circuits to reset concurrently, so that they share commits.
const AT_ONCE: usize = 64;

/// The maximum number of circuits to list at a time.
const PAGE: usize = 500;

/// The reason recorded when circuits are reset because a new tenant has the name of a deleted one. A circuit whose last
/// change has this reason has not changed since the reset. Times can't show this, because tenants and circuits use
/// different clocks.
const REASON: &str = "a tenant that was deleted had the name before";

/// Returns whether a deleted tenant left this circuit behind. A new tenant of the same name must not see the circuit.
pub(super) fn is_left_behind(record: &Record) -> bool {
    let is_ours =
        |command: OverrideCommand, reason: &str| command == OverrideCommand::Reset && reason == REASON;
    matches!(&record.cause, Some(Cause::Override { command, by }) if is_ours(*command, by.reason()))
}

/// Resets all circuits of the tenant with this name. Permits given out before the reset become late, so their outcomes
/// are not counted.
pub(in crate::api) async fn reset_circuits_of(
    api: &Api,
    caller: &Caller,
    tenant: &TenantId,
) -> ApiResult<()> {
    let mut keys: BTreeSet<Arc<str>> = BTreeSet::new();
    for place in places(Some(tenant.clone())) {
        match place {
            Keys::One(key) => {
                let record = stored(api, &[Arc::clone(&key)]).await?.pop().flatten();
                keys.extend(record.map(|_| key));
            }
            Keys::Beginning(prefix) => {
                let mut query = ListQuery { prefix, status: None, after: None, limit: PAGE };
                loop {
                    let page = api.services.circuit_store.list(&query).await;
                    let page = page.map_err(|error| store_problem(&error))?;
                    keys.extend(page.circuits.into_iter().map(|(key, _)| key));
                    query.after = page.next;
                    if query.after.is_none() {
                        break;
                    }
                }
            }
        }
    }
    // Circuits that never changed are only in memory, with their counts.
    api.services.circuits.for_each(|circuit| {
        if CircuitOwner::of_key(circuit.key()).is_some_and(|owner| owner.tenant == *tenant) {
            keys.insert(circuit.key().into());
        }
    });
    let reset = |key: Arc<str>| async move {
        apply_override(api, caller, &key, OverrideCommand::Reset, REASON).await.map(drop)
    };
    iter(keys).map(reset).buffer_unordered(AT_ONCE).try_collect().await
}
