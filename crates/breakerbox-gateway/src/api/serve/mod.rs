//! Listens, and answers until it is told to stop. HTTP/1.1 and HTTP/2 without TLS on one port; TLS is a proxy's affair.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`serve`] | accepts connections, a bounded number; at the end lets them finish |
//! | `dress` | what every answer has: its id, what browsers may not do with it |
//! | `patience` | ends connections whose peer does not read |
//!
//! No client can hold a connection without saying something: headers, bodies and answers all have their time. A handler that
//! panics is answered for, and the connection goes on.

mod dress;
mod patience;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::Service;

use self::dress::RequestIds;
use self::patience::Patience;
use super::problem::{Code, Problem};

/// What a client may take its time for, and how many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connections {
    /// At once.
    pub most: usize,
    /// For the headers of a request; also how long an idle connection is kept.
    pub header_timeout: Duration,
    /// For reading a part of an answer.
    pub write_timeout: Duration,
    /// Of one connection of HTTP/2, at once.
    pub streams: u32,
    /// How long requests under way may take once it is time to stop.
    pub grace: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            most: 4_096,
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            streams: 128,
            grace: Duration::from_secs(30),
        }
    }
}

/// Where a request came from: the other end of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// All that a connection needs.
struct Server {
    router: Router,
    ids: RequestIds,
    limits: Connections,
    http: auto::Builder<TokioExecutor>,
}

/// Answers what comes in until `stop` is ready, and then lets what is under way finish, for a while.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Connections,
    stop: impl Future<Output = ()> + Send,
) {
    let server = Arc::new(Server { router, ids: RequestIds::default(), http: http(&limits), limits });
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.most.clamp(1, Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let place = tokio::select! {
            biased;
            () = &mut stop => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                let connection = converse(Arc::clone(&server), stream, address, graceful.watcher());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                // Mostly this process has too many files open. Others may close some meanwhile.
                tracing::warn!(%error, "can't accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(limits.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time, and are cut off");
    }
    connections.shutdown().await;
}

fn http(limits: &Connections) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(64)
        .max_buf_size(64 * 1024);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(limits.header_timeout)
        .keep_alive_timeout(limits.header_timeout);
    http
}

/// One connection, to its end.
async fn converse(server: Arc<Server>, stream: TcpStream, address: SocketAddr, watcher: Watcher) {
    // An answer is one write: waiting for more to send would only delay it.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Patience::new(stream, server.limits.write_timeout));
    let spoke = Arc::new(AtomicBool::new(false));
    let first = Arc::clone(&spoke);
    let answering = Arc::clone(&server);
    let service = service_fn(move |request| {
        first.store(true, Ordering::Relaxed);
        answer(Arc::clone(&answering), request, address)
    });
    let mut connection =
        std::pin::pin!(watcher.watch(server.http.serve_connection(io, service).into_owned()));
    // The version is told apart before any other time limit begins.
    tokio::select! {
        _ = &mut connection => return,
        () = tokio::time::sleep(server.limits.header_timeout) => {}
    }
    if spoke.load(Ordering::Relaxed) {
        // How a connection ends is the client's affair.
        let _ = connection.await;
    }
}

async fn answer(
    server: Arc<Server>,
    mut request: Request<Incoming>,
    address: SocketAddr,
) -> Result<Response, Infallible> {
    let id = server.ids.id_of(request.headers());
    request.extensions_mut().insert(Peer(address.ip()));
    let mut router = server.router.clone();
    let answered = AssertUnwindSafe(async move { router.call(request).await }).catch_unwind().await;
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => Problem::new(Code::Internal, "something went wrong in the gateway; its log has more")
            .caused_by("a handler panicked".to_owned())
            .into_response(),
    };
    dress::dress(&mut response, id);
    Ok(response)
}
