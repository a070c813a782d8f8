//! Concurrent PATCH requests: without `if-match` each change is merged, with `if-match` one of them wins.

use futures_util::future::join_all;
use http::{Method, Request};
use serde_json::{Value, json};

use super::site::{Said, Site};

const MANY: usize = 50;

/// Returns the body of the change with this number. Consecutive changes set different fields, so that a lost change is
/// detected.
type Changes = fn(usize) -> Value;

fn policy(n: usize) -> Value {
    match n % 3 {
        0 => json!({ "probes": n + 1 }),
        1 => json!({ "min_calls": n + 1 }),
        _ => json!({ "failures": n + 1 }),
    }
}

async fn places(site: &Site) -> Vec<(String, Changes)> {
    let endpoint = format!("/v1/endpoints/{}", site.endpoint("acme").await);
    let reminder = format!("/v1/reminders/{}", site.reminder("acme").await);
    let of_endpoint: Changes = |n| match n % 2 {
        0 => json!({ "description": format!("change {n}") }),
        _ => json!({ "max_in_flight": n + 1 }),
    };
    let of_tenant: Changes = |n| match n % 3 {
        0 => json!({ "name": format!("change {n}") }),
        1 => json!({ "backlog": { "count": n + 1, "bytes": 1_000_000 } }),
        _ => {
            json!({ "notification_targets": [{ "kind": "webhook", "url": format!("https://ops.example/{n}") }] })
        }
    };
    let of_reminder: Changes = |n| match n % 2 {
        0 => json!({ "url": format!("https://calls.acme.example/{n}") }),
        _ => json!({ "reference": format!("change {n}") }),
    };
    vec![
        (format!("{endpoint}/policy"), policy),
        (endpoint, of_endpoint),
        ("/v1/tenants/acme".to_owned(), of_tenant),
        ("/v1/tenants/acme/policy".to_owned(), policy),
        ("/v1/tenants/acme/reminders/policy".to_owned(), policy),
        (reminder, of_reminder),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_come_at_once_are_all_merged() {
    let site = Site::start().await;
    for (path, change) in places(&site).await {
        let before = revision(&site.get(&path, &site.admin).await.expect(200));
        let asked = (0..MANY).map(|n| site.request(Method::PATCH, &path, &site.admin, Some(change(n))));
        let said = join_all(asked).await;
        let refused: Vec<_> = said.iter().filter(|said| said.status != 200).map(Said::json).collect();
        assert!(refused.is_empty(), "{path}: {} of {MANY}: {:?}", refused.len(), refused.first());
        let after = site.get(&path, &site.admin).await.expect(200);
        assert_eq!(revision(&after) - before, MANY as u64, "{path}: each is a revision of its own");
        let shown = after.json();
        let said_of = shown.get("own").unwrap_or(&shown);
        for n in 0..3 {
            for (field, value) in change(n).as_object().unwrap() {
                assert!(!said_of[field].is_null(), "{path}: {field}, such as {value}: {shown}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_if_match_one_wins() {
    let site = Site::start().await;
    for (path, change) in places(&site).await {
        let tag = site.get(&path, &site.admin).await.expect(200).header("etag").to_owned();
        let asked = (0..MANY).map(|n| {
            let request = Request::builder()
                .method(Method::PATCH)
                .header("authorization", format!("Bearer {}", site.admin))
                .header("content-type", "application/json")
                .header("if-match", &tag);
            site.send(request, &path, change(n).to_string())
        });
        let said = join_all(asked).await;
        let won = said.iter().filter(|said| said.status == 200).count();
        let lost =
            said.iter().filter(|said| said.status == 412 && said.code() == "revision_mismatch").count();
        assert_eq!((won, lost), (1, MANY - 1), "{path}");
    }
}

fn revision(said: &Said) -> u64 {
    said.header("etag").trim_matches('"').parse().unwrap()
}
