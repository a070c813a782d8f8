//! A trip is notified once the circuit has not been closed for a while, and a recovery only if its trip was.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{MemoryStore, Store, Swap};
use breakerbox_core::{
    Attribution, Cause, CircuitStatus, OverrideCommand, RandomBits, Record, State, Timestamp, TripRule,
};
use breakerbox_gateway::notifications::DelayedTrips;
use breakerbox_model::notifications::News;
use breakerbox_storage::clock::Clocks;
use breakerbox_testkit::receiver::Behaviour;

use super::rig::{Rig, TENANT, webhook};
use super::whole::{Site, break_endpoint};

const MINUTE: Duration = Duration::from_secs(60);
const RULE: Cause = Cause::Rule(TripRule::Failures);

/// A rig with a delay of a minute, and the circuits of its tenant.
struct Delayed {
    rig: Rig,
    circuits: Arc<MemoryStore>,
}

fn key(endpoint: u32) -> Arc<str> {
    format!("{TENANT} https://{endpoint}.example/in").into()
}

impl Delayed {
    async fn new() -> Self {
        let mut rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
        rig.after = MINUTE;
        let circuits = Arc::new(MemoryStore::with_clock(rig.clock.clone()));
        Self { rig, circuits }
    }

    /// Changes a circuit, in the store and in the history.
    async fn change(&self, endpoint: u32, epoch: u64, cause: Cause, to: CircuitStatus) {
        self.put(endpoint, to, 1).await;
        assert_eq!(self.rig.change(endpoint, epoch, cause, to).await, 1);
    }

    /// Changes the record of a circuit in the store alone.
    async fn put(&self, endpoint: u32, to: CircuitStatus, trips: u32) {
        let state = match to {
            CircuitStatus::Closed => State::Closed,
            CircuitStatus::HalfOpen => State::HalfOpen,
            _ => State::Open,
        };
        let now = self.rig.now();
        let retry_at = (state == State::Open).then(|| now + MINUTE);
        let draw = RandomBits(now.as_micros().into());
        let record = {
            let mut record = Record::new(None, draw, now);
            record.state = state;
            record.trips = trips;
            record.retry_at = retry_at;
            record
        };
        let read = self.circuits.read(&[key(endpoint)]).await.unwrap().value.remove(0).unwrap();
        let not_after = Timestamp::from_micros(u64::MAX);
        let expected = read.map(|record| record.version);
        let swap = Swap { key: key(endpoint), expected, record, not_after, keep_for: None };
        self.circuits.swap_if(&swap).await.unwrap();
    }

    /// Lets this many seconds pass, sending what is due every second.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.rig.pass(1).await;
            self.trips().send_due().await.unwrap();
        }
        self.rig.notifier.send_due().await;
    }

    fn trips(&self) -> DelayedTrips {
        let circuits = Arc::clone(&self.circuits) as Arc<dyn Store>;
        let records = Arc::new(self.rig.records.clone());
        DelayedTrips::new(records, circuits, Arc::default(), Arc::default(), Clocks::system().store())
    }

    async fn kinds(&self) -> Vec<&'static str> {
        self.rig.all().await.iter().map(|past| past.notification.kind().name()).collect()
    }
}

fn command(command: OverrideCommand) -> Cause {
    Cause::Override { command, by: Attribution::new("ops", "a drill").unwrap() }
}

#[tokio::test]
async fn a_circuit_that_closes_soon_disturbs_nobody() {
    let delayed = Delayed::new().await;
    for (epoch, open_for) in [(1, 1), (10, 30), (20, 59)] {
        delayed.change(1, epoch, RULE, CircuitStatus::Open).await;
        delayed.pass(open_for).await;
        delayed.change(1, epoch + 1, Cause::ProbesSucceeded, CircuitStatus::Closed).await;
        delayed.pass(5).await;
    }
    delayed.pass(120).await;
    assert!(delayed.rig.all().await.is_empty());
    assert!(delayed.rig.sent_to("ops.example").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_notified_once_with_its_beginning_and_so_is_its_end() {
    let mut delayed = Delayed::new().await;
    let began = delayed.rig.now();
    delayed.change(1, 1, RULE, CircuitStatus::Open).await;
    // Probes fail, and the gateway restarts: it is the same outage.
    for round in 0..3 {
        delayed.pass(10).await;
        delayed.change(1, 2 + 2 * round, Cause::CoolOffOver, CircuitStatus::HalfOpen).await;
        delayed.rig.restart().await;
        delayed.pass(5).await;
        delayed.change(1, 3 + 2 * round, Cause::ProbeFailed, CircuitStatus::Open).await;
    }
    delayed.put(1, CircuitStatus::Open, 4).await;
    delayed.pass(14).await;
    assert_eq!(delayed.kinds().await, [] as [&str; 0], "a minute has not passed");
    delayed.rig.restart().await;
    // Several tasks, or processes, at the same time.
    delayed.rig.pass(1).await;
    let (one, other) = (delayed.trips(), delayed.trips());
    let (one, other) = tokio::join!(one.send_due(), other.send_due());
    one.unwrap();
    other.unwrap();
    delayed.rig.restart().await;
    delayed.pass(300).await;
    let all = delayed.rig.all().await;
    assert_eq!(delayed.kinds().await, ["trip"]);
    let News::Trip(trip) = &all[0].notification.news else { panic!("{all:?}") };
    assert_eq!((trip.since.0, all[0].notification.at), (began, began), "when it opened first");
    assert_eq!(trip.trips, 4);
    assert!(trip.retry_at.unwrap().0 > began + MINUTE, "the next probe, not the first one");
    delayed.change(1, 50, Cause::ProbesSucceeded, CircuitStatus::Closed).await;
    delayed.pass(5).await;
    assert_eq!(delayed.kinds().await, ["trip", "recovery"]);
    let all = delayed.rig.all().await;
    let News::Recovery(recovery) = &all[1].notification.news else { panic!("{all:?}") };
    assert_eq!(recovery.since.unwrap().0, began);
    assert_eq!(delayed.rig.sent_to("ops.example").len(), 2);
    // The next outage is another one.
    delayed.change(1, 60, RULE, CircuitStatus::Open).await;
    delayed.pass(59).await;
    assert_eq!(delayed.kinds().await.len(), 2);
    delayed.pass(1).await;
    assert_eq!(delayed.kinds().await, ["trip", "recovery", "trip"]);
}

#[tokio::test]
async fn a_circuit_that_closed_before_the_history_says_so_is_not_notified() {
    let delayed = Delayed::new().await;
    delayed.change(1, 1, RULE, CircuitStatus::Open).await;
    delayed.put(1, CircuitStatus::Closed, 1).await;
    delayed.pass(120).await;
    assert!(delayed.rig.all().await.is_empty());
    assert_eq!(delayed.rig.change(1, 2, Cause::ProbesSucceeded, CircuitStatus::Closed).await, 1);
    assert!(delayed.rig.all().await.is_empty(), "nor is its recovery");
}

#[tokio::test]
async fn a_disabled_circuit_is_notified_at_once_and_its_recovery_too() {
    let delayed = Delayed::new().await;
    let began = delayed.rig.now();
    delayed.change(1, 1, RULE, CircuitStatus::Open).await;
    delayed.pass(10).await;
    delayed.change(1, 2, Cause::ProbeFailed, CircuitStatus::Disabled).await;
    assert_eq!(delayed.kinds().await, ["disabled"], "at once");
    delayed.pass(120).await;
    assert_eq!(delayed.kinds().await, ["disabled"], "and that is all");
    delayed.change(1, 3, command(OverrideCommand::Enable), CircuitStatus::Open).await;
    delayed.change(1, 4, Cause::CoolOffOver, CircuitStatus::HalfOpen).await;
    delayed.change(1, 5, Cause::ProbesSucceeded, CircuitStatus::Closed).await;
    assert_eq!(delayed.kinds().await, ["disabled", "recovery"]);
    let all = delayed.rig.all().await;
    let News::Recovery(recovery) = &all[1].notification.news else { panic!("{all:?}") };
    assert_eq!(recovery.since.unwrap().0, began);
}

#[tokio::test]
async fn an_operator_who_took_over_is_not_notified() {
    let delayed = Delayed::new().await;
    for (endpoint, override_command, to) in [
        (1, OverrideCommand::ForceOpen, CircuitStatus::Open),
        (2, OverrideCommand::Disable, CircuitStatus::Disabled),
        (3, OverrideCommand::ForceClosed, CircuitStatus::Closed),
        (4, OverrideCommand::Reset, CircuitStatus::Closed),
    ] {
        delayed.change(endpoint, 1, RULE, CircuitStatus::Open).await;
        delayed.pass(10).await;
        delayed.change(endpoint, 2, command(override_command), to).await;
    }
    delayed.pass(120).await;
    assert!(delayed.rig.all().await.is_empty());
}

#[tokio::test]
async fn a_trip_that_can_not_be_read_does_not_hold_up_others() {
    let delayed = Delayed::new().await;
    delayed.change(1, 1, RULE, CircuitStatus::Open).await;
    let file = rusqlite::Connection::open(delayed.rig.folder().join("breakerbox.db")).unwrap();
    file.execute("UPDATE outages SET news = '{}'", []).unwrap();
    delayed.change(2, 1, RULE, CircuitStatus::Open).await;
    delayed.pass(60).await;
    let all = delayed.rig.all().await;
    assert_eq!(all.iter().map(|past| &*past.notification.subject).collect::<Vec<_>>(), [&*key(2)]);
    let due: i64 = file
        .query_row("SELECT count(*) FROM outages WHERE due_at IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(due, 0, "it is not read again and again");
}

#[test]
fn a_whole_gateway_notifies_an_outage_that_lasts_and_no_other() {
    let after = Duration::from_secs(5);
    let mut site = Site::start(|config| config.notify.after = after);
    let is_in = |site: &Site, state: &str, path: &str| {
        let circuits = site.api().get(&format!("/v1/circuits?state={state}")).unwrap();
        circuits["items"].to_string().contains(path)
    };
    break_endpoint(&site, "/blip", 500);
    site.until("a trip", || is_in(&site, "open", "/blip"));
    site.receiver.set("/blip", Behaviour::HEALTHY);
    site.until("its end", || is_in(&site, "closed", "/blip"));
    break_endpoint(&site, "/dying", 500);
    site.until("another trip", || is_in(&site, "open", "/dying"));
    // It is durable: the gateway stops before the trip is due.
    site.stop();
    site.start_again();
    site.until("a notification", || site.told("/operator") == ["trip"]);
    let shown = site.api().get("/v1/notifications").unwrap();
    let opened = site.api().get("/v1/changes?to=open").unwrap();
    let opened = opened["items"].as_array().unwrap();
    let first = opened.iter().rfind(|change| change["key"].to_string().contains("/dying")).unwrap();
    assert_eq!(shown["items"][0]["at"], first["at"], "{shown}");
    site.receiver.set("/dying", Behaviour::HEALTHY);
    site.until("its recovery", || site.told("/operator") == ["trip", "recovery"]);
}
