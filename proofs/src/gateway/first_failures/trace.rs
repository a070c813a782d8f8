//! The history of each circuit: its attempts and its trips, read from a gateway's database, and how long the
//! throttle held its lane (its queue) between them.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox::Timestamp;
use breakerbox_model::objects::Id;
use rusqlite::Row;
use serde_json::Value;

use crate::gateway::reminders::database_probe;
use crate::gateway::site::Site;

/// The maximum number of requests in flight in a lane (an endpoint's queue) before its first success.
const IN_FLIGHT: usize = 2;

/// One delivery attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attempt {
    /// The latest time at which the delivery was due. A retry may have been due earlier, because its delay is
    /// random.
    pub(super) due: Timestamp,
    pub(super) started: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) is_retry: bool,
    pub(super) is_probe: bool,
    pub(super) status: Option<u16>,
    /// For a reminder's run, its scheduled time.
    pub(super) scheduled_at: Option<Timestamp>,
}

/// A transition of a circuit to open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Trip {
    pub(super) at: Timestamp,
    pub(super) rule: String,
    /// The number of failures in the circuit's window at the trip.
    pub(super) failures: usize,
    /// The earliest time at which a delivery may probe.
    pub(super) retry_at: Timestamp,
}

/// The rule that must open a circuit, and the number of failures at which it must.
pub(super) struct Named {
    pub(super) rule: &'static str,
    /// The number of failures at which the circuit must open. At least 1.
    pub(super) failures: usize,
}

/// The attempts and the first trip of one circuit.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// The attempts, in the order in which they started.
    pub(super) attempts: Vec<Attempt>,
    /// The first trip, or `None` if the circuit did not trip.
    pub(super) trip: Option<Trip>,
}

impl Trace {
    /// Returns the attempts that started while the circuit was closed.
    fn closed(&self) -> &[Attempt] {
        let opened_at = self.trip.as_ref().map_or(Timestamp::from_micros(u64::MAX), |trip| trip.at);
        let count = self.attempts.partition_point(|attempt| attempt.started < opened_at);
        &self.attempts[..count]
    }

    /// Returns the maximum time for which a delivery was due and fewer than [`IN_FLIGHT`] requests were in
    /// flight, but no request started. While the circuit is closed, only the throttle causes such delays.
    pub(super) fn longest_hold(&self) -> Duration {
        let attempts = self.closed();
        let hold =
            |(place, attempt): (usize, &Attempt)| attempt.started.since(ready(&attempts[..place], attempt));
        attempts.iter().enumerate().map(hold).max().unwrap_or_default()
    }

    /// Returns the number of retries while the circuit was closed, and the maximum delay with which a retry
    /// started.
    pub(super) fn retries(&self) -> (usize, Duration) {
        let retries = self.closed().iter().filter(|attempt| attempt.is_retry);
        retries.fold((0, Duration::ZERO), |(count, latest), retry| {
            (count + 1, latest.max(retry.started.since(retry.due)))
        })
    }

    /// Returns the delay with which the first probe started, or `None` if there was no probe.
    pub(super) fn probe_late(&self) -> Option<Duration> {
        let trip = self.trip.as_ref()?;
        let probe = self.attempts.iter().find(|attempt| attempt.is_probe)?;
        Some(probe.started.since(trip.retry_at))
    }

    /// Returns whether the circuit opened by this rule and at its number of failures. Failures of requests
    /// that were in flight at that moment may be included, because the circuit's record is written slightly
    /// after new requests are stopped.
    pub(super) fn opened_with(&self, named: &Named) -> bool {
        let Some(trip) = self.trip.as_ref().filter(|trip| trip.rule == named.rule) else { return false };
        let mut failed: Vec<_> = self.closed().iter().filter(|attempt| attempt.status != Some(200)).collect();
        failed.sort_by_key(|attempt| attempt.ended);
        let (before, later) = failed.split_at(failed.len().min(named.failures));
        let Some(last) = before.get(named.failures - 1) else { return false };
        let in_flight = later.iter().filter(|attempt| attempt.started <= last.ended).count();
        (named.failures..=named.failures + in_flight).contains(&trip.failures)
    }

    /// Returns the time from the first request to the trip, or `None` if the circuit did not trip.
    pub(super) fn opened_after(&self) -> Option<Duration> {
        Some(self.trip.as_ref()?.at.since(self.attempts.first()?.started))
    }
}

/// Returns the earliest time at which an attempt could start: its delivery is due, the previous attempt has
/// started, and fewer than [`IN_FLIGHT`] attempts are in flight.
fn ready(before: &[Attempt], attempt: &Attempt) -> Timestamp {
    let ready = before.last().map_or(attempt.due, |latest| latest.started.max(attempt.due));
    let mut ends: Vec<_> = before.iter().map(|one| one.ended).filter(|ended| *ended > ready).collect();
    ends.sort();
    ends.len().checked_sub(IN_FLIGHT).map_or(ready, |place| ends[place])
}

/// Returns the number of circuits that have tripped, and the number of circuits that have probed.
pub(super) fn trips_and_probes(site: &Site) -> Result<(i64, i64)> {
    let sql = "SELECT (SELECT count(DISTINCT key) FROM circuit_changes WHERE change ->> '$.to' = 'open'),
                      (SELECT count(DISTINCT d.lane) FROM attempts a JOIN deliveries d ON d.id = a.delivery WHERE a.probe)";
    Ok(database_probe::connect(site)?.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Reads the traces of all circuits from the database, by key. `waits` are the maximum delays of retries.
pub(super) fn read(site: &Site, waits: &[Duration]) -> Result<HashMap<String, Trace>> {
    let connection = database_probe::connect(site)?;
    let mut traces = HashMap::<String, Trace>::new();
    let sql = "SELECT coalesce(l.key, t.id || ' ' || (p.settings ->> '$.url')), d.id, e.id, a.started_at, a.latency, a.probe,
                      a.status, e.scheduled_at
               FROM attempts a JOIN deliveries d ON d.id = a.delivery JOIN tenants t ON t.row = d.tenant
               JOIN events e ON e.id = d.event LEFT JOIN lanes l ON l.id = d.lane LEFT JOIN endpoints p ON p.id = d.lane
               ORDER BY a.started_at";
    // By delivery: the number of attempts, and when the latest one ended.
    let mut tried = HashMap::<i64, (usize, Timestamp)>::new();
    let mut question = connection.prepare(sql)?;
    let mut rows = question.query([])?;
    while let Some(row) = rows.next()? {
        let (delivery, started) = (row.get(1)?, time(row, 3)?);
        let ended = started + Duration::from_micros(row.get::<_, i64>(4)?.unsigned_abs());
        let made = Id::from_number(row.get(2)?).context("an id is not negative")?.made_at();
        let before = tried.get(&delivery).copied();
        let due = before.map_or(made, |(attempts, ended)| {
            ended + waits.get(attempts - 1).copied().unwrap_or(Duration::MAX)
        });
        tried.insert(delivery, (before.map_or(0, |(attempts, _)| attempts) + 1, ended));
        traces.entry(row.get(0)?).or_default().attempts.push(Attempt {
            due,
            started,
            ended,
            is_retry: before.is_some(),
            is_probe: row.get(5)?,
            status: row.get(6)?,
            scheduled_at: row.get::<_, Option<i64>>(7)?.map(micros),
        });
    }
    let sql =
        "SELECT key, at, change FROM circuit_changes WHERE change ->> '$.to' = 'open' ORDER BY key, epoch";
    let mut question = connection.prepare(sql)?;
    let mut rows = question.query([])?;
    while let Some(row) = rows.next()? {
        let change: Value = serde_json::from_str(&row.get::<_, String>(2)?)?;
        let number = |path: &str| change.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        let trip = Trip {
            at: time(row, 1)?,
            rule: change.pointer("/cause/rule").and_then(Value::as_str).unwrap_or("none").to_owned(),
            failures: usize::try_from(number("/evidence/failures"))?,
            retry_at: Timestamp::from_micros(number("/retry_at")),
        };
        traces.entry(row.get(0)?).or_default().trip.get_or_insert(trip);
    }
    Ok(traces)
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(micros)
}

fn micros(number: i64) -> Timestamp {
    Timestamp::from_micros(number.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn attempt(due: u64, started: u64, ended: u64) -> Attempt {
        let (due, started, ended) = (at(due), at(started), at(ended));
        Attempt { due, started, ended, is_retry: false, is_probe: false, status: None, scheduled_at: None }
    }

    #[test]
    fn a_hold_is_when_something_is_due_and_nothing_begins() {
        let millis = |attempts: &[Attempt]| {
            Trace { attempts: attempts.to_vec(), trip: None }.longest_hold().as_millis()
        };
        assert_eq!(millis(&[]), 0);
        assert_eq!(millis(&[attempt(0, 5, 10)]), 5, "from when it was due");
        assert_eq!(millis(&[attempt(0, 0, 1), attempt(0, 300, 301)]), 300, "from when the one before began");
        assert_eq!(millis(&[attempt(0, 0, 1), attempt(250, 300, 301)]), 50);
        let hanging = [attempt(0, 0, 1_000), attempt(0, 0, 1_010), attempt(0, 1_020, 2_000)];
        assert_eq!(millis(&hanging), 20, "two are in flight, so none could begin");
    }

    #[test]
    fn more_failures_than_the_named_one_were_in_flight_when_it_ended() {
        let named = Named { rule: "consecutive_failures", failures: 2 };
        let opened = |attempts: &[Attempt], failures| {
            let trip =
                Trip { at: at(100), rule: "consecutive_failures".to_owned(), failures, retry_at: at(30_100) };
            Trace { attempts: attempts.to_vec(), trip: Some(trip) }.opened_with(&named)
        };
        let two = [attempt(0, 0, 10), attempt(0, 1, 20)];
        assert!(opened(&two, 2));
        assert!(!opened(&two, 3), "nothing else was in flight");
        assert!(!opened(&two[..1], 1), "too early");
        let in_flight = [two[0], two[1], attempt(0, 15, 22)];
        assert!(opened(&in_flight, 2) && opened(&in_flight, 3));
        assert!(!opened(&in_flight, 4));
        let later = [two[0], two[1], attempt(0, 21, 22)];
        assert!(!opened(&later, 3), "it began after the failure that should have opened it");
    }

    #[test]
    fn what_comes_after_a_trip_is_not_the_throttles_doing() {
        let trip = Trip { at: at(100), rule: String::new(), failures: 5, retry_at: at(30_100) };
        let probe = Attempt { is_probe: true, ..attempt(0, 30_400, 30_401) };
        let trace = Trace { attempts: vec![attempt(0, 10, 90), probe], trip: Some(trip) };
        assert_eq!(trace.longest_hold(), Duration::from_millis(10));
        assert_eq!(trace.probe_late(), Some(Duration::from_millis(300)));
        assert_eq!(trace.opened_after(), Some(Duration::from_millis(90)));
    }
}
