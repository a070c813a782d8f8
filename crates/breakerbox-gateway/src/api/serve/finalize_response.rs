//! Adds a request ID, which is also in the log, and security headers to every response.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue};

use crate::api::problem::Logged;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The content security policy: API responses are data, and a browser must not load, run or frame anything in them.
const DATA_ONLY: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");

/// The maximum length of a request ID that a client may choose, in characters.
const LONGEST: usize = 64;

/// Generates request IDs: a random prefix for this process, and a counter.
#[derive(Debug)]
pub(super) struct RequestIds {
    process: u32,
    count: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        Self { process: rand::random(), count: AtomicU64::new(0) }
    }
}

impl RequestIds {
    /// Returns the client's own request ID if it is safe to log, otherwise a new one.
    pub(super) fn id_of(&self, headers: &HeaderMap) -> HeaderValue {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let chosen = headers.get(REQUEST_ID).filter(|value| {
            let bytes = value.as_bytes();
            (1..=LONGEST).contains(&bytes.len()) && bytes.iter().copied().all(fits)
        });
        chosen.cloned().unwrap_or_else(|| {
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            let id = format!("{:08x}-{count:x}", self.process);
            HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
        })
    }
}

/// Adds the headers that every response has. Headers set by a handler stay.
pub(super) fn finalize_response(response: &mut Response, id: HeaderValue) {
    if response.status().is_server_error() {
        let cause = response.extensions_mut().remove::<Logged>();
        let cause = cause.as_ref().map_or("", |logged| &logged.0);
        let id = id.to_str().unwrap_or_default();
        tracing::error!(request_id = id, status = response.status().as_u16(), cause, "request failed");
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    headers.insert(REFERRER_POLICY, NO_REFERRER);
    headers.entry(CACHE_CONTROL).or_insert(NO_STORE);
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(DATA_ONLY);
}
