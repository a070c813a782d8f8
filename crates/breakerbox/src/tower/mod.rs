//! Circuits and throttles as tower layers. Requires the feature `tower`.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`circuit::CircuitLayer`] | before each call, acquires a permit from the circuit for the request's key, and settles it |
//! | [`throttle::ThrottleLayer`] | before each call, acquires a pass from a throttle, one for all requests or one per key, and settles it |
//!
//! If you use both, put the throttle outside and the circuit inside: a call that the throttle sheds then takes no
//! permit, and a call that a circuit refuses does not count for the throttle. Put timeouts inside both, so that both
//! see them:
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
//! let by_host = KeyFromUrl::by(CircuitBy::Host);
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
//! Both layers follow these rules:
//!
//! - **Readiness.** `poll_ready` is the inner service's, so its backpressure reaches the caller. If a call is then
//!   not sent, the layer releases what the inner service had reserved for it, such as a slot in a concurrency limit
//!   or a buffer, by replacing the service with a new clone. That is why the service must be [`Clone`]; put a buffer
//!   around one that is not.
//! - **Errors.** The inner service's errors are boxed, whatever their type, as in tower's own layers, so these layers
//!   can be combined with all others. The layers' own errors are typed, and
//!   [`NotSent::find`](crate::http::NotSent::find) detects them in any error that wraps them.
//! - **End of a call.** A call ends with the response's head; its body is not observed. Dropping a response future
//!   drops its permit or pass, which counts as usual.
//! - **Clones** of a service share circuits and throttles, and each becomes ready independently.

pub mod circuit;
pub mod throttle;
