//! A mock service, and the destination behind it, which tests control.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use tower::BoxError;
use tower_test::mock::{Handle, SendResponse};

pub(crate) type Mock = tower_test::mock::Mock<Request<()>, Response<()>>;

pub(crate) struct Destination(Handle<Request<()>, Response<()>>);

pub(crate) fn pair() -> (Mock, Destination) {
    let (mock, handle) = tower_test::mock::pair();
    (mock, Destination(handle))
}

pub(crate) fn request(url: &str) -> Request<()> {
    Request::get(url).body(()).unwrap()
}

pub(crate) fn status(code: u16) -> Response<()> {
    Response::builder().status(code).body(()).unwrap()
}

impl Destination {
    /// Waits for the next request, and returns it with the sender for its response.
    pub(crate) async fn next(&mut self) -> (Request<()>, SendResponse<Response<()>>) {
        let next = tokio::time::timeout(Duration::from_secs(20), self.0.next_request()).await;
        next.expect("a request arrives").expect("the service is there")
    }

    /// Responds to the call, which must reach this service, and returns the caller's result.
    pub(crate) async fn answers<T>(&mut self, answer: Response<()>, call: impl Future<Output = T>) -> T {
        tokio::join!(call, async { self.next().await.1.send_response(answer) }).0
    }

    /// Fails the call, which must reach this service, and returns the caller's result.
    pub(crate) async fn fails<T>(&mut self, error: impl Into<BoxError>, call: impl Future<Output = T>) -> T {
        tokio::join!(call, async { self.next().await.1.send_error(error.into()) }).0
    }

    /// Responds to a request that has already arrived.
    pub(crate) fn replies_at_once(&mut self, answer: Response<()>) {
        match self.0.poll_request() {
            Poll::Ready(Some((_, reply))) => reply.send_response(answer),
            _ => panic!("no request has arrived"),
        }
    }

    /// Whether no unread request has arrived.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.0.poll_request().is_pending()
    }

    /// Allows this many further requests.
    pub(crate) fn allow(&mut self, requests: u64) {
        self.0.allow(requests);
    }

    /// Makes the service fail to become ready.
    pub(crate) fn breaks(&mut self, error: &str) {
        self.0.send_error(error.to_string());
    }
}

/// Shorthand for calls to a service.
pub(crate) trait CallTo: tower::Service<Request<()>> {
    /// Sends a request; the service must be ready at once.
    fn send(&mut self, request: Request<()>) -> Self::Future {
        let ready = self.poll_ready(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(ready, Poll::Ready(Ok(()))), "not ready");
        self.call(request)
    }

    fn call_to(&mut self, url: &str) -> Self::Future {
        self.send(request(url))
    }
}

impl<S: tower::Service<Request<()>>> CallTo for S {}

/// Returns the result of a call that must complete at its first poll.
pub(crate) fn now<T>(call: impl Future<Output = T>) -> T {
    match std::pin::pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it is not ready at once"),
    }
}

/// Returns a service that never responds, and a function that returns the number of its calls in flight.
pub(crate) fn hanging() -> (
    impl tower::Service<Request<()>, Response = Response<()>, Error = BoxError, Future: Send> + Clone,
    impl Fn() -> usize,
) {
    let calls = Arc::new(());
    let call = Arc::downgrade(&calls);
    let service = tower::service_fn(move |_: Request<()>| {
        let running_tasks = call.upgrade();
        async move {
            std::future::pending::<()>().await;
            drop(running_tasks);
            Ok(status(200))
        }
    });
    (service, move || Arc::strong_count(&calls) - 1)
}
