//! Keys of every kind: long, unusual, similar.

use std::sync::Arc;

use breakerbox::store::{ListQuery, Store};

use crate::samples::{counted, failures, put, read, record, whole};
use crate::server::{alone, on_shared, patient};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_and_strange_keys_are_keys_like_others() {
    let held = alone("strange").await;
    let mut keys: Vec<Arc<str>> = [
        "",
        "\0",
        "\0\0",
        "a\0b",
        "a",
        "A",
        "a ",
        "\u{e9}",
        "e\u{301}",
        "\u{10ffff}",
        "\u{7f}",
        "%",
        "_",
        "\\",
        "\\x00",
        "'",
        "\"",
        "'; DROP TABLE breakerbox.circuits; --",
        "$1",
        "{a,b}",
        "\n",
        "\u{202e}",
        "NULL",
        "\u{fffd}",
    ]
    .map(Arc::from)
    .to_vec();
    for c in ["x", "\0", "\u{1f50c}", "\\", "\""] {
        keys.push(c.repeat(1_024 / c.len()).into());
    }
    keys.push("y".repeat(2_048).into());
    keys.sort();
    for (key, n) in keys.iter().zip(1..) {
        held.merge(&[failures(key, n)]).await.unwrap();
        put(&held, key, None, record(0, n.into())).await;
    }
    for (key, n) in keys.iter().zip(1..) {
        assert_eq!(read(&held, key).await.unwrap().version.0, u128::from(n), "{key:?}");
        assert_eq!(counted(&held, key).await, n, "{key:?}");
    }
    // All keys, in byte order, whatever the page size.
    for limit in [1, 5, 100] {
        let mut query = ListQuery { limit, ..ListQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = held.list(&query).await.unwrap();
            found.extend(page.circuits.into_iter().map(|(key, _)| key));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(found, keys);
    }
    for prefix in ["", "a", "\0", "\u{1f50c}\u{1f50c}", "%", "\\", "\u{10ffff}", "zz"] {
        let query = ListQuery { prefix: prefix.to_owned(), ..ListQuery::default() };
        let found: Vec<_> =
            held.list(&query).await.unwrap().circuits.into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> = keys.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
        assert_eq!(found, expected, "{prefix:?}");
    }
    let error = held.read(&["x".repeat(2_049).into()]).await.unwrap_err();
    assert!(whole(&error).contains("key: must be at most 2048 bytes, but is 2049"), "{error}");
}

/// Uses databases whose encoding can't represent every string. Keys are stored as bytes, so the encoding does
/// not matter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_encoding_of_the_database_does_not_matter() {
    let held = on_shared().await;
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = format!("in_{}", encoding.to_lowercase());
        let sql = format!("CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0");
        held.server.query(&sql).unwrap();
        let url = format!("{}/{name}", held.server.url().rsplit_once('/').unwrap().0);
        let store = patient(&url).connect().await.unwrap();
        let key: Arc<str> = "\u{1f50c} \0 \u{e9}".into();
        let mut changes = store.changes();
        put(&store, &key, None, crate::samples::long_record(5, 1)).await;
        assert_eq!(read(&store, &key).await, Some(crate::samples::long_record(5, 1)));
        assert!(format!("{:?}", changes.next().await.unwrap()).starts_with("Changed"));
        put(&store, &key, Some(1), record(6, 2)).await;
        assert!(format!("{:?}", changes.next().await.unwrap()).starts_with("Changed"));
    }
}
