//! Opening a database: the schema is created once, however many processes start, and processes get numbers of their own.

use std::collections::HashSet;

use breakerbox_storage_postgres::{Database, OpenError, Options};
use tokio::task::JoinSet;

use crate::server::{own_schema, shared};

#[tokio::test]
async fn processes_that_start_at_once_create_the_schema_once() {
    let (server, schema) = (shared().await, own_schema());
    let mut opening = JoinSet::new();
    for _ in 0..4 {
        let (url, options) = (server.url(), Options { schema: schema.clone(), ..Options::default() });
        opening.spawn(async move { Database::open(&url, options).await.unwrap() });
    }
    let databases = opening.join_all().await;
    let numbers: HashSet<i64> = databases.iter().map(Database::worker).collect();
    assert_eq!(numbers.len(), 4, "each has its own number");
    let ids: HashSet<i64> =
        databases.iter().flat_map(|database| (0..1_000).map(|_| database.next_id().number())).collect();
    assert_eq!(ids.len(), 4_000, "and its own ids");
    let applied = server.query(&format!("SELECT count(*) FROM {schema}.migrations")).unwrap();
    assert_eq!(applied, "1");
}

#[tokio::test]
async fn a_schema_with_a_wrong_name_is_refused() {
    let server = shared().await;
    for schema in ["", "Upper", "pg_mine", "a\"b", "1a"] {
        let options = Options { schema: schema.to_owned(), ..Options::default() };
        let opened = Database::open(&server.url(), options).await;
        assert!(matches!(opened, Err(OpenError::Schema)), "{schema}");
    }
}

#[tokio::test]
async fn the_time_is_that_of_the_server() {
    let (server, schema) = (shared().await, own_schema());
    let database = Database::open(&server.url(), Options { schema, ..Options::default() }).await.unwrap();
    let rows =
        database.read("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", &[]).await.unwrap();
    let server: i64 = rows[0].get(0);
    let apart = server.abs_diff(i64::try_from(database.now().as_micros()).unwrap());
    assert!(apart < 5_000_000, "{apart} us");
}
