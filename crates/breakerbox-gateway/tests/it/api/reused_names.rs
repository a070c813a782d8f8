//! A reused tenant name: the new tenant can't see anything of the deleted one, and is not affected by it.

use std::time::Duration;

use breakerbox_core::{Cause, CircuitStatus, Outcome, TripRule};
use breakerbox_model::objects::Scope;
use breakerbox_storage::records::{Endpoints, History, ObservedChange};
use http::Method;
use serde_json::{Value, json};

use super::changes::change;
use super::site::Site;
use super::tenancy::{body_for, operations};
use super::things::Things;

fn failure() -> Outcome {
    Outcome::failure(Duration::from_millis(3))
}

/// Deletes a tenant and everything that it owns.
async fn delete(site: &Site, things: &Things, tenant: &str) {
    let request =
        async |method: Method, path: &str| site.request(method, &things.fill(path), &site.admin, None).await;
    request(Method::DELETE, "/v1/endpoints/{endpoint}").await.expect(200);
    site.records.cancel_orphans(100).await.unwrap();
    request(Method::POST, "/v1/reminders/{reminder}/cancel").await.expect(200);
    request(Method::DELETE, &format!("/v1/tenants/{tenant}")).await.expect(204);
}

async fn create(site: &Site, tenant: &str) -> String {
    site.post("/v1/tenants", &site.admin, json!({ "id": tenant })).await.expect(201);
    site.key(&[Scope::Admin], Some(tenant)).await
}

#[tokio::test]
async fn what_a_deleted_tenant_left_is_not_there_for_another_of_its_name() {
    let site = Site::start().await;
    let old = Things::of(&site, "acme").await;
    let key = old.fill("{circuit}");
    let shown = site.get(&format!("/v1/circuits/{key}"), &site.admin).await.expect(200).json();
    let text = shown["key"].as_str().unwrap().to_owned();
    let opened = change(&text, (site.services.clock)(), CircuitStatus::Open, Cause::Rule(TripRule::Failures));
    site.records.append_history(vec![ObservedChange::from(opened)]).await.unwrap();
    let order = json!({ "reason": "maintenance" });
    site.post(&format!("/v1/circuits/{key}/force_open"), &site.admin, order).await.expect(200);
    delete(&site, &old, "acme").await;
    let new = create(&site, "acme").await;

    let mut tried = 0;
    for (method, path, _) in operations() {
        let of_circuit = path.contains("{circuit}");
        if !path.contains('{') || path.contains("{tenant}") || of_circuit {
            continue;
        }
        let said = site.request(method.clone(), &old.fill(&path), &new, body_for(&method, &path)).await;
        assert_eq!(
            (said.status.as_u16(), said.code().as_str()),
            (404, "not_found"),
            "{method} {path}: {said:?}"
        );
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
    for path in ["endpoints", "deliveries", "resends", "reminders", "circuits", "changes", "notifications"] {
        let listed = site.get(&format!("/v1/{path}"), &new).await.expect(200).json();
        assert_eq!(listed["items"], json!([]), "{path}");
    }
    let event = old.fill("{event}");
    let listed = site.get(&format!("/v1/deliveries?event={event}"), &new).await.expect(200).json();
    assert_eq!(listed["items"], json!([]));
    let said = site.post("/v1/resends", &new, json!({ "event": event })).await;
    assert_eq!(said.status, 404, "{said:?}");
    let listed = site.get(&format!("/v1/changes?circuit={key}"), &new).await.expect(200).json();
    assert_eq!(listed["items"], json!([]));

    // The circuit for the same URL is a new one.
    let shown = site.get(&format!("/v1/circuits/{key}"), &new).await.expect(200).json();
    assert_eq!(shown["state"], "closed", "{shown}");
    assert!(!shown.to_string().contains("maintenance"), "{shown}");
    let history = site.get(&format!("/v1/circuits/{key}/history"), &new).await.expect(200).json();
    assert_eq!(history["items"], json!([]));
    assert!(site.circuits.circuit(&text).unwrap().try_acquire().is_ok(), "and lets calls through");

    // The operator may still see what is retained.
    for path in [
        "/v1/events/{event}",
        "/v1/deliveries/{delivery}",
        "/v1/reminders/{reminder}",
        "/v1/resends/{resend}",
    ] {
        let shown = site.get(&old.fill(path), &site.admin).await.expect(200).json();
        let tenant = if path.contains("resend") { &shown["filter"]["tenant"] } else { &shown["tenant"] };
        assert_eq!(*tenant, Value::from("acme"), "{path}: {shown}");
    }
}

#[tokio::test]
async fn what_a_deleted_tenants_worker_counted_does_not_count_for_another_of_its_name() {
    let site = Site::start().await;
    let key = "acme https://hooks.acme.example/in";
    let circuit = site.circuits.circuit(key).unwrap();
    let acquire = json!({ "tenant": "acme", "url": "https://hooks.acme.example/in" });
    let permit = site.post("/v1/circuits/acquire", &site.admin, acquire).await.expect(200).json();
    let late = circuit.try_acquire_owned().unwrap();
    circuit.try_acquire().unwrap().settle(failure());
    assert_eq!(circuit.totals().failures, 1);
    site.request(Method::DELETE, "/v1/tenants/acme", &site.admin, None).await.expect(204);
    let new = create(&site, "acme").await;
    late.settle(failure());
    assert_eq!(site.circuits.circuit(key).unwrap().totals().failures, 0, "neither before nor late");
    let settle = json!({ "id": permit["permit"]["id"], "outcome": "failure" });
    let settled = site.post("/v1/permits/settle", &new, settle).await.expect(200).json();
    assert_ne!(settled["settled"], "counted", "its circuit was reset since");
    assert_eq!(site.circuits.circuit(key).unwrap().totals().failures, 0);
}
