//! What deliveries, endpoints and lanes wait for, as the API shows it.

use breakerbox_core::{Attribution, CircuitStatus, OverrideCommand};
use breakerbox_model::delivery::lanes::LaneWait;
use breakerbox_model::delivery::{NextStep, WaitsFor};
use breakerbox_model::objects::{EndpointId, LaneId, Moment, Priority, Scope};
use breakerbox_storage::{Claim, Settlement};
use http::Method;
use serde_json::{Value, json};

use super::site::{LONG, Site};

/// Returns `waits_for`, `waits_until` and `parked` of the endpoint's only delivery.
async fn delivery(site: &Site, endpoint: &str) -> (Value, Value, Value) {
    let path = format!("/v1/deliveries?endpoint={endpoint}");
    let listed = site.get(&path, &site.admin).await.expect(200).json();
    let one = &listed["items"][0];
    let shown = site.get(&format!("/v1/deliveries/{}", one["id"].as_str().unwrap()), &site.admin).await;
    assert_eq!(shown.expect(200).json(), *one, "listed as it is shown");
    (one["waits_for"].clone(), one["waits_until"].clone(), one["parked"].clone())
}

/// Returns `waiting`, `waits_for` and `waits_until` of an endpoint, as it is shown and listed, and as its lane is.
async fn endpoint(site: &Site, id: &str) -> [Value; 3] {
    let fields = |item: &Value| ["waiting", "waits_for", "waits_until"].map(|name| item[name].clone());
    let shown = site.get(&format!("/v1/endpoints/{id}"), &site.admin).await.expect(200).json();
    let listed = site.get("/v1/endpoints", &site.admin).await.expect(200).json();
    let listed = listed["items"].as_array().unwrap().iter().find(|item| item["id"] == id).cloned();
    assert_eq!(fields(&listed.unwrap()), fields(&shown));
    let lanes = site.get("/v1/lanes", &site.admin).await.expect(200).json();
    let lane = lanes["items"].as_array().unwrap().iter().find(|item| item["endpoint"] == id).cloned();
    if let Some(lane) = lane {
        assert_eq!(fields(&lane), fields(&shown));
        assert_eq!(lane["circuit"], shown["circuit"]);
    } else {
        assert_eq!(shown["waiting"], 0);
    }
    fields(&shown)
}

#[tokio::test]
async fn every_reason_to_wait_is_shown_with_its_end() {
    let site = Site::start().await;
    let id = site.endpoint("acme").await;
    assert_eq!(endpoint(&site, &id).await, [json!(0), Value::Null, Value::Null]);
    site.event("acme").await;
    let at = (site.services.clock)() + LONG;
    let until = Moment(at).to_string();
    let place = |waits_for: WaitsFor| LaneWait { place: waits_for.open_ended(), ..LaneWait::UNKNOWN };
    let hold = |waits_for: WaitsFor| LaneWait { hold: Some(waits_for.until(at)), ..LaneWait::UNKNOWN };
    for (lane, waits_for, ends, parked) in [
        (place(WaitsFor::Slot), "slot", false, false),
        (place(WaitsFor::InFlightLimit), "in_flight_limit", false, false),
        (hold(WaitsFor::Throttle), "throttle", true, true),
        (hold(WaitsFor::RateLimit), "rate_limit", true, true),
        (hold(WaitsFor::RetryAfter), "retry_after", true, true),
        (hold(WaitsFor::Circuit), "circuit", true, true),
    ] {
        *site.stand_in.wait.lock().unwrap() = lane;
        let ends = if ends { json!(until) } else { Value::Null };
        let expected = (json!(waits_for), ends.clone(), json!(parked));
        assert_eq!(delivery(&site, &id).await, expected);
        assert_eq!(endpoint(&site, &id).await, [json!(1), json!(waits_for), ends]);
    }
    let path = format!("/v1/endpoints/{id}/disable");
    site.request(Method::POST, &path, &site.admin, None).await.expect(200);
    assert_eq!(delivery(&site, &id).await, (json!("disabled"), Value::Null, json!(true)), "what ends last");
    assert_eq!(endpoint(&site, &id).await, [json!(1), json!("disabled"), Value::Null]);
}

#[tokio::test]
async fn an_open_circuit_and_a_retry_are_waited_for_whichever_ends_last() {
    let site = Site::start().await;
    let id = site.endpoint("acme").await;
    site.event("acme").await;
    let shown = site.get(&format!("/v1/endpoints/{id}"), &site.admin).await.expect(200).json();
    let circuit = site.circuits.circuit(shown["circuit"]["key"].as_str().unwrap()).unwrap();
    let by = Attribution::new("ops", "maintenance").unwrap();
    circuit.apply_override(OverrideCommand::ForceOpen, &by).await.unwrap();
    assert_eq!(delivery(&site, &id).await, (json!("circuit"), Value::Null, json!(true)));
    circuit.apply_override(OverrideCommand::Disable, &by).await.unwrap();
    assert_eq!(delivery(&site, &id).await, (json!("disabled"), Value::Null, json!(true)));
    circuit.apply_override(OverrideCommand::Reset, &by).await.unwrap();
    assert_eq!(delivery(&site, &id).await, (json!("slot"), Value::Null, json!(false)));

    let lane = LaneId(id.parse::<EndpointId>().unwrap().0);
    let claim = Claim::Due { lane, priority: Priority::Medium, limit: 1, lease: LONG };
    let leased = site.queue().claim(vec![claim]).await.unwrap().remove(0).deliveries.remove(0);
    assert_eq!(delivery(&site, &id).await, (Value::Null, Value::Null, json!(false)), "it is in flight");
    let due_at = site.queue().now() + LONG;
    let attempt = breakerbox_model::objects::Attempt {
        started_at: due_at,
        latency: LONG,
        status: Some(500),
        fault: None,
        detail: None,
        response: bytes::Bytes::new(),
        probe: false,
    };
    let next = NextStep::Retry { due_at, uses_attempt: true, failed_probe: None };
    let settlement = Settlement { id: leased.id, lease: leased.lease, attempt, next, stands_for: None };
    site.queue().settle(settlement).await.unwrap();
    for _ in 0..5 {
        circuit.try_acquire_owned().unwrap().failure();
    }
    let opened = async {
        while circuit.status() != CircuitStatus::Open {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, opened).await.expect("it opens");
    let (waits_for, until, parked) = delivery(&site, &id).await;
    assert_eq!((waits_for, parked), (json!("retry"), json!(true)), "the retry is later than the probe");
    assert_eq!(until, Moment(due_at).to_string());
    let [waiting, waits_for, _] = endpoint(&site, &id).await;
    assert_eq!((waiting, waits_for), (json!(1), json!("retry")));
}

#[tokio::test]
async fn an_event_for_later_waits_for_its_time() {
    let site = Site::start().await;
    let id = site.endpoint("acme").await;
    let body = json!({ "tenant": "acme", "type": "a.b", "payload": 1, "not_before": "2999-01-01T00:00:00Z" });
    site.post("/v1/events", &site.admin, body).await.expect(202);
    let (waits_for, until, parked) = delivery(&site, &id).await;
    assert_eq!((waits_for, parked), (json!("not_before"), json!(false)));
    assert_eq!(until, "2999-01-01T00:00:00.000Z");
}

#[tokio::test]
async fn lanes_are_listed_by_page_and_a_tenant_sees_its_own() {
    let site = Site::start().await;
    for tenant in ["acme", "other"] {
        site.endpoint(tenant).await;
        site.event(tenant).await;
        let body =
            json!({ "tenant": tenant, "type": "a.b", "payload": 1, "url": "https://dynamic.example/x" });
        site.post("/v1/events", &site.admin, body).await.expect(202);
    }
    let mut path = "/v1/lanes?limit=3".to_owned();
    let mut found = Vec::new();
    loop {
        let page = site.get(&path, &site.admin).await.expect(200).json();
        found.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/lanes?limit=3&cursor={next}");
    }
    assert_eq!(found.len(), 4);
    let dynamic: Vec<_> = found.iter().filter(|lane| lane["endpoint"].is_null()).collect();
    assert_eq!(dynamic.len(), 2);
    assert_eq!(dynamic[1]["circuit"]["key"], "acme https://dynamic.example/x");
    assert_eq!((&dynamic[1]["waiting"], &dynamic[1]["waits_for"]), (&json!(1), &json!("slot")));

    let acme = site.key(&[Scope::Read], Some("acme")).await;
    let own = site.get("/v1/lanes", &acme).await.expect(200).json();
    let own = own["items"].as_array().unwrap();
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|lane| lane["tenant"] == "acme"));
    site.get("/v1/lanes?tenant=other", &acme).await.expect(403);
    let other = site.get("/v1/lanes?tenant=other", &site.admin).await.expect(200).json();
    assert_eq!(other["items"].as_array().unwrap().len(), 2);
    site.get("/v1/lanes?cursor=nonsense", &site.admin).await.expect(400);
}
