//! Circuits begin with the name of their tenant. When a name is used again, the circuits that a deleted tenant left under it are
//! reset, so that they neither govern the new tenant's calls nor count what happened before.

use std::collections::BTreeSet;
use std::sync::Arc;

use breakerbox::store::ListQuery;
use breakerbox_core::{Cause, Command, Record};
use breakerbox_model::objects::{CircuitOwner, TenantId};
use futures_util::stream::{StreamExt, TryStreamExt, iter};

use super::list::{Keys, places};
use super::{obey, store_problem, stored};
use crate::api::Api;
use crate::api::caller::Caller;
use crate::api::problem::Answer;

/// How many are reset at once, so that they share commits.
const AT_ONCE: usize = 64;

/// How many are listed at once.
const PAGE: usize = 500;

/// Why they are reset. By it a circuit is known to which nothing has happened since its name is another tenant's; its time would
/// not do, since tenants are created by another clock than circuits change by.
const REASON: &str = "a tenant that was deleted had the name before";

/// Whether this is how a deleted tenant's circuit was left to another one of the same name, who is not to see it.
pub(super) fn is_left_behind(record: &Record) -> bool {
    let is_ours = |command: Command, reason: &str| command == Command::Reset && reason == REASON;
    matches!(&record.cause, Some(Cause::Command { command, by }) if is_ours(*command, by.reason()))
}

/// Resets all circuits under this name. Permits that were given before mean nothing to them afterwards.
pub(in crate::api) async fn reset_circuits_of(api: &Api, caller: &Caller, tenant: &TenantId) -> Answer<()> {
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
    // Those to which nothing happened are in memory alone, with what they counted.
    api.services.circuits.for_each(|circuit| {
        if CircuitOwner::of_key(circuit.key()).is_some_and(|owner| owner.tenant == *tenant) {
            keys.insert(circuit.key().into());
        }
    });
    let reset =
        |key: Arc<str>| async move { obey(api, caller, &key, Command::Reset, REASON).await.map(drop) };
    iter(keys).map(reset).buffer_unordered(AT_ONCE).try_collect().await
}
