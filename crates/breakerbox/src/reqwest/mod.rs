//! Circuits and throttles for reqwest.
//!
//! With the feature `reqwest`, [`by_status`](crate::http::by_status) and [`HttpOutcomes`](crate::http::HttpOutcomes)
//! classify the results of a plain `reqwest::Client` for
//! [`Circuit::call_classified`](crate::Circuit::call_classified), and
//! [`HttpOverload`](crate::http::HttpOverload) classifies them for a throttle.
//!
//! With the feature `reqwest-middleware`, every request of a client goes through circuits and throttles:
//!
//! | part | what it does |
//! | --- | --- |
//! | `CircuitMiddleware` | before each request, acquires a permit from the circuit for its key, and settles it |
//! | `ThrottleMiddleware` | before each request, acquires a pass from a throttle, one for all requests or one per key, and settles it |
//! | `Outgoing` | the extractors' input: the request and its extensions |
//! | `Error` | the reason why a request was not sent, or was aborted |
//!
//! A client's first middleware is the outermost. If you use both, put the throttle first. Put middleware that retries
//! before it, so that every retry acquires again:
//!
//! ```
//! # #[cfg(feature = "reqwest-middleware")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use breakerbox::http::{HttpOutcomes, KeyFromUrl, NotSent};
//! use breakerbox::reqwest::{CircuitMiddleware, Error, ThrottleMiddleware};
//! use breakerbox::throttle::{Priority, Throttle};
//! use breakerbox::{Breakerbox, CircuitBy, OutcomeKind};
//! use http::StatusCode;
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let by_host = KeyFromUrl::by(CircuitBy::Host);
//! let outcomes = HttpOutcomes::new().status(StatusCode::TOO_MANY_REQUESTS, OutcomeKind::Ignored);
//! let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).build()?;
//! let client = reqwest_middleware::ClientBuilder::new(client)
//!     .with(ThrottleMiddleware::keyed(Throttle::builder().build_keyed(10_000), by_host.clone()))
//!     .with(CircuitMiddleware::new(Breakerbox::builder().build(), by_host).classify_by(outcomes))
//!     .build();
//!
//! # let url = "http://127.0.0.1:1/orders";
//! match client.get(url).with_extension(Priority::HIGH).send().await {
//!     Ok(response) => println!("{}", response.status()),
//!     // What these two have to say is typed.
//!     Err(error) => match Error::find(&error) {
//!         Some(Error::Refused { key, refusal }) => println!("{key}: {refusal}"),
//!         Some(Error::Shed(shed)) => println!("{shed}"),
//!         Some(other) => println!("{other}"),
//!         None => {
//!             assert_eq!(NotSent::find(&error), None);
//!             println!("sent, and failed: {error}");
//!         }
//!     },
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "reqwest-middleware"))]
//! # fn main() {}
//! ```
//!
//! A call ends with the response's head; its body is not observed. Redirects that the client follows belong to the
//! call, and count for the first URL's key. Dropping a request's future drops its permit or pass.

#[cfg(feature = "reqwest-middleware")]
mod circuit;
mod classify;
#[cfg(feature = "reqwest-middleware")]
mod error;
#[cfg(feature = "reqwest-middleware")]
mod outgoing;
#[cfg(feature = "reqwest-middleware")]
mod throttle;

#[cfg(feature = "reqwest-middleware")]
pub use self::{circuit::CircuitMiddleware, error::Error, outgoing::Outgoing, throttle::ThrottleMiddleware};
