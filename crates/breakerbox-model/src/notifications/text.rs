//! The text of a notification: a title and a few lines that state which endpoint is affected, since when, why, what
//! happens next, and what to do. It contains no secrets: only endpoint ids, and URLs cut to their origin.

use std::time::Duration;

use breakerbox_core::format_duration;

use super::notification::{
    CircuitFacts, Counted, Disabled, LastResult, News, Notification, Recovered, Stopped, Tripped, Warned, Why,
};
use crate::values::Moment;

/// The human-readable text of a notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// The title: a single line.
    pub title: String,
    /// The body: a few lines.
    pub body: String,
}

impl Notification {
    /// Returns the text of the notification.
    #[must_use]
    pub fn text(&self) -> Text {
        let tenant = self.tenant.as_ref().map_or("the gateway", |tenant| tenant.as_str());
        let news = self.news.clone().redacted();
        let (title, lines) = match &news {
            News::Trip(news) => trip(news, tenant),
            News::Recovery(news) => recovery(news, tenant, self),
            News::Disabled(news) => disabled(news, tenant, self),
            News::DisableWarning(news) => warning(news, tenant),
            News::StoreLost { error } => store_lost(error, self),
            News::StoreBack { since } => (
                "the circuit store responds again".into(),
                vec![
                    match since {
                        Some(since) => format!("Since: {}. It did not respond from {since} on.", at(self)),
                        None => format!("Since: {}.", at(self)),
                    },
                    "What happens next: all processes share circuits again.".into(),
                    "What to do: nothing.".into(),
                ],
            ),
            News::DatabaseLost { error } => database_lost(error, self),
            News::DatabaseBack { since } => (
                "the database accepts writes again".into(),
                vec![
                    format!("Since: {}. It accepted none from {since} on.", at(self)),
                    "What happens next: events are accepted and delivered again.".into(),
                    "What to do: nothing.".into(),
                ],
            ),
            News::NetworkLost { lost, destinations, hosts } => {
                network_lost(*lost, *destinations, *hosts, self)
            }
            News::NetworkBack { since, end } => network_back(*since, end, self),
            News::DeadLetters { count, limit } => dead_letters(tenant, *count, *limit, self),
            News::ReminderStopped(news) => stopped(news, self),
            News::Test {} => (
                "test notification".into(),
                vec!["A client requested this test. Nothing happened, and there is nothing to do.".into()],
            ),
        };
        Text { title: format!("{tenant}: {title}"), body: lines.join("\n") }
    }
}

fn at(notification: &Notification) -> crate::values::Moment {
    crate::values::Moment(notification.at)
}

fn span(millis: u64) -> String {
    format_duration(Duration::from_millis(millis))
}

/// Returns the destination's name in titles, such as the host or `all deliveries`.
fn destination(circuit: &CircuitFacts) -> String {
    let is_for_reminders = circuit.purpose == "reminders";
    match &circuit.destination {
        Some(destination) if is_for_reminders => format!("{destination} (reminders)"),
        Some(destination) => destination.clone(),
        None if is_for_reminders => "all reminders".into(),
        None => "all deliveries".into(),
    }
}

/// Returns the title: the destination, followed by `one` or, if the circuit is for a whole tenant, by `all`.
fn titled(circuit: &CircuitFacts, one: &str, all: &str) -> String {
    let state = if circuit.destination.is_some() { one } else { all };
    format!("{} {state}", destination(circuit))
}

/// Returns the line of the text that names the affected URL, host or tenant, and the endpoints.
fn affected(circuit: &CircuitFacts) -> String {
    let mut line = match (circuit.circuit_by.as_str(), &circuit.destination) {
        ("host", Some(host)) => format!("Affected: all endpoints on {host}"),
        (_, Some(url)) => format!("Affected: {url}"),
        _ => format!("Affected: all {} of the tenant, which share one circuit", circuit.purpose),
    };
    if !circuit.endpoints.is_empty() {
        line += &format!("; {}", circuit.endpoints.join(", "));
        if circuit.more_endpoints > 0 {
            line += &format!(" and {} more", circuit.more_endpoints);
        }
    }
    if line.ends_with("...") { line } else { line + "." }
}

/// Returns the line of the text that states the latest response, or why there was none. Empty if neither is known.
fn latest(last: &LastResult) -> Option<String> {
    match (last.last_status, &last.last_error) {
        (Some(status), _) => Some(format!("Latest response: status {status}.")),
        (None, Some(error)) => Some(format!("Latest response: none ({error}).")),
        (None, None) => None,
    }
}

/// Returns what waits while the circuit is not closed: `runs` or `deliveries`.
fn waiting(circuit: &CircuitFacts) -> &'static str {
    if circuit.purpose == "reminders" { "runs" } else { "deliveries" }
}

/// Returns a clause that says that runs or deliveries are parked while the circuit is not closed.
fn parked(circuit: &CircuitFacts) -> &'static str {
    match circuit.purpose.as_str() {
        "reminders" => "runs are parked; none is dropped",
        _ => "deliveries are parked; none is lost, and none uses an attempt",
    }
}

/// Returns a sentence on where to find details. The sentence omits the id of a circuit with a URL, because that id
/// contains the URL.
fn look(circuit: &CircuitFacts, tenant: &str) -> String {
    match (&circuit.id, circuit.endpoints.first()) {
        (Some(id), _) => format!("`breakerbox circuits show {id}`, or GET /v1/circuits/{id}"),
        (None, Some(endpoint)) => {
            format!("`breakerbox endpoints show {endpoint}`, or GET /v1/endpoints/{endpoint}")
        }
        (None, None) => format!(
            "the circuit with the fingerprint {} in `breakerbox circuits list --tenant {tenant}`, or in \
             GET /v1/circuits?tenant={tenant}",
            circuit.fingerprint
        ),
    }
}

/// Returns a sentence on how to enable a disabled circuit.
fn enable(circuit: &CircuitFacts, tenant: &str) -> String {
    match (&circuit.id, circuit.endpoints.first()) {
        (Some(id), _) => {
            format!("`breakerbox circuits enable {id} --reason TEXT`, or POST /v1/circuits/{id}/enable")
        }
        (None, Some(endpoint)) => {
            format!("`breakerbox endpoints enable {endpoint}`, or POST /v1/endpoints/{endpoint}/enable")
        }
        (None, None) => format!(
            "`breakerbox circuits list --tenant {tenant}` and GET /v1/circuits?tenant={tenant} show its id beside \
             the fingerprint {}",
            circuit.fingerprint
        ),
    }
}

fn trip(news: &Tripped, tenant: &str) -> (String, Vec<String>) {
    let circuit = &news.circuit;
    let title = titled(circuit, "is failing; its circuit is open", "are failing; their circuit is open");
    let mut next = format!("What happens next: {}.", parked(circuit));
    if let Some(retry_at) = news.retry_at {
        let successes = match news.probes {
            1 => "one success".to_owned(),
            probes => format!("{probes} consecutive successes"),
        };
        next += &format!(
            " From {retry_at} on, one call at a time probes. After {successes} the circuit closes, and the parked {} are sent at a growing rate.",
            waiting(circuit)
        );
    }
    if let Some(conditions) = news.disables {
        let failing = match conditions.failing_ms {
            0 => String::new(),
            millis => format!(" and {} without a success", span(millis)),
        };
        next += &format!(
            " The circuit is disabled after {} trips{failing}; this was trip {}.",
            conditions.trips, news.trips
        );
    }
    let cause = news.cause.as_ref().map_or_else(|| "not recorded".to_owned(), Why::sentence);
    let mut lines = vec![affected(circuit), format!("Since: {}.", news.since), format!("Reason: {cause}.")];
    lines.extend(latest(&news.last));
    lines.push(next);
    lines.push(format!(
        "What to do: fix the receiver. The circuit then closes by itself. For its state and its latest response, see {}.",
        look(circuit, tenant)
    ));
    (title, lines)
}

fn recovery(news: &Recovered, tenant: &str, notification: &Notification) -> (String, Vec<String>) {
    let circuit = &news.circuit;
    let outage = news.since.map_or_else(String::new, |since| {
        let lasted = Duration::from_secs(notification.at.since(since.0).as_secs().max(1));
        format!(" The outage began at {since} and lasted {}.", format_duration(lasted))
    });
    let lines = vec![
        affected(circuit),
        format!("Since: {}.{outage}", at(notification)),
        "Reason: the probes succeeded.".into(),
        format!("What happens next: the parked {} are sent at a growing rate.", waiting(circuit)),
        format!("What to do: nothing. For details, see {}.", look(circuit, tenant)),
    ];
    let title =
        titled(circuit, "has recovered; its circuit is closed", "have recovered; their circuit is closed");
    (title, lines)
}

fn disabled(news: &Disabled, tenant: &str, notification: &Notification) -> (String, Vec<String>) {
    if let Some(circuit) = &news.circuit {
        let mut lines = vec![
            affected(circuit),
            format!("Since: {}; {}.", at(notification), latest_success(news.last_success_at)),
            format!("Reason: {}.", news.reason),
        ];
        lines.extend(latest(&news.last));
        lines.push(format!(
            "What happens next: nothing is sent, and nothing probes. Until the circuit is enabled, {}.",
            parked(circuit)
        ));
        lines.push(format!(
            "What to do: fix the receiver, then enable the circuit: {}. The parked {} are sent then.",
            enable(circuit, tenant),
            waiting(circuit)
        ));
        let title = titled(
            circuit,
            "keeps failing; its circuit is disabled",
            "keep failing; their circuit is disabled",
        );
        return (title, lines);
    }
    let endpoint = news.endpoint.as_deref().unwrap_or_default();
    let host = news.host.as_deref().unwrap_or("an unknown host");
    let lines = vec![
        format!("Affected: endpoint {endpoint} on {host}."),
        format!("Since: {}.", at(notification)),
        format!("Reason: {}.", news.reason),
        "What happens next: nothing is sent to the endpoint. Its waiting deliveries are parked; none is lost. The delivery that got this response has failed.".into(),
        format!(
            "What to do: if the endpoint is gone, delete it: `breakerbox endpoints delete {endpoint}`. Otherwise enable it: `breakerbox endpoints enable {endpoint}`, or POST /v1/endpoints/{endpoint}/enable.",
        ),
    ];
    (format!("the endpoint on {host} responded with 410 Gone and is disabled"), lines)
}

fn latest_success(at: Option<Moment>) -> String {
    at.map_or("there was no success yet".to_owned(), |at| format!("the latest success was at {at}"))
}

fn warning(news: &Warned, tenant: &str) -> (String, Vec<String>) {
    let circuit = &news.circuit;
    let trips = if news.trips < news.trips_needed {
        format!(", if it has tripped {} times by then ({} so far)", news.trips_needed, news.trips)
    } else {
        String::new()
    };
    let next_probe =
        news.retry_at.map(|retry_at| format!(" The next probe is at {retry_at}.")).unwrap_or_default();
    let mut lines = vec![
        affected(circuit),
        match news.failing_since {
            Some(since) => format!("Since: {since}; {}.", latest_success(news.last_success_at)),
            None => format!("Since: {}.", latest_success(news.last_success_at)),
        },
        "Reason: it has failed for half of the time after which it is disabled.".into(),
    ];
    lines.extend(latest(&news.last));
    lines.push(format!(
        "What happens next: {}.{next_probe} A probe that fails at {} or later disables the circuit{trips}. A disabled circuit is not probed.",
        parked(circuit),
        news.disabled_at
    ));
    lines.push(format!(
        "What to do: fix the receiver before then; one success is enough. For its state and its latest response, see {}.",
        look(circuit, tenant)
    ));
    (format!("{} will be disabled at {}", destination(circuit), news.disabled_at), lines)
}

fn store_lost(error: &str, notification: &Notification) -> (String, Vec<String>) {
    let lines = vec![
        format!("Since: {}.", at(notification)),
        format!("Reason: {error}."),
        "What happens next: each process continues with the circuits that it knows. No delivery is lost. Circuits are not shared, and changes of circuits meanwhile may be forgotten if the gateway restarts.".into(),
        "What to do: check the disk or the server of the circuit store, and GET /readyz. Another notification follows when the store responds.".into(),
    ];
    ("the circuit store does not respond".into(), lines)
}

fn database_lost(error: &str, notification: &Notification) -> (String, Vec<String>) {
    let lines = vec![
        format!("Since: {}.", at(notification)),
        format!("Reason: {error}."),
        "What happens next: requests that write are refused, and no delivery is started. Events that were accepted before are kept. The gateway tries to write every few seconds.".into(),
        "What to do: check the disk and the data directory, and GET /readyz. Another notification follows when writes succeed.".into(),
    ];
    ("the database accepts no writes".into(), lines)
}

fn network_lost(
    lost: u32,
    destinations: u32,
    hosts: u32,
    notification: &Notification,
) -> (String, Vec<String>) {
    let lines = vec![
        format!("Since: {}.", at(notification)),
        format!(
            "Reason: {lost} of {destinations} destinations on {hosts} hosts can't be reached: DNS failed, or no connection was established. When most fail at once, the fault is on the gateway's side."
        ),
        "What happens next: deliveries are parked. No circuit is disabled, and no tenant is notified. When destinations answer again, all circuits that opened meanwhile probe at once. If none does within 15 minutes, tenants are notified and circuits can be disabled as usual.".into(),
        "What to do: check the gateway's network, its DNS servers and the egress proxy, and GET /readyz. Another notification follows when it is over.".into(),
    ];
    ("most destinations can't be reached; the fault is on the gateway's side".into(), lines)
}

fn network_back(since: Moment, end: &str, notification: &Notification) -> (String, Vec<String>) {
    let lasted = Duration::from_secs(notification.at.since(since.0).as_secs().max(1));
    let (title, reason, next) = match end {
        "expired" => (
            "most destinations still can't be reached; they are treated as failed",
            "no destination has answered again for 15 minutes",
            "tenants are notified of the circuits that are open, and circuits can be disabled as usual",
        ),
        "refuted" => (
            "the fault is not on the gateway's side",
            "other destinations were called, and most answer",
            "tenants are notified of the circuits that stay open",
        ),
        _ => (
            "destinations can be reached again",
            "destinations that could not be reached answer again",
            "the circuits that opened meanwhile probe now, and parked deliveries are sent at a growing rate",
        ),
    };
    let to_do = match end {
        "expired" => "check the gateway's network, its DNS servers and the egress proxy once more",
        _ => "nothing",
    };
    let lines = vec![
        format!(
            "Since: {}. The outage began at {since} and lasted {}.",
            at(notification),
            format_duration(lasted)
        ),
        format!("Reason: {reason}."),
        format!("What happens next: {next}."),
        format!("What to do: {to_do}."),
    ];
    (title.into(), lines)
}

fn dead_letters(tenant: &str, count: u64, limit: u64, notification: &Notification) -> (String, Vec<String>) {
    let title = format!("{count} deliveries became dead letters within an hour");
    let lines = vec![
        format!("Since: within the hour before {}.", at(notification)),
        format!(
            "Reason: each was rejected by its receiver, used all of its attempts, or expired. The limit for a notification is {limit} in an hour."
        ),
        "What happens next: the dead letters are kept, and are not retried automatically.".into(),
        format!(
            "What to do: see the reasons with `breakerbox deliveries list --tenant {tenant} --state failed`, or GET /v1/deliveries?tenant={tenant}&state=failed. Then fix the receivers and resend: `breakerbox deliveries resend-all --tenant {tenant}`, or POST /v1/resends.",
        ),
    ];
    (title, lines)
}

fn stopped(news: &Stopped, notification: &Notification) -> (String, Vec<String>) {
    let reminder = &news.reminder;
    let mut lines = vec![
        format!("Affected: reminder {reminder}, which calls {}.", news.host),
        format!("Since: {}, run {}.", at(notification), news.run),
        format!("Reason: {}.", news.reason),
    ];
    lines.extend(latest(&news.last));
    lines.extend([
        "What happens next: the reminder does not fire again. It is kept, with its history.".into(),
        format!(
            "What to do: see its runs with `breakerbox reminders runs {reminder}`, or GET /v1/reminders/{reminder}/runs. Then fix the receiver and resume the reminder: `breakerbox reminders resume {reminder}`, or POST /v1/reminders/{reminder}/resume."
        ),
    ]);
    (format!("the reminder {reminder} has stopped"), lines)
}

impl Why {
    /// Returns a sentence about the rule that tripped the circuit, with its limit and the counts.
    #[must_use]
    pub fn sentence(&self) -> String {
        let window = span(self.window_ms);
        let (rule, limit, min_calls) = (&self.rule, self.limit, self.min_calls);
        let Some(Counted { calls, failures, slow, consecutive_failures, mean_latency_ms }) = self.counts
        else {
            return format!("the rule {rule} with the limit {limit} held over {window}");
        };
        let slow_call = span(self.slow_call_ms.unwrap_or_default());
        match rule.as_str() {
            "failure_rate" => format!(
                "{failures} of {calls} calls in {window} failed; the limit is {limit} % of at least {min_calls} calls (failure_rate)"
            ),
            "failures" => format!("{failures} calls in {window} failed; the limit is {limit} (failures)"),
            "consecutive_failures" => format!(
                "{consecutive_failures} consecutive calls failed; the limit is {limit} (consecutive_failures)"
            ),
            "mean_latency" => format!(
                "{calls} calls in {window} took {} on average; the limit is {} for at least {min_calls} calls (mean_latency)",
                span(mean_latency_ms),
                span(limit)
            ),
            "slow_rate" => format!(
                "{slow} of {calls} calls in {window} took {slow_call} or longer; the limit is {limit} % of at least {min_calls} calls (slow_rate)"
            ),
            other => format!("the rule {other} held over {window}"),
        }
    }
}
