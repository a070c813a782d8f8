//! Circuits and throttles as tower layers. With the feature `tower`.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`circuit::CircuitLayer`] | acquires a permit from the circuit of the request's key before each call, and settles it |
//! | [`throttle::ThrottleLayer`] | acquires a pass from a throttle, one for all requests or one for each key, and settles it |
//!
//! With both, the throttle goes outside and the circuit inside: a call that the throttle sheds takes no permit, and a
//! call that a circuit refuses does not count for the throttle. Timeouts go inside of both, so that both observe them:
//!
//! ```
//! use breakerbox::http::{HttpOutcomes, KeyFromUrl, NotSent};
//! use breakerbox::throttle::Throttle;
//! use breakerbox::tower::{circuit::CircuitLayer, throttle::ThrottleLayer};
//! use breakerbox::{Breakerbox, CircuitBy, OutcomeKind};
//! use http::{Request, Response, StatusCode};
//! use std::time::Duration;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! # let client = tower::service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(())));
//! let by_host = KeyFromUrl::by(CircuitBy::Host).or_tenant("shop");
//! let outcomes = HttpOutcomes::new().status(StatusCode::TOO_MANY_REQUESTS, OutcomeKind::Ignored);
//! let mut client = ServiceBuilder::new()
//!     .layer(ThrottleLayer::keyed(Throttle::builder().build_keyed(10_000), by_host.clone()))
//!     .layer(CircuitLayer::new(Breakerbox::builder().build(), by_host).classify_by(outcomes))
//!     .timeout(Duration::from_secs(5))
//!     .service(client);
//!
//! let request = Request::get("https://api.example.com/orders").body(())?;
//! match client.ready().await?.call(request).await {
//!     Ok(response) => assert_eq!(response.status(), 200),
//!     Err(error) => match NotSent::find(&error) {
//!         Some(not_sent) => println!("not sent; try again in {:?}", not_sent.retry_in()),
//!         None => println!("sent, and failed: {error:?}"),
//!     },
//! }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! These rules hold for both layers:
//!
//! - **Readiness.** `poll_ready` is that of the inner service, so its backpressure reaches the caller. A call that is
//!   then not sent releases what the inner service had reserved for it, such as a slot of a concurrency limit or of a
//!   buffer: the service is replaced by a fresh clone of itself. That is why it must be [`Clone`]; put a buffer around
//!   one that is not.
//! - **Errors.** They are tower's: an error of the inner service is boxed, whatever its type, so the layers work
//!   together with all others. The errors of the layers themselves are typed, and can be found in any error around them
//!   with [`NotSent::find`](crate::http::NotSent::find).
//! - **End of a call.** A call ends with the response's head; its body is not observed. A response future that is
//!   dropped drops its permit or pass, which counts as usual.
//! - **Clones** of a service share circuits and throttles, and each becomes ready by itself.

pub mod circuit;
pub mod throttle;
