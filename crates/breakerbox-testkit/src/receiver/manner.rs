//! How an endpoint answers: well, badly, late, never, only so much, or not by the rules of HTTP.

use std::time::Duration;

/// How an endpoint answers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Manner {
    /// With a status, after a while.
    Answer(Answer),
    /// Not before it is told to answer otherwise.
    Hang,
    /// So many at once, each after so long; whoever comes on top of that gets a 503 at once.
    Limited {
        /// How many at once.
        at_most: u32,
        /// How long each takes.
        takes: Duration,
    },
    /// The first requests take long, each less than the one before, as a server does whose caches are cold.
    WarmUp {
        /// How long the first takes.
        first: Duration,
        /// How many requests it takes to be warm.
        over: u32,
        /// How long each takes then.
        then: Duration,
    },
    /// With 200 at once; so long after that it closes the connection, also if another request has come.
    Closes {
        /// After how long.
        after: Duration,
    },
    /// Against the rules.
    Hostile(Hostile),
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// After how long.
    pub takes: Duration,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
}

/// What no server should do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Hostile {
    /// A good answer, a byte a second.
    Drip,
    /// A body of 10 GB.
    Flood,
    /// A small body that unpacks to gigabytes, if somebody unpacks it.
    GzipBomb,
    /// Headers without end.
    HeaderFlood,
    /// Not HTTP.
    Garbage,
    /// Half of an answer, and the end of the connection.
    HalfClose,
    /// A reset instead of an answer.
    Reset,
}

impl Hostile {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Drip,
        Self::Flood,
        Self::GzipBomb,
        Self::HeaderFlood,
        Self::Garbage,
        Self::HalfClose,
        Self::Reset,
    ];

    /// Its name.
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

impl Manner {
    /// 200, at once.
    pub const HEALTHY: Self = Self::status(200);
    /// 503, at once.
    pub const FAILING: Self = Self::status(503);
    /// 410, at once.
    pub const GONE: Self = Self::status(410);

    /// This status, at once.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self::Answer(Answer { status, takes: Duration::ZERO, retry_after: None })
    }

    /// This status, after so long.
    #[must_use]
    pub const fn after(status: u16, takes: Duration) -> Self {
        Self::Answer(Answer { status, takes, retry_after: None })
    }

    /// This status at once, and when to come back.
    #[must_use]
    pub const fn come_back(status: u16, seconds: u32) -> Self {
        Self::Answer(Answer { status, takes: Duration::ZERO, retry_after: Some(seconds) })
    }

    /// What it says to a request, if it says anything: `number` requests came before it, and `beside` are in flight with it.
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
        let limited = Manner::Limited { at_most: 2, takes: MS };
        let status = |beside| limited.answer(0, beside).map(|answer| answer.status);
        assert_eq!([status(0), status(1), status(2)], [Some(200), Some(200), Some(503)]);
        let warm_up = Manner::WarmUp { first: 11 * MS, over: 10, then: MS };
        let takes = |number| warm_up.answer(number, 0).map(|answer| answer.takes);
        assert_eq!(
            [takes(0), takes(5), takes(10), takes(99)],
            [Some(11 * MS), Some(6 * MS), Some(MS), Some(MS)]
        );
        assert_eq!(Manner::Hang.answer(0, 0), None);
    }
}
