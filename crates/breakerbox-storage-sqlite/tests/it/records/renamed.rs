//! A database with schema 9, whose stored JSON has other field names: it opens, and means the same.

use std::path::Path;
use std::time::Duration;

use breakerbox_core::throttle::LoadSignal;
use breakerbox_core::{OutcomeKind, Timestamp};
use breakerbox_model::delivery::{Fault, Reply};
use breakerbox_model::notifications::{
    CircuitFacts, Counted, DisableConditions, Disabled, Kind, Kinds, LastResult, News, Tripped, Way, Why,
};
use breakerbox_model::objects::{Moment, Secret, TenantId};
use breakerbox_storage::Defaults;
use breakerbox_storage::records::{NotificationFilter, Notifications, PageOf, SendState, Tenants};
use breakerbox_storage::secrets::{Keyring, MasterKey, Owner};
use breakerbox_storage_sqlite::{Database, Options, SqliteRecords};
use rusqlite::{Connection, params};
use serde_json::json;

const SCHEMA_9: [&str; 9] = [
    include_str!("../../../src/migrations/0001_first.sql"),
    include_str!("../../../src/migrations/0002_reminders.sql"),
    include_str!("../../../src/migrations/0003_notifications.sql"),
    include_str!("../../../src/migrations/0004_permits.sql"),
    include_str!("../../../src/migrations/0005_changes.sql"),
    include_str!("../../../src/migrations/0006_tombstones.sql"),
    include_str!("../../../src/migrations/0007_fan_outs.sql"),
    include_str!("../../../src/migrations/0008_owners.sql"),
    include_str!("../../../src/migrations/0009_requests.sql"),
];

const AT: i64 = 1_763_000_000_000_000;

/// Returns an id from the time at which the rows of this test were created.
fn id(number: i64) -> i64 {
    let first = breakerbox_model::objects::Id::first_at(Timestamp::from_micros(AT.unsigned_abs())).number();
    first + number
}

/// Creates an empty database with schema 9 in this directory.
async fn schema_9(folder: &Path) -> Connection {
    // Created by the current version, so that the file name and the application id are as expected.
    let database = Database::open(folder, Options { reserve: 0, ..Options::default() }).unwrap();
    let path = database.path().to_owned();
    database.close().await;
    let newest = Connection::open(&path).unwrap();
    let application: i64 = newest.query_row("PRAGMA application_id", [], |row| row.get(0)).unwrap();
    drop(newest);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    let file = Connection::open(&path).unwrap();
    for sql in SCHEMA_9 {
        file.execute_batch(sql).unwrap();
    }
    file.execute_batch(&format!("PRAGMA application_id = {application}; PRAGMA user_version = 9;")).unwrap();
    file
}

fn trip() -> serde_json::Value {
    json!({
        "kind": "trip",
        "circuit": {
            "id": null, "key": null, "fingerprint": "3f2a9c1b8d02", "by": "host", "purpose": "deliveries",
            "place": "hooks.example.com", "endpoints": ["ep_01h5k2m8w4c7e"], "more_endpoints": 2
        },
        "since": "2025-11-13T02:13:20.000Z",
        "why": {
            "rule": "failures", "limit": 7, "min_calls": 10, "window_ms": 60_000, "slow_call_ms": null,
            "counted": { "calls": 12, "failures": 7, "slow": 0, "consecutive_failures": 4, "mean_latency_ms": 0 }
        },
        "retry_at": null, "probes": 3, "trips": 2,
        "gives_up": { "trips": 10, "silence_ms": 259_200_000_u64 }
    })
}

fn disabled() -> serde_json::Value {
    json!({
        "kind": "disabled", "because": "gone", "circuit": null, "endpoint": "ep_01h5k2m8w4c7e", "host": "a.example",
        "last_success_at": null, "reason": "it answered 410 Gone"
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_the_earlier_names_means_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (key, secret) = (MasterKey::random(), Secret::random());
    let old = schema_9(folder.path()).await;
    let settings = json!({
        "name": "Acme", "enabled": true, "policy": null, "circuit_by": "host", "retry": null,
        "rulings": {
            "404": { "delivery": "failed", "circuit": "ignored" }, "410": { "delivery": "retried" }, "5xx": { "throttle": "reject" },
            "429": { "delivery": "delivered" }, "timeout": { "delivery": "failed", "throttle": "neither" }
        },
        "backlog": null, "ingest_rate": null, "expires_after_us": null,
        "reminders": {
            "policy": null, "circuit_by": "tenant", "retry": null, "rulings": { "409": { "delivery": "gone" } },
            "when_failed": "stop", "catch_up": "all", "timeout_us": null, "max_in_flight": null, "limit": null
        }
    });
    let sealed = json!({
        "secrets": [{ "secret": secret.reveal(), "since": AT, "until": null }],
        "headers": {},
        "notices": [
            { "name": "tgt_01h5k2m8w4c7e", "way": "webhook", "url": "https://ops.example/in", "secret": secret.reveal(),
              "on": ["trip", "disabled"] },
            { "name": "tgt_01h5k2m8w4c7f", "way": "email", "to": ["ops@example.com"] }
        ]
    });
    let sealed =
        Keyring::new(&key).seal(sealed.to_string().as_bytes(), Owner { what: "tenant", name: "acme" });
    let insert = "INSERT INTO tenants (row, id, settings, sealed, revision, created_at, changed_at)
                  VALUES (1, 'acme', ?1, ?2, 1, ?3, ?3)";
    old.execute(insert, params![settings.to_string(), sealed.0, AT]).unwrap();
    // Rows that can't be read are kept, and do not block the migration.
    let broken = [(3, "store_lost", "{not JSON".to_owned())];
    let notices = [(1, "trip", trip().to_string()), (2, "disabled", disabled().to_string())];
    for (number, kind, news) in notices.iter().chain(&broken) {
        let insert = "INSERT INTO notices (id, kind, subject, epoch, tenant, at, news) VALUES (?1, ?2, 'acme', ?3, 1, ?4, ?5)";
        old.execute(insert, params![id(*number), kind, number, AT, news]).unwrap();
    }
    for (number, state, message) in
        [(1, 0, Some("ntc_01h5k2m8w4c7e")), (2, 1, Some("ntc_01h5k2m8w4c7e-01h5k2m8w4c7f-2"))]
    {
        let insert =
            "INSERT INTO notice_sends (notice, target, state, tries, due_at, settled_at, answer, message)
                      VALUES (?1, 'tgt_01h5k2m8w4c7e', ?2, 1, ?3, ?3, '503', ?4)";
        old.execute(insert, params![id(number), state, AT, message]).unwrap();
    }
    let insert =
        "INSERT INTO notice_targets (name, tenant, waiting, not_kept) VALUES ('tgt_01h5k2m8w4c7e', 1, 1, 5)";
    old.execute(insert, []).unwrap();
    drop(old);

    let database = Database::open(folder.path(), Options { reserve: 0, ..Options::default() }).unwrap();
    let records =
        SqliteRecords::open(database.clone(), Keyring::new(&key), Defaults::default()).await.unwrap();
    let tenant: TenantId = "acme".parse().unwrap();
    let settings = records.tenant(&tenant).await.unwrap().settings;

    let rules = serde_json::to_value(&settings.response_rules).unwrap();
    let expected = json!({
        "404": { "action": "fail", "circuit": "ignored" }, "410": { "action": "retry" }, "5xx": { "throttle": "reject" },
        "429": { "action": "succeed" }, "timeout": { "action": "fail", "throttle": "neither" }
    });
    assert_eq!(rules, expected);
    let reminders = serde_json::to_value(&settings.reminders.response_rules).unwrap();
    assert_eq!(reminders, json!({ "409": { "action": "disable" } }));
    let effect = settings.response_rules.of(Reply::Failed(Fault::Timeout), false, Duration::ZERO);
    assert_eq!((effect.circuit, effect.throttle), (OutcomeKind::Failure, LoadSignal::Neither));

    let [webhook, email] = &settings.notification_targets[..] else { panic!("{settings:?}") };
    let url = "https://ops.example/in".parse().unwrap();
    assert_eq!(webhook.way, Way::Webhook { url, secret: secret.clone() });
    assert_eq!(webhook.on, Kinds::of(&[Kind::Trip, Kind::Disabled]));
    assert_eq!((email.way.name(), email.on), ("email", Kinds::ALL));

    let filter = NotificationFilter { tenant: Some(tenant), ..NotificationFilter::default() };
    let found = records.notifications(&filter, &PageOf::first(10)).await.unwrap().items;
    let [disabled, tripped] = &found[..] else { panic!("{found:?}") };
    let circuit = CircuitFacts {
        id: None,
        key: None,
        fingerprint: "3f2a9c1b8d02".into(),
        circuit_by: "host".into(),
        purpose: "deliveries".into(),
        destination: Some("hooks.example.com".into()),
        endpoints: vec!["ep_01h5k2m8w4c7e".into()],
        more_endpoints: 2,
    };
    let counts = Counted { calls: 12, failures: 7, slow: 0, consecutive_failures: 4, mean_latency_ms: 0 };
    let cause = Why {
        rule: "failures".into(),
        limit: 7,
        min_calls: 10,
        window_ms: 60_000,
        slow_call_ms: None,
        counts: Some(counts),
    };
    let expected = News::Trip(Tripped {
        circuit,
        since: Moment(Timestamp::from_micros(AT.unsigned_abs())),
        cause: Some(cause),
        retry_at: None,
        probes: 3,
        trips: 2,
        disables: Some(DisableConditions { trips: 10, failing_ms: 259_200_000 }),
        last: LastResult::default(),
    });
    assert_eq!(tripped.notification.news, expected);
    let expected = News::Disabled(Disabled {
        disabled_reason: "gone".into(),
        circuit: None,
        endpoint: Some("ep_01h5k2m8w4c7e".into()),
        host: Some("a.example".into()),
        last_success_at: None,
        reason: "it answered 410 Gone".into(),
        last: LastResult::default(),
    });
    assert_eq!(disabled.notification.news, expected);

    let sent = |past: &breakerbox_storage::records::PastNotification| {
        let [send] = &past.sends[..] else { panic!("{past:?}") };
        (send.state, send.tries, send.message.clone().unwrap())
    };
    assert_eq!(sent(tripped), (SendState::Waiting, 1, "ntf_01h5k2m8w4c7e".to_owned()));
    assert_eq!(sent(disabled), (SendState::Sent, 1, "ntf_01h5k2m8w4c7e-01h5k2m8w4c7f-2".to_owned()));
    let [target] = &records.waiting_targets().await.unwrap()[..] else { panic!("one target waits") };
    assert_eq!((&*target.name, target.waiting, target.due, target.not_kept), ("tgt_01h5k2m8w4c7e", 1, 1, 5));
    let due = records.due_notifications("tgt_01h5k2m8w4c7e", 10).await.unwrap();
    assert_eq!((due.len(), due[0].headline.kind), (1, Kind::Trip));
    database.close().await;

    // A second startup reads what the first one wrote.
    let database = Database::open(folder.path(), Options { reserve: 0, ..Options::default() }).unwrap();
    let records =
        SqliteRecords::open(database.clone(), Keyring::new(&key), Defaults::default()).await.unwrap();
    let again = records.tenant(&"acme".parse().unwrap()).await.unwrap().settings;
    assert_eq!(serde_json::to_value(&again.response_rules).unwrap(), rules);
    assert_eq!(again.notification_targets.len(), 2);
    database.close().await;
}
