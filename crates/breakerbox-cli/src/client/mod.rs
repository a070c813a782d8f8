//! The API client used by commands: one request, one connection, one response.
//!
//! It is small on purpose. It does not follow redirects, reuse connections or retry: the user of a command sees the
//! result, and decides.

mod connection;

use std::time::Duration;

use breakerbox_storage::records::MAX_PAGE;
use bytes::Bytes;
use clap::Args;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use tokio::runtime::Runtime;
use url::Url;

use super::failure::Failure;
use super::limit::Limit;
use super::refusal::Refusal;

/// The maximum size of a response, in bytes.
const LONGEST_ANSWER: usize = 64 << 20;

/// The URL of a gateway with default settings.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// The gateway to call, and the key to call it with.
#[derive(Args, Clone)]
#[command(next_help_heading = "Gateway")]
pub(super) struct Gateway {
    /// URL of the gateway
    #[arg(
        long,
        value_name = "URL",
        env = "BREAKERBOX_URL",
        default_value = DEFAULT_URL,
        global = true
    )]
    url: String,

    /// API key
    #[arg(long, value_name = "KEY", env = "BREAKERBOX_API_KEY", hide_env_values = true, global = true)]
    key: Option<String>,

    /// Timeout for each request
    #[arg(long, value_name = "DURATION", default_value = "30s", global = true, value_parser = crate::times::duration)]
    timeout: Duration,
}

/// Returns a runtime for one command.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Environment(format!("can't start: {error}")))
}

/// A request to the API.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    body: Option<Bytes>,
}

impl Ask {
    fn new(method: Method, path: &[&str]) -> Self {
        // Each input is one path segment, whatever characters it contains.
        let mut url = Url::parse("http://x/v1").expect("a constant");
        if let Ok(mut pieces) = url.path_segments_mut() {
            pieces.extend(path);
        }
        Self { method, path: url.path().into(), query: vec![], headers: vec![], body: None }
    }

    /// Builds a GET request for this path below `/v1`.
    pub(super) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: &[&str]) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn patch(path: &[&str]) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(super) fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Adds a query parameter, if it has a value.
    pub(super) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Adds a header, if it has a value.
    pub(super) fn header(mut self, name: &'static str, value: Option<String>) -> Self {
        self.headers.extend(value.map(|value| (name, value)));
        self
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.body(body.to_string().into())
    }

    pub(super) fn body(mut self, body: Bytes) -> Self {
        self.body = Some(body);
        self
    }
}

impl Gateway {
    /// Sends a request, and returns the response: JSON, or null if its body is empty.
    pub(super) fn request(&self, ask: Ask) -> Result<Value, Failure> {
        self.parsed(&self.request_bytes(ask)?)
    }

    /// Sends a request, and returns the body of the response byte for byte.
    pub(super) fn request_bytes(&self, ask: Ask) -> Result<Bytes, Failure> {
        runtime()?.block_on(self.exchange_in_time(ask))
    }

    /// Like [`request`](Self::request), for a command that sends several requests and waits in between.
    pub(super) async fn request_async(&self, ask: Ask) -> Result<Value, Failure> {
        self.parsed(&self.exchange_in_time(ask).await?)
    }

    async fn exchange_in_time(&self, ask: Ask) -> Result<Bytes, Failure> {
        match tokio::time::timeout(self.timeout, self.exchange(ask)).await {
            Ok(answer) => answer,
            Err(_) => {
                let limit = breakerbox_core::format_duration(self.timeout);
                Err(self.unreachable(format!("no response within {limit} (--timeout)")))
            }
        }
    }

    /// Parses the body of a response: JSON, or null if it is empty.
    pub(super) fn parsed(&self, body: &[u8]) -> Result<Value, Failure> {
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(body).map_err(|_| self.odd("the response is not JSON"))
    }

    /// Returns the items of a listing, and whether the gateway has more. Requests page after page until `limit` is
    /// reached.
    pub(super) fn pages(&self, ask: &Ask, limit: Limit) -> Result<(Vec<Value>, bool), Failure> {
        let limit = limit.most;
        let mut items = vec![];
        let mut cursor: Option<String> = None;
        loop {
            let wanted = limit.saturating_sub(items.len()).min(MAX_PAGE);
            let page = ask.clone().query("limit", Some(wanted)).query("cursor", cursor.take());
            let Value::Object(mut page) = self.request(page)? else {
                return Err(self.odd("the response is not a page"));
            };
            let Some(Value::Array(found)) = page.remove("items") else {
                return Err(self.odd("the page has no items"));
            };
            items.extend(found);
            cursor = page.remove("next").and_then(|next| next.as_str().map(String::from));
            // A short or empty page is not necessarily the last.
            if cursor.is_none() || items.len() >= limit {
                return Ok((items, cursor.is_some()));
            }
        }
    }

    async fn exchange(&self, ask: Ask) -> Result<Bytes, Failure> {
        let base = self.base()?;
        let mut url = base.clone();
        url.set_path(&format!("{}{}", base.path().trim_end_matches('/'), ask.path));
        if !ask.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&ask.query);
        }
        let request = self.build_request(&url, ask)?;
        let response =
            connection::send(&url, request).await.map_err(|error| self.unreachable(error.to_string()))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER)
            .collect()
            .await
            .map_err(|error| self.unreachable(format!("the response is incomplete: {error}")))?
            .to_bytes();
        if !parts.status.is_success() {
            return Err(Failure::Refused(Box::new(Refusal::new(&parts, &body))));
        }
        Ok(body)
    }

    fn build_request(&self, url: &Url, ask: Ask) -> Result<Request<Full<Bytes>>, Failure> {
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let target: Uri = target.parse().map_err(|_| Failure::Input("the path is too long".into()))?;
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut request = Request::builder()
            .method(ask.method)
            .uri(target)
            .header(header::HOST, host)
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("breakerbox/", env!("CARGO_PKG_VERSION")));
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.trim()));
        }
        if ask.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let wrong = |_| {
            Failure::Input("--key or another option contains a character that can't be sent in a header, such as a line end".into())
        };
        request.body(Full::new(ask.body.unwrap_or_default())).map_err(wrong)
    }

    fn base(&self) -> Result<Url, Failure> {
        let wrong =
            |why: &str| Failure::Input(format!("--url {}: {why}, such as http://127.0.0.1:8080", self.url));
        let url = Url::parse(&self.url).map_err(|_| wrong("must be a URL"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("must be a URL with http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("must have no user and no password; pass an API key with --key"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("must have no query"));
        }
        Ok(url)
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Unreachable(format!(
            "can't reach the gateway at {}: {why}. Check that it is running, and that --url or BREAKERBOX_URL is correct",
            self.url
        ))
    }

    /// Returns the failure for a response that is not from a gateway, or is from an incompatible version.
    pub(super) fn odd(&self, why: &str) -> Failure {
        Failure::Environment(format!("the server at {} is not a Breakerbox gateway: {why}", self.url))
    }
}
