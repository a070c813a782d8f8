//! Write checks: they write to the store, but change nothing that callers see.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{ListQuery, StoreEvent};
use breakerbox::{CircuitStatus, Nonce};

use super::{AnyStore, at_once, put, read, record, unique, unique_key};

/// A write check changes no circuit and no term, and publishes nothing, however many processes check at once.
pub async fn a_write_check_changes_nothing(store: AnyStore) {
    let tenant = unique("checked");
    let key = unique_key(&format!("{tenant} e1"));
    let mut changes = store.changes();
    put(&store, &key, None, record(CircuitStatus::Open, 5, 1)).await;
    let term =
        store.lead(&tenant, Nonce(1), Duration::from_secs(600)).await.expect("the store answers").value;
    at_once(10, |_| {
        let store = Arc::clone(&store);
        async move {
            for _ in 0..5 {
                store.check_write().await.expect("the store accepts writes");
            }
        }
    })
    .await;
    assert_eq!(read(&store, &key).await, Some(record(CircuitStatus::Open, 5, 1)));
    let query = ListQuery { prefix: tenant.clone(), ..ListQuery::default() };
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = store.list(&ListQuery { after, ..query.clone() }).await.expect("the store answers");
        listed.extend(page.circuits);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, [(Arc::clone(&key), record(CircuitStatus::Open, 5, 1))]);
    let other = store.lead(&tenant, Nonce(2), Duration::from_secs(1)).await.expect("the store answers").value;
    assert_eq!((other.leads, other.ends_at), (false, term.ends_at));
    // Ignores events about the circuits of other checks.
    put(&store, &key, Some(1), record(CircuitStatus::Closed, 6, 2)).await;
    let mut versions = Vec::new();
    while versions.last() != Some(&2) {
        let event =
            tokio::time::timeout(super::WAIT_LIMIT, changes.next()).await.expect("the change is heard");
        match event.expect("the store is there") {
            StoreEvent::Changed { key: of, record } if of == key => versions.push(record.version.0),
            _ => {}
        }
    }
    assert_eq!(versions, [1, 2]);
}

/// A write check returns the store's time, as every operation does.
pub async fn a_write_check_answers_with_the_stores_time(store: AnyStore) {
    // The servers of one store may have separate clocks, which differ only slightly.
    let margin = Duration::from_secs(1);
    let before = store.read(&[]).await.expect("the store answers").now;
    let checked = store.check_write().await.expect("the store accepts writes").now;
    let after = store.read(&[]).await.expect("the store answers").now;
    assert!(checked + margin >= before && checked <= after + margin, "{before:?} {checked:?} {after:?}");
}
