//! Bodies, read within a limit of size, of time, and of memory for all of them together.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::problem::{Answer, Code, Problem};

/// The unit in which room is given out.
const UNIT: usize = 1024;

/// How much of all bodies may be in memory at once, and how long one may take.
#[derive(Clone, Debug)]
pub(in crate::api) struct Budget {
    room: Arc<Semaphore>,
    timeout: Duration,
}

impl Budget {
    pub(in crate::api) fn new(bytes: usize, timeout: Duration) -> Self {
        let units = (bytes / UNIT).min(Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(units)), timeout }
    }

    /// Room for a body of this size, until it is dropped.
    fn take(&self, size: usize) -> Answer<OwnedSemaphorePermit> {
        let units = u32::try_from(size.div_ceil(UNIT)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(units).map_err(|_| {
            Problem::new(Code::Overloaded, "too many requests at once; try again")
                .retry_after(Duration::from_secs(1))
        })
    }
}

/// Whether the body says that it is JSON.
pub(in crate::api) fn is_json(headers: &HeaderMap) -> Answer<()> {
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

/// The whole body, and the room that it takes up for as long as it is held.
pub(in crate::api) async fn read_body(
    request: Request,
    budget: &Budget,
    limit: usize,
) -> Answer<(Bytes, OwnedSemaphorePermit)> {
    let body = request.into_body();
    let hint = body.size_hint();
    let too_large = || Problem::new(Code::BodyTooLarge, format!("the body must have at most {limit} bytes"));
    if hint.lower() > limit as u64 {
        return Err(too_large());
    }
    // Who does not say how much comes is given room for the most that may come.
    let size =
        hint.upper().and_then(|upper| usize::try_from(upper).ok()).map_or(limit, |upper| upper.min(limit));
    let room = budget.take(size)?;
    let collected = tokio::time::timeout(budget.timeout, Limited::new(body, limit).collect());
    match collected.await {
        Ok(Ok(whole)) => Ok((whole.to_bytes(), room)),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(Code::BodyIncomplete, "the body ended before it was whole")),
        Err(_) => {
            let seconds = budget.timeout.as_secs();
            Err(Problem::new(Code::BodyTimeout, format!("the body must be there within {seconds} seconds")))
        }
    }
}
