//! Commands that list resources: pages, limits and filters.

use serde_json::{Value, json};

use crate::api_commands::{against, answering};
use crate::fake_api::{Answer, Asked, FakeApi};

/// Returns one page of a listing with 1,100 items. The second page is empty, which the API allows.
fn pages(asked: &Asked) -> Answer {
    let url = url::Url::parse(&format!("http://x{}", asked.path)).unwrap();
    let query =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let limit: u64 = query("limit").unwrap().parse().unwrap();
    let (from, limit) = match query("cursor").as_deref() {
        None => (0, limit),
        Some("gap") => return Answer::ok(json!({"items": [], "next": limit_cursor(500)})),
        Some(cursor) => (cursor.trim_start_matches("at ").parse().unwrap(), limit),
    };
    let until = (from + limit).min(1_100);
    let items: Vec<Value> = (from..until).map(|n| json!({"id": format!("it{n}"), "state": "open"})).collect();
    let next = match until {
        500 => Some("gap".to_owned()),
        1_100 => None,
        until => Some(limit_cursor(until)),
    };
    Answer::ok(json!({"items": items, "next": next}))
}

fn limit_cursor(at: u64) -> String {
    format!("at {at}")
}

#[test]
fn listings_go_through_all_pages_and_stop_where_they_are_told() {
    for command in ["tenants", "endpoints", "events", "deliveries", "lanes", "reminders", "circuits", "keys"]
    {
        let api = FakeApi::start(pages);
        let ended = against(&api, &[command, "list", "--limit", "2000", "--quiet"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let names: Vec<_> = ended.stdout.lines().collect();
        assert_eq!((names.len(), names[0], names[1_099]), (1_100, "it0", "it1099"), "{command}");
        assert_eq!(api.asked().len(), 4);
        assert_eq!(api.asked()[0].line(), format!("GET /v1/{command}?limit=500"));

        let ended = against(&api, &[command, "list", "--limit", "3"]);
        assert_eq!(ended.stdout.lines().count(), 4, "a heading and three");
        assert!(ended.stdout.starts_with("ID"), "{}", ended.stdout);
        assert!(ended.stderr.contains("more results available"), "{}", ended.stderr);
        assert!(!ended.stdout.contains('\u{1b}'), "no colours without a terminal");

        let ended = against(&api, &[command, "list", "--limit", "2", "--json"]);
        let items: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((items[1]["id"].as_str(), items.as_array().unwrap().len()), (Some("it1"), 2));
        assert_eq!(ended.stderr, "");
    }
}

#[test]
fn a_limit_is_one_or_more_for_every_listing() {
    let api = FakeApi::start(pages);
    for listing in [
        &["tenants", "list"][..],
        &["endpoints", "list"],
        &["events", "list"],
        &["deliveries", "list"],
        &["deliveries", "attempts", "dlv_01h5k2m8w4c7e"],
        &["lanes", "list"],
        &["resends", "list"],
        &["reminders", "list"],
        &["reminders", "runs", "rem_01h5k2m8w4c7e"],
        &["circuits", "list"],
        &["circuits", "history"],
        &["notifications", "list"],
        &["keys", "list"],
    ] {
        let ended = against(&api, &[listing, &["--limit", "0"]].concat());
        assert_eq!(ended.code, 2, "{listing:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("must be a whole number, 1 or more"), "{listing:?}: {}", ended.stderr);
    }
    assert_eq!(api.asked().len(), 0);
    // More than one page of the API.
    let ended = against(&api, &["tenants", "list", "--limit", "700", "--quiet"]);
    assert_eq!((ended.code, ended.stdout.lines().count()), (0, 700), "{}", ended.stderr);
}

#[test]
fn an_empty_page_is_not_the_last_and_a_full_listing_asks_for_no_more() {
    let api = FakeApi::start(|asked| match asked.path.contains("cursor=") {
        false => Answer::ok(json!({"items": [], "next": "on"})),
        true => Answer::ok(json!({"items": [{"id": "a"}, {"id": "b"}], "next": "further"})),
    });
    let ended = against(&api, &["tenants", "list", "--limit", "2", "--quiet"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "a\nb\n"), "{}", ended.stderr);
    let asked: Vec<_> = api.asked().iter().map(Asked::line).collect();
    assert_eq!(asked, ["GET /v1/tenants?limit=2", "GET /v1/tenants?limit=2&cursor=on"]);
}

#[test]
fn listings_say_what_is_waited_for() {
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(90);
    let item =
        json!({"id": "x_1", "waiting": 12, "waits_for": "retry_after", "waits_until": until.to_string()});
    let api = answering(json!({"items": [item], "next": null}));
    for (command, titles) in [
        ("deliveries", &["REASON", "UNTIL"][..]),
        ("endpoints", &["WAITING", "WAITS FOR", "UNTIL"]),
        ("lanes", &["WAITING", "WAITS FOR", "UNTIL"]),
    ] {
        let ended = against(&api, &[command, "list", "--tenant", "acme"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let (heading, line) = ended.stdout.split_once('\n').unwrap();
        assert!(titles.iter().all(|title| heading.contains(title)), "{command}: {heading}");
        assert!(line.contains("retry_after") && line.contains("in 1m"), "{command}: {line}");
        assert_eq!(line.contains(" 12 "), titles.contains(&"WAITING"), "{command}: {line}");
        let wide = against(&api, &[command, "list", "--tenant", "acme", "--wide"]);
        assert!(wide.stdout.contains(&until.to_string()), "{command}: {}", wide.stdout);
    }
    assert_eq!(api.asked()[4].line(), "GET /v1/lanes?tenant=acme&limit=100");
}

#[test]
fn filters_become_a_query() {
    let api = answering(json!({"items": [], "next": null}));
    let ended = against(
        &api,
        &["deliveries", "list", "--state", "failed", "--type", "a.b", "--endpoint", "ep_01h5k2m8w4c7e"],
    );
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", "no results\n"));
    assert_eq!(
        api.asked()[0].line(),
        "GET /v1/deliveries?endpoint=ep_01h5k2m8w4c7e&type=a.b&state=failed&limit=100"
    );
    against(&api, &["circuits", "history", "cir_YQ", "--limit", "5"]);
    assert_eq!(api.asked()[1].line(), "GET /v1/changes?circuit=cir_YQ&limit=5");
    against(&api, &["deliveries", "attempts", "dlv_01h5k2m8w4c7e"]);
    assert_eq!(api.asked()[2].line(), "GET /v1/deliveries/dlv_01h5k2m8w4c7e/attempts?limit=100");
    against(
        &api,
        &["circuits", "history", "--tenant", "acme", "--state", "open", "--from", "2030-01-01T00:00:00Z"],
    );
    let expected = "GET /v1/changes?tenant=acme&to=open&from=2030-01-01T00%3A00%3A00Z&limit=100";
    assert_eq!(api.asked()[3].line(), expected);
}
