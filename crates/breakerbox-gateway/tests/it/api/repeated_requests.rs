//! `Idempotency-Key` on every request that creates a resource. However often such a request is sent, concurrently or
//! later, it creates one resource.

use breakerbox_gateway::api;
use futures_util::future::join_all;
use http::{Method, Request};
use serde_json::{Value, json};

use super::site::{Said, Site};

const MANY: usize = 50;

fn keyed(key: &str, idempotency_key: &str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .header("idempotency-key", idempotency_key)
}

async fn post(site: &Site, path: &str, idempotency_key: &str, body: &Value) -> Said {
    site.send(keyed(&site.admin, idempotency_key), path, body.to_string()).await
}

/// A request that creates a resource.
struct Creation {
    path: String,
    body: Value,
    /// The path that lists the created resource.
    listed: &'static str,
    status: u16,
    /// Whether the response contains a secret.
    has_secret: bool,
}

impl Creation {
    fn new(path: &str, body: Value, listed: &'static str) -> Self {
        Self { path: path.to_owned(), body, listed, status: 201, has_secret: false }
    }
}

async fn creations(site: &Site) -> Vec<Creation> {
    let endpoint = site.endpoint("acme").await;
    let reminder = site.reminder("acme").await;
    let remind = json!({ "url": "https://calls.example/in", "payload": 1, "at": "2099-01-01T00:00:00Z" });
    let secret = |creation| Creation { has_secret: true, ..creation };
    let targets = json!([{ "kind": "webhook", "url": "https://ops.example/in" }]);
    let rotate = |path: String| Creation { status: 200, ..secret(Creation::new(&path, json!({}), "")) };
    vec![
        Creation::new("/v1/tenants", json!({ "id": "fresh" }), "/v1/tenants"),
        secret(Creation::new(
            "/v1/tenants",
            json!({ "id": "told", "notification_targets": targets }),
            "/v1/tenants",
        )),
        secret(Creation::new("/v1/endpoints", json!({ "url": "https://a.example/" }), "/v1/endpoints")),
        secret(Creation::new("/v1/keys", json!({ "name": "k", "scopes": ["read"] }), "/v1/keys")),
        secret(Creation::new(
            "/v1/keys",
            json!({ "name": "k", "scopes": ["read"], "tenant": "acme" }),
            "/v1/keys",
        )),
        Creation::new("/v1/resends", json!({ "tenant": "acme" }), "/v1/resends"),
        Creation::new("/v1/reminders", remind.clone(), "/v1/reminders"),
        Creation::new("/v1/reminders/batch", json!({ "reminders": [remind, remind] }), "/v1/reminders"),
        Creation { status: 202, ..Creation::new(&format!("/v1/reminders/{reminder}/run"), json!({}), "") },
        rotate(format!("/v1/endpoints/{endpoint}/secrets/rotate")),
        rotate("/v1/tenants/acme/secrets/rotate".to_owned()),
    ]
}

async fn count(site: &Site, listed: &str) -> usize {
    if listed.is_empty() {
        return 0;
    }
    let found = site.get(&format!("{listed}?limit=500"), &site.admin).await.expect(200).json();
    found["items"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_at_once_create_once() {
    let site = Site::start().await;
    for (n, creation) in creations(&site).await.iter().enumerate() {
        let Creation { path, body, listed, status, has_secret } = creation;
        let (key, before) = (format!("key-{n}"), count(&site, listed).await);
        let said = join_all((0..MANY).map(|_| post(&site, path, &key, body))).await;
        let more = if path.ends_with("/batch") { 2 } else { usize::from(!listed.is_empty()) };
        assert_eq!(count(&site, listed).await - before, more, "{path}");

        let fresh: Vec<_> = said
            .iter()
            .filter(|said| said.status == *status && said.header("idempotency-replayed").is_empty())
            .collect();
        let [first] = fresh[..] else { panic!("{path}: {} were carried out", fresh.len()) };
        for again in said.iter().filter(|said| !std::ptr::eq(*said, first)) {
            if *has_secret {
                let problem = again.json();
                assert_eq!(
                    (again.status.as_u16(), &problem["code"]),
                    (409, &json!("already_created")),
                    "{path}"
                );
                let shown = first.json();
                let id = shown.get("id").unwrap_or(&problem["id"]);
                assert_eq!(&problem["id"], id, "{path}");
                assert!(id.as_str().is_some_and(|id| path.contains(id) || !path.contains("rotate")), "{id}");
            } else {
                assert_eq!((again.status, &again.body), (first.status, &first.body), "{path}");
                assert_eq!(again.header("idempotency-replayed"), "true", "{path}");
                assert_eq!(again.header("etag"), first.header("etag"), "{path}");
            }
        }
        if let Some(id) = first.json().get("id").and_then(Value::as_str) {
            assert!(!id.is_empty(), "{path}");
        }
        let mut other = body.clone();
        other["unknown"] = json!(1);
        let other = post(&site, path, &key, &other).await;
        assert!(matches!(other.status.as_u16(), 409 | 422), "{path}: {}", other.status);
    }
}

#[tokio::test]
async fn a_secret_is_rotated_once_though_it_is_asked_twice() {
    let site = Site::start().await;
    let endpoint = site.endpoint("acme").await;
    let path = format!("/v1/endpoints/{endpoint}/secrets");
    let rotated = post(&site, &format!("{path}/rotate"), "r1", &json!({})).await.expect(200).json();
    let again = post(&site, &format!("{path}/rotate"), "r1", &json!({})).await.expect(409);
    assert_eq!((again.code(), &again.json()["id"]), ("already_created".to_owned(), &json!(endpoint)));
    let now = site.get(&path, &site.admin).await.expect(200).json();
    assert_eq!(now, rotated, "the secret before is still in its overlap");
}

#[tokio::test]
async fn a_key_is_for_one_request_of_one_tenant() {
    let site = Site::start().await;
    let at =
        |tenant: &str, path: &str| json!({ "tenant": tenant, "url": format!("https://a.example/{path}") });
    post(&site, "/v1/endpoints", "k", &at("acme", "x")).await.expect(201);
    let other = post(&site, "/v1/endpoints", "k", &at("acme", "y")).await.expect(409);
    assert_eq!(other.code(), "idempotency_key_reused");
    // Other kinds of requests of the same tenant, including events.
    let event = json!({ "tenant": "acme", "type": "a.b", "payload": 1 });
    assert_eq!(post(&site, "/v1/events", "k", &event).await.expect(409).code(), "idempotency_key_reused");
    post(&site, "/v1/events", "e", &event).await.expect(202);
    let resend = post(&site, "/v1/resends", "e", &json!({ "tenant": "acme" })).await.expect(409);
    assert_eq!(resend.code(), "idempotency_key_reused");
    post(&site, "/v1/endpoints", "k", &at("other", "x")).await.expect(201);

    // A refused request was not carried out, so its key can be used again.
    post(&site, "/v1/tenants", "t", &json!({ "id": "acme" })).await.expect(409);
    post(&site, "/v1/tenants", "t", &json!({ "id": "corrected" })).await.expect(201);
    for wrong in ["", "a b", "ü"] {
        let said = post(&site, "/v1/endpoints", wrong, &at("acme", "z")).await.expect(400);
        assert_eq!(said.code(), "invalid_header", "{wrong:?}");
    }
}

#[tokio::test]
async fn a_repeated_response_is_the_first_one_whatever_happened_since() {
    let site = Site::start().await;
    let body = json!({ "url": "https://calls.example/in", "payload": 1, "every": "24h", "at": "2099-01-01T00:00:00Z" });
    let first = post(&site, "/v1/reminders", "k", &body).await.expect(201);
    let path = format!("/v1/reminders/{}", first.json()["id"].as_str().unwrap());
    site.post(&format!("{path}/pause"), &site.admin, json!({})).await.expect(200);
    let again = post(&site, "/v1/reminders", "k", &body).await.expect(201);
    assert_eq!(again.body, first.body);
    let now = site.get(&path, &site.admin).await.expect(200).json();
    assert_eq!(now["state"], "paused");
}

/// Acquire and settle are exceptions, because a client does not create a permit, and simply acquires again.
#[test]
fn the_document_names_the_header_on_every_request_that_creates() {
    let document = api::document();
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(operation) = item.get("post") else { continue };
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let has_header = parameters.iter().any(|parameter| parameter["name"] == "idempotency-key");
        let responses = operation["responses"].as_object().unwrap();
        let creates = responses.contains_key("201")
            || path.starts_with("/v1/events")
            || path.ends_with("/run")
            || path.ends_with("/rotate");
        assert_eq!(has_header, creates, "{path}");
        let done = responses.iter().filter(|(status, _)| status.starts_with('2'));
        for (status, response) in done {
            let says_so = !response["headers"]["idempotency-replayed"].is_null();
            assert_eq!(says_so, has_header, "{path} {status}");
        }
    }
}
