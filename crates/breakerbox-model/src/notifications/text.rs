//! The text of a notification: a title and a few lines that state which endpoint, since when, why, what happens next,
//! and what to do. Pure. It contains no secrets: of an endpoint its id, of a URL no more than its origin.

use std::time::Duration;

use breakerbox_core::format_duration;

use super::notice::{
    CircuitFacts, Counted, Disabled, News, Notice, Recovered, Stopped, Tripped, Warned, Why,
};
use crate::objects::Moment;

/// The text of a notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// One line.
    pub title: String,
    /// A few lines.
    pub body: String,
}

impl Notice {
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
                "the store of circuits answers again".into(),
                vec![
                    match since {
                        Some(since) => format!("Since: {}. It did not answer since {since}.", at(self)),
                        None => format!("Since: {}.", at(self)),
                    },
                    "What happens next: all processes decide together again.".into(),
                    "What to do: nothing.".into(),
                ],
            ),
            News::DatabaseLost { error } => database_lost(error, self),
            News::DatabaseBack { since } => (
                "the database takes writes again".into(),
                vec![
                    format!("Since: {}. It took none since {since}.", at(self)),
                    "What happens next: events are accepted and delivered again.".into(),
                    "What to do: nothing.".into(),
                ],
            ),
            News::DeadLetters { count, limit } => dead_letters(tenant, *count, *limit, self),
            News::ReminderStopped(news) => stopped(news, self),
            News::Test {} => (
                "a test: notices arrive here".into(),
                vec!["Somebody tries this target. Nothing happened, and there is nothing to do.".into()],
            ),
        };
        Text { title: format!("{tenant}: {title}"), body: lines.join("\n") }
    }
}

fn at(notice: &Notice) -> crate::objects::Moment {
    crate::objects::Moment(notice.at)
}

fn span(millis: u64) -> String {
    format_duration(Duration::from_millis(millis))
}

/// Returns a short name of the failing destination.
fn place(circuit: &CircuitFacts) -> String {
    let whose = if circuit.purpose == "reminders" { "reminders" } else { "deliveries" };
    match &circuit.place {
        Some(place) if circuit.purpose == "reminders" => format!("{place} (reminders)"),
        Some(place) => place.clone(),
        None => format!("all {whose}"),
    }
}

/// Returns the line that states the subject.
fn which(circuit: &CircuitFacts) -> String {
    let mut line = match (circuit.by.as_str(), &circuit.place) {
        ("host", Some(host)) => format!("Which: all endpoints on {host}"),
        (_, Some(url)) => format!("Which: {url}"),
        _ => format!("Which: all {} of the tenant, which share one circuit", circuit.purpose),
    };
    if !circuit.endpoints.is_empty() {
        line += &format!("; {}", circuit.endpoints.join(", "));
        if circuit.more_endpoints > 0 {
            line += &format!(" and {} more", circuit.more_endpoints);
        }
    }
    if line.ends_with("...") { line } else { line + "." }
}

/// Returns what waits while a circuit is not closed.
fn parked(circuit: &CircuitFacts) -> &'static str {
    match circuit.purpose.as_str() {
        "reminders" => "runs are parked; none is dropped",
        _ => "deliveries are parked; none is lost, and none uses up an attempt",
    }
}

/// Returns where to find details. The id of a circuit of a URL is left out, because it contains the URL.
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

/// Returns how to enable a disabled circuit.
fn enable(circuit: &CircuitFacts, tenant: &str) -> String {
    match (&circuit.id, circuit.endpoints.first()) {
        (Some(id), _) => {
            format!("`breakerbox circuits enable {id} --reason TEXT`, or POST /v1/circuits/{id}/enable")
        }
        (None, Some(endpoint)) => {
            format!("`breakerbox endpoints enable {endpoint}`, or POST /v1/endpoints/{endpoint}/enable")
        }
        (None, None) => format!(
            "enable the circuit with the fingerprint {}, which `breakerbox circuits list --tenant {tenant}` and \
             GET /v1/circuits?tenant={tenant} show",
            circuit.fingerprint
        ),
    }
}

fn trip(news: &Tripped, tenant: &str) -> (String, Vec<String>) {
    let circuit = &news.circuit;
    let title = match &circuit.place {
        Some(_) => format!("{} fails; its circuit is open", place(circuit)),
        None => format!("{} fail; their circuit is open", place(circuit)),
    };
    let mut next = format!("What happens next: {}.", parked(circuit));
    if let Some(retry_at) = news.retry_at {
        let times = if news.probes == 1 {
            "when it succeeds".to_owned()
        } else {
            format!("when {} in a row have succeeded", news.probes)
        };
        next += &format!(
            " From {retry_at} on one call at a time probes; {times}, the circuit closes and what is parked is sent, bit by bit."
        );
    }
    if let Some(gives_up) = news.gives_up {
        let silence = match gives_up.silence_ms {
            0 => String::new(),
            millis => format!(" and {} without a success", span(millis)),
        };
        next +=
            &format!(" It is disabled at {} trips{silence}; this was number {}.", gives_up.trips, news.trips);
    }
    let why = news
        .why
        .as_ref()
        .map_or_else(|| "it opened while nobody could write down why".to_owned(), Why::sentence);
    let lines = vec![
        which(circuit),
        format!("Since: {}.", news.since),
        format!("Why: {why}."),
        next,
        format!(
            "What to do: look at what it answers ({}), and mend it there. The circuit closes by itself.",
            look(circuit, tenant)
        ),
    ];
    (title, lines)
}

fn recovery(news: &Recovered, tenant: &str, notice: &Notice) -> (String, Vec<String>) {
    let circuit = &news.circuit;
    let how_long = news.since.map_or_else(String::new, |since| {
        let away = Duration::from_secs(notice.at.since(since.0).as_secs().max(1));
        format!(" It was not since {since}, for {}.", format_duration(away))
    });
    let lines = vec![
        which(circuit),
        format!("Since: {} the circuit is closed.{how_long}", at(notice)),
        "Why: its probes succeeded.".into(),
        "What happens next: what is parked is sent, a little at first and then more.".into(),
        format!("What to do: nothing. To watch it: {}.", look(circuit, tenant)),
    ];
    let title = match &circuit.place {
        Some(_) => format!("{} is back; its circuit is closed", place(circuit)),
        None => format!("{} are back; their circuit is closed", place(circuit)),
    };
    (title, lines)
}

fn disabled(news: &Disabled, tenant: &str, notice: &Notice) -> (String, Vec<String>) {
    if let Some(circuit) = &news.circuit {
        let lines = vec![
            which(circuit),
            format!("Since: {}.", latest_success(news.last_success_at)),
            format!("Why: {}.", news.reason),
            format!(
                "What happens next: nothing is sent, and nobody probes. Until somebody enables it, {}.",
                parked(circuit)
            ),
            format!(
                "What to do: once it is mended, {}. What is parked is sent then.",
                enable(circuit, tenant)
            ),
        ];
        let title = match &circuit.place {
            Some(_) => format!("{} was given up; its circuit is disabled", place(circuit)),
            None => format!("{} were given up; their circuit is disabled", place(circuit)),
        };
        return (title, lines);
    }
    let endpoint = news.endpoint.as_deref().unwrap_or_default();
    let host = news.host.as_deref().unwrap_or("an endpoint");
    let lines = vec![
        format!("Which: endpoint {endpoint} on {host}."),
        format!("Since: {}.", at(notice)),
        format!("Why: {}.", news.reason),
        "What happens next: nothing is sent there. What waits for it is parked; none is lost. The delivery that was answered so has failed.".into(),
        format!(
            "What to do: if it is really gone, `breakerbox endpoints delete {endpoint}`. If not, `breakerbox endpoints enable {endpoint}`, or POST /v1/endpoints/{endpoint}/enable.",
        ),
    ];
    (format!("the endpoint on {host} is gone, and disabled"), lines)
}

fn latest_success(at: Option<Moment>) -> String {
    at.map_or("there was no success yet".to_owned(), |at| format!("the latest success was at {at}"))
}

fn warning(news: &Warned, tenant: &str) -> (String, Vec<String>) {
    let circuit = &news.circuit;
    let trips = if news.trips < news.trips_needed {
        format!(" if it has tripped {} times by then ({} so far)", news.trips_needed, news.trips)
    } else {
        String::new()
    };
    let next_probe =
        news.retry_at.map(|retry_at| format!(" The next probe is at {retry_at}.")).unwrap_or_default();
    let lines = vec![
        which(circuit),
        match news.failing_since {
            Some(since) => {
                format!("Since: it fails since {since}; {}.", latest_success(news.last_success_at))
            }
            None => format!("Since: {}.", latest_success(news.last_success_at)),
        },
        "Why: half of the time has passed after which it is given up.".into(),
        format!(
            "What happens next: {}.{next_probe} A probe that fails from {} on disables it{trips}: then nobody probes any more.",
            parked(circuit),
            news.disabled_at
        ),
        format!(
            "What to do: mend it before. One success is enough. To look at it: {}.",
            look(circuit, tenant)
        ),
    ];
    (format!("{} will be disabled at {}", place(circuit), news.disabled_at), lines)
}

fn store_lost(error: &str, notice: &Notice) -> (String, Vec<String>) {
    let lines = vec![
        format!("Since: {}.", at(notice)),
        format!("Why: {error}."),
        "What happens next: each process goes on with the circuits as it knows them. Nothing is lost; circuits are not shared, and after a restart of the gateway what changed meanwhile may not be known.".into(),
        "What to do: look at the disk or the server of the store, and at GET /readyz. There will be another notice when it answers.".into(),
    ];
    ("the store of circuits does not answer".into(), lines)
}

fn database_lost(error: &str, notice: &Notice) -> (String, Vec<String>) {
    let lines = vec![
        format!("Since: {}.", at(notice)),
        format!("Why: {error}."),
        "What happens next: requests that write are refused, and no delivery is begun. What was accepted before is kept. The gateway tries to write every few seconds.".into(),
        "What to do: look at the disk and the data folder, and at GET /readyz. Another notification follows when writes succeed.".into(),
    ];
    ("the database takes no writes".into(), lines)
}

fn dead_letters(tenant: &str, count: u64, limit: u64, notice: &Notice) -> (String, Vec<String>) {
    let title = format!("{count} deliveries failed for good within an hour");
    let lines = vec![
        format!("Since: within the hour before {}.", at(notice)),
        format!(
            "Why: each was refused by its receiver, used up its attempts, or waited for too long. {limit} or more in an hour are told of."
        ),
        "What happens next: they are kept as dead letters, and are not tried again by themselves.".into(),
        format!(
            "What to do: see why with `breakerbox deliveries list --tenant {tenant} --state failed`, or GET /v1/deliveries?tenant={tenant}&state=failed. Once that is mended: `breakerbox deliveries resend-all --tenant {tenant}`, or POST /v1/resends.",
        ),
    ];
    (title, lines)
}

fn stopped(news: &Stopped, notice: &Notice) -> (String, Vec<String>) {
    let reminder = &news.reminder;
    let lines = vec![
        format!("Which: reminder {reminder}, which calls {}.", news.host),
        format!("Since: {}, run {}.", at(notice), news.run),
        format!("Why: {}.", news.reason),
        "What happens next: it does not fire again. It is kept, with its history.".into(),
        format!(
            "What to do: see its runs with `breakerbox reminders runs {reminder}`, or GET /v1/reminders/{reminder}/runs. Once what it calls is mended: `breakerbox reminders resume {reminder}`, or POST /v1/reminders/{reminder}/resume."
        ),
    ];
    (format!("the reminder {reminder} has stopped"), lines)
}

impl Why {
    /// Returns a sentence about the rule that tripped the circuit, with the numbers.
    #[must_use]
    pub fn sentence(&self) -> String {
        let window = span(self.window_ms);
        let (rule, limit, least) = (&self.rule, self.limit, self.min_calls);
        let Some(Counted { calls, failures, slow, consecutive_failures, mean_latency_ms }) = self.counted
        else {
            return format!("the rule {rule} held, whose limit is {limit}, over {window}");
        };
        let slow_call = span(self.slow_call_ms.unwrap_or_default());
        match rule.as_str() {
            "failure_rate" => {
                format!(
                    "{failures} of {calls} calls within {window} failed; {limit} % of {least} or more is the limit (failure_rate)"
                )
            }
            "failures" => format!("{failures} calls within {window} failed; {limit} is the limit (failures)"),
            "consecutive_failures" => format!(
                "{consecutive_failures} calls failed one after the other; {limit} is the limit (consecutive_failures)"
            ),
            "mean_latency" => format!(
                "{calls} calls within {window} took {} on average; {} for {least} or more is the limit (mean_latency)",
                span(mean_latency_ms),
                span(limit)
            ),
            "slow_rate" => format!(
                "{slow} of {calls} calls within {window} took {slow_call} or longer; {limit} % of {least} or more is the limit (slow_rate)"
            ),
            other => format!("the rule {other} held over {window}"),
        }
    }
}
