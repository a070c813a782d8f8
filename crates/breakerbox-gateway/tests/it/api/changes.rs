//! Circuits and the history of all circuits: ownership, paging, and immutability of the history.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{
    Attribution, Cause, Change, CircuitStatus, Epoch, OverrideCommand, Timestamp, TripRule,
};
use breakerbox_model::objects::{PastChange, Scope};
use breakerbox_storage::records::{ChangeFilter, Endpoints, History, ObservedChange, PageOf};
use http::Method;
use serde_json::{Value, json};

use super::site::Site;
use super::tenancy::{body_for, operations};
use super::things::Things;

pub(super) fn change(key: &str, at: Timestamp, to: CircuitStatus, cause: Cause) -> PastChange {
    let change = {
        let mut changed = Change::new(CircuitStatus::Closed, to, at, Epoch(at.as_micros()), cause);
        changed.retry_at = (to == CircuitStatus::Open).then_some(at + Duration::from_secs(30));
        changed.trips = 1;
        changed
    };
    PastChange { key: Arc::from(key), change }
}

/// Returns all items of a listing, in pages of two.
async fn all(site: &Site, path: &str, key: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let page = site.get(&format!("{path}{mark}limit=2&cursor={cursor}"), key).await.expect(200).json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2, "{page}");
        found.extend(items.iter().cloned());
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return found,
        }
    }
}

fn keys(found: &[Value]) -> Vec<&str> {
    found.iter().map(|one| one["key"].as_str().unwrap()).collect()
}

const KEYS: [&str; 9] = [
    "acme",
    "acme https://a.example/1",
    "acme https://a.example/2",
    "acme https://a.example/3",
    "acme-2 https://a.example/1",
    "acme/reminders",
    "acme/reminders a.example",
    "acme/reminders b.example",
    "other",
];

#[tokio::test]
async fn a_tenants_circuits_are_all_there_whatever_they_are_for() {
    let site = Site::start().await;
    site.post("/v1/tenants", &site.admin, json!({ "id": "acme-2" })).await.expect(201);
    for key in KEYS {
        let id = format!("cir_{}", encoded(key));
        let order = if key.ends_with('2') { "disable" } else { "force_open" };
        let path = format!("/v1/circuits/{id}/{order}");
        let shown = site.post(&path, &site.admin, json!({ "reason": "test" })).await.expect(200).json();
        let purpose = if key.contains("/reminders") { "reminders" } else { "deliveries" };
        assert_eq!((&shown["key"], &shown["purpose"]), (&json!(key), &json!(purpose)));
    }
    let acme = [&KEYS[..4], &KEYS[5..8]].concat();
    let bound = site.key(&[Scope::Read], Some("acme")).await;
    let open: Vec<&str> = acme.iter().copied().filter(|key| !key.ends_with('2')).collect();
    for (path, key, expected) in [
        ("/v1/circuits?tenant=acme", &site.admin, acme.clone()),
        ("/v1/circuits", &bound, acme),
        ("/v1/circuits?state=open", &bound, open),
        ("/v1/circuits?state=disabled", &bound, vec![KEYS[2]]),
        ("/v1/circuits?tenant=acme-2", &site.admin, vec![KEYS[4]]),
        ("/v1/circuits?tenant=default", &site.admin, vec![]),
        ("/v1/circuits", &site.admin, KEYS.to_vec()),
    ] {
        assert_eq!(keys(&all(&site, path, key).await), expected, "{path}");
    }
    for cursor in ["x", "OQ", "acme"] {
        let said = site.get(&format!("/v1/circuits?cursor={cursor}"), &site.admin).await.expect(400);
        assert_eq!((said.code().as_str(), &said.json()["field"]), ("invalid_query", &json!("cursor")));
    }
}

fn encoded(key: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(key)
}

/// Records a trip and a recovery for each circuit, and an override for the circuit of the whole tenant `acme`.
async fn written(site: &Site) -> Vec<PastChange> {
    let start = (site.services.clock)();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut changes = Vec::new();
    for (place, key) in (1..).zip(KEYS) {
        changes.push(change(key, at(place), CircuitStatus::Open, Cause::Rule(TripRule::Failures)));
        changes.push(change(key, at(100 + place), CircuitStatus::Closed, Cause::ProbesSucceeded));
    }
    let by = Attribution::new("key_7", "maintenance").unwrap();
    let order = Cause::Override { command: OverrideCommand::ForceOpen, by };
    changes.push(change("acme", at(300), CircuitStatus::Open, order));
    site.records.append_history(changes.iter().cloned().map(ObservedChange::from).collect()).await.unwrap();
    changes.sort_by_key(|past| std::cmp::Reverse(past.change.at));
    changes
}

#[tokio::test]
async fn the_history_of_all_circuits_is_listed_by_what_can_be_said() {
    let site = Site::start().await;
    let changes = written(&site).await;
    let bound = site.key(&[Scope::Read], Some("acme")).await;
    let of_acme = |past: &&PastChange| past.key.split([' ', '/']).next() == Some("acme");
    let moment = |seconds: i64| {
        let micros = i64::try_from(changes.last().unwrap().change.at.as_micros()).unwrap();
        jiff::Timestamp::from_microsecond(micros + seconds * 1_000_000).unwrap().to_string()
    };
    let shown = all(&site, "/v1/changes?tenant=acme", &site.admin).await;
    let expected: Vec<&str> = changes.iter().filter(of_acme).map(|past| &*past.key).collect();
    assert_eq!((keys(&shown), shown.len()), (expected, 15));
    assert_eq!(all(&site, "/v1/changes", &bound).await, shown, "its own and no others");
    assert_eq!(all(&site, "/v1/changes", &site.admin).await.len(), changes.len());

    let order = &shown[0];
    assert_eq!((&order["key"], &order["tenant"]), (&json!("acme"), &json!("acme")));
    assert_eq!(order["circuit"], format!("cir_{}", encoded("acme")));
    assert_eq!((&order["cause"], &order["rule"]), (&json!("force_open"), &Value::Null));
    assert_eq!((&order["actor"], &order["reason"]), (&json!("key_7"), &json!("maintenance")));
    let trip = shown.last().unwrap();
    assert_eq!((&trip["cause"], &trip["rule"]), (&json!("failures"), &json!("failures")));
    assert_eq!((&trip["from"], &trip["to"], &trip["trips"]), (&json!("closed"), &json!("open"), &json!(1)));
    assert_eq!((&trip["actor"], &trip["reason"]), (&Value::Null, &Value::Null));
    assert!(trip["retry_at"].is_string() && trip["at"].is_string() && trip["epoch"].is_u64());
    let of_reminders = shown.iter().filter(|one| one["purpose"] == "reminders").count();
    assert_eq!(of_reminders, 6);

    for (query, count) in [
        ("to=open", 8),
        ("to=closed", 7),
        ("to=half_open", 0),
        (&format!("circuit=cir_{}", encoded("acme")), 3),
        (&format!("circuit=cir_{}&to=open", encoded("acme")), 2),
        (&format!("circuit=cir_{}", encoded("other")), 0),
        (&format!("from={}", moment(50)), 8),
        (&format!("until={}", moment(50)), 7),
        (&format!("from={}&until={}", moment(50), moment(250)), 7),
    ] {
        assert_eq!(all(&site, &format!("/v1/changes?{query}"), &bound).await.len(), count, "{query}");
    }
    for (query, field) in
        [("to=shut", "to"), ("circuit=x", "circuit"), ("from=now", "from"), ("cursor=x", "cursor")]
    {
        let said = site.get(&format!("/v1/changes?{query}"), &bound).await.expect(400);
        assert_eq!((said.code().as_str(), &said.json()["field"]), ("invalid_query", &json!(field)));
    }
    assert_eq!(site.get("/v1/changes?tenant=other", &bound).await.expect(403).code(), "tenant_mismatch");
}

/// Calls every operation in the document with a key that may do everything, and then deletes the tenant.
#[tokio::test]
async fn no_operation_changes_what_is_written() {
    let site = Site::start().await;
    let things = Things::of(&site, "acme").await;
    let changes = written(&site).await;
    let mut tried = 0;
    let mut operations = operations();
    operations.sort_by_key(|(method, ..)| *method == Method::DELETE);
    for (method, path, _) in operations {
        let said =
            site.request(method.clone(), &things.fill(&path), &site.admin, body_for(&method, &path)).await;
        tried += u32::from(method != Method::GET && said.status.is_success());
    }
    assert!(tried > 15, "{tried} of them did something");
    let endpoints = site.get("/v1/endpoints?tenant=acme", &site.admin).await.expect(200).json();
    for endpoint in endpoints["items"].as_array().unwrap() {
        let path = format!("/v1/endpoints/{}", endpoint["id"].as_str().unwrap());
        site.request(Method::DELETE, &path, &site.admin, None).await.expect(200);
    }
    site.records.cancel_orphans(1_000).await.unwrap();
    site.request(Method::DELETE, "/v1/tenants/acme", &site.admin, None).await.expect(204);
    site.records
        .append_history(changes.iter().cloned().map(altered).map(ObservedChange::from).collect())
        .await
        .unwrap();
    let found = site.records.history(&ChangeFilter::default(), &PageOf::first(500)).await.unwrap();
    assert_eq!(found.items, changes);
}

/// Returns the same change with different content.
fn altered(mut past: PastChange) -> PastChange {
    past.change.trips = 99;
    past
}
