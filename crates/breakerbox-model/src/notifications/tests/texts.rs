//! The complete texts of notifications.

use std::time::Duration;

use breakerbox_core::{Attribution, Cause, Change, Mode, Policy, PolicyBuilder, Status, TripRule};

use super::{at, change};
use crate::notifications::{Known, Message, News, Notice, Why, notices};
use crate::objects::{EndpointId, Id, Moment, NoticeId, ShownKey, TenantId};

fn gateway_policy() -> PolicyBuilder {
    Policy::builder().disable_after(10).disable_min(Duration::from_secs(72 * 3_600))
}

fn endpoints(count: u64) -> Vec<EndpointId> {
    (0..count).map(|n| EndpointId(Id::from_number(i64::try_from(n).unwrap()).unwrap())).collect()
}

fn told(key: &str, change: &Change, policy: PolicyBuilder, ids: u64) -> Notice {
    let (policy, endpoints) = (policy.build().unwrap(), endpoints(ids));
    let known = Known { policy: &policy, endpoints: &endpoints, is_unreported_outage: false };
    notices(key, change, &known).pop().unwrap()
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

#[track_caller]
fn says(notice: &Notice, title: &str, body: &[&str]) {
    let text = notice.text();
    assert_eq!(text.title, title);
    let fingerprint = ShownKey(&notice.subject).fingerprint();
    let body: Vec<_> = body.iter().map(|line| line.replace("FINGERPRINT", &fingerprint)).collect();
    assert_eq!(text.body.lines().collect::<Vec<_>>(), body);
    let id = NoticeId(Id::first_at(notice.at));
    let sent = Message::of(id, notice).json.to_string();
    // Neither the path of a URL, nor in the id of a circuit.
    assert!(!sent.contains("s3cret") && !sent.contains("czNjcmV0") && !sent.contains("MzY3JldA"), "{sent}");
    // A stored notification has the same text.
    let kept = serde_json::to_string(&notice.news).unwrap();
    let read: News = serde_json::from_str(&kept).unwrap();
    assert_eq!(Notice { news: read, ..notice.clone() }.text(), text);
}

#[test]
fn a_trip() {
    let notice = told(
        "acme https://hooks.example.com/T0/s3cret",
        &change(Cause::Rule(TripRule::FailureRate), Status::Open),
        gateway_policy(),
        1,
    );
    says(
        &notice,
        "acme: https://hooks.example.com/... fails; its circuit is open",
        &[
            "Which: https://hooks.example.com/...; ep_0000000000000.",
            "Since: 2026-01-31T12:00:00.000Z.",
            "Why: 7 of 12 calls within 1m failed; 50 % of 10 or more is the limit (failure_rate).",
            "What happens next: deliveries are parked; none is lost, and none uses up an attempt. From 2026-01-31T12:00:30.000Z on one call at a time probes; when 3 in a row have succeeded, the circuit closes and what is parked is sent, bit by bit. It is disabled at 10 trips and 72h without a success; this was number 2.",
            "What to do: look at what it answers (`breakerbox endpoints show ep_0000000000000`, or GET /v1/endpoints/ep_0000000000000), and mend it there. The circuit closes by itself.",
        ],
    );
}

#[test]
fn a_trip_of_reminders_of_a_host_and_without_giving_up() {
    let tripped = change(Cause::Rule(TripRule::MeanLatency), Status::Open);
    let policy = || Policy::builder().mean_latency(Duration::from_secs(5)).probes(1);
    let title = |key: &str, ids: u64| {
        let text = told(key, &tripped, policy(), ids).text();
        (text.title, text.body.lines().next().unwrap().to_owned(), text.body)
    };
    let (reminders, which, body) = title("acme/reminders", 0);
    assert_eq!(reminders, "acme: all reminders fail; their circuit is open");
    assert_eq!(which, "Which: all reminders of the tenant, which share one circuit.");
    for part in [
        "Why: 12 calls within 1m took 5s on average; 5s for 10 or more is the limit (mean_latency).",
        "What happens next: runs are parked; none is dropped. From 2026-01-31T12:00:30.000Z on one call at a time probes; when it succeeds, the circuit closes and what is parked is sent, bit by bit.\n",
    ] {
        assert!(body.contains(part), "{body}");
    }
    let (host, which, _) = title("acme hooks.example.com", 7);
    assert_eq!(host, "acme: hooks.example.com fails; its circuit is open");
    assert_eq!(
        which,
        "Which: all endpoints on hooks.example.com; ep_0000000000000, ep_0000000000001, ep_0000000000002, ep_0000000000003, ep_0000000000004 and 2 more."
    );
}

#[test]
fn why_it_tripped() {
    let counted = || {
        let change = change(Cause::Rule(TripRule::FailureRate), Status::Open);
        match told("acme", &change, gateway_policy(), 0).news {
            News::Trip(news) => news.why.unwrap().counted,
            other => panic!("{other:?}"),
        }
    };
    let why = |rule: &str, limit: u64| Why {
        rule: rule.into(),
        limit,
        min_calls: 10,
        window_ms: 60_000,
        slow_call_ms: Some(2_000),
        counted: counted(),
    };
    for (why, expected) in [
        (
            why("failure_rate", 50),
            "7 of 12 calls within 1m failed; 50 % of 10 or more is the limit (failure_rate)",
        ),
        (why("failures", 7), "7 calls within 1m failed; 7 is the limit (failures)"),
        (
            why("consecutive_failures", 4),
            "4 calls failed one after the other; 4 is the limit (consecutive_failures)",
        ),
        (
            why("mean_latency", 5_000),
            "12 calls within 1m took 5s on average; 5s for 10 or more is the limit (mean_latency)",
        ),
        (
            why("slow_rate", 50),
            "6 of 12 calls within 1m took 2s or longer; 50 % of 10 or more is the limit (slow_rate)",
        ),
        (Why { counted: None, ..why("failures", 7) }, "the rule failures held, whose limit is 7, over 1m"),
    ] {
        assert_eq!(why.sentence(), expected);
    }
}

#[test]
fn a_recovery() {
    let mut notice = told(
        "acme https://hooks.example.com/T0/s3cret",
        &change(Cause::ProbesSucceeded, Status::Closed),
        gateway_policy(),
        0,
    );
    let lines = [
        "Which: https://hooks.example.com/...",
        "Since: 2026-01-31T12:00:00.000Z the circuit is closed.",
        "Why: its probes succeeded.",
        "What happens next: what is parked is sent, a little at first and then more.",
        "What to do: nothing. To watch it: the circuit with the fingerprint FINGERPRINT in `breakerbox circuits list --tenant acme`, or in GET /v1/circuits?tenant=acme.",
    ];
    let title = "acme: https://hooks.example.com/... is back; its circuit is closed";
    says(&notice, title, &lines);
    let News::Recovery(news) = &mut notice.news else { panic!("{notice:?}") };
    news.since = Some(Moment(at(0).before(Duration::from_secs(3_725))));
    let since = "Since: 2026-01-31T12:00:00.000Z the circuit is closed. It was not since 2026-01-31T10:57:55.000Z, for 1h2m5s.";
    says(&notice, title, &[lines[0], since, lines[2], lines[3], lines[4]]);
}

#[test]
fn what_was_given_up() {
    let by = Attribution::new("breakerbox", "10 trips, and no success for 72h").unwrap();
    let given_up = Change { mode: Mode::Disabled(by), ..change(Cause::ProbeFailed, Status::Disabled) };
    says(
        &told("acme hooks.example.com", &given_up, gateway_policy(), 0),
        "acme: hooks.example.com was given up; its circuit is disabled",
        &[
            "Which: all endpoints on hooks.example.com.",
            "Since: the latest success was at 2026-01-31T11:59:00.000Z.",
            "Why: 10 trips, and no success for 72h.",
            "What happens next: nothing is sent, and nobody probes. Until somebody enables it, deliveries are parked; none is lost, and none uses up an attempt.",
            "What to do: once it is mended, `breakerbox circuits enable cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ --reason TEXT`, or POST /v1/circuits/cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ/enable. What is parked is sent then.",
        ],
    );
    let url = "https://hooks.example.com/in?token=secret".parse().unwrap();
    says(
        &Notice::endpoint_gone(acme(), endpoints(1)[0], &url, 3, at(0)),
        "acme: the endpoint on hooks.example.com is gone, and disabled",
        &[
            "Which: endpoint ep_0000000000000 on hooks.example.com.",
            "Since: 2026-01-31T12:00:00.000Z.",
            "Why: it answered 410 Gone.",
            "What happens next: nothing is sent there. What waits for it is parked; none is lost. The delivery that was answered so has failed.",
            "What to do: if it is really gone, `breakerbox endpoints delete ep_0000000000000`. If not, `breakerbox endpoints enable ep_0000000000000`, or POST /v1/endpoints/ep_0000000000000/enable.",
        ],
    );
}

#[test]
fn a_warning() {
    let silent = Change {
        last_success: Some(at(0).before(Duration::from_secs(50 * 3_600))),
        failing_since: Some(at(0).before(Duration::from_secs(40 * 3_600))),
        ..change(Cause::ProbeFailed, Status::Open)
    };
    let never = Change { last_success: None, ..silent.clone() };
    let text = told("acme hooks.example.com", &never, gateway_policy(), 0).text().body;
    assert!(text.contains("it fails since 2026-01-29T20:00:00.000Z; there was no success yet."), "{text}");
    says(
        &told("acme hooks.example.com", &silent, gateway_policy(), 0),
        "acme: hooks.example.com will be disabled at 2026-02-01T20:00:00.000Z",
        &[
            "Which: all endpoints on hooks.example.com.",
            "Since: it fails since 2026-01-29T20:00:00.000Z; the latest success was at 2026-01-29T10:00:00.000Z.",
            "Why: half of the time has passed after which it is given up.",
            "What happens next: deliveries are parked; none is lost, and none uses up an attempt. The next probe is at 2026-01-31T12:00:30.000Z. A probe that fails from 2026-02-01T20:00:00.000Z on disables it if it has tripped 10 times by then (2 so far): then nobody probes any more.",
            "What to do: mend it before. One success is enough. To look at it: `breakerbox circuits show cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ`, or GET /v1/circuits/cir_YWNtZSBob29rcy5leGFtcGxlLmNvbQ.",
        ],
    );
}

#[test]
fn the_store_dead_letters_and_reminders() {
    says(
        &Notice::store_lost("connection refused", at(0)),
        "the gateway: the store of circuits does not answer",
        &[
            "Since: 2026-01-31T12:00:00.000Z.",
            "Why: connection refused.",
            "What happens next: each process goes on with the circuits as it knows them. Nothing is lost; circuits are not shared, and after a restart of the gateway what changed meanwhile may not be known.",
            "What to do: look at the disk or the server of the store, and at GET /readyz. There will be another notice when it answers.",
        ],
    );
    let back = Notice { news: News::StoreBack { since: Some(Moment(at(0))) }, ..Notice::store_back(at(60)) };
    says(
        &back,
        "the gateway: the store of circuits answers again",
        &[
            "Since: 2026-01-31T12:01:00.000Z. It did not answer since 2026-01-31T12:00:00.000Z.",
            "What happens next: all processes decide together again.",
            "What to do: nothing.",
        ],
    );
    says(
        &Notice::database_lost("the disk is full", at(0)),
        "the gateway: the database takes no writes",
        &[
            "Since: 2026-01-31T12:00:00.000Z.",
            "Why: the disk is full.",
            "What happens next: requests that write are refused, and no delivery is begun. What was accepted before is kept. The gateway tries to write every few seconds.",
            "What to do: look at the disk and the data folder, and at GET /readyz. Another notification follows when writes succeed.",
        ],
    );
    says(
        &Notice::database_back(at(0), at(60)),
        "the gateway: the database takes writes again",
        &[
            "Since: 2026-01-31T12:01:00.000Z. It took none since 2026-01-31T12:00:00.000Z.",
            "What happens next: events are accepted and delivered again.",
            "What to do: nothing.",
        ],
    );
    says(
        &Notice::dead_letters(acme(), 123, 100, at(0)),
        "acme: 123 deliveries failed for good within an hour",
        &[
            "Since: within the hour before 2026-01-31T12:00:00.000Z.",
            "Why: each was refused by its receiver, used up its attempts, or waited for too long. 100 or more in an hour are told of.",
            "What happens next: they are kept as dead letters, and are not tried again by themselves.",
            "What to do: see why with `breakerbox deliveries list --tenant acme --state failed`, or GET /v1/deliveries?tenant=acme&state=failed. Once that is mended: `breakerbox deliveries resend-all --tenant acme`, or POST /v1/resends.",
        ],
    );
    says(
        &Notice::reminder_stopped(
            acme(),
            "rem_1",
            3,
            "https://a.example/x?token=secret",
            "it answered 400",
            at(0),
        ),
        "acme: the reminder rem_1 has stopped",
        &[
            "Which: reminder rem_1, which calls a.example.",
            "Since: 2026-01-31T12:00:00.000Z, run 3.",
            "Why: it answered 400.",
            "What happens next: it does not fire again. It is kept, with its history.",
            "What to do: see its runs with `breakerbox reminders runs rem_1`, or GET /v1/reminders/rem_1/runs. Once what it calls is mended: `breakerbox reminders resume rem_1`, or POST /v1/reminders/rem_1/resume.",
        ],
    );
    says(
        &Notice::test(Some(acme()), at(0)),
        "acme: a test: notices arrive here",
        &["Somebody tries this target. Nothing happened, and there is nothing to do."],
    );
}
