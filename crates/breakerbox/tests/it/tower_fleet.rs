//! The circuit layer with shared circuits: it waits for the store where required.

use std::sync::Arc;

use breakerbox::store::MemoryStore;
use breakerbox::tower::circuit::Error;
use breakerbox::{CircuitStatus, Consistency, Refusal};
use tower::Layer;
use tower::limit::ConcurrencyLimit;

use crate::mock::{CallTo as _, status};
use crate::service::{Service, secs, simple};
use crate::tower_circuit::{KEY, URL, client, layer};

fn process(store: &Arc<MemoryStore>, consistency: Consistency) -> Service {
    Service::with(&simple(), |builder| builder.store(Arc::clone(store)).consistency(consistency))
}

#[tokio::test(start_paused = true)]
async fn strictly_what_one_process_counted_stops_the_next_one_and_one_probe_closes() {
    let store = Arc::new(MemoryStore::new());
    let [one, other] = [(); 2].map(|()| process(&store, Consistency::Strict));
    let (mut client_of_one, mut destination) = client(&one);
    for _ in 0..3 {
        destination.answers(status(500), client_of_one.call_to(URL)).await.unwrap();
    }
    let (mut client_of_other, mut destination) = client(&other);
    let refused = client_of_other.call_to(URL).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { refusal: Refusal::Open { .. }, .. }), "{refused:?}");
    // The store uses the real clock, so an operator's reset ends the cool-off.
    let by = breakerbox::Attribution::new("ops", "tried by hand").unwrap();
    other.circuit(KEY).apply_override(breakerbox::OverrideCommand::Reset, &by).await.unwrap();
    destination.answers(status(200), client_of_other.call_to(URL)).await.unwrap();
    assert_eq!(one.circuit(KEY).status(), CircuitStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_first_call_inherits_what_the_fleet_knows_and_a_probe_waits_for_its_lease() {
    let clock = breakerbox::ManualClock::new();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let first = process(&store, Consistency::Strict);
    let (mut client_of_first, mut destination) = client(&first);
    for _ in 0..3 {
        destination.answers(status(500), client_of_first.call_to(URL)).await.unwrap();
    }
    let late = process(&store, Consistency::LocalFirst);
    let (mock, mut destination) = crate::mock::pair();
    let mut client = layer(&late).layer(ConcurrencyLimit::new(mock, 1));
    let mut others = client.clone();
    let refused = client.call_to(URL).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { refusal: Refusal::Open { .. }, .. }), "{refused:?}");
    let elsewhere = others.call_to("https://b.example/");
    destination.answers(status(200), elsewhere).await.expect("the only place is free again");
    clock.advance(secs(31));
    late.clock.advance(secs(31));
    destination.answers(status(200), client.call_to(URL)).await.expect("the probe");
    // With local-first consistency, the result is reported to the store in the background.
    while late.circuit(KEY).status() != CircuitStatus::Closed {
        tokio::task::yield_now().await;
    }
    destination.answers(status(200), client.call_to(URL)).await.expect("and it is closed");
}
