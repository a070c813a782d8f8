//! Connecting, and errors that say what to do.

use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::{ListQuery, Store, StoreEvent};
use breakerbox_redis::{ConnectError, RedisStore};
use breakerbox_testkit::servers::{RedisOptions, RedisSentinel, RedisServer, free_port};

use crate::faults::{eventually, missed_before, next};
use crate::server::{WAIT_LIMIT, connect, delta, message, on_cluster, put, record, swap};

async fn refused(url: &str) -> ConnectError {
    RedisStore::connect(url).await.expect_err(url)
}

fn says(error: &ConnectError, words: &[&str]) {
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text} does not say {words:?}");
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_login_that_is_wrong_or_missing_is_said_to_be() {
    let server = RedisOptions::new().password("secret").start().unwrap();
    let port = server.port();
    for login in ["", ":not-secret@", "nobody:secret@"] {
        let error = refused(&format!("redis://{login}127.0.0.1:{port}")).await;
        assert!(matches!(error, ConnectError::Denied { .. }), "{login}: {error}");
        says(&error, &[&format!("127.0.0.1:{port}"), "check the user and the password"]);
    }
    let store = connect(&server.url()).await;
    assert!(!format!("{store:?} {:?}", RedisStore::builder(&server.url())).contains("secret"));
}

#[tokio::test]
async fn nobody_there_is_said_at_once() {
    let error = refused(&format!("redis://127.0.0.1:{}", free_port().unwrap())).await;
    // If the store had waited for the server, this would be a timeout error.
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    says(&error, &["can't connect", "refused", "check the address"]);
    let error = refused("redis://no-such-host.invalid").await;
    says(&error, &["no-such-host.invalid", "check the address"]);
}

#[tokio::test]
async fn somebody_there_who_says_nothing_is_given_up() {
    let mut server = RedisServer::start().unwrap();
    server.pause().unwrap();
    let error = refused(&server.url()).await;
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    says(&error, &["no answer within 2s", "rediss"]);
}

#[tokio::test]
async fn settings_that_cannot_be_are_named() {
    let url = "redis://127.0.0.1";
    for namespace in ["", "a{b}", "a b", &"a".repeat(65)] {
        let error = RedisStore::builder(url).namespace(namespace).open().unwrap_err();
        says(&error, &["namespace: "]);
    }
    says(&RedisStore::builder(url).time_limit(Duration::ZERO).open().unwrap_err(), &["time_limit: "]);
    let not_pem = RedisStore::builder("rediss://127.0.0.1").root_certificate(b"nonsense").connect().await;
    assert!(not_pem.is_err());
    says(&refused("127.0.0.1").await, &["url: ", "redis://"]);
}

#[tokio::test]
async fn another_kind_of_server_is_said_to_be_one() {
    let held = on_cluster().await;
    let node = held.server.nodes()[0].port();
    says(&refused(&format!("redis://127.0.0.1:{node}")).await, &["a node of a cluster", "redis+cluster://"]);

    let (server, replica) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let port = server.port();
    says(&refused(&format!("redis+cluster://127.0.0.1:{port}")).await, &["no part of a cluster", "redis://"]);
    says(
        &refused(&format!("redis+sentinel://127.0.0.1:{port}?master=m")).await,
        &["no sentinel", "redis://"],
    );
    replica.replica_of(&server).unwrap();
    says(&refused(&replica.url()).await, &["a replica", "master"]);

    let sentinel = RedisSentinel::watch("shop", &server).unwrap();
    let port = sentinel.port();
    says(&refused(&format!("redis://127.0.0.1:{port}")).await, &["a sentinel", "redis+sentinel://"]);
    let error = refused(&format!("redis+sentinel://127.0.0.1:{port}?master=bank")).await;
    says(&error, &["bank: no sentinel knows", "master="]);
}

#[tokio::test]
async fn a_url_chooses_the_database() {
    let server = RedisServer::start().unwrap();
    let store = connect(&format!("{}3", server.url())).await;
    put(&store, "e1", record(1)).await;
    let keyspace: String = server.query(&["INFO", "keyspace"]).unwrap();
    assert!(keyspace.contains("db3:") && !keyspace.contains("db0:"), "{keyspace}");
}

#[tokio::test]
async fn tls_needs_a_certificate_that_is_trusted() {
    let file = |name| format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"));
    let options = RedisOptions::new().set_free_port("tls-port").set("tls-auth-clients", "no");
    let options = options.set("tls-cert-file", &file("server.pem")).set("tls-key-file", &file("server.key"));
    let server = options.password("secret").start().unwrap();
    let port = server.port_of("tls-port").unwrap();
    let authority = std::fs::read(file("authority.pem")).unwrap();

    let url = format!("rediss://:secret@localhost:{port}/");
    let store = RedisStore::builder(&url).root_certificate(&authority).connect().await.unwrap();
    let mut changes = store.changes();
    put(&store, "e1", record(1)).await;
    missed_before(&mut changes, "e1", 1).await;

    let error = refused(&url).await;
    says(&error, &["certificate"]);
    let error = refused(&format!("redis://:secret@localhost:{port}/")).await;
    says(&error, &["check"]);
}

/// Verifies that the permissions in `docs/operating/redis.md` are sufficient.
#[tokio::test]
async fn a_user_needs_few_rights() {
    let server = RedisServer::start().unwrap();
    let docs = include_str!("../../../../docs/operating/redis.md");
    let line = docs.lines().find(|line| line.starts_with("ACL SETUSER breakerbox")).unwrap();
    server.query::<()>(&line.split(' ').collect::<Vec<_>>()).unwrap();
    let url = format!("redis://breakerbox:secret@127.0.0.1:{}", server.port());
    let store = connect(&url).await;
    let mut changes = store.changes();
    store.merge(&[delta("e1")]).await.unwrap();
    put(&store, "e1", record(1)).await;
    missed_before(&mut changes, "e1", 1).await;
    assert_eq!(store.list(&ListQuery::default()).await.unwrap().circuits.len(), 1);
    assert!(store.lead("office", Nonce(1), WAIT_LIMIT).await.unwrap().value.leads);

    let other = RedisStore::builder(&url).namespace("other").connect().await.unwrap_err();
    says(&other, &["refused", "rights"]);
    server.query::<()>(&["ACL", "SETUSER", "breakerbox", "-eval", "-evalsha"]).unwrap();
    let error = message(&store.merge(&[delta("e1")]).await.unwrap_err());
    assert!(error.contains("NOPERM") || error.contains("no permissions"), "{error}");
}

#[tokio::test]
async fn sentinels_name_the_master_and_the_next_one() {
    let (mut master, replica) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    replica.replica_of(&master).unwrap();
    let sentinel = RedisSentinel::watch("shop", &master).unwrap();
    eventually("it knows the replica", async || (sentinel.replicas("shop").ok()? == 1).then_some(())).await;
    let dead = free_port().unwrap();
    let url = format!("redis+sentinel://127.0.0.1:{dead},127.0.0.1:{}/0?master=shop", sentinel.port());
    let store = connect(&url).await;
    let mut changes = store.changes();
    put(&store, "e1", record(1)).await;
    missed_before(&mut changes, "e1", 1).await;
    eventually("it is copied", async || {
        let key = "breakerbox:{".to_owned();
        let keys: Vec<String> = replica.query(&["KEYS", "*record*"]).ok()?;
        keys.first().filter(|found| found.starts_with(&key)).map(drop)
    })
    .await;

    master.kill().unwrap();
    let answer = eventually("the next master is found", async || {
        store.swap_if(&swap("e1", Some(1), record(2))).await.ok()
    })
    .await;
    assert_eq!(answer.value, breakerbox::store::Swapped::Won);
    assert_eq!(next(&mut changes).await, StoreEvent::Missed);
    eventually("changes are heard again", async || {
        let version = store.read(&["e1".into()]).await.ok()?.all().ok()?.value[0].as_ref()?.version.0;
        store.swap_if(&swap("e1", Some(version), record(version + 1))).await.ok()?;
        let event = tokio::time::timeout(Duration::from_millis(100), changes.next()).await.ok()??;
        matches!(event, StoreEvent::Changed { .. }).then_some(())
    })
    .await;
}
