//! `breakerbox deliveries watch` and `breakerbox circuits watch`: print changes as they happen.
//!
//! The gateway is asked at a bounded rate. If it can't be reached for a while, the command says so and goes on; it
//! fails only if the first request fails. What has been printed is never printed again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use breakerbox_core::format_duration;
use breakerbox_storage::records::MAX_PAGE;
use jiff::Timestamp;
use serde_json::Value;

use super::client::{Ask, Gateway, runtime};
use super::delivery_filter::Filter;
use super::failure::{Failure, printable};
use super::output::{Output, colour_of, colourful, cut, print};
use super::short_id::short_id;
use super::times::{clock, duration, relative, tenths, written};

/// The minimum interval between requests.
const SHORTEST: Duration = Duration::from_millis(200);
/// How far before the newest known change to ask again, because a gateway writes its history in batches.
const OVERLAP: Duration = Duration::from_secs(10);
/// The width of an event type or a circuit's key in a line.
const NAME: usize = 29;
/// The width of the cause of a circuit's change in a line.
const DETAILS: usize = 35;

/// Parses the interval between requests.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < SHORTEST {
        return Err(format!("must be at least {}", format_duration(SHORTEST)));
    }
    Ok(interval)
}

/// Prints the changes of deliveries.
pub(super) fn deliveries(
    gateway: &Gateway,
    filter: &Filter,
    every: Duration,
    output: Output,
) -> Result<(), Failure> {
    let ask = filter.listing(gateway)?.query("limit", Some(MAX_PAGE));
    let mut seen = Deliveries { shows_finished: filter.has_beginning(), ..Deliveries::default() };
    output.hint("watching deliveries; Ctrl-C stops");
    poll(gateway, every, output, || ask.clone(), |items| seen.news(items), delivery_line)
}

/// Prints the changes of circuits since `from`, and then each change as it happens.
pub(super) fn circuits(
    gateway: &Gateway,
    circuit: Option<&str>,
    tenant: Option<&str>,
    from: &str,
    every: Duration,
    output: Output,
) -> Result<(), Failure> {
    let from = from.parse().map_err(|error| Failure::Input(format!("--from: {error}")))?;
    let seen = RefCell::new(Changes::from(from));
    output.hint("watching circuits; Ctrl-C stops");
    let ask = || {
        Ask::get(&["changes"])
            .query("circuit", circuit)
            .query("tenant", tenant)
            .query("from", Some(seen.borrow().begin()))
            .query("limit", Some(MAX_PAGE))
    };
    poll(gateway, every, output, ask, |items| seen.borrow_mut().news(items), change_line)
}

/// Asks again and again, and prints what is new, until Ctrl-C.
fn poll(
    gateway: &Gateway,
    every: Duration,
    output: Output,
    ask: impl Fn() -> Ask,
    mut news: impl FnMut(Vec<Value>) -> Vec<Value>,
    line: fn(&Value, bool, Timestamp) -> String,
) -> Result<(), Failure> {
    let colour = colourful();
    let watch = async {
        let mut is_first = true;
        let mut is_lost = false;
        loop {
            match gateway.request_async(ask()).await {
                Ok(page) => {
                    if std::mem::take(&mut is_lost) {
                        output.hint("the gateway responds again");
                    }
                    let items = page.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
                    let now = Timestamp::now();
                    for item in news(items) {
                        let text = match (output.json, output.quiet) {
                            (true, _) => item.to_string(),
                            (_, true) => item
                                .get("id")
                                .or_else(|| item.get("circuit"))
                                .map_or_else(String::new, |id| id.as_str().unwrap_or_default().to_owned()),
                            _ => line(&item, colour, now),
                        };
                        print(&format!("{text}\n"))?;
                    }
                }
                Err(failure @ (Failure::Unreachable(_) | Failure::Environment(_))) if !is_first => {
                    if !std::mem::replace(&mut is_lost, true) {
                        output.hint(&format!("{}; trying again", failure.first_line()));
                    }
                }
                Err(failure) => return Err(failure),
            }
            is_first = false;
            tokio::time::sleep(every).await;
        }
    };
    runtime()?.block_on(async {
        tokio::select! {
            ended = watch => ended,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })
}

/// The deliveries that are known, and what was last printed about each.
#[derive(Default)]
struct Deliveries {
    known: HashMap<String, Value>,
    /// Whether to print deliveries that were finished before the first request.
    shows_finished: bool,
    is_begun: bool,
}

impl Deliveries {
    /// Returns the deliveries that have changed, the oldest first.
    fn news(&mut self, items: Vec<Value>) -> Vec<Value> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let mut news = vec![];
        let mut current = HashMap::with_capacity(items.len());
        for item in items.into_iter().rev() {
            let id = text(&item, "id").to_owned();
            let state = what_changes(&item);
            let is_old = is_first && !self.shows_finished && !item["finished_at"].is_null();
            if self.known.get(&id) != Some(&state) && !is_old {
                news.push(item);
            }
            current.insert(id, state);
        }
        // Deliveries that are no longer among the newest are forgotten, so memory stays bounded.
        self.known = current;
        news
    }
}

/// Returns the part of a delivery whose change is printed. What it waits for changes often, and for many at once.
fn what_changes(item: &Value) -> Value {
    ["state", "reason", "attempts", "last_status", "last_error"]
        .iter()
        .map(|name| item[*name].clone())
        .collect()
}

/// The changes that have been printed, as far back as they may be returned again.
struct Changes {
    newest: Timestamp,
    /// The time of each printed change, by its circuit and epoch.
    printed: HashMap<(String, u64), Timestamp>,
}

impl Changes {
    fn from(beginning: Timestamp) -> Self {
        Self { newest: beginning, printed: HashMap::new() }
    }

    fn begin(&self) -> String {
        written(self.earliest())
    }

    /// Returns the time from which changes are asked for.
    fn earliest(&self) -> Timestamp {
        let overlap = || self.newest.checked_sub(OVERLAP).unwrap_or(self.newest);
        if self.printed.is_empty() { self.newest } else { overlap() }
    }

    /// Returns the changes that have not been printed, the oldest first.
    fn news(&mut self, items: Vec<Value>) -> Vec<Value> {
        let mut news = vec![];
        for item in items.into_iter().rev() {
            let name = (text(&item, "circuit").to_owned(), item["epoch"].as_u64().unwrap_or_default());
            let at = text(&item, "at").parse().unwrap_or(self.newest);
            self.newest = self.newest.max(at);
            if self.printed.insert(name, at).is_none() {
                news.push(item);
            }
        }
        let earliest = self.earliest();
        self.printed.retain(|_, at| *at >= earliest);
        news
    }
}

fn text<'v>(item: &'v Value, name: &str) -> &'v str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a state in its colour, padded to the longest state.
fn painted(state: &str, colour: bool) -> String {
    let padded = format!("{state:<9}");
    match colour_of(state).filter(|_| colour) {
        Some(code) => format!("\u{1b}[{code}m{padded}\u{1b}[0m"),
        None => padded,
    }
}

/// Returns the latest result of an attempt, such as `500` or `connect: connection refused`. Empty if it is not known.
fn last(item: &Value) -> String {
    match (item["last_status"].as_u64(), item["last_error"].as_str()) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => cut(&printable(error.chars()), NAME),
        (None, None) => String::new(),
    }
}

fn delivery_line(item: &Value, colour: bool, now: Timestamp) -> String {
    let tries = match item["attempts"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => "1 try".to_owned(),
        Some(tries) => format!("{tries} tries"),
    };
    let until = text(item, "waits_until").parse::<Timestamp>().ok().map(|until| relative(until, now));
    let waits = match (text(item, "waits_for"), until) {
        ("", _) => String::new(),
        (what, None) => format!("waits for {what}"),
        (what, Some(until)) => format!("waits for {what}, {until}"),
    };
    let parts = [tries, last(item), text(item, "reason").to_owned(), waits];
    let details = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let kind = cut(&printable(text(item, "type").chars()), NAME);
    let line = format!(
        "{}  {}  {}  {kind}  {details}",
        clock(now),
        short_id(text(item, "id")),
        painted(text(item, "state"), colour)
    );
    line.trim_end().to_owned()
}

fn change_line(item: &Value, colour: bool, now: Timestamp) -> String {
    let moment = |name: &str| text(item, name).parse::<Timestamp>().ok();
    let at = moment("at").unwrap_or(now);
    let cool_off = moment("retry_at").map(|retry| tenths(retry.duration_since(at).unsigned_abs()));
    let details = [
        Some(text(item, "cause").to_owned()),
        cool_off.map(|span| format!("probe in {span}")),
        Some(text(item, "reason").to_owned()),
    ];
    let details =
        details.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let details = cut(&printable(details.chars()), DETAILS);
    format!(
        "{}  {} -> {}  {details:<DETAILS$}  {}",
        clock(at),
        painted(text(item, "from"), colour),
        painted(text(item, "to"), colour),
        cut(&printable(text(item, "key").chars()), NAME),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delivery(id: &str, state: &str, finished: bool) -> Value {
        let finished_at = finished.then_some("2026-11-18T10:00:00.000Z");
        json!({"id": id, "type": "a.b", "state": state, "attempts": 1, "finished_at": finished_at, "last_status": 500})
    }

    #[test]
    fn a_delivery_is_printed_when_it_changes() {
        let mut seen = Deliveries::default();
        let ids =
            |items: Vec<Value>| items.iter().map(|item| text(item, "id").to_owned()).collect::<Vec<_>>();
        let first = vec![delivery("b", "pending", false), delivery("a", "delivered", true)];
        assert_eq!(ids(seen.news(first.clone())), ["b"], "what was finished before is not news");
        assert_eq!(ids(seen.news(first)), [""; 0]);
        let second = vec![delivery("c", "delivered", true), delivery("b", "retrying", false)];
        assert_eq!(ids(seen.news(second)), ["b", "c"], "oldest first");
        let mut all = Deliveries { shows_finished: true, ..Deliveries::default() };
        assert_eq!(ids(all.news(vec![delivery("a", "delivered", true)])), ["a"]);
    }

    #[test]
    fn a_change_is_printed_once() {
        let change = |epoch: u64, at: &str| json!({"circuit": "cir_YQ", "epoch": epoch, "at": at});
        let mut seen = Changes::from("2026-11-18T10:00:00Z".parse().unwrap());
        assert_eq!(seen.begin(), "2026-11-18T10:00:00.000Z");
        let (one, two) = (change(1, "2026-11-18T10:00:20.000Z"), change(2, "2026-11-18T10:00:21.000Z"));
        assert_eq!(seen.news(vec![one.clone()]), std::slice::from_ref(&one));
        assert_eq!(seen.begin(), "2026-11-18T10:00:10.000Z");
        assert_eq!(seen.news(vec![two.clone(), one]), [two]);
    }

    #[test]
    fn lines_say_what_happened_and_what_comes_next() {
        let now: Timestamp = "2026-11-18T10:00:00.250Z".parse().unwrap();
        let mut item = delivery("dlv_01h5k2m8w4c7e", "retrying", false);
        item["waits_for"] = "retry".into();
        item["waits_until"] = "2026-11-18T10:00:05.250Z".into();
        assert_eq!(
            delivery_line(&item, false, now),
            "10:00:00  2m8w4c7e  retrying   a.b  1 try; 500; waits for retry, in 5s"
        );
        let change = json!({
            "at": "2026-11-18T10:00:00.000Z", "from": "closed", "to": "open", "cause": "consecutive_failures",
            "retry_at": "2026-11-18T10:00:01.100Z", "key": "default http://127.0.0.1:8081", "reason": null,
        });
        assert_eq!(
            change_line(&change, false, now),
            "10:00:00  closed    -> open       consecutive_failures, probe in 1.1s  default http://127.0.0.1:8081"
        );
    }

    #[test]
    fn the_gateway_is_not_asked_too_often() {
        assert!(interval("100ms").is_err());
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert!(interval("5").unwrap_err().contains("write \"5s\""));
    }
}
