//! Reminders as their owners use them.

use breakerbox_model::objects::Scope;
use http::{Method, Request};
use serde_json::{Value, json};

use super::site::{Said, Site};

const PATH: &str = "/v1/reminders";

fn reminder(more: Value) -> Value {
    let mut reminder =
        json!({ "tenant": "acme", "url": "https://calls.example.com/in?id=1", "payload": { "invoice": 7 } });
    reminder.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    reminder
}

async fn create(site: &Site, more: Value) -> Value {
    site.post(PATH, &site.admin, reminder(more)).await.expect(201).json()
}

fn path_of(reminder: &Value) -> String {
    format!("{PATH}/{}", reminder["id"].as_str().unwrap())
}

async fn patch(site: &Site, path: &str, body: Value) -> Said {
    site.request(Method::PATCH, path, &site.admin, Some(body)).await
}

async fn act(site: &Site, path: &str, verb: &str) -> Said {
    site.request(Method::POST, &format!("{path}/{verb}"), &site.admin, None).await
}

#[tokio::test]
async fn each_kind_is_shown_as_it_was_created() {
    let site = Site::start().await;
    let once = create(&site, json!({ "at": "2099-01-31T09:00:00+02:00", "reference": "invoice-7" })).await;
    assert_eq!(
        (&once["at"], &once["every"], &once["cron"]),
        (&json!("2099-01-31T07:00:00.000Z"), &Value::Null, &Value::Null)
    );
    assert_eq!(once["upcoming"], json!(["2099-01-31T07:00:00.000Z"]));
    assert_eq!(
        (&once["state"], &once["runs"], &once["next_at"]),
        (&json!("active"), &json!(0), &once["upcoming"][0])
    );
    assert_eq!((&once["tenant"], &once["reference"]), (&json!("acme"), &json!("invoice-7")));
    assert_eq!((&once["priority"], &once["payload_bytes"]), (&json!("medium"), &json!(13)));
    assert_eq!(once["circuit"]["key"], "acme/reminders calls.example.com", "its host's");

    let every = create(
        &site,
        json!({ "at": "2099-01-01T00:00:00Z", "every": "36h", "max_runs": 3, "catch_up": "latest", "priority": "low",
            "expires_after": "90m" }),
    )
    .await;
    assert_eq!(
        every["upcoming"],
        json!(["2099-01-01T00:00:00.000Z", "2099-01-02T12:00:00.000Z", "2099-01-04T00:00:00.000Z"]),
        "three runs"
    );
    assert_eq!(
        (&every["every"], &every["max_runs"], &every["catch_up"]),
        (&json!("36h"), &json!(3), &json!("latest"))
    );
    assert_eq!((&every["priority"], &every["expires_after"]), (&json!("low"), &json!("1h30m")));

    let cron = create(
        &site,
        json!({ "cron": " 30 2 * * SAT,SUN ", "time_zone": "Europe/Berlin", "at": "2099-03-28T00:00:00Z",
            "ends_at": "2099-04-05T23:00:00Z" }),
    )
    .await;
    assert_eq!((&cron["cron"], &cron["time_zone"]), (&json!("30 2 * * SAT,SUN"), &json!("Europe/Berlin")));
    let expected = [
        "2099-03-28T01:30:00.000Z",
        "2099-03-29T01:00:00.000Z",
        "2099-04-04T00:30:00.000Z",
        "2099-04-05T00:30:00.000Z",
    ];
    assert_eq!(cron["upcoming"], json!(expected), "on the 29th there is no half past two");

    for created in [&once, &every, &cron] {
        let shown = site.get(&path_of(created), &site.admin).await.expect(200);
        assert_eq!((&shown.json(), shown.header("etag")), (created, "\"1\""));
    }
    let utc = create(&site, json!({ "cron": "@daily" })).await;
    assert_eq!((&utc["time_zone"], utc["upcoming"].as_array().unwrap().len()), (&json!("UTC"), 5));
}

#[tokio::test]
async fn listings_are_narrowed_by_tenant_state_and_reference() {
    let site = Site::start().await;
    let named =
        create(&site, json!({ "every": "1h", "at": "2099-01-01T00:00:00Z", "reference": "a b&c" })).await;
    let paused = create(&site, json!({ "every": "1h", "at": "2099-01-01T00:00:00Z" })).await;
    act(&site, &path_of(&paused), "pause").await.expect(200);
    let theirs = site.reminder("other").await;
    let ids = async |query: &str, key: &str| -> Vec<String> {
        let found = site.get(&format!("{PATH}?{query}"), key).await.expect(200).json();
        found["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let (named, paused) = (named["id"].as_str().unwrap(), paused["id"].as_str().unwrap());
    assert_eq!(ids("", &site.admin).await, [&theirs, paused, named], "the newest first");
    assert_eq!(ids("tenant=acme", &site.admin).await, [paused, named]);
    assert_eq!(ids("state=paused", &site.admin).await, [paused]);
    assert_eq!(ids("reference=a%20b%26c", &site.admin).await, [named], "whosever it is");
    assert_eq!(ids("reference=a", &site.admin).await, [] as [&str; 0]);
    assert_eq!(ids("tenant=acme&reference=a%20b%26c", &site.admin).await, [named]);
    let ours = site.key(&[Scope::Read], Some("acme")).await;
    assert_eq!(ids("", &ours).await, [paused, named]);
    assert_eq!(ids("reference=a+b%26c", &ours).await, [named]);
    let first = site.get(&format!("{PATH}?limit=2"), &site.admin).await.expect(200).json();
    let next = first["next"].as_str().unwrap();
    assert_eq!(ids(&format!("limit=2&cursor={next}"), &site.admin).await, [named]);
    for (query, field) in
        [("reference=", "reference"), ("state=open", "state"), ("cursor=x", "cursor"), ("run=1", "run")]
    {
        let said = site.get(&format!("{PATH}?{query}"), &site.admin).await.expect(400);
        assert_eq!((said.code().as_str(), &said.json()["field"]), ("invalid_query", &json!(field)));
    }
}

#[tokio::test]
async fn payloads_are_given_back_byte_for_byte() {
    let site = Site::start().await;
    let request = || {
        Request::builder()
            .method(Method::POST)
            .header("authorization", format!("Bearer {}", site.admin))
            .header("content-type", "application/json")
    };
    let table: [(&str, &[u8], &str); 3] = [
        (
            r#""payload": { "b":1,  "a" : [1.0,"\u00e9"] }"#,
            br#"{ "b":1,  "a" : [1.0,"\u00e9"] }"#,
            "application/json",
        ),
        (r#""payload": null"#, b"null", "application/json"),
        (r#""payload_base64": "AP8=", "content_type": "image/x-dot""#, b"\x00\xff", "image/x-dot"),
    ];
    for (carried, bytes, content_type) in table {
        let body = format!(r#"{{"url": "https://a.example", "every": "1h", {carried}}}"#);
        let created = site.send(request(), PATH, body).await.expect(201).json();
        let payload = site.get(&format!("{}/payload", path_of(&created)), &site.admin).await.expect(200);
        assert_eq!((&payload.body[..], payload.header("content-type")), (bytes, content_type));
        assert_eq!(payload.header("content-disposition"), "attachment");
        assert_eq!(payload.header("x-content-type-options"), "nosniff");
        let change = json!({ "payload": [7] });
        let changed = patch(&site, &path_of(&created), change).await.expect(200).json();
        assert_eq!(
            (&changed["content_type"], &changed["payload_bytes"]),
            (&json!("application/json"), &json!(3))
        );
        let payload = site.get(&format!("{}/payload", path_of(&created)), &site.admin).await.expect(200);
        assert_eq!(&payload.body[..], b"[7]");
    }
}

#[tokio::test]
async fn what_a_change_leaves_out_stays() {
    let site = Site::start().await;
    // So that a change of the URL does not change the circuit.
    let rules = json!({ "reminders": { "circuit_by": "tenant" } });
    patch(&site, "/v1/tenants/acme", rules).await.expect(200);
    let body = json!({ "every": "1h", "at": "2099-01-01T00:00:00Z", "max_runs": 9, "reference": "r", "catch_up": "latest",
        "priority": "high", "expires_after": "5m" });
    let created = create(&site, body).await;
    let path = path_of(&created);
    let mut expected = created.clone();
    let mut check = async |change: Value, differs: Value| {
        let changed = patch(&site, &path, change.clone()).await.expect(200).json();
        expected.as_object_mut().unwrap().extend(differs.as_object().unwrap().clone());
        let mut shown = changed.clone();
        shown["changed_at"] = expected["changed_at"].clone();
        assert_eq!(shown, expected, "{change}");
    };
    check(json!({}), json!({})).await;
    check(json!({ "url": "https://b.example/" }), json!({ "url": "https://b.example/" })).await;
    check(json!({ "reference": null, "priority": null }), json!({ "reference": null, "priority": "medium" }))
        .await;
    check(
        json!({ "catch_up": null, "expires_after": null }),
        json!({ "catch_up": null, "expires_after": null }),
    )
    .await;
    let one = json!({ "max_runs": 1, "upcoming": ["2099-01-01T00:00:00.000Z"] });
    check(json!({ "max_runs": 1 }), one).await;
    let cron = json!({ "every": null, "cron": "0 9 * * *", "time_zone": "UTC", "max_runs": 2,
        "upcoming": ["2099-01-01T09:00:00.000Z", "2099-01-02T09:00:00.000Z"], "next_at": "2099-01-01T09:00:00.000Z" });
    check(json!({ "cron": "0 9 * * *", "max_runs": 2 }), cron).await;
    let once = json!({ "cron": null, "time_zone": null, "max_runs": null, "at": "2099-02-01T00:00:00.000Z",
        "upcoming": ["2099-02-01T00:00:00.000Z"], "next_at": "2099-02-01T00:00:00.000Z" });
    check(json!({ "cron": null, "at": "2099-02-01T00:00:00Z" }), once).await;

    let old = |tag: &str| {
        let request = Request::builder().method(Method::PATCH).header("content-type", "application/json");
        request.header("authorization", format!("Bearer {}", site.admin)).header("if-match", tag.to_owned())
    };
    let shown = site.get(&path, &site.admin).await;
    assert_eq!(site.send(old("\"1\""), &path, "{}").await.expect(412).code(), "revision_mismatch");
    site.send(old(shown.header("etag")), &path, "{}").await.expect(200);
}

#[tokio::test]
async fn pause_resume_run_now_and_cancel() {
    let site = Site::start().await;
    let created = create(&site, json!({ "every": "1h", "at": "2020-01-01T00:30:00Z" })).await;
    let path = path_of(&created);
    site.fire().await;
    let shown = site.get(&path, &site.admin).await.expect(200).json();
    let run = shown["open_run"].as_str().unwrap();
    assert_eq!((&shown["runs"], &shown["next_at"]), (&json!(1), &Value::Null), "one at a time");
    assert_eq!(shown["last_at"], created["at"], "of those before its time only the latest is owed");
    let delivery = site.get(&format!("/v1/deliveries/{run}"), &site.admin).await.expect(200).json();
    assert_eq!((&delivery["reminder"], &delivery["run"]), (&created["id"], &json!(1)));
    assert_eq!((&delivery["type"], &delivery["url"]), (&json!("reminder"), &created["url"]));

    let paused = act(&site, &path, "pause").await.expect(200).json();
    assert_eq!(
        (&paused["state"], &paused["runs"], &paused["open_run"]),
        (&json!("paused"), &json!(0), &Value::Null)
    );
    assert_eq!((&paused["upcoming"], &paused["next_at"]), (&json!([]), &Value::Null));
    let withdrawn = site.get(&format!("/v1/deliveries/{run}"), &site.admin).await.expect(200).json();
    assert_eq!(withdrawn["state"], "cancelled", "nothing is parked");
    assert_eq!(act(&site, &path, "pause").await.expect(409).code(), "invalid_state");

    let resumed = act(&site, &path, "resume").await.expect(200).json();
    assert_eq!(resumed["state"], "active");
    let next = resumed["next_at"].as_str().unwrap().to_owned();
    assert!(*next > *paused["changed_at"].as_str().unwrap(), "what fell into the pause is skipped: {next}");
    site.fire().await;
    let shown = site.get(&path, &site.admin).await.expect(200).json();
    assert_eq!((&shown["runs"], &shown["next_at"]), (&json!(0), &json!(next)));
    assert_eq!(act(&site, &path, "resume").await.expect(409).code(), "invalid_state");

    act(&site, &path, "run").await.expect(202);
    site.fire().await;
    let shown = site.get(&path, &site.admin).await.expect(200).json();
    assert_eq!((&shown["runs"], &shown["upcoming"][0]), (&json!(1), &json!(next)), "besides the schedule");
    let runs = site.get(&format!("{path}/runs"), &site.admin).await.expect(200).json();
    let seen: Vec<_> =
        runs["items"].as_array().unwrap().iter().map(|run| (&run["number"], &run["state"])).collect();
    assert_eq!(seen, [(&json!(1), &json!("pending")), (&json!(1), &json!("cancelled"))]);
    let run = &runs["items"][0];
    assert_eq!(run["webhook_id"], format!("{}_1", created["id"].as_str().unwrap()));
    assert_eq!(
        (&run["delivery"], &run["attempts"], &run["sent_at"]),
        (&shown["open_run"], &json!(0), &Value::Null)
    );
    let page = site.get(&format!("{path}/runs?limit=1"), &site.admin).await.expect(200).json();
    assert_eq!((page["items"].as_array().unwrap().len(), page["next"].is_string()), (1, true));

    let sender = site.key(&[Scope::Send], Some("acme")).await;
    let cancelled =
        site.request(Method::POST, &format!("{path}/cancel"), &sender, None).await.expect(200).json();
    assert_eq!((&cancelled["state"], &cancelled["upcoming"]), (&json!("cancelled"), &json!([])));
    act(&site, &path, "cancel").await.expect(200);
    for verb in ["pause", "resume", "run"] {
        assert_eq!(act(&site, &path, verb).await.expect(409).code(), "invalid_state", "{verb}");
    }
    assert_eq!(patch(&site, &path, json!({ "priority": "low" })).await.expect(409).code(), "invalid_state");
}

#[tokio::test]
async fn a_batch_is_created_whole_or_not_at_all() {
    let site = Site::start().await;
    let sender = site.key(&[Scope::Send], Some("acme")).await;
    let one = |at: &str, more: Value| {
        let mut one = reminder(json!({ "at": at }));
        one.as_object_mut().unwrap().remove("tenant");
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        one
    };
    let (first, second) = ("2099-01-01T00:00:00.000Z", "2099-01-02T00:00:00.000Z");
    let batch = json!({ "reminders": [one(first, json!({})), one(second, json!({ "reference": "x" }))] });
    let created = site.post("/v1/reminders/batch", &sender, batch).await.expect(201).json();
    let times: Vec<_> = created["reminders"].as_array().unwrap().iter().map(|one| &one["at"]).collect();
    assert_eq!(times, [first, second], "in their order");
    let table = [
        (
            json!([one(first, json!({})), one(first, json!({ "at": "soon" }))]),
            "reminders[1].at",
            "invalid_field",
        ),
        (json!([one(first, json!({ "cron": "x" }))]), "reminders[0].cron", "invalid_field"),
        (json!([one(first, json!({ "tenant": "acme" }))]), "reminders[0].tenant", "invalid_field"),
        (json!([one(first, json!({ "urll": 1 }))]), "reminders[0].urll", "unknown_field"),
        (
            json!([one(first, json!({})), one(first, json!({ "reference": "x" }))]),
            "reminders[1].reference",
            "already_exists",
        ),
        (json!([]), "reminders", "invalid_field"),
        (json!({}), "reminders", "invalid_field"),
        (json!(vec![one(first, json!({})); 1_001]), "reminders", "invalid_field"),
    ];
    for (reminders, field, code) in table {
        let said = site.post("/v1/reminders/batch", &sender, json!({ "reminders": reminders })).await;
        assert_eq!((said.code().as_str(), &said.json()["field"]), (code, &json!(field)), "{:?}", said.json());
    }
    let said = site.post("/v1/reminders/batch", &sender, json!({ "remindrs": [] })).await.expect(422);
    assert!(said.json()["detail"].as_str().unwrap().contains("did you mean `reminders`"), "{said:?}");
    let found = site.get("/v1/reminders", &site.admin).await.expect(200).json();
    assert_eq!(found["items"].as_array().unwrap().len(), 2, "of those nothing is there");
}

#[tokio::test]
async fn a_preview_shows_what_a_schedule_means() {
    let site = Site::start().await;
    let sender = site.key(&[Scope::Send], Some("acme")).await;
    let preview =
        async |body: Value| site.post("/v1/reminders/preview", &sender, body).await.expect(200).json();
    let berlin = preview(json!({ "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "from": "2030-03-30T00:00:00Z", "count": 3 })).await;
    let expected = json!({ "more": true, "times": [
        { "at": "2030-03-30T01:30:00.000Z", "local": "2030-03-30T02:30:00+01:00", "weekday": "Saturday" },
        { "at": "2030-03-31T01:00:00.000Z", "local": "2030-03-31T03:00:00+02:00", "weekday": "Sunday" },
        { "at": "2030-04-01T00:30:00.000Z", "local": "2030-04-01T02:30:00+02:00", "weekday": "Monday" },
    ]});
    assert_eq!(berlin, expected);
    let every = preview(json!({ "every": "24h", "from": "2030-03-30T00:00:00Z", "max_runs": 2 })).await;
    let days: Vec<_> =
        every["times"].as_array().unwrap().iter().map(|time| time["local"].as_str().unwrap()).collect();
    assert_eq!(
        (days, &every["more"]),
        (vec!["2030-03-30T00:00:00+00:00", "2030-03-31T00:00:00+00:00"], &json!(false))
    );
    assert_eq!(preview(json!({ "at": "2030-01-01T00:00:00Z" })).await["times"].as_array().unwrap().len(), 1);
    let rare = preview(json!({ "cron": "0 0 29 2 *", "time_zone": "America/New_York", "count": 50 })).await;
    assert_eq!(rare["times"].as_array().unwrap().len(), 50);
    assert_eq!(site.get("/v1/reminders", &site.admin).await.json()["items"], json!([]), "nothing is created");
}

#[tokio::test]
async fn what_holds_for_a_tenants_reminders() {
    let site = Site::start().await;
    let defaults = json!({ "policy": null, "circuit_by": "host", "retry": null, "response_rules": {}, "when_failed": "stop",
        "catch_up": "all", "timeout": null, "max_in_flight": null, "limit": null });
    assert_eq!(site.get("/v1/tenants/acme", &site.admin).await.json()["reminders"], defaults);
    let rules = json!({ "policy": { "failures": 3 }, "circuit_by": "endpoint", "retry": ["1s"], "when_failed": "next_run",
        "response_rules": { "409": { "action": "fail" } }, "catch_up": "latest", "timeout": "3s", "max_in_flight": 2,
        "limit": { "count": 2, "bytes": 1000 } });
    let body = json!({ "id": "shop", "reminders": rules });
    let created = site.post("/v1/tenants", &site.admin, body).await.expect(201).json();
    let as_given = |shown: &Value| {
        let action = &shown["response_rules"]["409"]["action"];
        assert_eq!(action, "fail");
        let mut shown = shown.clone();
        shown["response_rules"] = rules["response_rules"].clone();
        shown
    };
    assert_eq!(as_given(&created["reminders"]), rules);
    let change = json!({ "reminders": { "retry": null, "catch_up": null } });
    let changed = patch(&site, "/v1/tenants/shop", change).await.expect(200).json();
    assert_eq!(
        (&changed["reminders"]["retry"], &changed["reminders"]["catch_up"]),
        (&Value::Null, &json!("all"))
    );
    assert_eq!(changed["reminders"]["when_failed"], "next_run", "what is left out stays");

    let made = |n: u32| {
        reminder(
            json!({ "tenant": "shop", "every": "1h", "at": "2099-01-01T00:00:00Z", "reference": n.to_string() }),
        )
    };
    let first = site.post(PATH, &site.admin, made(1)).await.expect(201).json();
    assert!(first["circuit"]["key"].as_str().unwrap().starts_with("shop/reminders https://"), "{first}");
    site.post(PATH, &site.admin, made(2)).await.expect(201);
    assert_eq!(site.post(PATH, &site.admin, made(3)).await.expect(429).code(), "reminders_full");
    act(&site, &path_of(&first), "cancel").await.expect(200);
    site.post(PATH, &site.admin, made(3)).await.expect(201);

    let cleared = patch(&site, "/v1/tenants/shop", json!({ "reminders": null })).await.expect(200).json();
    assert_eq!(cleared["reminders"], defaults);
}

#[tokio::test]
async fn a_run_behind_a_circuit_is_parked_and_can_be_resent() {
    let site = Site::start().await;
    let created = create(&site, json!({ "at": "2020-01-01T00:00:00Z" })).await;
    let circuit = format!("/v1/circuits/{}", created["circuit"]["id"].as_str().unwrap());
    site.post(&format!("{circuit}/force_open"), &site.admin, json!({ "reason": "test" })).await.expect(200);
    site.fire().await;
    let shown = site.get(&path_of(&created), &site.admin).await.expect(200).json();
    assert_eq!(shown["circuit"]["state"], "open");
    let runs = site.get(&format!("{}/runs", path_of(&created)), &site.admin).await.expect(200).json();
    assert_eq!((&runs["items"][0]["state"], &runs["items"][0]["parked"]), (&json!("pending"), &json!(true)));
    let delivery = format!("/v1/deliveries/{}", shown["open_run"].as_str().unwrap());
    site.request(Method::POST, &format!("{delivery}/cancel"), &site.admin, None).await.expect(200);
    let resent =
        site.request(Method::POST, &format!("{delivery}/resend"), &site.admin, None).await.expect(200).json();
    assert_eq!(
        (&resent["parked"], &resent["run"]),
        (&json!(true), &json!(1)),
        "behind the circuit of reminders"
    );
}
