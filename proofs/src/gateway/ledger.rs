//! The ledger: the state of every event that was accepted (202). An event is delivered if the receiver has seen
//! it; every other event must be known to the gateway as waiting, failed or cancelled.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use breakerbox_testkit::gateway::Api;
use breakerbox_testkit::load::Accepted;
use breakerbox_testkit::receiver::{IdHash, Receiver, Visit};
use serde_json::Value;

/// The interval at which the receiver's records are checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The number of accepted events in each state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// The number of events that were accepted (202).
    pub accepted: usize,
    /// The number of deliveries to which the receiver responded with success.
    pub delivered: usize,
    /// The number of waiting deliveries: pending, in flight, retrying or parked.
    pub waiting: usize,
    /// The number of dead letters.
    pub failed: usize,
    /// The number of cancelled deliveries.
    pub cancelled: usize,
    /// A message for each lost event.
    pub lost: Vec<String>,
}

/// Waits until all of these events have arrived at each of the paths, or the timeout expires. Returns the
/// events that are missing.
pub fn wait_for_all<'a>(
    receiver: &Receiver,
    accepted: &'a [Accepted],
    paths: &[String],
    limit: Duration,
) -> Vec<&'a Accepted> {
    let end = Instant::now() + limit;
    loop {
        let missing = missing(receiver, accepted, paths);
        if missing.is_empty() || Instant::now() >= end {
            return missing;
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn missing<'a>(receiver: &Receiver, accepted: &'a [Accepted], paths: &[String]) -> Vec<&'a Accepted> {
    let wanted: HashSet<u32> = paths.iter().map(|path| receiver.number(path)).collect();
    let delivered: HashSet<(IdHash, u32)> = receiver.with_visits(|visits| {
        let good = visits.iter().filter(|visit| visit.is_delivered() && wanted.contains(&visit.endpoint));
        good.map(|visit| (visit.id, visit.endpoint)).collect()
    });
    let is_missing = |event: &&Accepted| {
        let id = IdHash::of(event.id.as_bytes());
        wanted.iter().any(|endpoint| !delivered.contains(&(id, *endpoint)))
    };
    accepted.iter().filter(is_missing).collect()
}

/// Determines the state of all events, each of which goes to all of these paths. Asks the gateway about events
/// that the receiver has not seen.
///
/// # Errors
/// Returns an error if the gateway does not respond.
pub fn account(receiver: &Receiver, api: &Api, accepted: &[Accepted], paths: &[String]) -> Result<Ledger> {
    let missing = missing(receiver, accepted, paths);
    let mut ledger = Ledger { accepted: accepted.len(), ..Ledger::default() };
    ledger.delivered = (accepted.len() - missing.len()) * paths.len();
    for event in missing {
        let (status, answer) = api.request(&reqwest::Method::GET, &deliveries_of(&event.id), None)?;
        let deliveries = answer.get("items").and_then(Value::as_array);
        let states: Vec<_> = deliveries.into_iter().flatten().map(state).collect();
        if status != 200 || states.len() < paths.len() {
            ledger.lost.push(format!("{} has {} deliveries: {status} {answer}", event.id, states.len()));
        }
        for state in states {
            match state {
                "pending" | "in_flight" | "retrying" => ledger.waiting += 1,
                "failed" => ledger.failed += 1,
                "cancelled" => ledger.cancelled += 1,
                // The receiver must have seen it; otherwise the gateway is wrong.
                "delivered" if seen_somewhere(receiver, event, paths) => ledger.delivered += 1,
                other => ledger.lost.push(format!("{} is said to be {other}", event.id)),
            }
        }
    }
    Ok(ledger)
}

fn deliveries_of(event: &str) -> String {
    format!("/v1/deliveries?event={event}")
}

fn state(delivery: &Value) -> &str {
    delivery.get("state").and_then(Value::as_str).unwrap_or("unknown")
}

fn seen_somewhere(receiver: &Receiver, event: &Accepted, paths: &[String]) -> bool {
    let (id, numbers) = (IdHash::of(event.id.as_bytes()), paths.iter().map(|path| receiver.number(path)));
    let numbers: Vec<_> = numbers.collect();
    let is_it = |visit: &Visit| visit.id == id && visit.is_delivered() && numbers.contains(&visit.endpoint);
    receiver.with_visits(|visits| visits.iter().any(is_it))
}

/// Statistics about deliveries that were sent more than once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Duplicates {
    /// The number of duplicate requests.
    pub count: usize,
    /// The maximum number of duplicates that a single interruption explains.
    pub most_at_once: usize,
    /// The maximum time between a delivery's first request and the interruption that made the gateway send it
    /// again.
    pub oldest: Duration,
    /// The number of duplicates that no interruption explains.
    pub unexplained: usize,
}

/// A period without a gateway, relative to the receiver's start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interruption {
    /// When the gateway was killed or stopped.
    pub began: Duration,
    /// When the next gateway was started. Requests that the receiver read before this time were sent by the
    /// previous gateway.
    pub over: Duration,
}

/// Counts requests that arrived more than once, and finds the interruption that explains each duplicate.
#[must_use]
pub fn duplicates(receiver: &Receiver, interruptions: &[Interruption]) -> Duplicates {
    let mut times: HashMap<(IdHash, u32), Vec<Duration>> = HashMap::new();
    receiver.with_visits(|visits| {
        for visit in visits {
            times.entry((visit.id, visit.endpoint)).or_default().push(visit.at());
        }
    });
    let (mut found, mut by_interruption) = (Duplicates::default(), HashMap::<Interruption, usize>::new());
    for pair in times.values().flat_map(|times| times.windows(2)) {
        found.count += 1;
        match interruptions.iter().find(|time| pair[0] <= time.over && time.began <= pair[1]) {
            Some(time) => {
                *by_interruption.entry(*time).or_default() += 1;
                found.oldest = found.oldest.max(time.began.saturating_sub(pair[0]));
            }
            None => found.unexplained += 1,
        }
    }
    found.most_at_once = by_interruption.values().copied().max().unwrap_or(0);
    found
}
