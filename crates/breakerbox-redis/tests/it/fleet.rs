//! A fleet over Redis, with the whole library: when one process trips, all are open; after Redis loses its
//! data, the fleet restores it.

use std::time::Duration;

use breakerbox::store::Store;
use breakerbox::{Breakerbox, Circuit, CircuitStatus, Consistency, Policy, StoreHealth, StoredKeys};
use breakerbox_testkit::servers::{RedisServer, Restart};

use crate::faults::eventually;
use crate::server::connect;

const KEY: &str = "acme https://hooks.acme.example/in";

async fn process(server: &RedisServer) -> (Breakerbox, Circuit) {
    process_with(server, Consistency::LocalFirst).await
}

async fn process_with(server: &RedisServer, consistency: Consistency) -> (Breakerbox, Circuit) {
    process_storing(server, consistency, StoredKeys::Text).await
}

async fn process_storing(
    server: &RedisServer,
    consistency: Consistency,
    stored: StoredKeys,
) -> (Breakerbox, Circuit) {
    let policy =
        Policy::builder().failure_rate(None).consecutive_failures(3).cool_off(Duration::from_secs(60));
    let breakers = Breakerbox::builder()
        .policy(policy.build().unwrap())
        .store(connect(&server.url()).await)
        .consistency(consistency)
        .stored_keys(stored)
        .store_timeout(Duration::from_secs(20))
        .build();
    let circuit = breakers.circuit(KEY).unwrap();
    (breakers, circuit)
}

async fn all_become(fleet: &[(Breakerbox, Circuit)], status: CircuitStatus) {
    eventually(status.name(), async || {
        fleet.iter().all(|(_, circuit)| circuit.status() == status).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_several_processes_open_the_circuit_of_all_and_a_lost_store_is_told_again() {
    let mut server = RedisServer::start().unwrap();
    let fleet = [process(&server).await, process(&server).await, process(&server).await];
    for n in [0, 1, 0] {
        let _ = fleet[n].1.call(async { Err::<(), _>("down") }).await;
    }
    all_become(&fleet, CircuitStatus::Open).await;
    let store = connect(&server.url()).await;
    let record = store.read(&[KEY.into()]).await.unwrap().all().unwrap().value[0].clone().unwrap();
    assert_eq!(record.status(), CircuitStatus::Open);
    let late = process(&server).await;
    let refused = late.1.call(async { Ok::<_, ()>("never made") }).await;
    assert!(refused.is_err(), "whoever starts now inherits it");

    server.kill().unwrap();
    eventually("all know that it is gone", async || {
        let degraded =
            |breakers: &Breakerbox| matches!(breakers.store_health(), Some(StoreHealth::Degraded { .. }));
        fleet.iter().all(|(breakers, _)| degraded(breakers)).then_some(())
    })
    .await;
    all_become(&fleet, CircuitStatus::Open).await;

    server.restart(Restart::Empty).unwrap();
    let again = eventually("the record is published again", async || {
        store.read(&[KEY.into()]).await.ok()?.all().ok()?.value[0].clone()
    })
    .await;
    assert_eq!((again.status(), again.epoch), (CircuitStatus::Open, record.epoch));
    all_become(&fleet, CircuitStatus::Open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strictly_what_one_counted_stops_the_next() {
    let server = RedisServer::start().unwrap();
    let fleet =
        [process_with(&server, Consistency::Strict).await, process_with(&server, Consistency::Strict).await];
    for n in [0, 1, 0] {
        assert!(fleet[n].1.call(async { Err::<(), _>("down") }).await.is_err());
    }
    for (_, circuit) in &fleet {
        let refused = circuit.call(async { Ok::<_, ()>("never made") }).await.unwrap_err();
        assert_eq!(refused.refusal().map(breakerbox::Refusal::name), Some("open"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hashed_keys_no_text_of_a_key_is_in_redis() {
    let server = RedisServer::start().unwrap();
    let process = || process_storing(&server, Consistency::LocalFirst, StoredKeys::Hashed);
    let fleet = [process().await, process().await];
    for n in [0, 1, 0] {
        let _ = fleet[n].1.call(async { Err::<(), _>("down") }).await;
    }
    all_become(&fleet, CircuitStatus::Open).await;
    let keys: Vec<String> = server.query(&["KEYS", "*"]).unwrap();
    assert!(keys.iter().any(|key| key.contains(":record:#")), "{keys:?}");
    let mut held = keys.join("\n");
    for key in &keys {
        let kind: String = server.query(&["TYPE", key]).unwrap();
        let values: Vec<String> = match kind.as_str() {
            "hash" => server.query(&["HGETALL", key]).unwrap(),
            "zset" => server.query(&["ZRANGE", key, "0", "-1"]).unwrap(),
            other => panic!("{key} is a {other}"),
        };
        held += &values.join("\n");
    }
    assert!(!held.contains("hooks") && !held.contains("acme"), "{held}");
}
