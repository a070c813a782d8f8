//! The effect of reports: once, late, after a restart, or never.

use http::Method;
use serde_json::{Value, json};

use super::rig::{Rig, URL};

#[tokio::test]
async fn what_a_status_or_a_fault_means_is_said_by_the_response_rules() {
    let rig = Rig::start(json!({ "consecutive_failures": "off", "failures": 1_000 })).await;
    let response_rules = json!({ "404": { "circuit": "success" }, "dns": { "circuit": "ignored" } });
    rig.request(Method::PATCH, "/v1/tenants/default", json!({ "response_rules": response_rules })).await;
    let table = [
        (json!({ "status": 204 }), "counted", (1, 0), Value::Null),
        (json!({ "status": 404 }), "counted", (1, 0), Value::Null),
        (json!({ "status": 500 }), "counted", (0, 1), Value::Null),
        (json!({ "status": 503, "retry_after_ms": 9_000 }), "counted", (0, 1), Value::Null),
        (json!({ "status": 422 }), "uncounted", (0, 0), Value::Null),
        (json!({ "status": 429, "retry_after_ms": 9_000 }), "uncounted", (0, 0), json!(9_000)),
        (json!({ "fault": "timeout" }), "counted", (0, 1), Value::Null),
        (json!({ "fault": "dns" }), "uncounted", (0, 0), Value::Null),
        (json!({ "outcome": "ignored" }), "uncounted", (0, 0), Value::Null),
    ];
    for (report, word, (successes, failures), wait) in table {
        let key = json!({ "key": report.to_string() });
        let permit = rig.acquire(key).await["permit"].clone();
        let answer = rig.settle(&permit, report.clone()).await;
        assert_eq!((&answer["settled"], &answer["wait_ms"]), (&json!(word), &wait), "{report}");
        let window = rig.circuit(&permit).await["window"].clone();
        assert_eq!(
            (&window["successes"], &window["failures"]),
            (&json!(successes), &json!(failures)),
            "{report}"
        );
    }
    // The destination's `Retry-After` sets the end of the cool-off.
    let rig = Rig::start(json!({ "consecutive_failures": 1 })).await;
    let permit = rig.permit(URL).await;
    rig.settle(&permit, json!({ "status": 503, "retry_after_ms": 300_000 })).await;
    rig.until(&permit, |circuit| circuit["state"] == "open").await;
    assert!(rig.refused(json!({ "url": URL })).await["retry_in_ms"].as_u64().unwrap() > 200_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_reports_at_once_and_after_a_restart_count_once_and_hear_the_same() {
    let mut rig = Rig::start(json!({ "consecutive_failures": "off", "failures": 1_000 })).await;
    let permit = rig.permit(URL).await;
    let uncounted = rig.permit(URL).await;
    let late = rig.acquire(json!({ "key": "late" })).await["permit"].clone();
    let path = format!("/v1/circuits/{}/reset", late["circuit"].as_str().unwrap());
    rig.request(Method::POST, &path.replace("reset", "force_open"), json!({ "reason": "x" })).await;
    for (permit, report, word) in [
        (&permit, json!({ "outcome": "failure" }), "counted"),
        (&uncounted, json!({ "outcome": "ignored" }), "uncounted"),
        (&late, json!({ "outcome": "success" }), "late"),
    ] {
        let reports = (0..8).map(|_| rig.settle(permit, report.clone()));
        let answers = futures_util::future::join_all(reports).await;
        assert!(answers.iter().all(|answer| answer["settled"] == word), "{answers:?}");
        let firsts = answers.iter().filter(|answer| answer["repeated"] == false).count();
        assert_eq!(firsts, 1, "{answers:?}");
    }
    assert_eq!(rig.circuit(&permit).await["window"]["failures"], 1);
    rig.restart().await;
    for (permit, word) in [(&permit, "counted"), (&uncounted, "uncounted"), (&late, "late")] {
        // Whatever is reported now, the first report wins.
        let answer = rig.settle(permit, json!({ "outcome": "success" })).await;
        assert_eq!((&answer["settled"], &answer["repeated"]), (&json!(word), &json!(true)));
    }
    assert_eq!(rig.circuit(&permit).await["window"]["successes"], 0);
}

#[tokio::test]
async fn after_a_restart_an_ordinary_call_and_a_probe_can_still_be_settled() {
    let mut rig = Rig::start(json!({})).await;
    let permit = rig.permit("https://calm.example.com/in").await;
    rig.restart().await;
    assert_eq!(rig.circuit(&permit).await["window"]["calls"], 0, "a stop counts nothing");
    assert_eq!(rig.settled(&permit, json!({ "outcome": "success" })).await, "counted");
    assert_eq!(rig.circuit(&permit).await["window"]["successes"], 1);

    for (report, state) in [("failure", "open"), ("success", "closed")] {
        let url = format!("https://{report}.example.com/in");
        rig.trip(&url).await;
        let probe = rig.permit_in_time(&url).await;
        assert_eq!(probe["probe"], true);
        rig.restart().await;
        assert_eq!(rig.circuit(&probe).await["state"], "half_open", "the lease outlives the process");
        assert_eq!(rig.refused(json!({ "url": url })).await["reason"], "probing");
        assert_eq!(rig.settled(&probe, json!({ "outcome": report })).await, "counted");
        assert_eq!(rig.circuit(&probe).await["state"], state);
    }
}

#[tokio::test]
async fn what_came_before_a_trip_is_late_after_it() {
    let rig = Rig::start(json!({ "cool_off": "60s" })).await;
    let early = rig.permit(URL).await;
    rig.trip(URL).await;
    let retry_at = rig.circuit(&early).await["retry_at"].clone();
    assert_eq!(rig.settled(&early, json!({ "outcome": "failure", "retry_after_ms": 900_000 })).await, "late");
    assert_eq!(rig.circuit(&early).await["retry_at"], retry_at);
}

#[tokio::test]
async fn a_call_that_nobody_reports_has_failed_and_a_probes_lease_just_ends() {
    let rig = Rig::start(json!({ "probe_timeout": "200ms", "ramp_cap": 4 })).await;
    let body = json!({ "url": URL, "timeout": "50ms" });
    for failures in 1..=3 {
        let permit = rig.acquire(body.clone()).await["permit"].clone();
        let circuit = rig
            .until(&permit, |circuit| {
                circuit["window"]["failures"] == failures || circuit["state"] != "closed"
            })
            .await;
        assert_eq!(circuit["state"] == "closed", failures < 3);
        // A report is now too late.
        let answer = rig.settle(&permit, json!({ "outcome": "success" })).await;
        assert_eq!((&answer["settled"], &answer["repeated"]), (&json!("expired"), &json!(false)));
    }
    assert_eq!(rig.metric("breakerbox_permits_expired_total").await, 3.0);
    let probe = rig.permit_in_time(URL).await;
    assert_eq!(probe["probe"], true);
    assert!(probe["time_left_ms"].as_u64().unwrap() <= 200, "a probe's own deadline comes first");
    let trips = rig.circuit(&probe).await["trips"].clone();
    // The worker dies. The next probe follows after the lease, without a cool-off, since nothing tripped.
    let next = rig.permit_in_time(URL).await;
    assert_eq!((&next["probe"], &rig.circuit(&next).await["trips"]), (&json!(true), &trips));
    assert_eq!(rig.settled(&probe, json!({ "outcome": "success" })).await, "expired");
}
