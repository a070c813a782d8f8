//! The wall clock is set while a gateway is running.

use http::Method;
use serde_json::json;

use super::site::{HOUR, Site, seconds_ahead, text_of};

/// The maximum deviation of a time, on a busy machine, in seconds.
const SLACK: i64 = 120;

#[test]
fn signatures_follow_a_clock_that_is_corrected() {
    let site = Site::start(-900);
    let endpoint = site.endpoint("/in");
    let secrets = site.api().get(&format!("/v1/endpoints/{endpoint}/secrets")).unwrap();
    let secret = secrets["secrets"][0]["secret"].as_str().unwrap();
    let early = site.send();
    assert!(!site.arrived(&early).is_signed_with(secret), "signed in the past: a receiver refuses it");

    site.set(0);
    let event = site.send();
    assert!(site.arrived(&event).is_signed_with(secret));
    site.until_delivered(std::slice::from_ref(&event));
    let delivery = site.delivery(&event);
    assert!(seconds_ahead(&delivery["created_at"]).abs() < SLACK, "{delivery}");
    assert!(seconds_ahead(&delivery["finished_at"]).abs() < SLACK, "{delivery}");
    let tested = site.api().post(&format!("/v1/endpoints/{endpoint}/test"), &json!({})).unwrap();
    assert_eq!(tested["status"], 200, "{tested}");
    assert!(site.arrived_at("/in").last().unwrap().is_signed_with(secret), "test requests too");

    site.until_degraded("clock: the wall clock went forward by");
    let metrics = site.api().metrics().unwrap();
    let drift = metrics.sum("breakerbox_clock_drift_seconds").unwrap();
    assert!((drift - 900.0).abs() < 2.0, "{drift}");
    site.set(-900);
    site.until("healthy again", || site.api().get("/readyz").unwrap()["status"] == "ok");
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let mut site = Site::start(0);
    let endpoint = site.endpoint("/in");
    let secrets = site.api().get(&format!("/v1/endpoints/{endpoint}/secrets")).unwrap();
    let secret = secrets["secrets"][0]["secret"].as_str().unwrap();
    site.set(6 * HOUR);
    let ahead = site.send();
    site.until_delivered(std::slice::from_ref(&ahead));
    site.set(0);
    let event = site.send();
    assert!(site.arrived(&event).is_signed_with(secret));
    let created_at = site.delivery(&event)["created_at"].clone();
    assert!(seconds_ahead(&created_at).abs() < SLACK, "ids follow the clock: {created_at}");
    assert_ne!(ahead, event);

    site.set(-6 * HOUR);
    let behind = site.send();
    site.until_delivered(&[event, behind]);
    site.until_degraded("clock: the wall clock went back by");
    // A delivery that waits by the store clock is due in six hours by the clock of the next start.
    site.receiver.set("/in", breakerbox_testkit::receiver::Behaviour::status(500));
    let parked: Vec<String> = (0..3).map(|_| site.send()).collect();
    site.until("it failed", || site.delivery(&parked[0])["attempts"] != 0);
    site.receiver.set("/in", breakerbox_testkit::receiver::Behaviour::status(200));
    site.restart(-6 * HOUR);
    site.until_degraded("clock: at the start");
    site.until_delivered(&parked);
}

#[test]
fn a_key_expires_by_the_clock_of_the_moment() {
    let site = Site::start(-2 * HOUR);
    let body = json!({ "name": "short", "scopes": ["read"], "expires_at": text_of(-HOUR) });
    let key = site.api().post("/v1/keys", &body).unwrap()["key"].as_str().unwrap().to_owned();
    let status = || site.api().with_key(&key).request(&Method::GET, "/v1/endpoints", None).unwrap().0;
    assert_eq!(status(), 200, "by this clock it has an hour left");
    site.set(0);
    assert_eq!(status(), 401, "it expired an hour ago");
    let refused = site.api().request(&Method::POST, "/v1/keys", Some(&body)).unwrap();
    assert_eq!(refused.0, 422, "{refused:?}");
}

#[test]
fn the_overlap_of_secrets_ends_by_the_clock_of_the_moment() {
    let site = Site::start(-2 * HOUR);
    let endpoint = site.endpoint("/in");
    let path = format!("/v1/endpoints/{endpoint}/secrets/rotate");
    let rotated = site.api().post(&path, &json!({ "overlap": "1h" })).unwrap();
    assert_eq!(rotated["secrets"].as_array().unwrap().len(), 2);
    let signatures = |event: &str| {
        let arrived = site.arrived(event);
        arrived.headers["webhook-signature"].to_str().unwrap().split(' ').count()
    };
    assert_eq!(signatures(&site.send()), 2);
    site.set(0);
    assert_eq!(signatures(&site.send()), 1, "the hour is over");
    let secrets = site.api().get(&format!("/v1/endpoints/{endpoint}/secrets")).unwrap();
    assert_eq!(secrets["secrets"].as_array().unwrap().len(), 1);
    site.set(-2 * HOUR);
    assert_eq!(signatures(&site.send()), 2, "and with the clock back it is not");
}

#[test]
fn notifications_are_signed_by_the_clock_of_the_moment() {
    let site = Site::start(-900);
    let target = json!({ "notification_targets": [{ "kind": "webhook", "url": site.receiver.url("/notifications") }] });
    site.api().patch("/v1/tenants/default", &target).unwrap();
    let secrets = site.api().get("/v1/tenants/default/notifications/secrets").unwrap();
    let text = secrets.to_string();
    let start = text.find("whsec_").unwrap_or_else(|| panic!("{text}"));
    let secret = text[start..].split('"').next().unwrap();
    site.set(0);
    site.api().post("/v1/tenants/default/notifications/test", &json!({})).unwrap();
    assert!(site.arrived_at("/notifications")[0].is_signed_with(secret));
}

#[test]
fn times_that_clients_name_are_by_the_clock_of_the_moment() {
    let site = Site::start(-900);
    site.endpoint("/in");
    site.set(0);
    let event = site.send_with(json!({ "not_before": text_of(2), "expires_after": "30m" }));
    let delivery = site.delivery(&event);
    assert!(seconds_ahead(&delivery["due_at"]).abs() < SLACK, "{delivery}");
    let expires_in = seconds_ahead(&delivery["expires_at"]) - 1_800;
    assert!(expires_in.abs() < SLACK, "{delivery}");
    // Without the conversion it would be due in a quarter of an hour.
    site.until_delivered(&[event]);
}
