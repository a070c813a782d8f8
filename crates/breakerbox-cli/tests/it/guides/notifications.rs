//! The guide to notifications: every command works and prints what the guide shows, and the guide lists every kind.

use std::path::Path;

use breakerbox_core::{Cause, Change, CircuitStatus, Epoch, Policy, Totals, TripRule};
use breakerbox_gateway::api::Limits;
use breakerbox_model::notifications::{CircuitContext, Kind, OutageStep, notifications};
use breakerbox_model::objects::PastChange;
use breakerbox_storage::records::{History, ObservedChange};
use serde_json::Value;
use std::sync::Arc;

use super::limits::tried;
use super::site::Site;
use super::things::Things;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/notifications.md");
    std::fs::read_to_string(path).unwrap()
}

/// Returns a trip of the circuit that the guide uses as its example.
fn tripped(now: breakerbox_core::Timestamp) -> ObservedChange {
    let key = "acme https://hooks.acme.example/in";
    let change = {
        let mut changed = Change::new(
            CircuitStatus::Closed,
            CircuitStatus::Open,
            now,
            Epoch(7),
            Cause::Rule(TripRule::FailureRate),
        );
        changed.retry_at = Some(now + std::time::Duration::from_secs(30));
        changed.trips = 1;
        changed.last_success = Some(now);
        changed.evidence = Some(Arc::new({
            let mut totals = Totals::default();
            totals.successes = 5;
            totals.failures = 7;
            totals
        }));
        changed
    };
    let known = CircuitContext {
        policy: &Policy::default(),
        endpoints: &[],
        last: None,
        is_unreported_outage: false,
    };
    let notifications = notifications(key, &change, &known);
    let outage = OutageStep::of(key, &change, &known, std::time::Duration::ZERO);
    ObservedChange { change: PastChange { key: key.into(), change }, notifications, outage }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_notifications_does_as_it_says() {
    let site = Site::with(Limits { mail: true, ..Limits::default() }).await;
    let things = Things::of(&site, "acme").await;
    let now = site.services.clock.as_ref()();
    site.records.append_history(vec![tripped(now)]).await.unwrap();
    let (commands, _) = tried("notifications.md", &site, &things);
    assert!(commands >= 8, "{commands}");
}

#[test]
fn the_guide_lists_every_kind() {
    let page = page();
    for kind in Kind::chosen() {
        assert!(page.contains(&format!("| `{kind}` | ")), "{kind}");
    }
}

#[test]
fn the_example_of_a_message_has_the_names_of_one() {
    let page = page();
    let shown = page.split("<!-- a message -->").nth(1).unwrap().split("~~~json\n").nth(1).unwrap();
    let shown: Value = serde_json::from_str(shown.split("~~~").next().unwrap()).unwrap();
    let heard = tripped(breakerbox_core::Timestamp::from_millis(1_763_000_000_000));
    let id = "ntf_01ht8gs800000".parse().unwrap();
    let OutageStep::Begins(began) = heard.outage else { panic!("it begins") };
    let message = breakerbox_model::notifications::Message::of(id, &began.trip).json;
    same_names(&shown, &message, "");
}

#[track_caller]
fn same_names(shown: &Value, said: &Value, path: &str) {
    if let (Some(shown), Some(said)) = (shown.as_object(), said.as_object()) {
        let names = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(shown), names(said), "{path}");
        for (name, shown) in shown {
            same_names(shown, &said[name], &format!("{path}.{name}"));
        }
    }
}
