//! `breakerbox listen`: a local receiver that verifies signatures and prints the requests that it receives.
//!
//! It can respond late or with failures, even until the user tells it to recover, so that the user can watch circuits
//! open and close. It is a tool for testing: it listens on loopback, stores nothing, and trusts no input.

mod answer;
mod arrival;

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use breakerbox_model::delivery::Signer;
use breakerbox_model::objects::Secret;
use bytes::Bytes;
use clap::Args;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use self::answer::{Answering, Plan};
use self::arrival::{Arrival, Count};
use super::failure::{Failure, say};
use super::output::{Output, colourful, print};

/// The maximum size of a request body, in bytes.
const LARGEST: usize = 64 << 20;
/// The path of the control request that makes the receiver fail every webhook.
const FAIL: &str = "/-/fail";
/// The path of the control request that makes the receiver recover.
const RECOVER: &str = "/-/recover";

/// Receive webhooks, verify their signatures, and print them.
///
/// This receiver is for testing only. By default, the gateway does not send to loopback
/// addresses; allow them with --dev:
///
///   breakerbox serve --dev
///   breakerbox listen --secret whsec_...
///   breakerbox endpoints create http://127.0.0.1:8081/
///
/// With --failing, every request fails until you press Enter, or run
/// `curl -X POST http://127.0.0.1:8081/-/recover` (/-/fail makes it fail again). Use this to
/// watch a circuit open, probe and close.
///
/// With --secret, requests with a missing, invalid or expired signature get 401.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,

    /// Secret to verify signatures with; repeat the option during a rotation to accept both secrets
    #[arg(
        long = "secret",
        value_name = "SECRET",
        env = "BREAKERBOX_WEBHOOK_SECRET",
        hide_env_values = true,
        value_delimiter = ','
    )]
    secrets: Vec<String>,

    /// Status code of responses
    #[arg(long, value_name = "STATUS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,

    /// Delay before each response
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = crate::times::duration)]
    delay: Duration,

    /// Fail the first N requests
    #[arg(long, value_name = "N", default_value_t = 0)]
    fail: u64,

    /// Fail every request until Enter or POST /-/recover
    #[arg(long)]
    failing: bool,

    /// Status code of failures
    #[arg(long, value_name = "STATUS", default_value_t = 500, value_parser = clap::value_parser!(u16).range(200..=599))]
    fail_status: u16,

    /// Retry-After header of failures
    #[arg(long, value_name = "DURATION", value_parser = crate::times::duration)]
    retry_after: Option<Duration>,

    /// Print bodies in full
    #[arg(long)]
    full: bool,

    /// Exit after this many requests
    #[arg(long, value_name = "N")]
    exit_after: Option<u64>,
}

/// The state that all connections share.
struct Receiver {
    signer: Option<Signer>,
    answering: Mutex<Answering>,
    count: Mutex<Count>,
    exit_after: Option<u64>,
    done: Notify,
    lines: mpsc::UnboundedSender<Arrival>,
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Environment(format!("can't start: {error}")))?;
    let ended = runtime.block_on(receive(arguments, output));
    // Does not wait for delayed responses, or for the thread that reads the keyboard.
    runtime.shutdown_background();
    ended
}

async fn receive(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let signer = signer(&arguments.secrets)?;
    let address = arguments.listen;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::Environment(format!("can't listen on {address}: {error}; use --listen for another address"))
    })?;
    let address = listener.local_addr().unwrap_or(address);
    announce(arguments, address, output)?;

    let (lines, mut arrivals) = mpsc::unbounded_channel();
    let plan = Plan {
        status: arguments.status,
        delay: arguments.delay,
        fail_status: arguments.fail_status,
        retry_after: arguments.retry_after,
    };
    let receiver = Arc::new(Receiver {
        signer,
        answering: Mutex::new(Answering::new(plan, arguments.fail, arguments.failing)),
        count: Mutex::default(),
        exit_after: arguments.exit_after,
        done: Notify::new(),
        lines,
    });
    if io::stdin().is_terminal() {
        let receiver = Arc::clone(&receiver);
        std::thread::spawn(move || heed_the_keyboard(&receiver));
    }
    let colour = colourful();
    let connections = GracefulShutdown::new();
    let result = loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { tokio::spawn(converse(stream, Arc::clone(&receiver), connections.watcher())); }
                // Too many files are open, or the peer disconnected. Other connections may still arrive.
                Err(error) => {
                    say(&format!("breakerbox: a connection failed: {error}"));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(arrival) = arrivals.recv() => {
                if let Err(failure) = show(&arrival, arguments.full, colour, output) {
                    break Err(failure);
                }
            }
            () = receiver.done.notified() => break Ok(()),
            _ = tokio::signal::ctrl_c() => break Ok(()),
        }
    };
    // Received requests still get their responses, unless `--delay` holds them back.
    let _ = tokio::time::timeout(Duration::from_secs(1), connections.shutdown()).await;
    while let Ok(arrival) = arrivals.try_recv() {
        show(&arrival, arguments.full, colour, output)?;
    }
    output.hint(&locked(&receiver.count).summary());
    result
}

/// Parses the secrets. Clap does not do this, because its errors quote the value.
fn signer(secrets: &[String]) -> Result<Option<Signer>, Failure> {
    let secret = |text: &String| text.parse().map_err(|error| Failure::Input(format!("--secret: {error}")));
    let secrets = secrets.iter().map(secret).collect::<Result<Vec<Secret>, _>>()?;
    Ok((!secrets.is_empty()).then(|| Signer::new(&secrets)))
}

fn announce(arguments: &Arguments, address: SocketAddr, output: Output) -> Result<(), Failure> {
    if output.json {
        return print(&format!("{}\n", json!({ "listening": format!("http://{address}/") })));
    }
    output.hint(&format!("listening on http://{address}/; Ctrl-C stops"));
    if arguments.secrets.is_empty() {
        output.hint("signatures are not verified: give the endpoint's secret with --secret");
    }
    if arguments.failing {
        output.hint(&format!("every request fails until Enter, or: curl -X POST http://{address}{RECOVER}"));
    }
    Ok(())
}

fn show(arrival: &Arrival, full: bool, colour: bool, output: Output) -> Result<(), Failure> {
    match (output.json, output.quiet) {
        (true, _) => print(&format!("{}\n", arrival.to_json())),
        (_, true) => print(&format!("{}\n", arrival.name())),
        _ => print(&arrival.to_text(full, colour)),
    }
}

/// Whenever Enter is pressed, toggles whether requests fail. Blocks the thread until standard input ends.
fn heed_the_keyboard(receiver: &Receiver) {
    for line in io::stdin().lines() {
        if line.is_err() {
            return;
        }
        let failing = locked(&receiver.answering).toggle();
        say(if failing { "failing; press Enter to recover" } else { "recovered; press Enter to fail again" });
    }
}

async fn converse(stream: TcpStream, receiver: Arc<Receiver>, watcher: Watcher) {
    let service = service_fn(move |request| {
        let receiver = Arc::clone(&receiver);
        async move { Ok::<_, Infallible>(take(request, &receiver).await) }
    });
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    // A peer that disconnects early is not an error here.
    let _ = watcher.watch(server.serve_connection(TokioIo::new(stream), service)).await;
}

/// Handles one request: a control request, or a webhook.
async fn take(request: Request<Incoming>, receiver: &Receiver) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, FAIL) => return told(receiver, true),
        (&Method::POST, RECOVER) => return told(receiver, false),
        _ => {}
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, LARGEST).collect().await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or incomplete\n");
    };
    let body = body.to_bytes();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let verdict = receiver.signer.as_ref().map(|signer| signer.verify(&parts.headers, &body, now.as_secs()));
    let answer = locked(&receiver.answering).next(matches!(verdict, Some(Err(_))));
    let mut arrival = Arrival::new(parts, body, verdict, answer.status, now);
    let total = locked(&receiver.count).add(&mut arrival);
    let _ = receiver.lines.send(arrival);
    tokio::time::sleep(answer.delay).await;
    if receiver.exit_after.is_some_and(|last| total >= last) {
        receiver.done.notify_one();
    }
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = plain(status, "");
    if let Some(wait) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
    }
    response
}

fn told(receiver: &Receiver, failing: bool) -> Response<Full<Bytes>> {
    locked(&receiver.answering).set(failing);
    plain(StatusCode::OK, if failing { "failing\n" } else { "recovered\n" })
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

/// Locks a mutex, even if another thread panicked while it held the lock, because no update leaves the value
/// half-changed.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
