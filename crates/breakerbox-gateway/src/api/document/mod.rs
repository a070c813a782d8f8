//! The OpenAPI document, and an HTML page that shows it and loads nothing from other servers.
//!
//! Each route describes itself. The rest is added here:
//!
//! | part | what it does |
//! | --- | --- |
//! | `operations` | adds what all operations have in common: the possible problems, and the headers of every response |
//! | `schemas` | corrects the schemas that the macros generate |
//! | `examples` | adds examples of requests and responses |
//! | `curl` | the command that sends the example of a request |
//! | `page` | renders the document as HTML |
//!
//! Tests compare the document with the routes, and with the responses to hostile requests generated from it; and use
//! clients that are generated from it.

mod curl;
mod examples;
mod operations;
mod page;
mod schemas;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use serde_json::Value;
use utoipa::PartialSchema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Components, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};

use super::Api;
use super::problem::Written;

const ABOUT: &str = "Send webhooks and scheduled callbacks through one circuit breaker per endpoint. Durations are strings \
    such as `30s`, `5m` or `72h`; times are RFC 3339 in UTC. Listings are paged: pass the `next` of a page as the `cursor` of \
    the next request. Errors are problems (RFC 9457) with a stable `code`.";

const TAGS: &[(&str, &str)] = &[
    ("events", "Submit events, which are delivered to the endpoints of a tenant."),
    ("endpoints", "Registered destinations of a tenant."),
    ("deliveries", "Deliveries of an event to an endpoint, and their attempts."),
    ("lanes", "Queues of endpoints, dynamic URLs and reminders, and what their deliveries wait for."),
    ("resends", "Background jobs that resend finished deliveries, by filter and time range."),
    ("reminders", "Scheduled callbacks, once or repeatedly, and their runs."),
    ("circuits", "Circuits of endpoints, hosts or tenants: state, history and overrides."),
    ("policies", "Policies of circuits: effective values, the origin of each, and changes."),
    (
        "permits",
        "Decision API for workers that make their own calls: acquire a permit, call, settle the permit.",
    ),
    ("tenants", "Tenants and their settings."),
    ("notifications", "Notifications about circuits, dead letters and reminders, their targets and results."),
    ("keys", "API keys and their scopes."),
    ("system", "Health and metrics."),
];

/// Returns the document without any routes.
pub(super) fn frame() -> OpenApi {
    let mut components = Components::new();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("bbx_...")
        .description(Some("An API key. Scope `admin` includes all others; `manage` includes `read`."))
        .build();
    components.add_security_scheme("api_key", SecurityScheme::Http(bearer));
    components.schemas.insert("Problem".to_owned(), Written::schema());
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Breakerbox gateway")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(LicenseBuilder::new().name("MIT OR Apache-2.0").build()))
                .build(),
        )
        .components(Some(components))
        .tags(Some(
            TAGS.iter().map(|(name, about)| TagBuilder::new().name(*name).description(Some(*about)).build()),
        ))
        .build()
}

/// Completes the document: adds what all operations have in common, corrects the schemas, and adds examples. Returns it
/// as JSON.
pub(super) fn completed(mut document: OpenApi) -> Value {
    operations::complete(&mut document);
    let mut document = serde_json::to_value(&document).unwrap_or_default();
    schemas::correct(&mut document);
    examples::add(&mut document);
    document
}

/// Returns the routes that serve the document and its page. `/` leads to the page.
pub(super) fn routes(document: &Value) -> Router<Api> {
    let json: Arc<str> = document.to_string().into();
    let html: Arc<str> = page::page(document).into();
    Router::new()
        .route("/", routing::get(async || Redirect::temporary("/docs")))
        .route(
            "/openapi.json",
            routing::get(move || {
                served(Arc::clone(&json), "application/json", "default-src 'none'; frame-ancestors 'none'")
            }),
        )
        .route(
            "/docs",
            routing::get(move || {
                served(Arc::clone(&html), "text/html; charset=utf-8", page::CONTENT_SECURITY_POLICY)
            }),
        )
}

async fn served(text: Arc<str>, media_type: &'static str, policy: &'static str) -> Response {
    let mut response = text.to_string().into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
