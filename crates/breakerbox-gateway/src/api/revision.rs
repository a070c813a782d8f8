//! `ETag` and `If-Match`: detect concurrent changes to the same resource.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use breakerbox_model::objects::Revision;
use http::HeaderValue;
use http::header::{ETAG, IF_MATCH};
use http::request::Parts;
use serde::Serialize;

use super::Api;
use super::problem::{ApiResult, Code, Problem};

/// The revision in the request's `If-Match` header. `None` if the header is missing.
pub(super) struct IfMatch(pub(super) Option<Revision>);

impl FromRequestParts<Api> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _api: &Api) -> ApiResult<Self> {
        let Some(header) = parts.headers.get(IF_MATCH) else { return Ok(Self(None)) };
        let text = header.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self(None));
        }
        let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let number = quoted.and_then(|number| number.parse().ok()).filter(|number| *number > 0);
        let detail = "if-match: must be the `etag` of a response, such as \"3\" with its quotes";
        number
            .map(|number| Self(Some(Revision(number))))
            .ok_or_else(|| Problem::new(Code::InvalidHeader, detail).of_field("if-match"))
    }
}

/// A response with the resource's revision as its `ETag`.
pub(super) struct Revised<T>(pub(super) Revision, pub(super) T);

impl<T: Serialize> IntoResponse for Revised<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.1).into_response();
        if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", self.0.0)) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }
}
