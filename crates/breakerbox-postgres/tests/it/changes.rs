//! Change notifications: all processes receive them, whatever their length, and merges send none.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Record;
use breakerbox::store::{Changes, Store, StoreEvent};

use crate::samples::{failures, long_record, put, record, unique};
use crate::server::{StoreWithServer, alone, on_shared};

async fn next_event(changes: &mut Changes) -> StoreEvent {
    let next = tokio::time::timeout(Duration::from_secs(20), changes.next());
    next.await.expect("something is heard in time").expect("the store is there")
}

fn changed(key: &Arc<str>, record: Record) -> StoreEvent {
    StoreEvent::Changed { key: Arc::clone(key), record: Arc::new(record) }
}

/// Verifies that listeners in all processes receive changes in the order in which they happened, even if a
/// record does not fit into a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_heard_in_their_order_however_long_they_are() {
    let (one, other) = (alone("heard").await, alone("heard").await);
    let mut listeners = [one.store.changes(), other.store.changes()];
    let key: Arc<str> = "\u{2}\u{1f50c}%_\0'".repeat(100).into();
    put(&one, &key, None, record(5, 1)).await;
    for listener in &mut listeners {
        assert_eq!(next_event(listener).await, changed(&key, record(5, 1)));
    }
    put(&one, &key, Some(1), long_record(6, 2)).await;
    for listener in &mut listeners {
        assert_eq!(next_event(listener).await, changed(&key, long_record(6, 2)), "it is read");
    }
    put(&other, &key, Some(2), record(7, 3)).await;
    put(&other, &key, Some(3), record(8, 4)).await;
    for listener in &mut listeners {
        assert_eq!(next_event(listener).await, changed(&key, record(7, 3)));
        assert_eq!(next_event(listener).await, changed(&key, record(8, 4)));
    }
    // Not even the key fits into a message.
    put(&one, &"\u{1}".repeat(2_000).into(), None, record(5, 1)).await;
    for listener in &mut listeners {
        assert_eq!(next_event(listener).await, StoreEvent::Missed);
    }
}

/// Verifies that merges and failed swaps do not notify, because `NOTIFY` takes a server-wide lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_changed_is_announced() {
    let held = alone("silent").await;
    let mut changes = held.store.changes();
    let key = unique("silent");
    put(&held, &key, None, record(5, 1)).await;
    held.merge(&[failures(&key, 1)]).await.unwrap();
    held.swap_if(&crate::samples::swap(&key, Some(7), record(6, 2))).await.unwrap();
    let too_late = breakerbox::store::Swap {
        not_after: breakerbox::Timestamp::from_micros(1),
        ..crate::samples::swap(&key, Some(1), record(6, 3))
    };
    held.swap_if(&too_late).await.unwrap();
    put(&held, &key, Some(1), record(6, 4)).await;
    assert_eq!(next_event(&mut changes).await, changed(&key, record(5, 1)));
    assert_eq!(next_event(&mut changes).await, changed(&key, record(6, 4)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_hear_when_the_store_is_gone() {
    let StoreWithServer { store, server: _server } = on_shared().await;
    let mut changes = store.changes();
    drop(store);
    let end = async { while changes.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("it ends");
}
