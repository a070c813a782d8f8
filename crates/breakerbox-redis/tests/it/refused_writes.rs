//! A server that answers reads and refuses writes, for example because its memory is full: the store reports
//! it, and a fleet goes on without the store until it recovers. Also: a store whose runtime has ended.

use breakerbox::store::Store;
use breakerbox_testkit::fleet_checks::{outlasts_refused_writes, says_that_its_runtime_has_ended};
use breakerbox_testkit::servers::{RedisCluster, RedisServer};

use crate::server::{connect, message};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_whose_server_has_no_memory_left_goes_on_alone_and_returns() {
    let server = RedisServer::start().unwrap();
    let (refuse, allow) = (|| server.refuse_writes().unwrap(), || server.allow_writes().unwrap());
    let connect = async || connect(&server.url()).await;
    outlasts_refused_writes(connect, &["OOM", "command not allowed"], refuse, allow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_which_one_master_refuses_writes_can_not_be_written() {
    let cluster = tokio::task::spawn_blocking(RedisCluster::start).await.unwrap().unwrap();
    let store = connect(&cluster.url()).await;
    for node in cluster.nodes() {
        store.check_write().await.unwrap();
        node.refuse_writes().unwrap();
        let error = message(&store.check_write().await.unwrap_err());
        assert!(error.contains("OOM") && error.contains(&node.port().to_string()), "{error}");
        node.allow_writes().unwrap();
    }
    store.check_write().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_and_a_user_without_rights_are_no_store_to_write_to() {
    let (server, other) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    server.query::<()>(&["ACL", "SETUSER", "fleet", "on", "nopass", "~breakerbox:*", "&*", "+@all"]).unwrap();
    let url = server.url().replace("redis://", "redis://fleet:any@");
    let store = connect(&url).await;
    store.check_write().await.unwrap();
    server.query::<()>(&["ACL", "SETUSER", "fleet", "-hset"]).unwrap();
    let error = message(&store.check_write().await.unwrap_err());
    // The first is the wording of Redis 7.0, the second of later versions.
    let says_so = ["can't run this command", "no permissions to run"].iter().any(|text| error.contains(text));
    assert!(says_so, "{error}");
    server.query::<()>(&["ACL", "SETUSER", "fleet", "+hset"]).unwrap();
    store.check_write().await.unwrap();
    server.replica_of(&other).unwrap();
    let error = message(&store.check_write().await.unwrap_err());
    assert!(error.contains("replica"), "{error}");
}

/// Verifies that every key that a check writes expires.
#[tokio::test]
async fn a_check_leaves_one_key_that_expires() {
    let server = RedisServer::start().unwrap();
    let store = connect(&server.url()).await;
    for _ in 0..3 {
        store.check_write().await.unwrap();
    }
    let keys: Vec<String> = server.query(&["KEYS", "*"]).unwrap();
    assert_eq!(keys, ["breakerbox:{0}:write_check"]);
    let left: i64 = server.query(&["PTTL", &keys[0]]).unwrap();
    assert!(left > 0, "{left}");
}

#[test]
fn a_store_whose_runtime_has_ended_says_so() {
    let server = RedisServer::start().unwrap();
    says_that_its_runtime_has_ended(async || connect(&server.url()).await);
}
