//! A response body that counts its request as in flight until the last byte is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::table::InFlight;

/// A response body whose request counts as in flight until the body is dropped.
pub(super) struct CountedBody {
    body: Body,
    #[allow(dead_code, reason = "the request ends when it is dropped")]
    request: InFlight,
}

impl CountedBody {
    pub(super) const fn new(body: Body, request: InFlight) -> Self {
        Self { body, request }
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
