//! The circuit as a tower layer, around a mock service.

use std::error::Error as _;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use breakerbox::http::{HttpOutcomes, KeyFromUrl, NotSent, Tenant};
use breakerbox::throttle::{Priority, Shed, Throttle};
use breakerbox::tower::circuit::{CircuitLayer, CircuitService, Error};
use breakerbox::{
    CircuitBy, CircuitStatus, Classification, Key, KeyError, ManualClock, OutcomeKind, Refusal, by_result,
};
use http::{Request, Response, StatusCode};
use tower::timeout::Timeout;
use tower::{BoxError, Layer};

use crate::mock::{CallTo as _, Destination, Mock, now, request, status};
use crate::overload::overload;
use crate::service::{Service, secs, simple};

pub(crate) const URL: &str = "https://a.example/in";
pub(crate) const KEY: &str = "t https://a.example/in";

pub(crate) type Client<S = Mock, C = HttpOutcomes> = CircuitService<S, KeyFromUrl, C>;

pub(crate) fn layer(service: &Service) -> CircuitLayer<KeyFromUrl> {
    CircuitLayer::new(service.breakers.clone(), KeyFromUrl::by(CircuitBy::Endpoint).or_tenant("t"))
}

pub(crate) fn client(service: &Service) -> (Client, Destination) {
    let (mock, destination) = crate::mock::pair();
    (layer(service).layer(mock), destination)
}

#[tokio::test]
async fn what_answers_mean_is_told_to_the_circuit() {
    for (code, counted) in [
        (200, (1, 0)),
        (302, (1, 0)),
        (404, (1, 0)),
        (408, (0, 1)),
        (429, (0, 1)),
        (500, (0, 1)),
        (503, (0, 1)),
    ] {
        let service = Service::new(&simple());
        let (mut client, mut destination) = client(&service);
        let answer = destination.answers(status(code), client.call_to(URL)).await.unwrap();
        assert_eq!(answer.status().as_u16(), code, "the caller has its answer");
        let totals = service.circuit(KEY).totals();
        assert_eq!((totals.successes, totals.failures), counted, "{code}");
    }
}

#[tokio::test]
async fn an_error_of_the_service_is_a_failure_and_is_handed_on() {
    let service = Service::new(&simple());
    let (mut client, mut destination) = client(&service);
    let error = destination.fails("connection reset", client.call_to(URL)).await.unwrap_err();
    assert!(matches!(&error, Error::Inner(inner) if inner.to_string() == "connection reset"));
    assert_eq!(error.to_string(), "the service behind the circuit failed");
    assert_eq!(service.circuit(KEY).totals().failures, 1);
}

#[tokio::test]
async fn a_refused_request_never_reaches_the_service() {
    let service = Service::new(&simple());
    let (mut client, mut destination) = client(&service);
    for _ in 0..3 {
        destination.answers(status(500), client.call_to(URL)).await.unwrap();
    }
    let error = now(client.call_to(URL)).unwrap_err();
    assert!(destination.is_idle());
    assert!(matches!(
        &error,
        Error::Refused { key, refusal: Refusal::Open { retry_in, .. } } if key.text() == KEY && *retry_in == secs(30)
    ));
    assert_eq!(error.to_string(), format!("{KEY}: refused (open)"));
    assert!(error.source().unwrap().is::<Refusal>());
    let boxed = BoxError::from(error);
    let response: Response<String> = NotSent::find(&*boxed).unwrap().response();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"30".parse().unwrap())
    );
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let service = Service::new(&simple());
    let (mut client, mut destination) = client(&service);
    for _ in 0..3 {
        let mut busy = status(503);
        busy.headers_mut().insert("retry-after", "300".parse().unwrap());
        destination.answers(busy, client.call_to(URL)).await.unwrap();
    }
    let error = now(client.call_to(URL)).unwrap_err();
    assert!(matches!(error.refusal(), Some(Refusal::Open { retry_in, .. }) if *retry_in == secs(300)));
}

#[tokio::test]
async fn endpoints_and_tenants_have_circuits_of_their_own() {
    let service = Service::new(&simple());
    service.tripped(KEY);
    let (mut client, mut destination) = client(&service);
    assert!(now(client.call_to("HTTPS://A.example:443/in/?x=1")).unwrap_err().refusal().is_some());
    destination.answers(status(200), client.call_to("https://a.example/out")).await.unwrap();
    let mut other_tenant = request(URL);
    other_tenant.extensions_mut().insert(Tenant::new("u"));
    destination.answers(status(200), client.send(other_tenant)).await.unwrap();
    assert_eq!(service.breakers.len(), 3);
}

#[tokio::test]
async fn a_request_without_a_key_is_not_sent() {
    let service = Service::new(&simple());
    let (mock, mut destination) = crate::mock::pair();
    let extract = KeyFromUrl::by(CircuitBy::Endpoint).require_tenant();
    let mut nobodys = CircuitLayer::new(service.breakers.clone(), extract).layer(mock.clone());
    let mut client = layer(&service).layer(mock);
    let table = [
        (now(nobodys.call_to(URL)), KeyError::NoTenant),
        (now(client.call_to("ftp://a.example/in")), KeyError::Scheme),
        (
            now(client.call_to(&format!("https://a.example/{}", "x".repeat(2_000)))),
            KeyError::TooLong { length: 2_020 },
        ),
    ];
    for (answer, expected) in table {
        let error = answer.unwrap_err();
        assert!(matches!(&error, Error::Key(error) if *error == expected), "{error}");
        assert_eq!(NotSent::find(&error), Some(NotSent::NoKey(expected)));
    }
    let says = KeyError::NoTenant.to_string();
    assert!(says.contains("extension") && says.contains("or_tenant"), "it says what to do: {says}");
    assert!(
        matches!(now(client.call_to("/in")), Err(Error::Key(KeyError::NoScheme))),
        "a server's, not a client's"
    );
    assert!(destination.is_idle());
    assert!(service.breakers.is_empty());
}

#[tokio::test]
async fn any_function_extracts_keys_and_classifies() {
    let service = Service::new(&simple());
    let by_method = |request: &Request<()>| Key::new(request.method().as_str());
    let strict = |result: &Result<Response<()>, BoxError>| match result {
        Ok(response) if response.status() == 200 => Classification::SUCCESS,
        Ok(_) => Classification::failure_with_retry_after(secs(77)),
        Err(_) => Classification::IGNORED,
    };
    let (mock, mut destination) = crate::mock::pair();
    let mut client = CircuitLayer::new(service.breakers.clone(), by_method).classify_by(strict).layer(mock);
    destination.answers(status(200), client.call_to(URL)).await.unwrap();
    destination.fails("whatever", client.call_to(URL)).await.unwrap_err();
    for _ in 0..3 {
        destination.answers(status(204), client.call_to(URL)).await.unwrap();
    }
    let error = now(client.call_to(URL)).unwrap_err();
    assert!(matches!(
        error,
        Error::Refused { key, refusal: Refusal::Open { retry_in, .. } } if key.text() == "GET" && retry_in == secs(77)
    ));
}

#[tokio::test]
async fn one_key_for_all_requests() {
    let service = Service::new(&simple());
    let (mock, _destination) = crate::mock::pair();
    let mut client = CircuitLayer::new(service.breakers.clone(), Key::new("all").unwrap()).layer(mock);
    service.tripped("all");
    assert!(now(client.call_to(URL)).unwrap_err().refusal().is_some());
    assert!(now(client.call_to("/anything")).unwrap_err().refusal().is_some());
}

#[tokio::test]
async fn one_probe_at_a_time_and_its_success_closes() {
    let service = Service::new(&simple());
    let circuit = service.tripped_and_cooled(KEY);
    let (mut client, mut destination) = client(&service);
    let mut probe = tokio::spawn(client.send(request(URL)));
    let (_, reply) = destination.next().await;
    for _ in 0..10 {
        let error = now(client.call_to(URL)).unwrap_err();
        assert!(matches!(error.refusal(), Some(Refusal::Probing { .. })));
    }
    assert!(destination.is_idle());
    reply.send_response(status(200));
    (&mut probe).await.unwrap().unwrap();
    assert_eq!(circuit.status(), CircuitStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_probe_is_given_up_at_its_deadline() {
    let service = Service::new(&simple());
    let circuit = service.tripped_and_cooled(KEY);
    let (hanging, running_tasks) = crate::mock::hanging();
    let mut client = layer(&service).layer(hanging);
    let start = tokio::time::Instant::now();
    let mut probe = Box::pin(client.call_to(URL));
    assert_eq!(running_tasks(), 1);
    let given_up = tokio::time::timeout(secs(60), &mut probe).await.expect("it is given up");
    assert!(matches!(given_up, Err(Error::ProbeTimedOut { key, .. }) if key.text() == KEY));
    assert_eq!(running_tasks(), 0, "at once, not only with the future");
    assert_eq!(start.elapsed(), secs(10), "probe_timeout");
    assert_eq!(circuit.status(), CircuitStatus::Open);
}

#[tokio::test]
async fn a_probe_that_is_answered_too_late_has_failed() {
    let service = Service::new(&simple());
    let circuit = service.tripped_and_cooled(KEY);
    let (mut client, mut destination) = client(&service);
    let probe = client.call_to(URL);
    service.clock.advance(secs(11));
    destination.answers(status(200), probe).await.expect("the caller has its answer");
    assert_eq!(circuit.status(), CircuitStatus::Open);
}

#[tokio::test(start_paused = true)]
async fn only_probes_have_a_deadline() {
    let service = Service::new(&simple());
    let (mut client, mut destination) = client(&service);
    let call = client.call_to(URL);
    let slow = async {
        let (_, reply) = destination.next().await;
        tokio::time::sleep(secs(3_600)).await;
        reply.send_response(status(200));
    };
    let (answer, ()) = tokio::join!(call, slow);
    answer.unwrap();
}

/// Without a timer the probe has no deadline, and the service does not panic.
#[test]
fn a_probe_needs_neither_a_timer_nor_tokio() {
    let without_a_timer = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for in_tokio in [true, false] {
        let _entered = in_tokio.then(|| without_a_timer.enter());
        let service = Service::new(&simple());
        let circuit = service.tripped_and_cooled(KEY);
        let (mut client, mut destination) = client(&service);
        let mut probe = std::pin::pin!(client.call_to(URL));
        let mut context = Context::from_waker(Waker::noop());
        assert!(probe.as_mut().poll(&mut context).is_pending());
        destination.replies_at_once(status(200));
        assert!(matches!(probe.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        assert_eq!(circuit.status(), CircuitStatus::Closed);
    }
}

#[tokio::test]
async fn a_dropped_response_is_cancelled_or_a_failure() {
    let service = Service::new(&simple());
    let (hanging, running_tasks) = crate::mock::hanging();
    let mut client = layer(&service).layer(hanging);
    for (waits, failures) in [(0, 0), (1, 1)] {
        let call = client.call_to(URL);
        assert_eq!(running_tasks(), 1);
        service.clock.advance(secs(waits));
        drop(call);
        assert_eq!(running_tasks(), 0);
        assert_eq!(service.circuit(KEY).totals().failures, failures);
    }
}

#[tokio::test]
async fn a_dropped_probe_blocks_nothing() {
    let service = Service::new(&simple());
    let circuit = service.tripped_and_cooled(KEY);
    let (mut client, mut destination) = client(&service);
    for _ in 0..5 {
        drop(client.call_to(URL));
        destination.next().await;
        assert_eq!(circuit.status(), CircuitStatus::HalfOpen);
    }
    destination.answers(status(200), client.call_to(URL)).await.unwrap();
    assert_eq!(circuit.status(), CircuitStatus::Closed);
}

#[tokio::test]
async fn a_classifier_or_an_extractor_that_panics_leaves_the_circuit_working() {
    let service = Service::new(&simple().cancel_grace(Duration::ZERO));
    let (mock, mut destination) = crate::mock::pair();
    let classify = |result: &Result<Response<()>, BoxError>| match result {
        Ok(response) if response.status() == StatusCode::IM_A_TEAPOT => {
            std::panic::resume_unwind(Box::new("the classifier"))
        }
        _ => by_result(result),
    };
    let extract = |request: &Request<()>| match request.uri().path() {
        "/panic" => std::panic::resume_unwind(Box::new("the extractor")),
        _ => Key::new(KEY),
    };
    let mut client = CircuitLayer::new(service.breakers.clone(), extract).classify_by(classify).layer(mock);

    let call = tokio::spawn(client.call_to(URL));
    destination.next().await.1.send_response(status(418));
    assert!(call.await.unwrap_err().is_panic());
    assert_eq!(service.circuit(KEY).totals().failures, 1, "without a grace a dropped permit is a failure");

    let mut other = client.clone();
    let call = tokio::spawn(async move { other.call_to("https://a.example/panic").await });
    assert!(call.await.unwrap_err().is_panic());
    assert!(destination.is_idle());

    destination.answers(status(200), client.call_to(URL)).await.unwrap();
    assert_eq!(service.circuit(KEY).totals().successes, 1);
}

#[tokio::test]
async fn what_was_never_sent_counts_nowhere_whatever_the_classifier_says() {
    let clock = ManualClock::new();
    let throttle = Throttle::builder().clock(clock.clone()).build();
    let shed = overload(&throttle, &clock, Priority::LOW);
    type Broken = fn(Shed) -> BoxError;
    let table: [(&str, Broken); 6] = [
        ("a shed", |shed| shed.into()),
        ("a throttle's error", |shed| breakerbox::tower::throttle::Error::Shed(shed).into()),
        ("behind another", |shed| breakerbox::throttle::CallError::<std::io::Error>::Shed(shed).into()),
        ("another circuit's refusal", |_| Refusal::Disabled.into()),
        ("a request without a key", |_| Error::Key(KeyError::NoHost).into()),
        ("tower's own shed", |_| tower::load_shed::error::Overloaded::new().into()),
    ];
    for (name, error) in table {
        let service = Service::new(&simple());
        let (mock, mut destination) = crate::mock::pair();
        let mut client = layer(&service).classify_by(by_result).layer(mock);
        destination.fails(error(shed), client.call_to(URL)).await.unwrap_err();
        let totals = service.circuit(KEY).totals();
        assert_eq!((totals.successes, totals.failures), (0, 0), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_goes_together_with_towers_own_layers() {
    let service = Service::new(&simple());
    let (mock, mut destination) = crate::mock::pair();
    let timed = Timeout::new(mock, secs(2));
    let mut client = Timeout::new(layer(&service).layer(timed), secs(5));
    let (answer, _reply) = tokio::join!(client.call_to(URL), destination.next());
    let error = answer.unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(Error::Inner(inner)) if inner.is::<tower::timeout::error::Elapsed>())
    );
    assert_eq!(service.circuit(KEY).totals().failures, 1);
}

#[tokio::test]
async fn a_status_can_be_left_to_the_throttle() {
    let service = Service::new(&simple());
    let (mock, mut destination) = crate::mock::pair();
    let outcomes = HttpOutcomes::new().status(StatusCode::TOO_MANY_REQUESTS, OutcomeKind::Ignored);
    let mut client = layer(&service).classify_by(outcomes).layer(mock);
    for _ in 0..10 {
        destination.answers(status(429), client.call_to(URL)).await.unwrap();
    }
    assert_eq!(service.circuit(KEY).status(), CircuitStatus::Closed);
}

#[tokio::test]
async fn dry_run_sends_everything() {
    let service = Service::with(&simple(), |builder| builder.dry_run(|_, _| {}));
    let (mut client, mut destination) = client(&service);
    for _ in 0..10 {
        destination.answers(status(500), client.call_to(URL)).await.unwrap();
    }
    assert_eq!(service.circuit(KEY).status(), CircuitStatus::Open);
}
