//! Readiness: the circuit layer passes on the inner service's readiness, and releases what it does not use.

use std::task::{Context, Poll, Waker};

use breakerbox::tower::circuit::Error;
use tower::buffer::Buffer;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service as _};

use crate::mock::{CallTo as _, now, request, status};
use crate::service::{Service, simple};
use crate::tower_circuit::{KEY, URL, client, layer};

#[tokio::test]
async fn readiness_is_that_of_the_service() {
    let service = Service::new(&simple());
    let (mut client, mut destination) = client(&service);
    destination.allow(0);
    let mut context = Context::from_waker(Waker::noop());
    assert!(client.poll_ready(&mut context).is_pending());
    destination.allow(1);
    assert!(matches!(client.poll_ready(&mut context), Poll::Ready(Ok(()))));
    destination.answers(status(200), client.call(request(URL))).await.unwrap();
    assert!(client.poll_ready(&mut context).is_pending());
    destination.breaks("no route");
    let broken = client.poll_ready(&mut context);
    assert!(matches!(broken, Poll::Ready(Err(Error::Inner(error))) if error.to_string() == "no route"));
    assert_eq!(service.circuit(KEY).totals().failures, 0, "it belongs to no key");
}

#[tokio::test]
async fn a_call_that_is_not_sent_gives_back_its_place() {
    let service = Service::new(&simple());
    service.tripped(KEY);
    for url in [URL, "ftp://a.example/no-key"] {
        let (mock, mut destination) = crate::mock::pair();
        let mut limited = layer(&service).layer(ConcurrencyLimit::new(mock, 1));
        let mut other = limited.clone();
        now(limited.call_to(url)).unwrap_err();
        let answer = other.call_to("https://b.example/");
        destination.answers(status(200), answer).await.expect("the only place is free");

        let (mock, mut destination) = crate::mock::pair();
        let mut buffered = layer(&service).layer(Buffer::new(mock, 1));
        let mut other = buffered.clone();
        destination.allow(0);
        now(buffered.call_to(url)).unwrap_err();
        let mut context = Context::from_waker(Waker::noop());
        assert!(other.poll_ready(&mut context).is_ready(), "the only slot is free");
        destination.allow(1);
        destination.answers(status(200), other.call(request("https://b.example/"))).await.unwrap();
    }
}

#[tokio::test]
async fn clones_share_circuits_and_get_ready_by_themselves() {
    let service = Service::new(&simple());
    let (mut client, mut destination) = client(&service);
    let mut other = client.clone();
    for _ in 0..3 {
        destination.answers(status(500), client.call_to(URL)).await.unwrap();
    }
    assert!(now(other.call_to(URL)).unwrap_err().refusal().is_some());
    destination.allow(1);
    let mut context = Context::from_waker(Waker::noop());
    assert!(client.poll_ready(&mut context).is_ready());
    destination.allow(0);
    assert!(client.clone().poll_ready(&mut context).is_pending());
    assert!(client.poll_ready(&mut context).is_ready(), "it stays ready");
}
