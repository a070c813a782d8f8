//! The result of a load test: responses by status, latencies, and the IDs of accepted events.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::receiver::latencies;

/// An event that the gateway accepted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Accepted {
    /// The event's ID.
    pub id: Box<str>,
    /// The number of the request that submitted the event.
    pub number: u64,
}

/// The result of a load test.
#[derive(Clone, Debug)]
pub struct Report {
    /// The number of responses by HTTP status.
    pub answers: BTreeMap<u16, u64>,
    /// The number of requests without a response. Whether the gateway accepted these requests is unknown.
    pub unanswered: u64,
    /// The first response that was not a success, or the first error.
    pub first_refusal: Option<String>,
    /// The latencies of successful requests in microseconds, from the scheduled start to the response.
    pub latencies: Histogram<u64>,
    /// The accepted events, if [`Load::keep_ids`](super::Load::keep_ids) is set.
    pub accepted: Vec<Accepted>,
    /// The time from the first request to the last response.
    pub took: Duration,
    /// The CPU time that the load generator used.
    pub cpu: Duration,
}

/// The maximum number of bytes of a response that are quoted in a message.
const SHOWN: usize = 300;

impl Report {
    pub(super) fn new() -> Self {
        Self {
            answers: BTreeMap::new(),
            unanswered: 0,
            first_refusal: None,
            latencies: latencies(),
            accepted: Vec::new(),
            took: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }

    /// Returns the number of successful responses.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.answers.range(200..300).map(|(_, count)| count).sum()
    }

    /// Returns the number of requests that got an unsuccessful response, or no response.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.answers.values().sum::<u64>() - self.successes() + self.unanswered
    }

    /// Returns the number of successes per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn rate(&self) -> f64 {
        self.successes() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Returns the latency at this percentile (0 to 100).
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        percentile(&self.latencies, percent)
    }

    pub(super) fn note_answer(
        &mut self,
        number: u64,
        status: u16,
        latency: Duration,
        body: &[u8],
        ids: bool,
    ) {
        *self.answers.entry(status).or_default() += 1;
        if (200..300).contains(&status) {
            self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
            if ids {
                self.accepted.extend(ids_in(body).map(|id| Accepted { id: id.into(), number }));
            }
        } else if self.first_refusal.is_none() {
            let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
            self.first_refusal = Some(format!("{status} {text}"));
        }
    }

    pub(super) fn note_unanswered(&mut self, error: &std::io::Error) {
        self.unanswered += 1;
        self.first_refusal.get_or_insert_with(|| error.to_string());
    }

    pub(super) fn add(&mut self, other: Self) {
        for (status, count) in other.answers {
            *self.answers.entry(status).or_default() += count;
        }
        self.unanswered += other.unanswered;
        self.first_refusal = self.first_refusal.take().or(other.first_refusal);
        // The histograms have the same bounds, so this can't fail.
        let _ = self.latencies.add(other.latencies);
        self.accepted.extend(other.accepted);
    }
}

/// Returns a percentile (0 to 100) of latencies in microseconds.
#[must_use]
pub fn percentile(latencies: &Histogram<u64>, percent: f64) -> Duration {
    Duration::from_micros(latencies.value_at_quantile(percent / 100.0))
}

/// Returns the event IDs in a response, which are the quoted strings that start with `evt_`.
fn ids_in(body: &[u8]) -> impl Iterator<Item = &str> {
    let text = str::from_utf8(body).unwrap_or("");
    text.split('"').filter(|word| word.starts_with("evt_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_ids_and_counts_answers() {
        let mut report = Report::new();
        let ms = Duration::from_millis(1);
        report.note_answer(1, 202, ms, br#"{"id":"evt_1","deliveries":1}"#, true);
        report.note_answer(2, 202, ms, br#"{"events":[{"id":"evt_2"},{"id":"evt_3"}]}"#, true);
        report.note_answer(3, 429, ms, b"slow down", true);
        report.note_unanswered(&std::io::ErrorKind::ConnectionReset.into());
        let ids: Vec<_> = report.accepted.iter().map(|accepted| (&*accepted.id, accepted.number)).collect();
        assert_eq!(ids, [("evt_1", 1), ("evt_2", 2), ("evt_3", 2)]);
        assert_eq!((report.successes(), report.failures(), report.latencies.len()), (2, 2, 2));
        assert_eq!(report.first_refusal.as_deref(), Some("429 slow down"));
    }
}
