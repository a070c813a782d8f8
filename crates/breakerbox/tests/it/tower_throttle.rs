//! The throttle as a tower layer.

use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use breakerbox::http::{HttpOverload, KeyFromUrl, NotSent};
use breakerbox::throttle::{
    LoadSignal, Priority, Shed, Strategy, Throttle, ThrottlePolicy, with_priority_blocking,
};
use breakerbox::tower::circuit::{self, CircuitLayer};
use breakerbox::tower::throttle::{Error, ThrottleLayer};
use breakerbox::{CircuitBy, Key, KeyError, ManualClock, ProbeTimeout, Refusal, by_result};
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Layer, Service as _, service_fn};

use crate::mock::{CallTo as _, now, request, status};
use crate::overload::overload;
use crate::service::{Service, secs, simple};

const URL: &str = "https://a.example/in";

fn throttle() -> (Throttle, ManualClock) {
    let clock = ManualClock::new();
    (Throttle::builder().clock(clock.clone()).build(), clock)
}

/// Returns a throttle that sheds nearly every call with the lowest priority, and no other calls. It uses
/// `Strategy::Sre`, with which a level's rejects affect only that level and lower ones.
fn throttle_that_sheds_low() -> Throttle {
    let policy = ThrottlePolicy::builder().strategy(Strategy::Sre).build().unwrap();
    let throttle = Throttle::builder().policy(policy).clock(ManualClock::new()).build();
    for _ in 0..10_000 {
        drop(throttle.try_acquire(Priority::LOW));
    }
    throttle
}

/// Returns the load signal that a throttle received for calls, inferred from its behaviour. Rejects make a throttle
/// shed calls, and accepts allow retries.
fn told<T>(
    throttle: &Throttle,
    clock: &ManualClock,
    mut call: impl FnMut() -> Result<T, Error>,
) -> LoadSignal {
    let mut shed = 0;
    for _ in 0..500 {
        clock.advance(Duration::from_millis(10));
        shed += u32::from(matches!(call(), Err(Error::Shed(_))));
    }
    match (shed > 0, throttle.take_retry()) {
        (true, _) => LoadSignal::Reject,
        (false, true) => LoadSignal::Accept,
        (false, false) => LoadSignal::Neither,
    }
}

/// Returns a 503 with a `Retry-After`.
fn busy() -> Response<()> {
    let mut busy = status(503);
    busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
    busy
}

fn given_up() -> circuit::Error {
    circuit::Error::ProbeTimedOut { key: Key::new("t a.example").unwrap(), timeout: ProbeTimeout }
}

#[test]
fn what_answers_mean_is_told_to_the_throttle() {
    type Answer = fn() -> Result<Response<()>, BoxError>;
    let table: [(&str, Answer, LoadSignal); 15] = [
        ("200", || Ok(status(200)), LoadSignal::Accept),
        ("404", || Ok(status(404)), LoadSignal::Accept),
        ("500", || Ok(status(500)), LoadSignal::Accept),
        ("429", || Ok(status(429)), LoadSignal::Reject),
        ("503", || Ok(status(503)), LoadSignal::Accept),
        ("503 with Retry-After", || Ok(busy()), LoadSignal::Reject),
        ("504", || Ok(status(504)), LoadSignal::Reject),
        ("refused", || Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()), LoadSignal::Neither),
        ("reset", || Err(io::Error::from(io::ErrorKind::ConnectionReset).into()), LoadSignal::Neither),
        ("tower's time limit", || Err(tower::timeout::error::Elapsed::new().into()), LoadSignal::Reject),
        ("a probe's time limit", || Err(given_up().into()), LoadSignal::Reject),
        ("a circuit's refusal", || Err(Refusal::Disabled.into()), LoadSignal::Neither),
        ("no key", || Err(circuit::Error::Key(KeyError::NoHost).into()), LoadSignal::Neither),
        ("tower's own shed", || Err(tower::load_shed::error::Overloaded::new().into()), LoadSignal::Neither),
        (
            "TLS",
            || Err(io::Error::new(io::ErrorKind::InvalidData, "certificate").into()),
            LoadSignal::Neither,
        ),
    ];
    for (name, answer, expected) in table {
        let (throttle, clock) = throttle();
        let service = service_fn(move |_: Request<()>| std::future::ready(answer()));
        let mut client = ThrottleLayer::new(throttle.clone()).layer(service);
        assert_eq!(told(&throttle, &clock, || now(client.call_to(URL))), expected, "{name}");
    }
}

#[tokio::test]
async fn a_shed_request_never_reaches_the_service() {
    let (throttle, clock) = throttle();
    let (mock, mut destination) = crate::mock::pair();
    let mut client = ThrottleLayer::new(throttle.clone()).layer(mock);
    destination.answers(status(200), client.call_to(URL)).await.unwrap();
    let shed = overload(&throttle, &clock, Priority::MEDIUM);
    let error = now(client.call_to(URL)).unwrap_err();
    assert!(destination.is_idle());
    assert_eq!(error.shed().map(Shed::reason), Some(shed.reason()));
    let why = error.shed().unwrap().to_string();
    assert!(why.starts_with("shed: about "), "{why}");
    let boxed = BoxError::from(error);
    let response: Response<()> = NotSent::find(&*boxed).unwrap().response();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
}

#[test]
fn the_requests_priority_counts_then_the_tasks_then_the_default() {
    const HIGH: Option<Priority> = Some(Priority::HIGH);
    const LOW: Option<Priority> = Some(Priority::LOW);
    let table = [
        (HIGH, LOW, LOW, false),
        (LOW, HIGH, HIGH, true),
        (HIGH, None, LOW, false),
        (LOW, None, HIGH, true),
        (None, HIGH, LOW, false),
        (None, LOW, HIGH, true),
        (None, None, HIGH, false),
        (None, None, LOW, true),
        (None, None, None, false),
    ];
    for (of_request, of_task, default, sheds) in table {
        let layer = ThrottleLayer::new(throttle_that_sheds_low());
        let layer = default.map_or(layer.clone(), |priority| layer.default_priority(priority));
        let mut client = layer.layer(service_fn(async |_: Request<()>| Ok::<_, BoxError>(status(200))));
        let mut call = || {
            let mut request = request(URL);
            if let Some(priority) = of_request {
                request.extensions_mut().insert(priority);
            }
            now(client.send(request))
        };
        let mut call = || match of_task {
            Some(priority) => with_priority_blocking(priority, &mut call),
            None => call(),
        };
        let shed = (0..200).filter(|_| matches!(call(), Err(Error::Shed(_)))).count();
        assert_eq!(shed > 100, sheds, "{of_request:?}, {of_task:?}, {default:?}: {shed} shed");
        assert_eq!(shed == 0, !sheds, "{of_request:?}, {of_task:?}, {default:?}: {shed} shed");
    }
}

#[test]
fn a_service_that_is_not_http_says_itself_what_counts() {
    struct Order {
        urgent: bool,
    }
    let throttle = throttle_that_sheds_low();
    let mut client = ThrottleLayer::new(throttle)
        .priority_by(|order: &Order| Some(if order.urgent { Priority::HIGH } else { Priority::LOW }))
        .classify_by(|_: &Result<u32, BoxError>| LoadSignal::Accept)
        .layer(service_fn(async |_: Order| Ok::<u32, io::Error>(1)));
    let mut shed = |urgent| {
        let answer = |_: &u32| match now(client.call(Order { urgent })) {
            Ok(answer) => answer == 0,
            Err(error) => error.shed().is_some(),
        };
        (0..200).filter(answer).count()
    };
    assert_eq!(shed(true), 0);
    assert!(shed(false) > 100);
}

#[test]
fn each_key_has_a_throttle_of_its_own_and_without_a_key_nothing_is_sent() {
    let clock = ManualClock::new();
    let throttles = Throttle::builder().clock(clock.clone()).build_keyed(10);
    let by_host = KeyFromUrl::by(CircuitBy::Host).or_tenant("t");
    let service = service_fn(async |request: Request<()>| {
        Ok::<_, BoxError>(status(if request.uri().host() == Some("a.example") { 429 } else { 200 }))
    });
    let mut client = ThrottleLayer::keyed(throttles.clone(), by_host).layer(service);
    let drowning = throttles.throttle("t a.example").unwrap();
    let well = throttles.throttle("t b.example").unwrap();
    assert_eq!(told(&drowning, &clock, || now(client.call_to(URL))), LoadSignal::Reject);
    assert_eq!(told(&well, &clock, || now(client.call_to("https://b.example/"))), LoadSignal::Accept);
    let error = now(client.call_to("/relative")).unwrap_err();
    assert!(matches!(error, Error::Key(KeyError::NoScheme)), "{error}");
    assert_eq!(throttles.len(), 2);
}

#[tokio::test]
async fn another_classifier() {
    let (throttle, clock) = throttle();
    let overload = HttpOverload::new().status(StatusCode::INTERNAL_SERVER_ERROR, LoadSignal::Reject);
    let service = service_fn(async |_: Request<()>| Ok::<_, BoxError>(status(500)));
    let mut client = ThrottleLayer::new(throttle.clone()).classify_by(overload).layer(service);
    assert_eq!(told(&throttle, &clock, || now(client.call_to(URL))), LoadSignal::Reject);
}

#[test]
fn a_dropped_response_is_neither() {
    let (throttle, clock) = throttle();
    let (hanging, running_tasks) = crate::mock::hanging();
    let mut client = ThrottleLayer::new(throttle.clone()).layer(hanging);
    let dropped = || {
        let call = client.call_to(URL);
        assert_eq!(running_tasks(), 1);
        drop(call);
        assert_eq!(running_tasks(), 0);
        Ok(())
    };
    assert_eq!(told(&throttle, &clock, dropped), LoadSignal::Neither);
}

#[tokio::test]
async fn readiness_is_that_of_the_service_and_a_shed_gives_its_place_back() {
    let (throttle, clock) = throttle();
    let (mock, mut destination) = crate::mock::pair();
    let mut client = ThrottleLayer::new(throttle.clone()).layer(ConcurrencyLimit::new(mock, 1));
    let mut context = Context::from_waker(Waker::noop());
    destination.allow(0);
    assert!(client.poll_ready(&mut context).is_pending());
    destination.allow(10);
    assert!(client.poll_ready(&mut context).is_ready());
    let mut other = client.clone();
    assert!(other.poll_ready(&mut context).is_pending(), "the only place is taken");
    overload(&throttle, &clock, Priority::MEDIUM);
    assert!(matches!(now(client.call(request(URL))), Err(Error::Shed(_))));
    assert!(other.poll_ready(&mut context).is_ready(), "and free again");
    destination.breaks("no route");
    assert!(matches!(other.poll_ready(&mut context), Poll::Ready(Err(Error::Inner(_)))));
}

#[tokio::test]
async fn a_classifier_that_panics_is_neither_and_leaves_the_throttle_working() {
    let (throttle, clock) = throttle();
    let classify = |result: &Result<Response<()>, BoxError>| match result {
        Ok(response) if response.status() == StatusCode::IM_A_TEAPOT => {
            std::panic::resume_unwind(Box::new("the classifier"))
        }
        _ => LoadSignal::Accept,
    };
    let service = service_fn(async |request: Request<()>| {
        Ok::<_, BoxError>(status(if request.uri().path() == "/tea" { 418 } else { 200 }))
    });
    let mut client = ThrottleLayer::new(throttle.clone()).classify_by(classify).layer(service);
    let panics = || {
        let call = client.call_to("https://a.example/tea");
        let call = std::panic::AssertUnwindSafe(|| now(call));
        assert!(std::panic::catch_unwind(call).is_err());
        Ok(())
    };
    assert_eq!(told(&throttle, &clock, panics), LoadSignal::Neither);
    assert_eq!(told(&throttle, &clock, || now(client.call_to(URL))), LoadSignal::Accept);
}

/// Uses the recommended order, with the throttle around the circuit.
#[test]
fn a_circuit_inside_that_refuses_tells_the_throttle_nothing() {
    let circuits = Service::new(&simple());
    circuits.tripped("t a.example");
    let (throttle, clock) = throttle();
    let by_host = KeyFromUrl::by(CircuitBy::Host).or_tenant("t");
    let service = service_fn(async |_: Request<()>| Ok::<_, BoxError>(status(200)));
    let service = CircuitLayer::new(circuits.breakers.clone(), by_host).layer(service);
    let mut client =
        ThrottleLayer::new(throttle.clone()).classify_by(|_: &_| LoadSignal::Reject).layer(service);
    let refused = || {
        let error = now(client.call_to(URL)).unwrap_err();
        assert!(matches!(NotSent::find(&error), Some(NotSent::Refused(Refusal::Open { .. }))));
        Err::<(), _>(error)
    };
    assert_eq!(told(&throttle, &clock, refused), LoadSignal::Neither);
}

/// Uses the other order, with the circuit around the throttle.
#[test]
fn a_throttle_inside_that_sheds_is_no_failure_of_the_circuit() {
    let circuits = Service::new(&simple());
    let (throttle, clock) = throttle();
    let service = service_fn(async |_: Request<()>| Ok::<_, BoxError>(status(200)));
    let service = ThrottleLayer::new(throttle.clone()).layer(service);
    let by_host = KeyFromUrl::by(CircuitBy::Host).or_tenant("t");
    let mut client =
        CircuitLayer::new(circuits.breakers.clone(), by_host).classify_by(by_result).layer(service);
    overload(&throttle, &clock, Priority::MEDIUM);
    for _ in 0..20 {
        let error = now(client.call_to(URL)).unwrap_err();
        assert!(matches!(NotSent::find(&error), Some(NotSent::Shed(_))), "{error}");
    }
    let totals = circuits.circuit("t a.example").totals();
    assert_eq!((totals.successes, totals.failures), (0, 0));
    clock.advance(secs(60));
    now(client.call_to(URL)).unwrap();
    assert_eq!(circuits.circuit("t a.example").totals().successes, 1);
}
