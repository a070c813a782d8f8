//! Which calls get a permit, and which are refused.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::rig::{Rig, URL};

#[tokio::test]
async fn a_permit_is_asked_for_and_settled() {
    let rig = Rig::start(json!({})).await;
    let permit = rig.permit(URL).await;
    assert!(permit["id"].as_str().unwrap().starts_with("per_"));
    assert_eq!(permit["probe"], false);
    let left = permit["time_left_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
    let answer = rig.settle(&permit, json!({ "outcome": "success", "latency_ms": 1500 })).await;
    assert_eq!(answer, json!({ "settled": "counted", "repeated": false, "wait_ms": null }));
    let circuit = rig.circuit(&permit).await;
    assert_eq!(circuit["key"], format!("default {URL}"));
    assert_eq!((&circuit["window"]["successes"], &circuit["window"]["failures"]), (&json!(1), &json!(0)));
    // A name that is not a URL has its own circuit.
    let answer = rig.acquire(json!({ "key": "warehouse db", "timeout": "1h" })).await;
    assert_eq!(rig.circuit(&answer["permit"]).await["key"], "default warehouse db");
    assert!(answer["permit"]["time_left_ms"].as_u64().unwrap() > 3_000_000);
    rig.settle(&answer["permit"], json!({ "outcome": "failure", "retry_after_ms": 10 })).await;
    assert_eq!(rig.circuit(&answer["permit"]).await["window"]["failures"], 1);
    assert_eq!(rig.metric("breakerbox_permits_given_total").await, 2.0);
    assert_eq!(rig.metric("breakerbox_permits_settled_total{settled=\"counted\"}").await, 2.0);
}

#[tokio::test]
async fn reports_open_the_circuit_and_a_probe_closes_it() {
    let rig = Rig::start(json!({ "cool_off": "60s" })).await;
    rig.trip(URL).await;
    let refusal = rig.refused(json!({ "url": URL })).await;
    assert_eq!(refusal["reason"], "open");
    let wait = refusal["retry_in_ms"].as_u64().unwrap();
    assert!((1..=61_000).contains(&wait), "{refusal}");
    assert!(refusal["retry_at"].as_str().unwrap().ends_with('Z'));
    assert!(rig.metric("breakerbox_permits_refused_total{reason=\"open\"}").await >= 1.0);
    // Another destination is not affected.
    rig.permit("https://other.example.com/in").await;

    let rig = Rig::start(json!({})).await;
    rig.trip(URL).await;
    let probe = rig.permit_in_time(URL).await;
    assert_eq!(probe["probe"], true);
    assert_eq!(rig.refused(json!({ "url": URL })).await["reason"], "probing");
    assert_eq!(rig.settled(&probe, json!({ "status": 200 })).await, "counted");
    assert_eq!(rig.circuit(&probe).await["state"], "closed");
    assert_eq!(rig.permit(URL).await["probe"], false);
}

#[tokio::test]
async fn a_restart_is_no_transition() {
    let mut rig = Rig::start(json!({ "cool_off": "60s" })).await;
    rig.trip(URL).await;
    const OPENED: &str = "breakerbox_circuit_transitions_total{state=\"open\"}";
    assert_eq!(rig.metric(OPENED).await, 1.0);
    rig.restart().await;
    assert_eq!(rig.refused(json!({ "url": URL })).await["reason"], "open", "it was open, and is");
    assert_eq!(rig.metric(OPENED).await, 0.0, "nothing has happened since");
}

#[tokio::test]
async fn the_latest_success_never_goes_back() {
    let rig = Rig::start(json!({})).await;
    let order = async |permit: &Value, order: &str| {
        let path = format!("/v1/circuits/{}/{order}", permit["circuit"].as_str().unwrap());
        rig.request(Method::POST, &path, json!({ "reason": "maintenance" })).await
    };
    // A circuit without a success has no time of success, whatever happens to it.
    rig.trip(URL).await;
    let permit = rig.permit_in_time(URL).await;
    let shown = rig.circuit(&permit).await;
    assert_eq!(shown["last_success_at"], Value::Null, "{shown}");
    assert!(shown["failing_since"].as_str() <= shown["opened_at"].as_str(), "{shown}");
    assert!(shown["failing_since"].is_string(), "{shown}");
    assert_eq!(order(&permit, "force_open").await["last_success_at"], Value::Null);

    // Successes between two transitions are known only to this process, and survive an override.
    let shown = order(&permit, "reset").await;
    assert_eq!((&shown["last_success_at"], &shown["failing_since"]), (&Value::Null, &Value::Null));
    let mut before = String::new();
    for name in ["force_open", "disable", "release", "reset", "force_closed"] {
        order(&permit, "reset").await;
        let permit = rig.permit(URL).await;
        assert_eq!(rig.settled(&permit, json!({ "outcome": "success" })).await, "counted");
        let shown = rig.circuit(&permit).await["last_success_at"].as_str().unwrap().to_owned();
        assert!(shown >= before, "{shown} after {before}");
        assert_eq!(order(&permit, name).await["last_success_at"], shown.as_str(), "{name}");
        before = shown;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_who_ask_at_once_one_may_probe() {
    let rig = Rig::start(json!({})).await;
    for round in 0..3 {
        rig.trip(URL).await;
        tokio::time::sleep(Duration::from_millis(110)).await;
        let asks = (0..50).map(|_| rig.acquire(json!({ "url": URL })));
        let answers = futures_util::future::join_all(asks).await;
        let permits: Vec<&Value> = answers.iter().filter_map(|answer| answer.get("permit")).collect();
        assert_eq!(permits.len(), 1, "round {round}: {answers:?}");
        assert_eq!(permits[0]["probe"], true);
        assert!(
            answers.iter().filter_map(|answer| answer.get("refusal")).all(|it| it["reason"] == "probing")
        );
        assert_eq!(rig.settled(permits[0], json!({ "outcome": "success" })).await, "counted");
    }
}

#[tokio::test]
async fn on_the_ramp_places_come_back_with_reports() {
    let rig = Rig::start(json!({ "ramp_cap": 4 })).await;
    rig.trip(URL).await;
    let probe = rig.permit_in_time(URL).await;
    rig.settle(&probe, json!({ "outcome": "success" })).await;
    let first = rig.permit(URL).await;
    let refusal = rig.refused(json!({ "url": URL })).await;
    assert_eq!((&refusal["reason"], &refusal["retry_in_ms"]), (&json!("ramping"), &json!(1_000)));
    rig.settle(&first, json!({ "outcome": "success" })).await;
    let (second, _third) = (rig.permit(URL).await, rig.permit(URL).await);
    assert_eq!(rig.refused(json!({ "url": URL })).await["reason"], "ramping");
    rig.settle(&second, json!({ "outcome": "ignored" })).await;
    rig.permit(URL).await;
}

#[tokio::test]
async fn operators_and_owners_have_their_say() {
    let rig = Rig::start(json!({})).await;
    let permit = rig.permit(URL).await;
    let circuit = permit["circuit"].as_str().unwrap();
    for (order, reason) in [("force_open", "forced_open"), ("disable", "disabled")] {
        let path = format!("/v1/circuits/{circuit}/{order}");
        rig.request(Method::POST, &path, json!({ "reason": "maintenance" })).await;
        let refusal = rig.refused(json!({ "url": URL })).await;
        assert_eq!((&refusal["reason"], &refusal["retry_at"]), (&json!(reason), &Value::Null));
    }
    // Permits given before are late, whatever is reported.
    assert_eq!(rig.settled(&permit, json!({ "outcome": "failure" })).await, "late");
    rig.request(Method::POST, &format!("/v1/circuits/{circuit}/reset"), json!({ "reason": "done" })).await;
    rig.permit(URL).await;
    rig.request(Method::PATCH, "/v1/tenants/default", json!({ "enabled": false })).await;
    assert_eq!(rig.refused(json!({ "url": URL })).await["reason"], "tenant_disabled");
    rig.request(Method::PATCH, "/v1/tenants/default", json!({ "enabled": true })).await;
    rig.permit(URL).await;
}

#[tokio::test]
async fn deliveries_and_workers_share_a_circuit() {
    let rig = Rig::start(json!({ "cool_off": "60s" })).await;
    rig.trip(URL).await;
    let body = json!({ "url": "HTTPS://Hooks.Example.com:443/in/?n=1" });
    assert_eq!(rig.refused(body).await["reason"], "open", "one destination, however it is written");
    let host = json!({ "circuit_by": "host" });
    rig.request(Method::PATCH, "/v1/tenants/default", host).await;
    let permit = rig.permit(URL).await;
    assert_eq!(rig.circuit(&permit).await["key"], "default hooks.example.com");
}

/// The destination accepts two fifths of the calls, regardless of the machine's speed. Half of the calls have a high
/// priority, so all accepted calls could be of high priority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_throttle_sheds_what_is_least_important() {
    const ROUNDS: u32 = 200;
    // So that the circuit does not interfere.
    let rig = Rig::start(json!({ "consecutive_failures": "off", "failures": 100_000 })).await;
    let (mut asked, mut taken) = (0_u32, 0_u32);
    let mut admits = async |priority: &str| {
        asked += 1;
        let answer = rig.acquire(json!({ "url": URL, "priority": priority })).await;
        let Some(permit) = answer.get("permit") else {
            assert_eq!(answer["refusal"]["reason"], "shed");
            assert!(answer["refusal"]["retry_in_ms"].as_u64().unwrap() > 0);
            return false;
        };
        let has_room = taken * 5 < asked * 2;
        taken += u32::from(has_room);
        let outcome = if has_room { "success" } else { "failure" };
        rig.settle(permit, json!({ "outcome": outcome, "overloaded": !has_room })).await;
        true
    };
    let began = std::time::Instant::now();
    // Until the throttle has learnt what the destination accepts. Without priorities, both would get about the same.
    loop {
        let (mut low, mut high) = (0, 0);
        for _ in 0..ROUNDS {
            low += u32::from(admits("low").await);
            high += u32::from(admits("high").await);
        }
        if high >= ROUNDS / 3 && high >= 3 * low {
            break;
        }
        assert!(began.elapsed() < super::rig::LONG, "low {low}, high {high} of {ROUNDS} each");
    }
    assert!(rig.metric("breakerbox_permits_refused_total{reason=\"shed\"}").await > 0.0);
}

#[tokio::test]
async fn no_more_permits_are_out_than_may_be() {
    let rig = Rig::with(json!({}), |config| {
        (config.permits.max, config.limits.tenant_share) = (2, 100);
    })
    .await;
    let first = rig.permit(URL).await;
    rig.permit("https://other.example.com/in").await;
    let body = json!({ "url": URL });
    let (status, problem) = rig.request_with(&rig.key, Method::POST, "/v1/circuits/acquire", &body).await;
    assert_eq!((status, &problem["code"]), (503, &json!("overloaded")), "{problem}");
    assert_eq!(rig.metric("breakerbox_permits_outstanding").await, 2.0);
    rig.settle(&first, json!({ "outcome": "success" })).await;
    rig.permit(URL).await;
}

#[tokio::test]
async fn a_tenant_with_too_many_keys_is_refused_and_no_other() {
    let rig = Rig::with(json!({}), |config| config.circuits.tenant_max = Some(3)).await;
    rig.request(Method::POST, "/v1/tenants", json!({ "id": "other", "name": "Other" })).await;
    let acquire = async |body: Value| {
        let (status, answer) = rig.request_with(&rig.key, Method::POST, "/v1/circuits/acquire", &body).await;
        (status, answer["code"].as_str().unwrap_or_default().to_owned())
    };
    for number in 0..3 {
        assert_eq!(acquire(json!({ "key": format!("k{number}") })).await.0, 200);
    }
    assert_eq!(acquire(json!({ "key": "k3" })).await, (429, "circuits_full".to_owned()));
    assert_eq!(acquire(json!({ "key": "k1" })).await.0, 200, "those that it has go on");
    for number in 0..3 {
        assert_eq!(acquire(json!({ "tenant": "other", "key": format!("k{number}") })).await.0, 200);
    }
}

#[tokio::test]
async fn a_tenant_leaves_permits_for_others() {
    let rig = Rig::with(json!({}), |config| config.permits.max = 8).await;
    for tenant in ["hoarder", "other"] {
        rig.request(Method::POST, "/v1/tenants", json!({ "id": tenant })).await;
    }
    let acquire = async |tenant: &str| {
        let body = json!({ "tenant": tenant, "url": URL, "timeout": "1h" });
        rig.request_with(&rig.key, Method::POST, "/v1/circuits/acquire", &body).await
    };
    for _ in 0..6 {
        assert_eq!(acquire("hoarder").await.0, 200, "alone it may have more than its share");
    }
    let (status, problem) = acquire("hoarder").await;
    assert_eq!((status, &problem["code"]), (429, &json!("tenant_busy")), "{problem}");
    for _ in 0..2 {
        let (status, answer) = acquire("other").await;
        assert_eq!((status, answer["permit"].is_object()), (200, true), "{answer}");
    }
    let (status, problem) = acquire("other").await;
    assert_eq!((status, &problem["code"]), (503, &json!("overloaded")), "{problem}");
}
