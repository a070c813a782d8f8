//! A server that answers reads and refuses writes, as one does whose memory is full: the store says so, and a fleet goes on
//! without it until it is back. And a store whose runtime has ended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::store::Store;
use breakerbox::{Breakerbox, Circuit, Policy, Status, StoreHealth};
use breakerbox_testkit::servers::{RedisCluster, RedisServer};

use crate::faults::eventually;
use crate::server::{connect, message};

const KEY: &str = "acme https://hooks.acme.example/in";

/// One process, and how its store's health changed.
struct Process {
    _breakers: Breakerbox,
    circuit: Circuit,
    health: Arc<Mutex<Vec<StoreHealth>>>,
}

impl Process {
    async fn start(server: &RedisServer) -> Self {
        let policy =
            Policy::builder().failure_rate(None).consecutive_failures(3).cool_off(Duration::from_secs(1));
        let health = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&health);
        let breakers = Breakerbox::builder()
            .policy(policy.probes(1).build().unwrap())
            .store(connect(&server.url()).await)
            // Only what the server says counts, however busy the machine is.
            .store_timeout(Duration::from_secs(20))
            .store_observer(move |health| seen.lock().unwrap().push(health.clone()))
            .build();
        let circuit = breakers.circuit(KEY).unwrap();
        Self { _breakers: breakers, circuit, health }
    }

    fn health(&self) -> Vec<StoreHealth> {
        self.health.lock().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_whose_server_has_no_memory_left_goes_on_alone_and_returns() {
    let server = RedisServer::start().unwrap();
    let fleet = [Process::start(&server).await, Process::start(&server).await];
    for n in [0, 1, 0] {
        let _ = fleet[n].circuit.call(async { Err::<(), _>("down") }).await;
    }
    let all_are = |status| fleet.iter().all(|process| process.circuit.status() == status);
    eventually("all are open", async || all_are(Status::Open).then_some(())).await;

    server.refuse_writes().unwrap();
    let refused_at = std::time::Instant::now();
    eventually("the loss is reported, with its cause", async || {
        let is_told = |process: &Process| match &process.health()[..] {
            [StoreHealth::Degraded { error }] => {
                error.contains("OOM") && error.contains("command not allowed")
            }
            other => {
                assert!(other.is_empty(), "{other:?}");
                false
            }
        };
        fleet.iter().all(is_told).then_some(())
    })
    .await;
    println!("reported after {:?}", refused_at.elapsed());
    eventually("the healed destination's circuits close", async || {
        for process in &fleet {
            let _ = process.circuit.call(async { Ok::<_, ()>(()) }).await;
        }
        all_are(Status::Closed).then_some(())
    })
    .await;
    let store = connect(&server.url()).await;
    let stored = async || {
        let stored = store.read(&[KEY.into()]).await.ok()?.all().ok()?.value[0].clone()?;
        Some(stored.status())
    };
    assert_eq!(stored().await, Some(Status::Open), "nothing could be written");
    for process in &fleet {
        assert_eq!(process.health().len(), 1, "lost once, and not back and forth");
    }

    server.allow_writes().unwrap();
    eventually("it is back", async || {
        fleet.iter().all(|process| process.health().last() == Some(&StoreHealth::Connected)).then_some(())
    })
    .await;
    eventually("what was decided alone is everybody's", async || {
        (stored().await == Some(Status::Closed)).then_some(())
    })
    .await;
    assert!(all_are(Status::Closed));
    assert!(fleet.iter().all(|process| process.health().len() == 2));
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
    assert!(error.contains("can't run this command"), "{error}");
    server.query::<()>(&["ACL", "SETUSER", "fleet", "+hset"]).unwrap();
    store.check_write().await.unwrap();
    server.replica_of(&other).unwrap();
    let error = message(&store.check_write().await.unwrap_err());
    assert!(error.contains("replica"), "{error}");
}

/// Everything that a check leaves behind goes by itself.
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
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = RedisServer::start().unwrap();
    let first = runtime();
    let store = first.block_on(async {
        let store = connect(&server.url()).await;
        store.check_write().await.unwrap();
        store
    });
    drop(first);
    let second = runtime();
    for _ in 0..3 {
        let error = message(&second.block_on(store.read(&[])).unwrap_err());
        assert!(error.contains("runtime that this store was connected on has ended"), "{error}");
    }
}
