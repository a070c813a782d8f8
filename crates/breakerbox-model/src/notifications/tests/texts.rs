//! Tests the complete texts of notifications.

use std::time::Duration;

use breakerbox_core::{Attribution, Cause, Change, CircuitStatus, Mode, Policy, PolicyBuilder, TripRule};

use super::{at, change};
use crate::delivery::{Fault, LastAttempt};
use crate::notifications::{
    CircuitContext, LastResult, Message, News, Notification, OutageStep, Why, notifications,
};
use crate::values::{EndpointId, Id, Moment, NotificationId, ShownKey, TenantId};

fn gateway_policy() -> PolicyBuilder {
    Policy::builder().disable_after(10).disable_min(Duration::from_secs(72 * 3_600))
}

fn endpoints(count: u64) -> Vec<EndpointId> {
    (0..count).map(|n| EndpointId(Id::from_number(i64::try_from(n).unwrap()).unwrap())).collect()
}

fn notifications_of(key: &str, change: &Change, policy: PolicyBuilder, ids: u64) -> Notification {
    let (policy, endpoints) = (policy.build().unwrap(), endpoints(ids));
    let last = LastAttempt {
        started_at: change.at,
        status: None,
        fault: Some(Fault::Connect),
        detail: Some("connection refused".into()),
    };
    let known = CircuitContext {
        policy: &policy,
        endpoints: &endpoints,
        last: Some(&last),
        is_unreported_outage: false,
    };
    notifications(key, change, &known).pop().unwrap_or_else(|| {
        match OutageStep::of(key, change, &known, Duration::ZERO) {
            OutageStep::Begins(began) => began.trip,
            other => panic!("{other:?}"),
        }
    })
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

#[track_caller]
fn says(notification: &Notification, title: &str, body: &[&str]) {
    let text = notification.text();
    assert_eq!(text.title, title);
    let fingerprint = ShownKey(&notification.subject).fingerprint();
    let body: Vec<_> = body.iter().map(|line| line.replace("FINGERPRINT", &fingerprint)).collect();
    assert_eq!(text.body.lines().collect::<Vec<_>>(), body);
    let id = NotificationId(Id::first_at(notification.at));
    let sent = Message::of(id, notification).json.to_string();
    // Neither the URL's path nor the circuit's id contains the secret.
    assert!(!sent.contains("s3cret") && !sent.contains("czNjcmV0") && !sent.contains("MzY3JldA"), "{sent}");
    // A notification read back from the database has the same text.
    let kept = serde_json::to_string(&notification.news).unwrap();
    let read: News = serde_json::from_str(&kept).unwrap();
    assert_eq!(Notification { news: read, ..notification.clone() }.text(), text);
}

#[test]
fn a_trip() {
    let notification = notifications_of(
        "acme https://hooks.example.com/T0/s3cret",
        &change(Cause::Rule(TripRule::FailureRate), CircuitStatus::Open),
        gateway_policy(),
        1,
    );
    says(
        &notification,
        "acme: https://hooks.example.com/... is failing; its circuit is open",
        &[
            "Affected: https://hooks.example.com/...; ep_0000000000000.",
            "Since: 2026-01-31T12:00:00.000Z.",
            "Reason: 7 of 12 calls in 1m failed; the limit is 50 % of at least 10 calls (failure_rate).",
            "Latest response: none (connect: connection refused).",
            "What happens next: deliveries are parked; none is lost, and none uses an attempt. From 2026-01-31T12:00:30.000Z on, one call at a time probes. After 3 consecutive successes the circuit closes, and the parked deliveries are sent at a growing rate. The circuit is disabled after 10 trips and 72h without a success; this was trip 2.",
            "What to do: fix the receiver. The circuit then closes by itself. For its state and its latest response, see `breakerbox endpoints show ep_0000000000000`, or GET /v1/endpoints/ep_0000000000000.",
        ],
    );
}

#[test]
fn a_trip_of_reminders_of_a_host_and_without_giving_up() {
    let tripped = change(Cause::Rule(TripRule::MeanLatency), CircuitStatus::Open);
    let policy = || Policy::builder().mean_latency(Duration::from_secs(5)).probes(1);
    let title = |key: &str, ids: u64| {
        let text = notifications_of(key, &tripped, policy(), ids).text();
        (text.title, text.body.lines().next().unwrap().to_owned(), text.body)
    };
    let (reminders, which, body) = title("acme/reminders", 0);
    assert_eq!(reminders, "acme: all reminders are failing; their circuit is open");
    assert_eq!(which, "Affected: all reminders of the tenant, which share one circuit.");
    for part in [
        "Reason: 12 calls in 1m took 5s on average; the limit is 5s for at least 10 calls (mean_latency).",
        "What happens next: runs are parked; none is dropped. From 2026-01-31T12:00:30.000Z on, one call at a time probes. After one success the circuit closes, and the parked runs are sent at a growing rate.\n",
    ] {
        assert!(body.contains(part), "{body}");
    }
    let (host, which, _) = title("acme hooks.example.com", 7);
    assert_eq!(host, "acme: hooks.example.com is failing; its circuit is open");
    assert_eq!(
        which,
        "Affected: all endpoints on hooks.example.com; ep_0000000000000, ep_0000000000001, ep_0000000000002, ep_0000000000003, ep_0000000000004 and 2 more."
    );
}

#[test]
fn why_it_tripped() {
    let counted = || {
        let change = change(Cause::Rule(TripRule::FailureRate), CircuitStatus::Open);
        match notifications_of("acme", &change, gateway_policy(), 0).news {
            News::Trip(news) => news.cause.unwrap().counts,
            other => panic!("{other:?}"),
        }
    };
    let why = |rule: &str, limit: u64| Why {
        rule: rule.into(),
        limit,
        min_calls: 10,
        window_ms: 60_000,
        slow_call_ms: Some(2_000),
        counts: counted(),
    };
    for (why, expected) in [
        (
            why("failure_rate", 50),
            "7 of 12 calls in 1m failed; the limit is 50 % of at least 10 calls (failure_rate)",
        ),
        (why("failures", 7), "7 calls in 1m failed; the limit is 7 (failures)"),
        (why("consecutive_failures", 4), "4 consecutive calls failed; the limit is 4 (consecutive_failures)"),
        (
            why("mean_latency", 5_000),
            "12 calls in 1m took 5s on average; the limit is 5s for at least 10 calls (mean_latency)",
        ),
        (
            why("slow_rate", 50),
            "6 of 12 calls in 1m took 2s or longer; the limit is 50 % of at least 10 calls (slow_rate)",
        ),
        (Why { counts: None, ..why("failures", 7) }, "the rule failures with the limit 7 held over 1m"),
    ] {
        assert_eq!(why.sentence(), expected);
    }
}

#[test]
fn a_recovery() {
    let mut notification = notifications_of(
        "acme https://hooks.example.com/T0/s3cret",
        &change(Cause::ProbesSucceeded, CircuitStatus::Closed),
        gateway_policy(),
        0,
    );
    let lines = [
        "Affected: https://hooks.example.com/...",
        "Since: 2026-01-31T12:00:00.000Z.",
        "Reason: the probes succeeded.",
        "What happens next: the parked deliveries are sent at a growing rate.",
        "What to do: nothing. For details, see the circuit with the fingerprint FINGERPRINT in `breakerbox circuits list --tenant acme`, or in GET /v1/circuits?tenant=acme.",
    ];
    let title = "acme: https://hooks.example.com/... has recovered; its circuit is closed";
    says(&notification, title, &lines);
    let News::Recovery(news) = &mut notification.news else { panic!("{notification:?}") };
    news.since = Some(Moment(at(0).before(Duration::from_secs(3_725))));
    let since =
        "Since: 2026-01-31T12:00:00.000Z. The outage began at 2026-01-31T10:57:55.000Z and lasted 1h2m5s.";
    says(&notification, title, &[lines[0], since, lines[2], lines[3], lines[4]]);
}

#[test]
fn what_was_given_up() {
    let by = Attribution::new("breakerbox", "10 trips, and no success for 72h").unwrap();
    let given_up = {
        let mut changed = change(Cause::ProbeFailed, CircuitStatus::Disabled);
        changed.mode = Mode::Disabled(by);
        changed
    };
    says(
        &notifications_of("acme hooks.example.com", &given_up, gateway_policy(), 0),
        "acme: hooks.example.com keeps failing; its circuit is disabled",
        &[
            "Affected: all endpoints on hooks.example.com.",
            "Since: 2026-01-31T12:00:00.000Z; the latest success was at 2026-01-31T11:59:00.000Z.",
            "Reason: 10 trips, and no success for 72h.",
            "Latest response: none (connect: connection refused).",
            "What happens next: nothing is sent, and nothing probes. Until the circuit is enabled, deliveries are parked; none is lost, and none uses an attempt.",
            "What to do: fix the receiver, then enable the circuit: `breakerbox circuits enable cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ --reason TEXT`, or POST /v1/circuits/cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ/enable. The parked deliveries are sent then.",
        ],
    );
    let url = "https://hooks.example.com/in?token=secret".parse().unwrap();
    says(
        &Notification::endpoint_gone(acme(), endpoints(1)[0], &url, 3, at(0)),
        "acme: the endpoint on hooks.example.com responded with 410 Gone and is disabled",
        &[
            "Affected: endpoint ep_0000000000000 on hooks.example.com.",
            "Since: 2026-01-31T12:00:00.000Z.",
            "Reason: the endpoint responded with 410 Gone.",
            "What happens next: nothing is sent to the endpoint. Its waiting deliveries are parked; none is lost. The delivery that got this response has failed.",
            "What to do: if the endpoint is gone, delete it: `breakerbox endpoints delete ep_0000000000000`. Otherwise enable it: `breakerbox endpoints enable ep_0000000000000`, or POST /v1/endpoints/ep_0000000000000/enable.",
        ],
    );
}

#[test]
fn a_warning() {
    let silent = {
        let mut changed = change(Cause::ProbeFailed, CircuitStatus::Open);
        changed.last_success = Some(at(0).before(Duration::from_secs(50 * 3_600)));
        changed.failing_since = Some(at(0).before(Duration::from_secs(40 * 3_600)));
        changed
    };
    let never = {
        let mut changed = silent.clone();
        changed.last_success = None;
        changed
    };
    let text = notifications_of("acme hooks.example.com", &never, gateway_policy(), 0).text().body;
    assert!(text.contains("Since: 2026-01-29T20:00:00.000Z; there was no success yet."), "{text}");
    says(
        &notifications_of("acme hooks.example.com", &silent, gateway_policy(), 0),
        "acme: hooks.example.com will be disabled at 2026-02-01T20:00:00.000Z",
        &[
            "Affected: all endpoints on hooks.example.com.",
            "Since: 2026-01-29T20:00:00.000Z; the latest success was at 2026-01-29T10:00:00.000Z.",
            "Reason: it has failed for half of the time after which it is disabled.",
            "Latest response: none (connect: connection refused).",
            "What happens next: deliveries are parked; none is lost, and none uses an attempt. The next probe is at 2026-01-31T12:00:30.000Z. A probe that fails at 2026-02-01T20:00:00.000Z or later disables the circuit, if it has tripped 10 times by then (2 so far). A disabled circuit is not probed.",
            "What to do: fix the receiver before then; one success is enough. For its state and its latest response, see `breakerbox circuits show cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ`, or GET /v1/circuits/cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ.",
        ],
    );
}

#[test]
fn the_store_dead_letters_and_reminders() {
    says(
        &Notification::store_lost("connection refused", at(0)),
        "the gateway: the circuit store does not respond",
        &[
            "Since: 2026-01-31T12:00:00.000Z.",
            "Reason: connection refused.",
            "What happens next: each process continues with the circuits that it knows. No delivery is lost. Circuits are not shared, and changes of circuits meanwhile may be forgotten if the gateway restarts.",
            "What to do: check the disk or the server of the circuit store, and GET /readyz. Another notification follows when the store responds.",
        ],
    );
    let back = Notification {
        news: News::StoreBack { since: Some(Moment(at(0))) },
        ..Notification::store_back(at(60))
    };
    says(
        &back,
        "the gateway: the circuit store responds again",
        &[
            "Since: 2026-01-31T12:01:00.000Z. It did not respond from 2026-01-31T12:00:00.000Z on.",
            "What happens next: all processes share circuits again.",
            "What to do: nothing.",
        ],
    );
    says(
        &Notification::database_lost("the disk is full", at(0)),
        "the gateway: the database accepts no writes",
        &[
            "Since: 2026-01-31T12:00:00.000Z.",
            "Reason: the disk is full.",
            "What happens next: requests that write are refused, and no delivery is started. Events that were accepted before are kept. The gateway tries to write every few seconds.",
            "What to do: check the disk and the data directory, and GET /readyz. Another notification follows when writes succeed.",
        ],
    );
    says(
        &Notification::database_back(at(0), at(60)),
        "the gateway: the database accepts writes again",
        &[
            "Since: 2026-01-31T12:01:00.000Z. It accepted none from 2026-01-31T12:00:00.000Z on.",
            "What happens next: events are accepted and delivered again.",
            "What to do: nothing.",
        ],
    );
    says(
        &Notification::dead_letters(acme(), 123, 100, at(0)),
        "acme: 123 deliveries became dead letters within an hour",
        &[
            "Since: within the hour before 2026-01-31T12:00:00.000Z.",
            "Reason: each was rejected by its receiver, used all of its attempts, or expired. The limit for a notification is 100 in an hour.",
            "What happens next: the dead letters are kept, and are not retried automatically.",
            "What to do: see the reasons with `breakerbox deliveries list --tenant acme --state failed`, or GET /v1/deliveries?tenant=acme&state=failed. Then fix the receivers and resend: `breakerbox deliveries resend-all --tenant acme`, or POST /v1/resends.",
        ],
    );
    says(
        &Notification::reminder_stopped(
            acme(),
            "rem_1",
            3,
            "https://a.example/x?token=secret",
            "the receiver rejected it",
            LastResult { last_status: Some(400), last_error: None },
            at(0),
        ),
        "acme: the reminder rem_1 has stopped",
        &[
            "Affected: reminder rem_1, which calls a.example.",
            "Since: 2026-01-31T12:00:00.000Z, run 3.",
            "Reason: the receiver rejected it.",
            "Latest response: status 400.",
            "What happens next: the reminder does not fire again. It is kept, with its history.",
            "What to do: see its runs with `breakerbox reminders runs rem_1`, or GET /v1/reminders/rem_1/runs. Then fix the receiver and resume the reminder: `breakerbox reminders resume rem_1`, or POST /v1/reminders/rem_1/resume.",
        ],
    );
    says(
        &Notification::test(Some(acme()), at(0)),
        "acme: test notification",
        &["A client requested this test. Nothing happened, and there is nothing to do."],
    );
}

#[test]
fn the_network() {
    use breakerbox_core::own_outage::{End, Outage};
    let outage = Outage { since: at(0), detected_at: at(2), lost: 950, keys: 1_000, hosts: 400 };
    says(
        &Notification::network_lost(&outage, at(0)),
        "the gateway: most destinations can't be reached; the fault is on the gateway's side",
        &[
            "Since: 2026-01-31T12:00:00.000Z.",
            "Reason: 950 of 1000 destinations on 400 hosts can't be reached: DNS failed, or no connection was established. When most fail at once, the fault is on the gateway's side.",
            "What happens next: deliveries are parked. No circuit is disabled, and no tenant is notified. When destinations answer again, all circuits that opened meanwhile probe at once. If none does within 15 minutes, tenants are notified and circuits can be disabled as usual.",
            "What to do: check the gateway's network, its DNS servers and the egress proxy, and GET /readyz. Another notification follows when it is over.",
        ],
    );
    says(
        &Notification::network_back(at(0), End::Answered, at(60)),
        "the gateway: destinations can be reached again",
        &[
            "Since: 2026-01-31T12:01:00.000Z. The outage began at 2026-01-31T12:00:00.000Z and lasted 1m.",
            "Reason: destinations that could not be reached answer again.",
            "What happens next: the circuits that opened meanwhile probe now, and parked deliveries are sent at a growing rate.",
            "What to do: nothing.",
        ],
    );
    for (end, title) in [
        (End::Expired, "the gateway: most destinations still can't be reached; they are treated as failed"),
        (End::Refuted, "the gateway: the fault is not on the gateway's side"),
    ] {
        let text = Notification::network_back(at(0), end, at(900)).text();
        assert_eq!(text.title, title);
        assert!(text.body.contains("What happens next: tenants are notified"), "{}", text.body);
    }
}
