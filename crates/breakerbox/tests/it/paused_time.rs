//! A typical user's test: tokio's time is paused, and no clock is passed.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{MemoryStore, Store as _};
use breakerbox::{Breakerbox, Circuit, CircuitStatus, Clock, TokioClock};
use tokio::time::{sleep, timeout};

const KEY: &str = "acme https://hooks.acme.example/in";

async fn fails(circuit: &Circuit) {
    let _ = circuit.call(async { Err::<(), _>("down") }).await;
}

async fn becomes(circuit: &Circuit, status: CircuitStatus) {
    let until = async {
        while circuit.status() != status {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(Duration::from_secs(10), until).await.is_ok(), "it becomes {status}");
}

#[tokio::test(start_paused = true)]
async fn a_circuit_trips_and_recovers_over_the_memory_store() {
    let store = Arc::new(MemoryStore::new());
    let [one, other] = [(); 2].map(|()| Breakerbox::builder().store(Arc::clone(&store)).build());
    let circuits = [&one, &other].map(|breakers| breakers.circuit(KEY).unwrap());
    for _ in 0..5 {
        fails(&circuits[0]).await;
    }
    becomes(&circuits[0], CircuitStatus::Open).await;
    becomes(&circuits[1], CircuitStatus::Open).await;
    sleep(Duration::from_secs(60)).await;
    for _ in 0..3 {
        assert_eq!(circuits[1].call(async { Ok::<_, ()>("back") }).await, Ok("back"));
    }
    becomes(&circuits[0], CircuitStatus::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn a_circuit_without_a_store_needs_no_clock_either() {
    let circuit = Breakerbox::builder().build().circuit(KEY).unwrap();
    for _ in 0..5 {
        fails(&circuit).await;
    }
    assert_eq!(circuit.status(), CircuitStatus::Open);
    sleep(Duration::from_secs(60)).await;
    assert!(circuit.try_acquire().unwrap().is_probe());
}

#[tokio::test]
async fn where_time_is_paused_later_a_clock_is_passed() {
    let clock = TokioClock::new();
    let store = MemoryStore::with_clock(clock.clone());
    let before = store.read(&[]).await.unwrap().now;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    let after = store.read(&[]).await.unwrap().now;
    assert!(after.since(before) >= Duration::from_secs(3_600));
    assert_eq!(clock.now(), after);
}
