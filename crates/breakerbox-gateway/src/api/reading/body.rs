//! Reads request bodies within limits for size, time and memory. The memory limit applies to all bodies together, with
//! a share for each tenant and each key.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use breakerbox_model::shares::NoShare;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::BodyExt;
use hyper::body::Body as _;

use super::body_memory::{BodyMemory, HeldMemory};
use crate::api::caller::Caller;
use crate::api::problem::{ApiResult, Code, Problem};

/// The minimum memory charged for a body, in bytes, to cover its connection's buffers.
const LEAST: usize = 4 * 1024;

/// The memory limit for all request bodies, and the timeout for reading one body.
#[derive(Clone, Debug)]
pub(in crate::api) struct Budget {
    body_memory: BodyMemory,
    timeout: Duration,
}

impl Budget {
    /// Creates the limits: the bytes for all bodies, each tenant's share in percent, and the timeout for one body.
    pub(in crate::api) fn new(bytes: usize, tenant_share: u32, timeout: Duration) -> Self {
        Self { body_memory: BodyMemory::new(bytes as u64, tenant_share), timeout }
    }
}

/// Checks that the content type is JSON.
pub(in crate::api) fn is_json(headers: &HeaderMap) -> ApiResult<()> {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = named.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let detail = "send the body with the header `content-type: application/json`";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    if headers.contains_key(CONTENT_ENCODING) {
        let detail = "send the body without a content-encoding";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    Ok(())
}

/// Reads the whole body, at most `limit` bytes. Returns the body with its memory reservation, which is released on
/// drop.
///
/// Memory is reserved as bytes arrive, not by the announced length, so a slow client does not hold memory for bytes
/// that it has not sent.
pub(in crate::api) async fn read_body(
    request: Request,
    budget: &Budget,
    limit: usize,
) -> ApiResult<(Bytes, HeldMemory)> {
    let (parts, body) = request.into_parts();
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let Some(caller) = parts.extensions.get::<Caller>() else {
        return Err(Problem::new(Code::Internal, "internal error")
            .caused_by("a body is read before its caller is known".to_owned()));
    };
    let mut body_memory = budget.body_memory.held_by(caller);
    match tokio::time::timeout(budget.timeout, collect(body, &mut body_memory, limit)).await {
        Ok(whole) => Ok((whole?, body_memory)),
        Err(_) => {
            let seconds = budget.timeout.as_secs();
            Err(Problem::new(Code::BodyTimeout, format!("the body must arrive within {seconds} seconds")))
        }
    }
}

/// Reads the body to its end. Chunks are copied into one buffer, so that many small ones take no more memory than a few
/// large ones.
async fn collect(mut body: Body, body_memory: &mut HeldMemory, limit: usize) -> ApiResult<Bytes> {
    grow(body_memory, LEAST)?;
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(Code::BodyIncomplete, "the body is incomplete"))?;
        let Ok(piece) = frame.into_data() else { continue };
        let length = whole.len() + piece.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if whole.is_empty() && body.is_end_stream() {
            grow(body_memory, length)?;
            return Ok(piece);
        }
        if length > whole.capacity() {
            let capacity = length.max((2 * whole.capacity()).min(limit));
            grow(body_memory, capacity)?;
            whole.reserve_exact(capacity - whole.len());
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

fn grow(body_memory: &mut HeldMemory, bytes: usize) -> ApiResult<()> {
    body_memory.grow_to(bytes as u64).map_err(|why| match why {
        NoShare::OwnerOver => Problem::new(
            Code::TenantBusy,
            "the concurrent requests of this API key and its tenant use their whole share of memory; send fewer at once",
        ),
        NoShare::AllUsed => Problem::new(Code::Overloaded, "too many concurrent requests; retry later"),
    })
}

fn too_large(limit: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the body must have at most {limit} bytes"))
}
