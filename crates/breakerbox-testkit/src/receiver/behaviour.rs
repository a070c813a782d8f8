//! How an endpoint answers: with any status, late, never, with limited concurrency, or against the rules of HTTP.

use std::time::Duration;

/// How an endpoint answers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Behaviour {
    /// With a status, after a delay.
    Answer(Answer),
    /// Not at all, until the endpoint gets another behaviour.
    Hang,
    /// With 200 after a delay, up to a number of requests at once; further ones get a 503 at once.
    Limited {
        /// How many requests it takes at once.
        at_most: u32,
        /// How long each request takes.
        takes: Duration,
    },
    /// The first requests take long, each less than the one before, as on a server with cold caches.
    WarmUp {
        /// How long the first request takes.
        first: Duration,
        /// After how many requests the caches are warm.
        over: u32,
        /// How long each request takes from then on.
        then: Duration,
    },
    /// With 200 at once; after a delay it closes the connection, also if another request has come.
    Closes {
        /// The delay before it closes.
        after: Duration,
    },
    /// Against the rules of HTTP.
    Hostile(Hostile),
}

/// An answer without a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The delay before the answer.
    pub takes: Duration,
    /// The `Retry-After` header, in seconds. None: no such header.
    pub retry_after: Option<u32>,
}

/// Answers that no server should give.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Hostile {
    /// A valid answer, one byte a second.
    Drip,
    /// A body of 10 GB.
    Flood,
    /// A small gzip body that unpacks to gigabytes.
    GzipBomb,
    /// Headers without end.
    HeaderFlood,
    /// Bytes that are not HTTP.
    Garbage,
    /// Half of an answer, then the end of the connection.
    HalfClose,
    /// A connection reset instead of an answer.
    Reset,
}

impl Hostile {
    /// All hostile answers.
    pub const ALL: [Self; 7] = [
        Self::Drip,
        Self::Flood,
        Self::GzipBomb,
        Self::HeaderFlood,
        Self::Garbage,
        Self::HalfClose,
        Self::Reset,
    ];

    /// Returns its name, for output and paths.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drip => "drip",
            Self::Flood => "flood",
            Self::GzipBomb => "gzip-bomb",
            Self::HeaderFlood => "header-flood",
            Self::Garbage => "garbage",
            Self::HalfClose => "half-close",
            Self::Reset => "reset",
        }
    }
}

impl Behaviour {
    /// Answers 200 at once.
    pub const HEALTHY: Self = Self::status(200);
    /// Answers 503 at once.
    pub const FAILING: Self = Self::status(503);
    /// Answers 410 at once.
    pub const GONE: Self = Self::status(410);

    /// Answers with this status at once.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self::Answer(Answer { status, takes: Duration::ZERO, retry_after: None })
    }

    /// Answers with this status after a delay.
    #[must_use]
    pub const fn after(status: u16, takes: Duration) -> Self {
        Self::Answer(Answer { status, takes, retry_after: None })
    }

    /// Answers with this status at once, and with `Retry-After` in seconds.
    #[must_use]
    pub const fn come_back(status: u16, seconds: u32) -> Self {
        Self::Answer(Answer { status, takes: Duration::ZERO, retry_after: Some(seconds) })
    }

    /// Returns the answer to a request, or None if there is none. `number` requests came before it, and `beside` are
    /// in flight with it.
    pub(super) fn answer(&self, number: u64, beside: u32) -> Option<Answer> {
        let ok = |takes| Some(Answer { status: 200, takes, retry_after: None });
        match *self {
            Self::Answer(answer) => Some(answer),
            Self::Limited { at_most, takes } if beside < at_most => ok(takes),
            Self::Limited { .. } => Some(Answer { status: 503, takes: Duration::ZERO, retry_after: None }),
            Self::WarmUp { first, over, then } => {
                let left = u64::from(over).saturating_sub(number);
                let share = u32::try_from(left).unwrap_or(over);
                ok(then + first.saturating_sub(then) * share / over.max(1))
            }
            Self::Closes { .. } => ok(Duration::ZERO),
            Self::Hang | Self::Hostile(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn limits_and_warm_ups() {
        let limited = Behaviour::Limited { at_most: 2, takes: MS };
        let status = |beside| limited.answer(0, beside).map(|answer| answer.status);
        assert_eq!([status(0), status(1), status(2)], [Some(200), Some(200), Some(503)]);
        let warm_up = Behaviour::WarmUp { first: 11 * MS, over: 10, then: MS };
        let takes = |number| warm_up.answer(number, 0).map(|answer| answer.takes);
        assert_eq!(
            [takes(0), takes(5), takes(10), takes(99)],
            [Some(11 * MS), Some(6 * MS), Some(MS), Some(MS)]
        );
        assert_eq!(Behaviour::Hang.answer(0, 0), None);
    }
}
