//! Circuits and throttles as tower layers. With the feature `tower`.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`circuit::CircuitLayer`] | asks the circuit of a request's key before each call, and tells it how the call went |
//! | [`throttle::ThrottleLayer`] | asks a throttle, one for all requests or one for each key, and tells it whether the call found room |
//!
//! With both, the throttle goes outside and the circuit inside: what the throttle sheds never takes a circuit's permit, and
//! what a circuit refuses tells the throttle nothing. Time limits go inside of both, so that they hear of them:
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
//! What holds for both layers:
//!
//! - **Readiness.** `poll_ready` is that of the service inside, so its back-pressure reaches the caller. A call that is then
//!   not sent gives back what the service inside had set aside for it, such as the place in a concurrency limit or in a
//!   buffer: the service is replaced by a fresh clone of itself. That is why it must be [`Clone`]; put a buffer around one
//!   that is not.
//! - **Errors.** They are tower's: an error of the service inside is boxed, whatever its type, so the layers go together
//!   with all others. What the layers themselves have to say is typed, and can be found in any error around it with
//!   [`NotSent::find`](crate::http::NotSent::find).
//! - **When a call ends.** With the response's head: what becomes of its body is not looked at. A response future that is
//!   dropped drops its permit or pass, with all that means.
//! - **Clones** of a service share circuits and throttles, and each gets ready by itself.

pub mod circuit;
pub mod throttle;
