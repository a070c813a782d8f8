//! The layers around a hyper client, with real requests on loopback: how its errors are classified.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use breakerbox::http::{HttpOverload, KeyFromUrl, NotSent};
use breakerbox::throttle::{Classify as _, LoadSignal, Throttle};
use breakerbox::tower::circuit::CircuitLayer;
use breakerbox::tower::throttle::ThrottleLayer;
use breakerbox::{CircuitBy, CircuitStatus};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tower::{BoxError, Service as _, ServiceBuilder, ServiceExt as _};

use crate::receiver::{Answer, Receiver, nobodys_url};
use crate::service::{Service, secs, simple};

async fn send<B>(url: &str, body: B) -> Result<Response<Incoming>, BoxError>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let client = Client::builder(TokioExecutor::new()).build_http();
    Ok(client.request(Request::post(url).body(body)?).await?)
}

#[tokio::test]
async fn what_a_throttle_is_told() {
    let table = [
        (Answer::Status(200), LoadSignal::Accept),
        (Answer::Status(429), LoadSignal::Reject),
        (Answer::Status(503), LoadSignal::Accept),
        (Answer::StatusAndRetryAfter(503, "40"), LoadSignal::Reject),
        (Answer::Close, LoadSignal::Neither),
    ];
    for (answer, expected) in table {
        let receiver = Receiver::start(answer).await;
        let result = send(&receiver.url("/"), Full::<Bytes>::default()).await;
        assert_eq!(HttpOverload::new().classify(&result), expected, "{answer:?}: {result:?}");
    }
    let (nobody, _taken) = nobodys_url();
    let result = send(&nobody, Full::<Bytes>::default()).await;
    assert_eq!(HttpOverload::new().classify(&result), LoadSignal::Neither, "nobody listens: {result:?}");
}

/// A request body that fails on the client's side, because its own source was disconnected.
struct Broken;

impl Body for Broken {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionReset).into())))
    }
}

#[tokio::test]
async fn our_own_broken_body_says_nothing_about_the_destination() {
    let receiver = Receiver::start(Answer::Hang).await;
    let result = send(&receiver.url("/"), Broken).await;
    assert!(result.is_err());
    assert_eq!(HttpOverload::new().classify(&result), LoadSignal::Neither, "{result:?}");
}

#[tokio::test]
async fn a_whole_stack() {
    let service = Service::new(&simple());
    let by_endpoint = KeyFromUrl::by(CircuitBy::Endpoint).or_tenant("t");
    let mut client = ServiceBuilder::new()
        .layer(ThrottleLayer::new(Throttle::builder().clock(service.clock.clone()).build()))
        .layer(CircuitLayer::new(service.breakers.clone(), by_endpoint))
        .service(Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>());
    let receiver = Receiver::start(Answer::StatusAndRetryAfter(503, "40")).await;
    let url = receiver.url("/in");
    let mut send = async || {
        let request = Request::post(&url).body(Full::default()).unwrap();
        client.ready().await.unwrap().call(request).await
    };
    assert_eq!(send().await.unwrap().status(), 503);
    receiver.answer(Answer::Close);
    for _ in 0..2 {
        let error = send().await.unwrap_err();
        assert_eq!(NotSent::find(&error), None, "{error}");
    }
    assert!(matches!(NotSent::find(&send().await.unwrap_err()), Some(NotSent::Refused(_))));
    assert_eq!(receiver.received(), 3);

    let circuit = service.circuit(&format!("t {url}"));
    service.clock.advance(secs(30));
    receiver.answer(Answer::Hang);
    tokio::select! {
        _ = send() => panic!("it hangs"),
        () = receiver.receives(4) => {}
    }
    assert_eq!(circuit.status(), CircuitStatus::HalfOpen, "the probe was dropped and counts nowhere");
    receiver.answer(Answer::Status(200));
    assert_eq!(send().await.unwrap().status(), 200);
    assert_eq!(circuit.status(), CircuitStatus::Closed);
}
