//! Requests while the gateway is starting.

use std::sync::Arc;

use breakerbox_gateway::api::{self, Connections, Front};
use serde_json::json;
use tokio::net::TcpListener;

use super::site::Site;

#[tokio::test]
async fn a_gateway_that_starts_lives_and_is_not_ready() {
    let mut site = Site::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    site.address = listener.local_addr().unwrap();
    let front = Front::starting();
    let (served, metrics) = (front.clone(), Arc::clone(&site.services.metrics));
    let serving = tokio::spawn(async move {
        api::serve_front(listener, served, Connections::default(), &metrics, std::future::pending()).await;
    });
    site.get("/healthz", "").await.expect(200);
    let ready = site.get("/readyz", "").await.expect(503);
    assert_eq!(ready.json()["status"], "unavailable");
    assert!(ready.json()["degraded"][0].as_str().unwrap().starts_with("starting"), "{ready:?}");
    for said in [
        site.get("/v1/tenants", &site.admin).await,
        site.post("/v1/events", &site.admin, json!({ "type": "a", "payload": 1 })).await,
        site.get("/metrics", &site.admin).await,
        site.get("/nowhere", "").await,
    ] {
        let said = said.expect(503);
        assert_eq!((said.code().as_str(), said.header("retry-after")), ("unavailable", "1"));
        assert!(!said.header("x-request-id").is_empty());
    }

    // The same connections continue.
    front.open(api::router(site.services.clone()));
    site.get("/readyz", "").await.expect(200);
    site.get("/v1/tenants", &site.admin).await.expect(200);
    site.get("/nowhere", "").await.expect(404);
    serving.abort();
}
