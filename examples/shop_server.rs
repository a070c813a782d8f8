//! A server whose outgoing calls go through a throttle and circuits: axum in front, hyper behind, tower layers between.
//!
//! The shop requests prices from another service. That service is part of this program, so that the example can break
//! it. The steps: all is well; the service breaks, and the circuit opens; the shop's customers get an answer with
//! `Retry-After` at once, and no request reaches the broken service; the service is repaired, and of twenty concurrent
//! requests one probes; the service is overloaded, and the throttle sends less.
//!
//! ```text
//! cargo run -p breakerbox-examples --example shop-server
//! ```
//!
//! Everything runs on loopback, takes a few seconds, and ends by itself.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use breakerbox::http::{HttpOutcomes, KeyFromUrl, NotSent};
use breakerbox::throttle::{Priority, Throttle};
use breakerbox::tower::circuit::CircuitLayer;
use breakerbox::tower::throttle::ThrottleLayer;
use breakerbox::{Breakerbox, CircuitBy, OutcomeKind, Policy};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// A short cool-off, so that the example is short.
const COOL_OFF: Duration = Duration::from_millis(900);

/// The interval between two customers while the service is overloaded.
const BETWEEN: Duration = Duration::from_millis(5);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    run(&mut io::stdout()).await
}

/// The client for prices, behind a throttle and circuits.
type PriceClient = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// Builds the outgoing side of the shop: from the outside in, the throttle, the circuit, a timeout, and the client
/// itself.
fn price_client(breakers: Breakerbox) -> PriceClient {
    let by_host = KeyFromUrl::by(CircuitBy::Host).or_tenant("shop");
    // The throttle sends less to a service that answers 429. The circuit need not open for it.
    let outcomes = HttpOutcomes::new().status(StatusCode::TOO_MANY_REQUESTS, OutcomeKind::Ignored);
    let client = ServiceBuilder::new()
        .layer(ThrottleLayer::keyed(Throttle::builder().build_keyed(1_000), by_host.clone()))
        .layer(CircuitLayer::new(breakers, by_host).classify_by(outcomes))
        .timeout(Duration::from_secs(5))
        .service(Client::builder(TokioExecutor::new()).build_http::<Body>());
    BoxCloneSyncService::new(client.map_response(|response| response.map(Body::new)).map_err(BoxError::from))
}

/// Handles a customer's request: requests the price, and passes the answer on.
async fn price(
    State((prices, client)): State<(SocketAddr, PriceClient)>,
    headers: HeaderMap,
) -> Response<Body> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = format!("http://{prices}/price").parse().expect("an address makes a URL");
    if headers.contains_key("browsing") {
        request.extensions_mut().insert(Priority::LOW);
    }
    match client.oneshot(request).await {
        Ok(response) => response,
        Err(error) => match NotSent::find(&*error) {
            // 503, with `Retry-After`.
            Some(not_sent) => not_sent.response(),
            None => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        },
    }
}

/// The service that the shop calls: its answers are configurable, and it counts requests.
struct Prices {
    status: AtomicU16,
    received: AtomicU32,
    /// Each answer waits for a permit of this semaphore.
    gate: Semaphore,
}

async fn answer(State(prices): State<Arc<Prices>>) -> StatusCode {
    prices.received.fetch_add(1, SeqCst);
    let _passed = prices.gate.acquire().await;
    StatusCode::from_u16(prices.status.load(SeqCst)).expect("a status")
}

/// Serves on loopback until the program ends.
async fn serve(router: Router) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// The shop, its customers, and the service it depends on.
#[derive(Clone)]
struct Stage {
    breakers: Breakerbox,
    shop: SocketAddr,
    prices: Arc<Prices>,
    customer: reqwest::Client,
}

impl Stage {
    async fn set() -> Result<Self> {
        let prices = Arc::new(Prices {
            status: AtomicU16::new(200),
            received: AtomicU32::new(0),
            gate: Semaphore::new(1_000),
        });
        let prices_at =
            serve(Router::new().route("/price", get(answer)).with_state(Arc::clone(&prices))).await?;
        let policy =
            Policy::builder().consecutive_failures(3).cool_off(COOL_OFF).jitter(0).probes(1).build()?;
        let breakers = Breakerbox::builder()
            .policy(policy)
            .observer(|heard| eprintln!("  ({} is {})", heard.key, heard.change.to))
            .build();
        let shop =
            Router::new().route("/", get(price)).with_state((prices_at, price_client(breakers.clone())));
        Ok(Self { breakers, shop: serve(shop).await?, prices, customer: reqwest::Client::new() })
    }

    /// Makes one customer's request. Returns the status, and the value of `Retry-After`.
    async fn request(&self, browsing: bool) -> Result<(u16, Option<String>)> {
        let mut request = self.customer.get(format!("http://{}/", self.shop));
        if browsing {
            request = request.header("browsing", "yes");
        }
        let response = timeout(Duration::from_secs(10), request.send()).await??;
        let retry_after = response.headers().get("retry-after");
        Ok((response.status().as_u16(), retry_after.and_then(|value| Some(value.to_str().ok()?.to_string()))))
    }

    /// Makes requests one after the other. Returns the number of each status, and how many reached the service.
    async fn ask_times(&self, times: u32) -> Result<String> {
        let before = self.prices.received.load(SeqCst);
        let mut answers: Vec<(u32, String)> = Vec::new();
        for _ in 0..times {
            let answer = match self.request(false).await? {
                (status, Some(retry_after)) => format!("{status} (retry after {retry_after} s)"),
                (status, None) => status.to_string(),
            };
            match answers.iter_mut().find(|(_, known)| *known == answer) {
                Some((count, _)) => *count += 1,
                None => answers.push((1, answer)),
            }
        }
        let answers: Vec<_> =
            answers.into_iter().map(|(count, answer)| format!("{count} x {answer}")).collect();
        let reached = self.prices.received.load(SeqCst) - before;
        Ok(format!("{}; {reached} reached it", answers.join(", ")))
    }
}

/// Runs the example and writes each step.
pub async fn run(out: &mut impl Write) -> Result<()> {
    let stage = Stage::set().await?;
    writeln!(out, "All is well:      {}", stage.ask_times(10).await?)?;

    stage.prices.status.store(500, SeqCst);
    writeln!(out, "It breaks:        {}", stage.ask_times(3).await?)?;
    writeln!(out, "Refused:          {}", stage.ask_times(10).await?)?;

    stage.prices.status.store(200, SeqCst);
    sleep(COOL_OFF).await;
    writeln!(out, "It is mended:     {}", probe(&stage).await?)?;
    writeln!(out, "All is well:      {}", stage.ask_times(10).await?)?;

    stage.prices.status.store(429, SeqCst);
    writeln!(out, "It drowns:        {}", drown(&stage).await?)?;
    stage.prices.status.store(200, SeqCst);
    writeln!(out, "It breathes:      {}", breathe(&stage).await?)?;
    Ok(())
}

/// Makes twenty concurrent requests. The service answers the probe only after all others were answered.
async fn probe(stage: &Stage) -> Result<String> {
    let before = stage.prices.received.load(SeqCst);
    let closed = stage.prices.gate.acquire_many(1_000).await?;
    let mut requests = JoinSet::new();
    for _ in 0..20 {
        let stage = stage.clone();
        requests.spawn(async move { stage.request(false).await });
    }
    let mut refused = 0;
    while requests.len() > 1 {
        let answer = requests.join_next().await.ok_or("nobody asks")???;
        refused += u32::from(answer.0 == 503);
    }
    drop(closed);
    let (status, _) = requests.join_next().await.ok_or("nobody asks")???;
    let reached = stage.prices.received.load(SeqCst) - before;
    Ok(format!("of 20 at once {reached} probed and was answered {status}, {refused} were refused"))
}

/// Lets the service answer 429, until the throttle has shed a hundred low-priority requests.
async fn drown(stage: &Stage) -> Result<String> {
    let before = stage.prices.received.load(SeqCst);
    let shed = async {
        let mut shed = 0;
        while shed < 100 {
            sleep(BETWEEN).await;
            shed += u32::from(stage.request(true).await?.0 == 503);
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(shed)
    };
    let shed = timeout(Duration::from_secs(20), shed).await??;
    let reached = stage.prices.received.load(SeqCst) - before;
    eprintln!("  ({reached} reached it meanwhile)");
    let circuit = stage.breakers.circuit("shop 127.0.0.1")?;
    Ok(format!("the throttle shed {shed}; the circuit is {}", circuit.status()))
}

/// Makes requests until ten consecutive answers were good.
async fn breathe(stage: &Stage) -> Result<String> {
    let well = async {
        let mut in_a_row = 0;
        while in_a_row < 10 {
            sleep(BETWEEN).await;
            in_a_row = if stage.request(false).await?.0 == 200 { in_a_row + 1 } else { 0 };
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(in_a_row)
    };
    let in_a_row = timeout(Duration::from_secs(20), well).await??;
    Ok(format!("{in_a_row} good answers in a row"))
}
