//! The clock was wrong at one start, and is correct at the next.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Clock;
use breakerbox_core::Timestamp;
use breakerbox_gateway::dispatch::DirectDispatch;
use breakerbox_gateway::gateway::StartError;
use breakerbox_storage::{Defaults, Directory, Queue, QueueError, Retention};
use breakerbox_storage_sqlite::{Database, JobError, OpenError, Options, SqliteQueue};
use breakerbox_testkit::receiver::Behaviour;
use serde_json::json;

use super::site::{HOUR, Site, right_time, seconds_ahead};

/// The maximum deviation of a time, on a busy machine, in seconds.
const SLACK: i64 = 120;

/// A clock that stands still.
struct Still(Timestamp);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// Prunes everything that is old enough at this time, and returns the number of rows left in these tables.
fn pruned(site: &Site, now: Timestamp, tables: &[&str]) -> Vec<i64> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = Options { clock: Arc::new(Still(now)), reserve: 0, ..Options::default() };
    runtime.block_on(async {
        let database = Database::open(&site.data(), options).unwrap();
        let directory = Arc::new(Directory::new(Defaults::default()));
        let queue = SqliteQueue::new(database.clone(), directory, Arc::new(DirectDispatch::default()));
        let keep = Retention { finished: Duration::from_secs(30), failed: Duration::from_secs(30) };
        while queue.prune(&keep, 100).await.unwrap().more {}
        let mut counts = Vec::new();
        for table in tables {
            let question = format!("SELECT count(*) FROM {table}");
            let count = database.read(move |connection| {
                Ok::<_, JobError<QueueError>>(connection.query_row(&question, [], |row| row.get(0))?)
            });
            counts.push(count.await.unwrap());
        }
        database.close().await;
        counts
    })
}

#[test]
fn after_a_clock_that_was_ahead_everything_goes_on() {
    let mut site = Site::start(6 * HOUR);
    let endpoint = site.endpoint("/in");
    let finished = site.send();
    site.until_delivered(std::slice::from_ref(&finished));
    site.receiver.set("/in", Behaviour::status(500));
    let waiting: Vec<String> = (0..3).map(|_| site.send()).collect();
    let later = site.send_with(
        json!({ "not_before": super::site::text_of(10 * HOUR), "url": site.receiver.url("/later") }),
    );
    let circuit = || site.api().get("/v1/circuits?limit=10").unwrap()["items"][0].clone();
    site.until("the circuit opens", || circuit()["state"] == "open" || circuit()["state"] == "half_open");
    site.receiver.set("/in", Behaviour::status(200));
    site.restart(0);

    site.until_degraded("clock: at the start the newest stored time was");
    site.until_delivered(&waiting);
    let circuit = || site.api().get("/v1/circuits?limit=10").unwrap()["items"][0].clone();
    site.until("the circuit closes", || circuit()["state"] == "closed");
    let requested = site.delivery(&later);
    assert!(seconds_ahead(&requested["due_at"]) > 9 * HOUR, "as requested: {requested}");

    let event = site.send();
    site.until_delivered(std::slice::from_ref(&event));
    let created_at = site.delivery(&event)["created_at"].clone();
    assert!(seconds_ahead(&created_at).abs() < SLACK, "ids follow the clock: {created_at}");
    let finished_at = site.delivery(&finished)["finished_at"].clone();
    assert!(seconds_ahead(&finished_at) < SLACK, "it gets old from now on: {finished_at}");
    assert!(!endpoint.is_empty());
    site.stop();

    let soon = right_time() + Duration::from_secs(3_600);
    assert_eq!(pruned(&site, soon, &["events", "payloads"]), [1, 1], "all but what still waits");
}

#[test]
fn idempotency_keys_of_a_clock_that_was_ahead_expire() {
    let mut site = Site::start(6 * HOUR);
    let send = |site: &Site| {
        let body = json!({ "type": "a.b", "payload": {} }).to_string();
        site.post_with_key("/v1/events", "once", &body)
    };
    let first = send(&site);
    site.restart(0);
    assert_eq!(send(&site), first, "remembered");
    site.stop();
    let in_hours = |hours: u64| right_time() + Duration::from_secs(hours * 3_600);
    assert_eq!(pruned(&site, in_hours(23), &["idempotency_keys"]), [1]);
    assert_eq!(
        pruned(&site, in_hours(25), &["idempotency_keys"]),
        [0],
        "24 hours after the start that noticed it"
    );
}

#[test]
fn more_than_a_day_ahead_needs_a_word() {
    let mut site = Site::start(48 * HOUR);
    site.endpoint("/in");
    site.send();
    site.stop();
    site.set(0);
    let error = site.try_start(false).unwrap_err();
    assert!(matches!(error, StartError::Open(OpenError::ClockAhead { .. })), "{error}");
    let text = error.to_string();
    assert!(text.contains("check the clock") && text.contains("--accept-clock-step"), "{text}");
    site.try_start(true).unwrap();
    let event = site.send();
    site.until_delivered(std::slice::from_ref(&event));
    assert!(seconds_ahead(&site.delivery(&event)["created_at"]).abs() < SLACK);
    site.restart(0);
    let event = site.send();
    site.until_delivered(&[event]);
}

#[test]
fn a_clock_that_is_behind_at_one_start_gives_no_id_twice() {
    let mut site = Site::start(0);
    site.endpoint("/in");
    let mut events = vec![site.send()];
    site.restart(-6 * HOUR);
    site.until_degraded("clock: at the start");
    events.push(site.send());
    site.until_delivered(&events);
    site.restart(0);
    site.until("no step any more", || site.api().get("/readyz").unwrap()["status"] == "ok");
    events.push(site.send());
    site.until_delivered(&events);
    let mut unique = events.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), events.len());
    assert!(seconds_ahead(&site.delivery(&events[2])["created_at"]).abs() < SLACK);
}
