//! Circuits and throttles for clients built with `reqwest-middleware`. Requires the feature `reqwest-middleware`.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`CircuitMiddleware`] | before each request, acquires a permit from the circuit for its key, and settles it |
//! | [`ThrottleMiddleware`] | before each request, acquires a pass from a throttle, one for all requests or one per key, and settles it |
//! | [`Outgoing`] | the extractors' input: the request and its extensions |
//! | [`Error`] | the reason why a request was not sent, or was aborted |
//!
//! A client's first middleware is the outermost. If you use both, put the throttle first. Put middleware that retries
//! before it, so that every retry acquires again:
//!
//! ```
//! use breakerbox::http::{HttpOutcomes, KeyFromUrl, NotSent};
//! use breakerbox::reqwest::{CircuitMiddleware, Error, ThrottleMiddleware};
//! use breakerbox::throttle::{Priority, Throttle};
//! use breakerbox::{Breakerbox, CircuitBy, OutcomeKind};
//! use http::StatusCode;
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let by_host = KeyFromUrl::by(CircuitBy::Host).or_tenant("shop");
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
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A call ends with the response's head; its body is not observed. Redirects that the client follows belong to the
//! call, and count for the first URL's key. Dropping a request's future drops its permit or pass.

mod circuit;
mod error;
mod throttle;

use breakerbox_core::throttle::{LoadSignal, Priority};
use breakerbox_core::{Key, KeyError};

pub use circuit::CircuitMiddleware;
pub use error::Error;
pub use throttle::ThrottleMiddleware;

use crate::circuit::Classification;
use crate::extract::{ClassifyResponse, ExtractKey, ExtractPriority};
use crate::http::{HttpOutcomes, HttpOverload, KeyFromUrl, PriorityFromExtension};
use crate::throttle::Classify;

/// A request that is about to be sent, as the input for extractors.
///
/// ```
/// use breakerbox::reqwest::Outgoing;
/// use breakerbox::{ExtractKey, Key, KeyError};
///
/// let by_method = |outgoing: &Outgoing<'_>| Key::new(outgoing.request.method().as_str());
///
/// let request = reqwest::Request::new(http::Method::PUT, "https://api.example.com/orders/17".parse()?);
/// let extensions = http::Extensions::new();
/// let outgoing = Outgoing::new(&request, &extensions);
/// assert_eq!(by_method.key(&outgoing)?.text(), "PUT");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outgoing<'a> {
    /// The request to be sent.
    pub request: &'a reqwest::Request,
    /// The request's extensions, such as its [`Tenant`](crate::http::Tenant).
    pub extensions: &'a http::Extensions,
}

impl<'a> Outgoing<'a> {
    /// Creates the extractors' input from a request and its extensions.
    #[must_use]
    pub const fn new(request: &'a reqwest::Request, extensions: &'a http::Extensions) -> Self {
        Self { request, extensions }
    }
}

impl ExtractKey<Outgoing<'_>> for KeyFromUrl {
    fn key(&self, outgoing: &Outgoing<'_>) -> Result<Key, KeyError> {
        self.of(outgoing.extensions, outgoing.request.url().as_str())
    }
}

impl ExtractPriority<Outgoing<'_>> for PriorityFromExtension {
    fn priority(&self, outgoing: &Outgoing<'_>) -> Option<Priority> {
        outgoing.extensions.get().copied()
    }
}

impl ClassifyResponse<reqwest::Response, reqwest_middleware::Error> for HttpOutcomes {
    fn classify_response(&self, result: &reqwest_middleware::Result<reqwest::Response>) -> Classification {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}

impl Classify<reqwest::Response, reqwest_middleware::Error> for HttpOverload {
    fn classify(&self, result: &reqwest_middleware::Result<reqwest::Response>) -> LoadSignal {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}

/// Classifies the results of a plain client, as in `Throttle::builder().classify(HttpOverload::new())`.
impl Classify<reqwest::Response, reqwest::Error> for HttpOverload {
    fn classify(&self, result: &reqwest::Result<reqwest::Response>) -> LoadSignal {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}
