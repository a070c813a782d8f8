//! Serves one connection: responds to its requests, and closes it if the client sends nothing for too long.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::sleep;
use tower::Service;

use super::counted_body::CountedBody;
use super::finalize_response::{self, RequestIds};
use super::front::Front;
use super::table::{Admitted, InFlight};
use super::write_timeout::WriteTimeout;
use super::{Connections, Peer};
use crate::api::problem::{Code, Problem};

/// Serves API connections, all with the same routes, limits and HTTP settings.
pub(super) struct Server {
    front: Front,
    ids: RequestIds,
    limits: Connections,
    http: auto::Builder<TokioExecutor>,
}

/// How the server ends a connection.
enum End {
    /// Closes the connection immediately.
    Now,
    /// Closes the connection after the requests in flight.
    Gracefully,
}

impl Server {
    pub(super) fn new(front: Front, limits: Connections) -> Self {
        Self { front, ids: RequestIds::default(), http: http(&limits), limits }
    }

    /// Serves one connection until it ends.
    pub(super) async fn serve_connection(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        admitted: Admitted,
        mut stopped: watch::Receiver<bool>,
    ) {
        // A response is one write; waiting for more data would only delay it.
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(WriteTimeout::new(stream, self.limits.write_timeout));
        let admitted = Arc::new(admitted);
        let (server, client) = (Arc::clone(&self), Arc::clone(&admitted));
        let service = service_fn(move |mut request: Request<Incoming>| {
            let in_flight = client.begin();
            request.extensions_mut().insert(Arc::clone(&client.connection));
            Arc::clone(&server).answer(request, address, in_flight)
        });
        let mut connection = std::pin::pin!(self.http.serve_connection(io, service).into_owned());
        let end = tokio::select! {
            // It does not matter here how the client ended the connection.
            _ = connection.as_mut() => return,
            () = admitted.evicted() => End::Now,
            end = self.client_timeout(&admitted) => end,
            () = async { drop(stopped.wait_for(|stopped| *stopped).await) } => End::Gracefully,
        };
        if matches!(end, End::Now) {
            return;
        }
        connection.as_mut().graceful_shutdown();
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = sleep(self.limits.write_timeout) => {
                    if !admitted.idle_for().is_zero() {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until the client has had no request in flight for too long, and returns how to end the connection.
    async fn client_timeout(&self, admitted: &Admitted) -> End {
        let limits = &self.limits;
        loop {
            let (limit, end) = if admitted.has_spoken() {
                (limits.header_timeout, End::Gracefully)
            } else {
                (limits.first_request_timeout, End::Now)
            };
            let left = limit.saturating_sub(admitted.idle_for());
            if left.is_zero() {
                return end;
            }
            // The first request may arrive in the meantime; then another limit applies.
            sleep(left.min(limits.header_timeout)).await;
        }
    }

    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        address: SocketAddr,
        in_flight: InFlight,
    ) -> Result<Response, Infallible> {
        let id = self.ids.id_of(request.headers());
        request.extensions_mut().insert(Peer(address.ip()));
        let mut router = self.front.router();
        let answered = AssertUnwindSafe(async move { router.call(request).await }).catch_unwind().await;
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => Problem::new(Code::Internal, "internal error; the gateway's log has details")
                .caused_by("a handler panicked".to_owned())
                .into_response(),
        };
        finalize_response::finalize_response(&mut response, id);
        Ok(response.map(|body| Body::new(CountedBody::new(body, in_flight))))
    }
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
