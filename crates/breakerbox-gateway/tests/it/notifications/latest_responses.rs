//! The latest response on deliveries, endpoints, circuits and in notifications, across a restart, and the event's type
//! in a header.

use breakerbox_testkit::receiver::{Behaviour, RefusingPort};
use serde_json::{Value, json};

use super::whole::{Site, break_endpoint, break_endpoint_at};

/// Returns the three fields of the latest attempt; the time only as whether there is one.
fn last(object: &Value) -> (Value, Value, bool) {
    (object["last_status"].clone(), object["last_error"].clone(), object["last_attempt_at"].is_string())
}

fn listed(site: &Site, path: &str, id: &str) -> Value {
    let shown = site.api().get(path).unwrap();
    shown["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap().clone()
}

fn circuit_of(site: &Site, endpoint: &str) -> String {
    let shown = site.api().get(&format!("/v1/endpoints/{endpoint}")).unwrap();
    shown["circuit"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_latest_response_is_on_every_object_and_survives_a_restart() {
    let mut site = Site::start(|_| {});
    let nothing_yet = (Value::Null, Value::Null, false);
    let quiet = site.api().create_endpoint("default", &site.receiver.url("/quiet"), &["never"], &json!({}));
    let quiet = quiet.unwrap();
    assert_eq!(last(&site.api().get(&format!("/v1/endpoints/{quiet}")).unwrap()), nothing_yet);
    let endpoint = break_endpoint(&site, "/dying", 503);
    site.until("a trip", || site.told("/operator") == ["trip"]);
    let failed = (json!(503), Value::Null, true);
    let circuit = circuit_of(&site, &endpoint);
    let check = |site: &Site| {
        let shown = |path: &str| last(&site.api().get(path).unwrap());
        assert_eq!(shown(&format!("/v1/endpoints/{endpoint}")), failed);
        assert_eq!(last(&listed(site, "/v1/endpoints", &endpoint)), failed);
        assert_eq!(shown(&format!("/v1/circuits/{circuit}")), failed);
        assert_eq!(last(&listed(site, "/v1/circuits", &circuit)), failed);
        let deliveries = site.api().get(&format!("/v1/deliveries?endpoint={endpoint}")).unwrap();
        let tried = deliveries["items"].as_array().unwrap().iter().filter(|one| one["attempts"] != 0);
        let tried: Vec<_> = tried.map(last).collect();
        assert!(!tried.is_empty() && tried.iter().all(|one| *one == failed), "{deliveries}");
        assert_eq!(shown(&format!("/v1/endpoints/{quiet}")), nothing_yet);
    };
    check(&site);
    // The notification states it too, so that the reader need not look it up.
    let trip = site.messages("/operator")[0].clone();
    assert_eq!((&trip["last_status"], &trip["last_error"]), (&json!(503), &Value::Null), "{trip}");
    assert!(trip["text"].as_str().unwrap().contains("\nLatest response: status 503.\n"), "{trip}");
    site.stop();
    site.start_again();
    check(&site);

    site.receiver.set("/dying", Behaviour::HEALTHY);
    site.until("the latest response is the good one", || {
        last(&site.api().get(&format!("/v1/circuits/{circuit}")).unwrap()) == (json!(200), Value::Null, true)
    });
    assert_eq!(last(&site.api().get(&format!("/v1/endpoints/{endpoint}")).unwrap()).0, json!(200));
    site.api().delete(&format!("/v1/endpoints/{endpoint}")).unwrap();
    assert_eq!(last(&site.api().get(&format!("/v1/circuits/{circuit}")).unwrap()), nothing_yet);
}

#[test]
fn an_attempt_without_a_response_states_why() {
    let site = Site::start(|_| {});
    let refusing = RefusingPort::new().unwrap();
    let refused = (Value::Null, json!("connect: connection refused"), true);
    let endpoint = break_endpoint_at(&site, &refusing.url("/in"));
    site.until("a trip", || site.told("/operator") == ["trip"]);
    let shown = |path: &str| last(&site.api().get(path).unwrap());
    assert_eq!(shown(&format!("/v1/endpoints/{endpoint}")), refused);
    let circuit = circuit_of(&site, &endpoint);
    assert_eq!(shown(&format!("/v1/circuits/{circuit}")), refused);
    let trip = site.messages("/operator")[0]["text"].as_str().unwrap().to_owned();
    assert!(trip.contains("\nLatest response: none (connect: connection refused).\n"), "{trip}");

    // A receiver without TLS behind an https URL differs from one with an invalid certificate.
    let plain = site.receiver.url("/in").replace("http://", "https://");
    let wrong = site.api().create_endpoint("default", &plain, &["x.y"], &json!({})).unwrap();
    site.api().post("/v1/events", &json!({ "type": "x.y", "payload": {} })).unwrap();
    site.until("it is tried", || !shown(&format!("/v1/endpoints/{wrong}")).1.is_null());
    assert_eq!(
        shown(&format!("/v1/endpoints/{wrong}")).1,
        json!("tls: the server does not speak TLS on this port; for plain HTTP, use http://")
    );

    // A silent one, with its timeout.
    site.receiver.set("/silent", Behaviour::Hang);
    let url = site.receiver.url("/silent");
    let silent = site.api().create_endpoint("default", &url, &["z"], &json!({ "timeout": "200ms" })).unwrap();
    site.api().post("/v1/events", &json!({ "type": "z", "payload": {} })).unwrap();
    site.until("it is tried", || shown(&format!("/v1/endpoints/{silent}")).2);
    assert_eq!(shown(&format!("/v1/endpoints/{silent}")).1, json!("timeout: no response within 200ms"));
}

#[test]
fn a_dynamic_url_shows_the_latest_response_on_its_circuit() {
    let mut site = Site::start(|_| {});
    site.receiver.set("/dynamic", Behaviour::status(502));
    let url = site.receiver.url("/dynamic");
    for _ in 0..4 {
        site.api().post("/v1/events", &json!({ "type": "a.b", "payload": {}, "url": url })).unwrap();
    }
    site.until("a trip", || site.told("/operator") == ["trip"]);
    let latest = |site: &Site| last(&site.api().get("/v1/circuits").unwrap()["items"][0]);
    assert_eq!(latest(&site), (json!(502), Value::Null, true));
    site.stop();
    site.start_again();
    assert_eq!(latest(&site), (json!(502), Value::Null, true));
}

#[test]
fn the_type_of_an_event_reaches_the_receiver() {
    let site = Site::start(|_| {});
    let endpoint = site.api().create_endpoint("default", &site.receiver.url("/in"), &[], &json!({})).unwrap();
    site.api().post("/v1/events", &json!({ "type": "invoice.paid", "payload": {} })).unwrap();
    site.until("it arrives", || site.types("/in") == ["invoice.paid"]);
    site.api().post(&format!("/v1/endpoints/{endpoint}/test"), &json!({})).unwrap();
    site.api().post(&format!("/v1/endpoints/{endpoint}/test"), &json!({ "type": "a.trial" })).unwrap();
    site.until("tests arrive", || site.types("/in") == ["invoice.paid", "breakerbox.test", "a.trial"]);
    let url = site.receiver.url("/reminded");
    site.api()
        .post("/v1/reminders", &json!({ "url": url, "payload": {}, "at": "2020-01-01T00:00:00Z" }))
        .unwrap();
    site.until("a reminder arrives", || site.types("/reminded") == ["reminder"]);
    // A custom header can't set it.
    let own = json!({ "headers": { "webhook-event-type": "x" } });
    let (status, refused) =
        site.api().request(&http::Method::PATCH, &format!("/v1/endpoints/{endpoint}"), Some(&own)).unwrap();
    assert_eq!((status, &refused["code"]), (422, &json!("invalid_field")), "{refused}");
}
