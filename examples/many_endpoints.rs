//! A reqwest client that calls many endpoints of many tenants: each has its own circuit, so dead endpoints cost nothing
//! and the others are not affected.
//!
//! ```text
//! cargo run -p breakerbox-examples --example many-endpoints
//! ```
//!
//! The endpoints are part of this program, on loopback. It takes about a second and ends by itself.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use breakerbox::http::{KeyFromUrl, Tenant};
use breakerbox::reqwest::{CircuitMiddleware, Error as NotAnswered};
use breakerbox::{Breakerbox, CircuitBy, Key, Policy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::net::{TcpListener, TcpSocket};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The number of events that each tenant sends to each of its endpoints.
const EVENTS: u32 = 30;

#[tokio::main]
async fn main() -> Result<()> {
    run(&mut io::stdout()).await
}

fn client(breakers: Breakerbox) -> Result<ClientWithMiddleware> {
    // The tenant of a request is passed with it: see `send`.
    let by_endpoint = KeyFromUrl::by(CircuitBy::Endpoint);
    let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).build()?;
    Ok(ClientBuilder::new(client).with(CircuitMiddleware::new(breakers, by_endpoint)).build())
}

/// The results of the events of one endpoint.
#[derive(Default)]
struct Tally {
    delivered: u32,
    failed: u32,
    refused: u32,
}

async fn send(client: &ClientWithMiddleware, tenant: &str, url: &str, tally: &mut Tally) -> Result<()> {
    match client.post(url).with_extension(Tenant::new(tenant)).send().await {
        Ok(response) if response.status().is_success() => tally.delivered += 1,
        Ok(_) => tally.failed += 1,
        Err(error) => match NotAnswered::find(&error) {
            // Not sent: a real sender would keep the event and retry in `refusal.retry_in()`.
            Some(NotAnswered::Refused { .. }) => tally.refused += 1,
            Some(other) => return Err(other.to_string().into()),
            None => tally.failed += 1,
        },
    }
    Ok(())
}

/// Sends the events and writes the results.
pub async fn run(out: &mut impl Write) -> Result<()> {
    let policy = Policy::builder().failure_rate(50).consecutive_failures(5).jitter(0).build()?;
    let breakers = Breakerbox::builder().policy(policy).build();
    let client = client(breakers.clone())?;
    let host = endpoints().await?;
    // Bound without listening, so that connections are refused.
    let nobody = TcpSocket::new_v4()?;
    nobody.bind("127.0.0.1:0".parse()?)?;
    let gone = format!("http://{}/in", nobody.local_addr()?);

    let destinations = [
        ("acme", "healthy", format!("{host}/healthy")),
        ("acme", "flapping", format!("{host}/flapping")),
        ("acme", "busy", format!("{host}/busy")),
        ("umbrella", "gone", gone),
        ("umbrella", "healthy", format!("{host}/healthy")),
    ];
    writeln!(
        out,
        "{:<10}{:<10}{:>10}{:>10}{:>10}  circuit",
        "tenant", "endpoint", "delivered", "failed", "not sent"
    )?;
    let mut tallies = destinations.each_ref().map(|_| Tally::default());
    for _ in 0..EVENTS {
        for ((tenant, _, url), tally) in destinations.iter().zip(&mut tallies) {
            send(&client, tenant, url, tally).await?;
        }
    }
    for ((tenant, name, url), Tally { delivered, failed, refused }) in destinations.iter().zip(&tallies) {
        let circuit = breakers.circuit_of(&Key::of(tenant, url, CircuitBy::Endpoint)?);
        let status = circuit.status();
        writeln!(out, "{tenant:<10}{name:<10}{delivered:>10}{failed:>10}{refused:>10}  {status}")?;
    }
    Ok(())
}

/// Three endpoints on loopback, until the program ends: one is healthy, one fails every second time, one is always busy.
async fn endpoints() -> io::Result<String> {
    let calls = Arc::new(AtomicU32::new(0));
    let flapping = move || {
        let failed = calls.fetch_add(1, SeqCst) % 2 == 1;
        std::future::ready(if failed { StatusCode::BAD_GATEWAY } else { StatusCode::ACCEPTED })
    };
    let busy = || std::future::ready((StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "60")]));
    let router = Router::new()
        .route("/healthy", post(|| std::future::ready(StatusCode::ACCEPTED)))
        .route("/flapping", post(flapping))
        .route("/busy", post(busy));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(format!("http://{address}"))
}
