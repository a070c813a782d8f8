//! Connecting: errors that say what to do, concurrent starts, the required permissions, TLS.

use std::time::Duration;

use breakerbox::sampling::{Poll, Sampler, SqlQuery};
use breakerbox::store::{Store, StoreError, StoreEvent};
use breakerbox_postgres::{ConnectError, PostgresSampler, PostgresStore};
use breakerbox_testkit::servers::{PostgresOptions, PostgresServer};
use tokio::net::TcpListener;

use crate::samples::{put, read, record, unique};
use crate::server::{WAIT_LIMIT, alone, client, on_shared, patient, until};

async fn refused(url: &str) -> ConnectError {
    let builder = PostgresStore::builder(url).start_within(Duration::from_secs(5));
    let error = builder.connect().await.expect_err("it is refused");
    assert!(!error.to_string().contains("secret"), "{error}");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_says_what_is_wrong_and_what_to_do() {
    let server = PostgresOptions::new().password("right").start().unwrap();
    PostgresStore::connect(&server.url()).await.unwrap();
    let address = format!("127.0.0.1:{}", server.port());

    let error = refused(&server.url().replace(":right@", ":secret@")).await;
    assert!(matches!(&error, ConnectError::Refused { user, .. } if user == "postgres"), "{error:?}");
    assert!(error.to_string().contains("check user and password in the URL"), "{error}");

    let error = refused(&server.url().replace(":right@", "@")).await;
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");

    let error = refused(&format!("postgres://postgres:right@{address}/nowhere")).await;
    assert!(matches!(error, ConnectError::NoDatabase { .. }), "{error:?}");
    assert!(error.to_string().contains("\"nowhere\" does not exist"), "{error}");

    let error = refused(&format!("{}?sslmode=require", server.url())).await;
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("check sslmode"), "{error}");

    let error = refused(&format!("{}?sslmode=verify-full&sslrootcert=/no/such/file", server.url())).await;
    assert!(error.to_string().contains("/no/such/file"), "{error}");

    drop(server);
    let error = refused(&format!("postgres://postgres:secret@{address}/postgres")).await;
    assert!(
        matches!(&error, ConnectError::Unreachable { address: stated, .. } if *stated == address),
        "{error:?}"
    );
    assert!(error.to_string().contains("check host and port"), "{error}");

    assert!(matches!(refused("mysql://somewhere").await, ConnectError::Url { .. }));
}

/// Connects to a server that accepts connections and never responds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_has_an_end() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", silent.local_addr().unwrap());
    let limit = Duration::from_millis(200);
    let connecting = PostgresStore::builder(&url).start_within(limit).connect();
    let error = tokio::time::timeout(WAIT_LIMIT, connecting).await.expect("it ends").unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { limit: stated, .. } if stated == limit), "{error:?}");
}

/// Opens a store while its server is down, as a service that must start nevertheless does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_can_be_opened_before_its_server_is_there() {
    let mut server = PostgresServer::start().unwrap();
    let key = unique("opened");
    server.kill().unwrap();
    let store = patient(&server.url()).open().unwrap();
    let mut changes = store.changes();
    assert!(matches!(store.read(&[]).await, Err(StoreError::Unavailable(_))));
    server.restart().unwrap();
    until("the tables are there", async || store.read(&[]).await.is_ok()).await;
    put(&store, &key, None, record(5, 1)).await;
    let event = async { while !matches!(changes.next().await.unwrap(), StoreEvent::Missed) {} };
    tokio::time::timeout(Duration::from_secs(20), event).await.expect("changes are heard from then on");
    assert!(matches!(PostgresStore::builder("nonsense").open(), Err(ConnectError::Url { .. })));
}

/// Starts eight processes of a fleet at once on an empty database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_at_once_on_an_empty_database() {
    let server = PostgresServer::start().unwrap();
    for schema in ["breakerbox", "other", "third"] {
        let connecting: Vec<_> = (0..8)
            .map(|_| {
                let builder = patient(&server.url()).schema(schema);
                tokio::spawn(async move { builder.connect().await.unwrap() })
            })
            .collect();
        for store in connecting {
            store.await.unwrap().read(&[]).await.unwrap();
        }
        let migrations =
            server.query(&format!("SELECT count(*), max(number) FROM {schema}.migrations")).unwrap();
        assert_eq!(migrations, "3|3");
    }
}

/// Verifies that older processes can use newer tables, as they do while a fleet is upgraded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_are_newer_will_do() {
    let held = alone("newer").await;
    held.server.query("INSERT INTO newer.migrations (number) VALUES (99)").unwrap();
    let older = alone("newer").await;
    put(&older, &unique("newer"), None, record(5, 1)).await;
    assert_eq!(held.server.query("SELECT count(*) FROM newer.migrations").unwrap(), "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_full_or_only_answers_questions_says_so() {
    let settings =
        PostgresOptions::new().set("max_connections", "3").set("superuser_reserved_connections", "0");
    let server = settings.set("max_wal_senders", "0").start().unwrap();
    let store = patient(&server.url()).connections(1).connect().await.unwrap();
    store.read(&[]).await.unwrap();
    let mut taken = Vec::new();
    while let Ok(client) = client(&server.url()).await {
        taken.push(client);
        assert!(taken.len() < 4);
    }
    let error = refused(&server.url()).await;
    assert!(matches!(error, ConnectError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("fewer connections"), "{error}");
    drop((taken, store));

    let read_only = "ALTER DATABASE postgres SET default_transaction_read_only = on";
    until("there is room again", async || server.query(read_only).is_ok()).await;
    let builder = PostgresStore::builder(&server.url()).schema("other");
    until("it is told that nothing can be created", async || {
        let error = builder.clone().connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::ReadOnly { .. } | ConnectError::Full { .. }), "{error:?}");
        matches!(error, ConnectError::ReadOnly { .. })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_have_nothing_to_do_with_each_other() {
    let (one, other) = (on_shared().await, alone("elsewhere").await);
    let key = unique("schemas");
    let mut changes = other.store.changes();
    put(&one, &key, None, record(5, 1)).await;
    assert_eq!(read(&other, &key).await, None);
    put(&other, &key, None, record(6, 2)).await;
    assert_eq!(read(&one, &key).await, Some(record(5, 1)));
    let event = changes.next().await.unwrap();
    assert!(format!("{event:?}").contains("Epoch(6)"), "{event:?}");
}

/// Returns the SQL that `docs/operating/postgres.md` gives to operators.
fn sql_of_the_document() -> [String; 2] {
    let text = include_str!("../../../../docs/operating/postgres.md");
    let blocks = text.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect::<Vec<_>>().try_into().unwrap()
}

/// Verifies that the fleet's user need not have the permission to create tables, if another user has created
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_few_rights_will_do_once_the_tables_are_there() {
    let server = PostgresServer::start().unwrap();
    server.query("CREATE ROLE worker LOGIN").unwrap();
    let url = server.url().replace("postgres@", "worker@");
    let error = refused(&url).await;
    assert!(matches!(error, ConnectError::NotPermitted { .. }), "{error:?}");
    assert!(error.to_string().contains("docs/operating/postgres.md"), "{error}");
    PostgresStore::connect(&server.url()).await.unwrap();
    let error = refused(&url).await;
    assert!(matches!(error, ConnectError::NotPermitted { .. }), "{error:?}");
    let [look, grant] = sql_of_the_document();
    server.query(&grant).unwrap();
    let store = patient(&url).connect().await.unwrap();
    let key = unique("worker");
    put(&store, &key, None, record(5, 1)).await;
    assert_eq!(read(&store, &key).await, Some(record(5, 1)));
    let seen = server.query(&look).unwrap();
    assert!(seen.starts_with("worker ") && seen.contains("|open|1970-01-01 00:00:00.000005"), "{seen}");

    server.query("CREATE ROLE owner LOGIN; CREATE SCHEMA mine AUTHORIZATION owner").unwrap();
    let url = server.url().replace("postgres@", "owner@");
    patient(&url).schema("mine").connect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_and_a_sampler_share_connections() {
    let held = on_shared().await;
    let url = format!("{}?application_name=sharing", held.server.url());
    let connections = || {
        held.server.query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sharing'").unwrap()
    };
    let database = patient(&url).connections(1).database().unwrap();
    let store = patient("not used").on(database.clone()).connect().await.unwrap();
    let key = unique("shared");
    put(&store, &key, None, record(5, 1)).await;
    assert_eq!(read(&held, &key).await, Some(record(5, 1)));
    // One for operations, and one that listens.
    until("the store is connected", async || connections() == "2").await;

    let sql = "SELECT 'a'::text AS key, 7::bigint AS successes, 0::bigint AS failures WHERE $1::bigint > 0";
    let sampler = PostgresSampler::on(database, SqlQuery(sql.into())).unwrap();
    let samples = sampler.sample(&Poll::new(Duration::from_secs(60), Vec::new())).await.unwrap();
    assert_eq!(samples["a"].successes, 7);
    assert_eq!(connections(), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_used_and_the_server_is_known_if_asked_for() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let server =
        PostgresOptions::new().tls(&made.cert.pem(), &made.signing_key.serialize_pem()).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (known, unknown) = (folder.path().join("a file.pem"), folder.path().join("other.pem"));
    std::fs::write(&known, made.cert.pem()).unwrap();
    std::fs::write(&unknown, other.cert.pem()).unwrap();
    let file = |path: &std::path::Path| path.display().to_string().replace(' ', "%20");
    for (parameters, encrypted) in [
        (String::new(), "t"),
        ("?sslmode=disable".to_owned(), "f"),
        ("?sslmode=require".to_owned(), "t"),
        (format!("?sslmode=verify-full&sslrootcert={}", file(&known)), "t"),
    ] {
        let store = patient(&format!("{}{parameters}", server.url())).connect().await.unwrap();
        store.read(&[]).await.unwrap();
        let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE application_name = 'breakerbox'";
        assert_eq!(server.query(sql).unwrap(), encrypted, "{parameters}");
        drop(store);
        let gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'breakerbox'";
        until("its connections are gone", async || server.query(gone).unwrap() == "0").await;
    }
    for parameters in
        ["?sslmode=verify-full".to_owned(), format!("?sslmode=verify-full&sslrootcert={}", file(&unknown))]
    {
        let error = refused(&format!("{}{parameters}", server.url())).await;
        assert!(matches!(error, ConnectError::Tls { .. }), "{parameters}: {error:?}");
    }
}
