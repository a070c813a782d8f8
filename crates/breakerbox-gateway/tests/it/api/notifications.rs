//! Notification targets in the API, and the notifications sent.

use breakerbox_gateway::api::Limits;
use breakerbox_model::notifications::{LastResult, Notification};
use breakerbox_model::objects::{Scope, TenantId};
use breakerbox_storage::records::Notifications;
use http::Method;
use serde_json::{Value, json};

use super::site::Site;

async fn patch(site: &Site, key: &str, notifications: Value) -> super::site::Said {
    site.request(
        Method::PATCH,
        "/v1/tenants/acme",
        key,
        Some(json!({ "notification_targets": notifications })),
    )
    .await
}

#[tokio::test]
async fn targets_are_made_kept_changed_and_taken_away() {
    let site = Site::with(Limits { mail: true, ..Limits::default() }).await;
    let key = site.key(&[Scope::Manage], Some("acme")).await;
    let all = json!([
        { "kind": "webhook", "url": "https://hooks.example.com/notifications?token=secret" },
        { "kind": "slack", "url": "https://slack.example.com/services/secret", "on": ["trip", "recovery"] },
        { "kind": "email", "to": "ops@example.com" },
    ]);
    let made = patch(&site, &key, all).await.expect(200).json();
    let secret = made["notification_targets"][0]["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"));
    let shown = site.get("/v1/tenants/acme", &key).await.expect(200).json();
    assert!(!shown.to_string().contains("secret"), "neither URL nor secret: {shown}");
    let ids: Vec<&str> = (0..3).map(|n| shown["notification_targets"][n]["id"].as_str().unwrap()).collect();
    assert_eq!(
        (
            &shown["notification_targets"][0]["to"],
            &shown["notification_targets"][1]["on"],
            &shown["notification_targets"][2]["to"]
        ),
        (&json!("https://hooks.example.com/..."), &json!(["trip", "recovery"]), &json!("ops@example.com"))
    );
    assert_eq!(shown["notification_targets"][0]["on"].as_array().unwrap().len(), 12, "all kinds");
    let secrets = site.get("/v1/tenants/acme/notifications/secrets", &key).await.expect(200).json();
    assert_eq!(secrets, json!({ "secrets": [{ "target": ids[0], "secret": secret }] }));

    // One target is kept, one changed, one removed, one new.
    let change = json!([
        { "id": ids[2], "on": ["disabled"] },
        { "id": ids[0] },
        { "kind": "webhook", "url": "https://other.example.com/" },
    ]);
    let changed = patch(&site, &key, change).await.expect(200).json();
    let of = |n: usize, field: &str| changed["notification_targets"][n][field].clone();
    assert_eq!((of(0, "id"), of(0, "on")), (json!(ids[2]), json!(["disabled"])));
    assert_eq!((of(1, "id"), of(1, "secret")), (json!(ids[0]), Value::Null));
    assert!(of(2, "secret").is_string(), "of the new one");
    let secrets = site.get("/v1/tenants/acme/notifications/secrets", &key).await.expect(200).json();
    assert_eq!(secrets["secrets"][0]["secret"], secret, "it is the same");
    let tested = site.post("/v1/tenants/acme/notifications/test", &key, json!({})).await.expect(200).json();
    assert_eq!(tested["targets"].as_array().unwrap().len(), 3);
    assert!(!tested.to_string().contains("token"));

    assert_eq!(patch(&site, &key, Value::Null).await.expect(200).json()["notification_targets"], json!([]));
    let created =
        json!({ "id": "new", "notification_targets": [{ "kind": "slack", "url": "https://a.example/" }] });
    let created = site.post("/v1/tenants", &site.admin, created).await.expect(201).json();
    assert_eq!(created["notification_targets"][0]["kind"], "slack");
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let site = Site::start().await;
    let eleven = vec![json!({ "kind": "slack", "url": "https://a.example/" }); 11];
    let good = patch(&site, &site.admin, json!([{ "kind": "slack", "url": "https://a.example/" }])).await;
    let id = good.expect(200).json()["notification_targets"][0]["id"].clone();
    let table = [
        (json!("x"), "notification_targets", "must be a list"),
        (json!([7]), "notification_targets[0]", "must be an object"),
        (json!(eleven), "notification_targets", "must be at most 10, but are 11"),
        (
            json!([{ "url": "https://a.example/" }]),
            "notification_targets[0].kind",
            "must be `webhook`, `slack` or `email`",
        ),
        (
            json!([{ "kind": "pager" }]),
            "notification_targets[0].kind",
            "must be `webhook`, `slack` or `email`",
        ),
        (json!([{ "kind": "slack" }]), "notification_targets[0].url", "is required for slack"),
        (
            json!([{ "kind": "webhook", "url": "ftp://a.example/" }]),
            "notification_targets[0].url",
            "must begin with http",
        ),
        (
            json!([{ "kind": "webhook", "url": "https://u:p@a.example/" }]),
            "notification_targets[0].url",
            "must not contain a user",
        ),
        (
            json!([{ "kind": "webhook", "url": "https://a.example/", "secret": "x" }]),
            "notification_targets[0].secret",
            "must be `whsec_`",
        ),
        (
            json!([{ "kind": "slack", "url": "https://a.example/", "secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }]),
            "notification_targets[0].secret",
            "is not allowed for slack",
        ),
        (
            json!([{ "kind": "slack", "url": "https://a.example/", "to": "a@b.example" }]),
            "notification_targets[0].to",
            "is not allowed for slack",
        ),
        (
            json!([{ "kind": "email", "to": "a@b.example" }]),
            "notification_targets[0].kind",
            "this gateway has no mail server",
        ),
        (
            json!([{ "kind": "slack", "url": "https://a.example/", "on": ["trips"] }]),
            "notification_targets[0].on[0]",
            "must be `trip`",
        ),
        (
            json!([{ "id": "tgt_0000000000007" }]),
            "notification_targets[0].id",
            "is not a target of this tenant",
        ),
        (json!([{ "id": id, "kind": "webhook" }]), "notification_targets[0].kind", "can't be changed"),
        (json!([{ "id": id }, { "id": id }]), "notification_targets[1].id", "is listed twice"),
        (
            json!([{ "kind": "slack", "uri": "https://a.example/" }]),
            "notification_targets[0].uri",
            "is not a field",
        ),
    ];
    for (notifications, field, why) in table {
        let said = patch(&site, &site.admin, notifications.clone()).await.expect(422).json();
        assert_eq!(said["field"], field, "{notifications}: {said}");
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("{field}: {why}")), "{notifications}: {detail}");
    }
    let kept = site.get("/v1/tenants/acme", &site.admin).await.expect(200).json();
    assert_eq!(kept["notification_targets"][0]["id"], id, "and nothing was changed");
}

#[tokio::test]
async fn an_address_needs_a_mail_server_and_must_be_one() {
    let site = Site::with(Limits { mail: true, ..Limits::default() }).await;
    for (body, field) in [
        (json!([{ "kind": "email" }]), "notification_targets[0].to"),
        (json!([{ "kind": "email", "to": "nobody" }]), "notification_targets[0].to"),
        (json!([{ "kind": "email", "to": "a@b.example\r\nbcc: c@d.example" }]), "notification_targets[0].to"),
        (
            json!([{ "kind": "email", "to": "a@b.example", "url": "https://a.example/" }]),
            "notification_targets[0].url",
        ),
    ] {
        assert_eq!(patch(&site, &site.admin, body).await.expect(422).json()["field"], field);
    }
}

#[tokio::test]
async fn what_was_told_is_listed_and_a_tenant_sees_its_own() {
    let site = Site::start().await;
    for tenant in ["acme", "other"] {
        let body = json!({ "notification_targets": [{ "kind": "slack", "url": format!("https://{tenant}.example/") }] });
        site.request(Method::PATCH, &format!("/v1/tenants/{tenant}"), &site.admin, Some(body))
            .await
            .expect(200);
    }
    let now = site.services.clock.as_ref()();
    let tenant = |name: &str| name.parse::<TenantId>().unwrap();
    for run in 1..=3 {
        for name in ["acme", "other"] {
            let notification = Notification::reminder_stopped(
                tenant(name),
                format!("rem_{name}"),
                run,
                "https://a.example/",
                "410",
                LastResult::default(),
                now,
            );
            assert!(site.records.notify(notification).await.unwrap());
        }
    }
    site.records.notify(Notification::dead_letters(tenant("acme"), 100, 100, now)).await.unwrap();
    site.records.notify(Notification::store_lost("no answer", now)).await.unwrap();
    let list = async |key: &str, query: &str| -> Vec<Value> {
        let said = site.get(&format!("/v1/notifications{query}"), key).await.expect(200).json();
        said["items"].as_array().unwrap().clone()
    };
    let acme = site.key(&[Scope::Read], Some("acme")).await;
    let all = list(&site.admin, "").await;
    assert_eq!(all.len(), 8);
    assert_eq!((&all[0]["kind"], &all[0]["tenant"]), (&json!("store_lost"), &Value::Null));
    let own = list(&acme, "").await;
    assert_eq!(own.len(), 4);
    assert!(own.iter().all(|item| item["tenant"] == "acme"), "{own:?}");
    assert_eq!(own[0]["results"][0]["state"], "waiting");
    assert_eq!(own[0]["results"][0]["to"], "slack https://acme.example/...");
    assert!(own[0]["text"].as_str().unwrap().contains("What to do: "));
    assert_eq!(list(&acme, "?kind=dead_letters").await.len(), 1);
    assert_eq!(list(&acme, "?state=waiting").await.len(), 4);
    assert_eq!(list(&acme, "?state=sent").await.len(), 0);
    assert_eq!(list(&site.admin, "?tenant=other&kind=reminder_stopped").await.len(), 3);
    let said = site.get("/v1/notifications?tenant=other", &acme).await.expect(403);
    assert_eq!(said.code(), "tenant_mismatch");
    site.get("/v1/notifications?kind=trips", &acme).await.expect(400);
    site.get("/v1/notifications?cursor=x", &acme).await.expect(400);

    // In pages, each item once.
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = site
            .get(&format!("/v1/notifications?limit=3&cursor={cursor}"), &site.admin)
            .await
            .expect(200)
            .json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, all.iter().map(|item| item["id"].clone()).collect::<Vec<_>>());
}

#[tokio::test]
async fn only_who_manages_a_tenant_says_where_its_notifications_go() {
    let site = Site::start().await;
    let target = json!([{ "kind": "slack", "url": "https://a.example/" }]);
    for scope in [Scope::Read, Scope::Send] {
        let key = site.key(&[scope], Some("acme")).await;
        patch(&site, &key, target.clone()).await.expect(403);
        site.post("/v1/tenants/acme/notifications/test", &key, json!({})).await.expect(403);
        site.get("/v1/tenants/acme/notifications/secrets", &key).await.expect(403);
    }
    let other = site.key(&[Scope::Admin], Some("other")).await;
    patch(&site, &other, target.clone()).await.expect(404);
    site.post("/v1/tenants/acme/notifications/test", &other, json!({})).await.expect(404);
    site.get("/v1/tenants/acme/notifications/secrets", &other).await.expect(404);
    let manage = site.key(&[Scope::Manage], Some("acme")).await;
    patch(&site, &manage, target).await.expect(200);
}
