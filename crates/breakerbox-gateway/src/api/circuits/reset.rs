//! Resets the circuits of a reused tenant name. Circuit keys begin with the tenant's name, so the circuits of a deleted
//! tenant are reset when its name is used again: they neither govern the new tenant's calls nor count earlier outcomes.

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

/// Maximum circuits that are reset at once, so that they share commits.
const AT_ONCE: usize = 64;

/// Maximum circuits that are listed at once.
const PAGE: usize = 500;

/// The reason of the reset. It marks a circuit that has not changed since its name belongs to another tenant. The time
/// of the change could not: tenants are created by another clock than the one by which circuits change.
const REASON: &str = "a tenant that was deleted had the name before";

/// Returns whether a deleted tenant left this circuit to another tenant of the same name, which must not see it.
pub(super) fn is_left_behind(record: &Record) -> bool {
    let is_ours =
        |command: OverrideCommand, reason: &str| command == OverrideCommand::Reset && reason == REASON;
    matches!(&record.cause, Some(Cause::Override { command, by }) if is_ours(*command, by.reason()))
}

/// Resets all circuits under this name. Permits that were given before become late.
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
