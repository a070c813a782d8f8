//! Circuits and throttles in a reqwest client, with real requests on loopback.

use std::time::Duration;

use breakerbox::http::{HttpOutcomes, HttpOverload, KeyFromUrl, NotSent, Tenant, by_status};
use breakerbox::reqwest::{CircuitMiddleware, Error, Outgoing, ThrottleMiddleware};
use breakerbox::throttle::{LoadSignal, Priority, Strategy, Throttle, ThrottlePolicy, with_priority};
use breakerbox::{
    CircuitBy, CircuitStatus, Classification, Key, KeyError, ManualClock, PolicyBuilder, Refusal,
};
use http::StatusCode;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware};

use crate::overload::overload;
use crate::receiver::{Answer, Receiver, nobodys_url};
use crate::service::{Service, secs, simple};

fn by_endpoint() -> KeyFromUrl {
    KeyFromUrl::by(CircuitBy::Endpoint).or_tenant("t")
}

fn client(middleware: impl Middleware) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(middleware).build()
}

fn with_circuits(policy: &PolicyBuilder) -> (ClientWithMiddleware, Service) {
    let service = Service::new(policy);
    (client(CircuitMiddleware::new(service.breakers.clone(), by_endpoint())), service)
}

async fn get(client: &ClientWithMiddleware, url: &str) -> Result<StatusCode, reqwest_middleware::Error> {
    client.get(url).send().await.map(|response| response.status())
}

#[tokio::test]
async fn a_refused_request_never_reaches_the_destination() {
    let (client, service) = with_circuits(&simple());
    let receiver = Receiver::start(Answer::Status(500)).await;
    let url = receiver.url("/in");
    for _ in 0..3 {
        assert_eq!(get(&client, &url).await.unwrap(), 500, "the caller has its answer");
    }
    for _ in 0..10 {
        let error = get(&client, &url).await.unwrap_err();
        assert!(matches!(
            Error::find(&error),
            Some(Error::Refused { key, refusal: Refusal::Open { .. } }) if key.text() == format!("t {url}")
        ));
        let response: http::Response<()> = NotSent::find(&error).unwrap().response();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (503, &"30".parse().unwrap())
        );
    }
    assert_eq!(receiver.received(), 3);
    get(&client, &receiver.url("/other")).await.unwrap();
    assert_eq!(receiver.received(), 4, "another endpoint has another circuit");

    service.clock.advance(secs(30));
    receiver.answer(Answer::Status(200));
    assert_eq!(get(&client, &url).await.unwrap(), 200);
    assert_eq!(service.circuit(&format!("t {url}")).status(), CircuitStatus::Closed);
}

#[tokio::test]
async fn statuses_and_transport_errors_are_told_to_the_circuit() {
    let table = [
        (Answer::Status(204), (1, 0)),
        (Answer::Status(404), (1, 0)),
        (Answer::Status(429), (0, 1)),
        (Answer::Status(503), (0, 1)),
        (Answer::Close, (0, 1)),
    ];
    for (answer, counted) in table {
        let (client, service) = with_circuits(&simple());
        let receiver = Receiver::start(answer).await;
        let result = get(&client, &receiver.url("/in")).await;
        assert_eq!(result.is_err(), matches!(answer, Answer::Close), "{answer:?}: {result:?}");
        let totals = service.circuit(&format!("t {}", receiver.url("/in"))).totals();
        assert_eq!((totals.successes, totals.failures), counted, "{answer:?}");
    }
}

#[tokio::test]
async fn a_port_that_nobody_listens_at_is_a_failure_and_its_error_is_handed_on() {
    let (client, service) = with_circuits(&simple());
    let (url, _taken) = nobodys_url();
    for _ in 0..3 {
        let error = get(&client, &url).await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        assert!(NotSent::find(&error).is_none());
    }
    assert!(matches!(NotSent::find(&get(&client, &url).await.unwrap_err()), Some(NotSent::Refused(_))));
    assert_eq!(service.breakers.len(), 1);
}

#[tokio::test]
async fn retry_after_is_honoured_in_seconds_and_as_a_date() {
    for (value, seconds) in [("200", 200), ("Fri, 31 Dec 9999 23:59:59 GMT", 300), ("soon", 30)] {
        let (client, service) = with_circuits(&simple());
        let receiver = Receiver::start(Answer::StatusAndRetryAfter(503, value)).await;
        for _ in 0..3 {
            get(&client, &receiver.url("/in")).await.unwrap();
        }
        let refused = service.circuit(&format!("t {}", receiver.url("/in"))).try_acquire().unwrap_err();
        assert!(
            matches!(refused, Refusal::Open { retry_in, .. } if retry_in == secs(seconds)),
            "{value}: {refused}; never longer than cool_off_max"
        );
    }
}

/// Uses a short probe timeout, because the test waits for a real timer.
#[tokio::test]
async fn a_hanging_probe_is_given_up() {
    let (client, service) = with_circuits(&simple().probe_timeout(Duration::from_millis(50)));
    let receiver = Receiver::start(Answer::Hang).await;
    let key = format!("t {}", receiver.url("/in"));
    let circuit = service.tripped_and_cooled(&key);
    let error = get(&client, &receiver.url("/in")).await.unwrap_err();
    assert!(
        matches!(Error::find(&error), Some(Error::ProbeTimedOut { key: whose, .. }) if whose.text() == key)
    );
    assert_eq!(circuit.status(), CircuitStatus::Open);
    assert_eq!(HttpOverload::new().of_error(&error), LoadSignal::Reject, "a throttle outside hears of it");
}

#[tokio::test]
async fn tenants_come_with_the_request() {
    let service = Service::new(&simple());
    let by_host = KeyFromUrl::by(CircuitBy::Host).require_tenant();
    let client = client(CircuitMiddleware::new(service.breakers.clone(), by_host));
    let receiver = Receiver::start(Answer::Status(200)).await;
    service.tripped("acme 127.0.0.1");
    let error = get(&client, &receiver.url("/")).await.unwrap_err();
    assert!(matches!(Error::find(&error), Some(Error::Key(KeyError::NoTenant))));
    assert_eq!(NotSent::find(&error), Some(NotSent::NoKey(KeyError::NoTenant)));
    let send = |tenant| client.get(receiver.url("/")).with_extension(Tenant::new(tenant)).send();
    let nameless = send("").await.unwrap_err();
    assert_eq!(NotSent::find(&nameless), Some(NotSent::NoKey(KeyError::TenantEmpty)));
    assert!(matches!(NotSent::find(&send("acme").await.unwrap_err()), Some(NotSent::Refused(_))));
    assert_eq!(send("umbrella").await.unwrap().status(), 200);
    assert_eq!(receiver.received(), 1);
}

#[tokio::test]
async fn without_tenants_a_host_has_one_circuit() {
    let service = Service::new(&simple());
    let by_host = KeyFromUrl::by(CircuitBy::Host);
    let client = client(CircuitMiddleware::new(service.breakers.clone(), by_host));
    let receiver = Receiver::start(Answer::Status(500)).await;
    for path in ["/a", "/b", "/c"] {
        assert_eq!(get(&client, &receiver.url(path)).await.unwrap(), 500);
    }
    let error = get(&client, &receiver.url("/d")).await.unwrap_err();
    assert!(
        matches!(Error::find(&error), Some(Error::Refused { key, .. }) if key.text() == "127.0.0.1"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_plain_clients_results_are_classified_by_their_status() {
    let table = [
        (Answer::Status(204), (1, 0)),
        (Answer::Status(404), (1, 0)),
        (Answer::Status(429), (0, 1)),
        (Answer::Status(500), (0, 1)),
        (Answer::Close, (0, 1)),
    ];
    let client = reqwest::Client::new();
    for (answer, counted) in table {
        let circuit = Service::new(&simple()).circuit("e1");
        let receiver = Receiver::start(answer).await;
        let _ = circuit.call_classified(by_status, client.get(receiver.url("/in")).send()).await;
        let totals = circuit.totals();
        assert_eq!((totals.successes, totals.failures), counted, "{answer:?}");
    }
    let circuit = Service::new(&simple()).circuit("e1");
    let unbuilt = circuit.call_classified(by_status, client.get("no url").send()).await.unwrap_err();
    assert!(matches!(unbuilt, breakerbox::CallError::Failed(error) if error.is_builder()));
    assert_eq!(
        circuit.totals().calls(),
        0,
        "a request that can't be built says nothing about the destination"
    );
}

#[tokio::test]
async fn any_function_extracts_keys_and_classifies() {
    let service = Service::new(&simple());
    let by_path = |outgoing: &Outgoing<'_>| Key::new(outgoing.request.url().path());
    let strict = |result: &Result<reqwest::Response, reqwest_middleware::Error>| match result {
        Ok(response) if response.status() == 200 => Classification::SUCCESS,
        _ => Classification::FAILURE,
    };
    let client = client(CircuitMiddleware::new(service.breakers.clone(), by_path).classify_by(strict));
    let receiver = Receiver::start(Answer::Status(204)).await;
    get(&client, &receiver.url("/orders")).await.unwrap();
    assert_eq!(service.circuit("/orders").totals().failures, 1);
}

#[tokio::test]
async fn what_the_throttle_is_told() {
    let client = reqwest::Client::builder().dns_resolver(NoNames).build().unwrap();
    let table = [
        (Answer::Status(200), LoadSignal::Accept),
        (Answer::Status(500), LoadSignal::Accept),
        (Answer::Status(503), LoadSignal::Accept),
        (Answer::StatusAndRetryAfter(503, "40"), LoadSignal::Reject),
        (Answer::Close, LoadSignal::Neither),
    ];
    for (answer, expected) in table {
        let receiver = Receiver::start(answer).await;
        assert_eq!(signal(&client, &receiver.url("/")).await, expected, "{answer:?}");
    }
    let (nobody, _taken) = nobodys_url();
    for (url, expected) in [
        (&*nobody, LoadSignal::Neither),
        ("http://a.example/", LoadSignal::Neither),
        ("no URL", LoadSignal::Neither),
    ] {
        assert_eq!(signal(&client, url).await, expected, "{url}");
    }
    let hanging = Receiver::start(Answer::Hang).await;
    let hasty = reqwest::Client::builder().timeout(Duration::from_millis(50)).build().unwrap();
    assert_eq!(signal(&hasty, &hanging.url("/")).await, LoadSignal::Reject, "a time limit that ran out");
}

/// A resolver that finds no names, without sending any queries.
struct NoNames;

impl reqwest::dns::Resolve for NoNames {
    fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(async { Err("no such name".into()) })
    }
}

/// Returns how the HTTP classifier classifies a real result, after checking that it is the same with and without
/// middleware.
async fn signal(client: &reqwest::Client, url: &str) -> LoadSignal {
    use breakerbox::throttle::Classify as _;
    let plain = HttpOverload::new().classify(&client.get(url).send().await);
    let client = ClientBuilder::new(client.clone()).build();
    let with_middleware = HttpOverload::new().classify(&client.get(url).send().await);
    assert_eq!(plain, with_middleware, "{url}");
    plain
}

#[tokio::test]
async fn a_shed_request_never_reaches_the_destination() {
    let clock = ManualClock::new();
    let throttle = Throttle::builder().clock(clock.clone()).build();
    let client = client(ThrottleMiddleware::new(throttle.clone()));
    let receiver = Receiver::start(Answer::Status(200)).await;
    get(&client, &receiver.url("/")).await.unwrap();
    overload(&throttle, &clock, Priority::MEDIUM);
    let error = get(&client, &receiver.url("/")).await.unwrap_err();
    assert!(matches!(Error::find(&error), Some(Error::Shed(_))));
    assert!(matches!(NotSent::find(&error), Some(NotSent::Shed(_))));
    assert_eq!(receiver.received(), 1);
}

#[tokio::test]
async fn a_destination_that_drowns_is_spared() {
    let clock = ManualClock::new();
    let throttles = Throttle::builder().clock(clock.clone()).build_keyed(10);
    let client = client(ThrottleMiddleware::keyed(throttles.clone(), by_endpoint()));
    let receiver = Receiver::start(Answer::Status(429)).await;
    for _ in 0..300 {
        clock.advance(Duration::from_millis(10));
        let _ = get(&client, &receiver.url("/drowning")).await;
    }
    assert!(receiver.received() < 150, "{} of 300 were sent", receiver.received());
    receiver.answer(Answer::Status(200));
    get(&client, &receiver.url("/well")).await.expect("another key, another throttle");
    let error = get(&client, &receiver.url(&"/long".repeat(300))).await.unwrap_err();
    assert!(matches!(Error::find(&error), Some(Error::Key(KeyError::TooLong { .. }))), "{error:?}");
}

fn throttle_that_sheds_low() -> Throttle {
    let policy = ThrottlePolicy::builder().strategy(Strategy::Sre).build().unwrap();
    let throttle = Throttle::builder().policy(policy).clock(ManualClock::new()).build();
    for _ in 0..10_000 {
        drop(throttle.try_acquire(Priority::LOW));
    }
    throttle
}

#[tokio::test]
async fn any_function_extracts_priorities_and_clones_share_their_throttle() {
    let by_path = |outgoing: &Outgoing<'_>| match outgoing.request.url().path() {
        "/report" => Some(Priority::LOW),
        _ => None,
    };
    let first = ThrottleMiddleware::new(throttle_that_sheds_low()).priority_by(by_path);
    let receiver = Receiver::start(Answer::Status(200)).await;
    for client in [client(first.clone()), client(first)] {
        for (path, sheds) in [("/report", true), ("/order", false)] {
            let mut shed = 0;
            for _ in 0..20 {
                shed += u32::from(get(&client, &receiver.url(path)).await.is_err());
            }
            assert_eq!((shed > 10, shed == 0), (sheds, !sheds), "{path}: {shed} shed");
        }
    }
}

#[tokio::test]
async fn the_requests_priority_counts_then_the_tasks_then_the_default() {
    let client = client(ThrottleMiddleware::new(throttle_that_sheds_low()).default_priority(Priority::LOW));
    let receiver = Receiver::start(Answer::Status(200)).await;
    let (high, low) = (Some(Priority::HIGH), Some(Priority::LOW));
    for (of_request, of_task, sheds) in
        [(high, low, false), (low, high, true), (None, high, false), (None, low, true), (None, None, true)]
    {
        let mut shed = 0;
        for _ in 0..20 {
            let mut request = client.get(receiver.url("/"));
            if let Some(priority) = of_request {
                request = request.with_extension(priority);
            }
            let answer = match of_task {
                Some(priority) => with_priority(priority, request.send()).await,
                None => request.send().await,
            };
            shed += u32::from(answer.is_err());
        }
        // Of 20 calls that are shed with a probability of 99 %, practically never are ten admitted.
        assert_eq!(shed > 10, sheds, "{of_request:?}, {of_task:?}: {shed} shed");
        assert_eq!(shed == 0, !sheds, "{of_request:?}, {of_task:?}: {shed} shed");
    }
}

#[tokio::test]
async fn nested_either_way_neither_takes_the_others_no_for_the_destinations() {
    for throttle_outside in [true, false] {
        let service = Service::new(&simple());
        let clock = ManualClock::new();
        let throttle = Throttle::builder().clock(clock.clone()).build();
        let circuits = CircuitMiddleware::new(service.breakers.clone(), by_endpoint())
            .classify_by(|_: &Result<_, _>| Classification::FAILURE);
        let throttled =
            ThrottleMiddleware::new(throttle.clone()).classify_by(|_: &Result<_, _>| LoadSignal::Reject);
        let client = ClientBuilder::new(reqwest::Client::new());
        let client = if throttle_outside {
            client.with(throttled).with(circuits)
        } else {
            client.with(circuits).with(throttled)
        };
        let client = client.build();
        let receiver = Receiver::start(Answer::Status(200)).await;
        let key = format!("t {}", receiver.url("/in"));
        if throttle_outside {
            service.tripped(&key);
            for _ in 0..500 {
                clock.advance(Duration::from_millis(10));
                let error = get(&client, &receiver.url("/in")).await.unwrap_err();
                assert!(matches!(NotSent::find(&error), Some(NotSent::Refused(_))), "nothing is shed");
            }
        } else {
            overload(&throttle, &clock, Priority::MEDIUM);
            for _ in 0..10 {
                let error = get(&client, &receiver.url("/in")).await.unwrap_err();
                assert!(matches!(NotSent::find(&error), Some(NotSent::Shed(_))), "nothing is refused");
            }
            assert_eq!(service.circuit(&key).totals().failures, 0);
        }
        assert_eq!(receiver.received(), 0);
    }
}

#[tokio::test]
async fn a_request_that_is_dropped_drops_its_permit() {
    let (client, service) = with_circuits(&simple());
    let receiver = Receiver::start(Answer::Hang).await;
    let url = receiver.url("/in");
    let circuit = service.tripped_and_cooled(&format!("t {url}"));
    let probe = client.get(&url).send();
    tokio::select! {
        _ = probe => panic!("it hangs"),
        () = receiver.receives(1) => {}
    }
    assert_eq!(circuit.status(), CircuitStatus::HalfOpen);
    assert!(circuit.try_acquire().unwrap().is_probe(), "its lease is free again");
}

#[tokio::test]
async fn a_status_can_be_left_to_the_throttle() {
    let service = Service::new(&simple());
    let outcomes =
        HttpOutcomes::new().status(StatusCode::TOO_MANY_REQUESTS, breakerbox::OutcomeKind::Ignored);
    let client =
        client(CircuitMiddleware::new(service.breakers.clone(), by_endpoint()).classify_by(outcomes));
    let receiver = Receiver::start(Answer::Status(429)).await;
    for _ in 0..10 {
        get(&client, &receiver.url("/")).await.unwrap();
    }
    assert_eq!(receiver.received(), 10);
}
