//! Parses bodies, queries and paths. An invalid one gets a problem that names what is wrong.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Json`], [`OptionalJson`] | a JSON body |
//! | [`Query`] | a query |
//! | [`Named`] | the ID in a path |
//! | [`Budget`] | the memory limit for all bodies |
//! | `body_memory` | each tenant's and API key's share of that memory |
//! | `bodies` | bodies that create and change a resource, declared from one list |
//! | `explain` | finds what is wrong with a value, and where |
//! | [`fields`] | types for single fields |
//! | [`payload`] | payloads for receivers |
//!
//! Valid requests are parsed once. Only invalid ones are parsed a second time, to explain the error.

pub(super) mod bodies;
mod body;
mod body_memory;
mod explain;
pub(super) mod fields;
pub(super) mod payload;

pub(super) use body::{Budget, is_json, read_body};

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::fields::Object;
use super::Api;
use super::problem::{ApiResult, Code, Problem};

/// The maximum size of a body without a payload, in bytes.
pub(super) const SMALL_BODY: usize = 128 * 1024;

/// The maximum size of a body whose errors are explained, in bytes. The problem for a larger body contains only the
/// parser's error.
const EXPLAINED: usize = 2 * SMALL_BODY;

/// A small request body, which is read into memory before it is parsed.
pub(super) trait Body: Sized {
    /// Checks the content type. An outer error rejects the request before its body is read. An inner error is passed to
    /// [`read`](Self::read), which ignores it if the body is empty.
    fn media_type(headers: &HeaderMap) -> ApiResult<ApiResult<()>>;

    /// Parses the body. `media_type` is the result of checking its content type.
    fn read(bytes: &Bytes, media_type: ApiResult<()>) -> ApiResult<Self>;
}

/// A JSON body.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> Body for Json<T> {
    fn media_type(headers: &HeaderMap) -> ApiResult<ApiResult<()>> {
        is_json(headers).map(Ok)
    }

    fn read(bytes: &Bytes, _: ApiResult<()>) -> ApiResult<Self> {
        from_json::<Object<T>>(bytes).map(|object| Self(object.0))
    }
}

impl<T: DeserializeOwned> FromRequest<Api> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> ApiResult<Self> {
        whole(request, api).await
    }
}

/// An optional JSON body. Without one, the default value is used.
pub(super) struct OptionalJson<T>(pub(super) T);

impl<T: DeserializeOwned + Default> Body for OptionalJson<T> {
    fn media_type(headers: &HeaderMap) -> ApiResult<ApiResult<()>> {
        Ok(is_json(headers))
    }

    fn read(bytes: &Bytes, media_type: ApiResult<()>) -> ApiResult<Self> {
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        media_type?;
        from_json::<Object<T>>(bytes).map(|object| Self(object.0))
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Api> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> ApiResult<Self> {
        whole(request, api).await
    }
}

/// A request body whose content is ignored.
pub(super) struct AnyBody;

impl Body for AnyBody {
    fn media_type(_: &HeaderMap) -> ApiResult<ApiResult<()>> {
        Ok(Ok(()))
    }

    fn read(_: &Bytes, _: ApiResult<()>) -> ApiResult<Self> {
        Ok(Self)
    }
}

async fn whole<B: Body>(request: Request, api: &Api) -> ApiResult<B> {
    let media_type = B::media_type(request.headers())?;
    let (bytes, _room) = read_body(request, &api.budget, SMALL_BODY).await?;
    B::read(&bytes, media_type)
}

fn from_json<T: DeserializeOwned>(bytes: &Bytes) -> ApiResult<T> {
    serde_json::from_slice(bytes).map_err(|error| explained::<T>(bytes, &error))
}

/// Explains why a JSON string can't be parsed as a `T`.
pub(super) fn explained<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    if error.is_data() {
        let value = (bytes.len() <= EXPLAINED).then(|| serde_json::from_slice::<Value>(bytes).ok()).flatten();
        return match value.and_then(explain::fault::<T>) {
            Some(fault) => fault.into_problem(Code::InvalidField),
            // For example a duplicate field.
            None => Problem::new(Code::InvalidField, format!("the body: {error}")),
        };
    }
    not_json(error)
}

/// Returns the problem for a body that is not valid JSON.
pub(super) fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new(Code::InvalidJson, format!("the body is not JSON: {error}"))
}

/// Explains why these fields can't be parsed as a `T`.
pub(super) fn fault_in_fields<T: DeserializeOwned>(
    fields: serde_json::Map<String, Value>,
) -> Option<Problem> {
    explain::fault::<T>(Value::Object(fields)).map(|fault| fault.into_problem(Code::InvalidField))
}

/// Query parameters. Each may occur at most once.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _api: &Api) -> ApiResult<Self> {
        let mut fields = BTreeMap::new();
        let query = parts.uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if fields.insert(name.to_string(), Value::String(value.into_owned())).is_some() {
                let detail = format!("{name}: must be given only once");
                return Err(Problem::new(Code::InvalidQuery, detail).of_field(&name));
            }
        }
        let value = Value::Object(fields.into_iter().collect());
        match T::deserialize(&value) {
            Ok(query) => Ok(Self(query)),
            Err(error) => Err(match explain::fault::<T>(value) {
                Some(fault) => fault.into_problem(Code::InvalidQuery).with_code(Code::InvalidQuery),
                None => Problem::new(Code::InvalidQuery, error.to_string()),
            }),
        }
    }
}

/// The ID in a path. An invalid ID gets 404, since it can't name a resource.
pub(super) struct Named<T>(pub(super) T);

impl<T: FromStr<Err: Display>> FromRequestParts<Api> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> ApiResult<Self> {
        let not_found = |detail: String| Problem::new(Code::NotFound, detail);
        let params = RawPathParams::from_request_parts(parts, api)
            .await
            .map_err(|_| not_found("the path is not valid UTF-8".to_owned()))?;
        let (what, text) = params.iter().next().unwrap_or_default();
        text.parse().map(Self).map_err(|why| not_found(format!("there is no {what} {text:?}: the id {why}")))
    }
}
