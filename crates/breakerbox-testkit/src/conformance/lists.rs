//! Listing circuits, and the change events that a store publishes.

use std::collections::BTreeSet;
use std::sync::Arc;

use breakerbox::CircuitStatus;
use breakerbox::store::{ListQuery, StoreEvent};

use super::{AnyStore, WAIT_LIMIT, put, record, unique};

/// Returns the keys on all pages of a query's results, without the query's prefix. Checks each page's size
/// and states.
async fn keys(store: &AnyStore, query: &ListQuery) -> Vec<String> {
    let mut query = query.clone();
    let mut keys = Vec::new();
    loop {
        let page = store.list(&query).await.expect("the store answers");
        assert!(page.circuits.len() <= query.limit);
        for (key, record) in page.circuits {
            assert!(query.status.is_none_or(|status| record.status() == status));
            keys.push(key.strip_prefix(&query.prefix).expect("only what was asked for").to_owned());
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return keys,
        }
    }
}

fn under(prefix: &str, limit: usize) -> ListQuery {
    ListQuery { prefix: prefix.to_owned(), limit, ..ListQuery::default() }
}

/// Every circuit is on exactly one page, for every page size, even while other circuits are added and removed.
pub async fn pages_hold_every_circuit_once(store: AnyStore) {
    let prefix = unique("pages ");
    let names: BTreeSet<_> = (0..100).map(|n| format!("e{n}")).collect();
    for name in &names {
        put(&store, &format!("{prefix}{name}").into(), None, record(CircuitStatus::Open, 5, 1)).await;
    }
    for limit in [1, 7, 100, 101, 1_000] {
        let found = keys(&store, &under(&prefix, limit)).await;
        assert_eq!(found.len(), 100, "pages of {limit}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), names, "pages of {limit}");
    }
}

/// A circuit is listed under its current state, and under no other.
pub async fn circuits_are_found_by_state(store: AnyStore) {
    let prefix = unique("states ");
    let key: Arc<str> = format!("{prefix}e1").into();
    let states =
        [CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Closed, CircuitStatus::Disabled];
    let mut version = None;
    for (n, status) in (1..).zip(states) {
        put(&store, &key, version, record(status, n, n.into())).await;
        version = Some(n.into());
        for asked in states {
            let query = ListQuery { status: Some(asked), ..under(&prefix, 10) };
            assert_eq!(keys(&store, &query).await.len(), usize::from(asked == status), "{status}: {asked}");
        }
    }
}

/// Listing by tenant returns only that tenant's circuits, even if the tenant's name is a prefix of another's.
/// Pattern characters in a name have no special meaning.
pub async fn circuits_are_found_by_tenant(store: AnyStore) {
    let unique = unique("tenants");
    for tenant in ["a", "ab", "a*", "a_", "a%"] {
        let key = format!("{unique}{tenant} https://example.com");
        put(&store, &key.into(), None, record(CircuitStatus::Open, 5, 1)).await;
    }
    for (tenant, count) in [("a ", 1), ("ab ", 1), ("a* ", 1), ("a_ ", 1), ("a% ", 1), ("a", 5), ("c", 0)] {
        let found = keys(&store, &under(&format!("{unique}{tenant}"), 10)).await;
        assert_eq!(found.len(), count, "{tenant:?}");
    }
}

/// Every listener receives every swap, whichever process made it. A listener that missed some swaps receives a
/// `Missed` event.
pub async fn a_swap_is_heard_by_everybody(store: AnyStore) {
    let key: Arc<str> = unique("heard").into();
    let mut listeners = [store.changes(), store.changes()];
    for n in 1..=10_u32 {
        put(&store, &key, (n > 1).then(|| (n - 1).into()), record(CircuitStatus::Open, n.into(), n.into()))
            .await;
    }
    for listener in &mut listeners {
        let last = async {
            loop {
                match listener.next().await.expect("the store is there") {
                    StoreEvent::Changed { key: of, record } if of == key && record.version.0 == 10 => break,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(WAIT_LIMIT, last).await.expect("the last swap is heard");
    }
}

/// Every listener receives the keys for which reports are requested, however many there are. Requests may be
/// lost, so the check retries them.
pub async fn a_call_for_reports_is_heard_by_everybody(store: AnyStore) {
    let unique = unique("called");
    let keys: Vec<Arc<str>> = (0..1_500).map(|n| format!("{unique} \u{e9} \" {n}").into()).collect();
    store.call_for_reports(&[]).await.expect("nobody is called, and that is no error");
    for mut listener in [store.changes(), store.changes()] {
        let mut not_received: std::collections::HashSet<_> = keys.iter().cloned().collect();
        let receive_all = async {
            while !not_received.is_empty() {
                store.call_for_reports(&keys).await.expect("the store answers");
                let hear_some = async {
                    while !not_received.is_empty() {
                        if let StoreEvent::ReportsWanted { keys } =
                            listener.next().await.expect("the store is there")
                        {
                            keys.iter().for_each(|key| _ = not_received.remove(key));
                        }
                    }
                };
                // If nothing more arrives within a second, a request was lost.
                let _ = tokio::time::timeout(std::time::Duration::from_secs(1), hear_some).await;
            }
        };
        tokio::time::timeout(WAIT_LIMIT, receive_all).await.expect("all keys are heard");
    }
}
