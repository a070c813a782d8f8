//! The fields that define a schedule, for reminders and previews.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Cron, Repeat, Schedule, ScheduleError};

use crate::api::problem::{ApiResult, Code, Problem};
use crate::api::reading::fields::{Change, Moment, Span, Text};

/// The fields of a schedule, as in API requests and responses.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Times {
    at: Option<Timestamp>,
    every: Option<Duration>,
    cron: Option<String>,
    time_zone: Option<String>,
    ends_at: Option<Timestamp>,
    max_runs: Option<u32>,
}

/// A change to a schedule.
#[derive(Default)]
pub(super) struct TimesChange {
    pub(super) at: Change<Text<Moment>>,
    pub(super) every: Change<Span>,
    pub(super) cron: Change<String>,
    pub(super) time_zone: Change<String>,
    pub(super) ends_at: Change<Text<Moment>>,
    pub(super) max_runs: Change<u32>,
}

impl Times {
    /// Returns the fields that describe this schedule.
    pub(super) fn of(schedule: &Schedule) -> Self {
        let (every, cron, time_zone) = match &schedule.repeat {
            Repeat::Once => (None, None, None),
            Repeat::Every(every) => (Some(*every), None, None),
            Repeat::Cron(cron) => (None, Some(cron.to_string()), Some(cron.zone().to_owned())),
        };
        let at = Some(schedule.first_at);
        Self { at, every, cron, time_zone, ends_at: schedule.ends_at, max_runs: schedule.max_runs }
    }

    /// Builds the schedule that these fields describe.
    pub(super) fn schedule(&self, now: Timestamp) -> ApiResult<Schedule> {
        let repeat = match (&self.cron, self.every) {
            (Some(_), Some(_)) => return Err(ScheduleError::TwoWays.into()),
            (Some(cron), None) => Repeat::Cron(Cron::new(cron, self.time_zone.as_deref().unwrap_or("UTC"))?),
            (None, Some(every)) => Repeat::Every(every),
            (None, None) => Repeat::Once,
        };
        if self.time_zone.is_some() && self.cron.is_none() {
            let why = "is allowed with cron only; a time in `at` has its own offset, and `every` needs no time zone";
            return Err(Problem::invalid("time_zone", why));
        }
        if repeat == Repeat::Once && self.at.is_some() {
            let why = "is allowed with every or cron only; without them the reminder runs once";
            for (field, is_said) in
                [("ends_at", self.ends_at.is_some()), ("max_runs", self.max_runs.is_some())]
            {
                if is_said {
                    return Err(Problem::invalid(field, why));
                }
            }
        }
        Ok(Schedule::new(self.at, repeat, self.ends_at, self.max_runs, now)?)
    }
}

impl TimesChange {
    /// Returns whether no field changes.
    fn is_nothing(&self) -> bool {
        let Self { at, every, cron, time_zone, ends_at, max_runs } = self;
        at.is_keep()
            && every.is_keep()
            && cron.is_keep()
            && time_zone.is_keep()
            && ends_at.is_keep()
            && max_runs.is_keep()
    }

    /// Returns the fields of a new schedule, without previous values.
    pub(super) fn fresh(self) -> Times {
        self.over(Times::default())
    }

    /// Returns the schedule with the change applied. Absent fields stay unchanged; `every` and `cron` replace each
    /// other.
    pub(super) fn onto(self, before: &Schedule, now: Timestamp) -> ApiResult<Schedule> {
        if self.is_nothing() {
            return Ok(before.clone());
        }
        let mut times = Times::of(before);
        let stops_repeating = |change: &TimesChange| match before.repeat {
            Repeat::Once => false,
            Repeat::Every(_) => matches!(change.every, Change::Clear),
            Repeat::Cron(_) => matches!(change.cron, Change::Clear),
        };
        if matches!(self.cron, Change::Set(_)) {
            times.every = None;
        }
        if matches!(self.every, Change::Set(_)) {
            (times.cron, times.time_zone) = (None, None);
        }
        if stops_repeating(&self) {
            // The schedule no longer repeats, so its other fields go, too. The time of the first run does not become
            // the time of a single run.
            times = Times::default();
        }
        self.over(times).schedule(now)
    }

    fn over(self, times: Times) -> Times {
        Times {
            at: self.at.map(|moment| moment.0.0).onto(times.at),
            every: self.every.map(|span| span.0).onto(times.every),
            cron: self.cron.onto(times.cron),
            time_zone: self.time_zone.onto(times.time_zone),
            ends_at: self.ends_at.map(|moment| moment.0.0).onto(times.ends_at),
            max_runs: self.max_runs.onto(times.max_runs),
        }
    }
}

impl From<ScheduleError> for Problem {
    fn from(error: ScheduleError) -> Self {
        let code = match error {
            ScheduleError::NoTime => Code::MissingField,
            _ => Code::InvalidField,
        };
        Self::new(code, error.to_string()).of_field(error.field())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: u64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    fn at(at: u64) -> Change<Text<Moment>> {
        Change::Set(Text(Moment(minute(at))))
    }

    fn hourly() -> Change<Span> {
        Change::Set(Span(Duration::from_secs(3_600)))
    }

    const NONE: TimesChange = TimesChange {
        at: Change::Keep,
        every: Change::Keep,
        cron: Change::Keep,
        time_zone: Change::Keep,
        ends_at: Change::Keep,
        max_runs: Change::Keep,
    };

    #[test]
    fn one_way_to_repeat_takes_the_place_of_the_other() {
        let now = minute(100);
        let cron = |text: &str| Change::Set(text.to_owned());
        let berlin = TimesChange { cron: cron("0 9 * * *"), time_zone: cron("Europe/Berlin"), ..NONE };
        let berlin = berlin.fresh().schedule(now).unwrap();
        let every = TimesChange { every: hourly(), max_runs: Change::Set(9), ..NONE }.fresh();
        let every = every.schedule(now).unwrap();
        let changed =
            |before: &Schedule, change: TimesChange| change.onto(before, now).map(|is| Times::of(&is));
        let of = |schedule: &Schedule| Times::of(schedule);

        assert_eq!(changed(&every, NONE), Ok(of(&every)));
        let to_cron = changed(&every, TimesChange { cron: cron("0 9 * * *"), ..NONE }).unwrap();
        let expected = Times {
            every: None,
            cron: Some("0 9 * * *".into()),
            time_zone: Some("UTC".into()),
            ..of(&every)
        };
        assert_eq!(to_cron, expected);
        let to_every = changed(&berlin, TimesChange { every: hourly(), ..NONE }).unwrap();
        assert_eq!((to_every.cron, to_every.time_zone), (None, None));
        let later = changed(&berlin, TimesChange { cron: cron("0 10 * * *"), ..NONE }).unwrap();
        assert_eq!(later.time_zone.as_deref(), Some("Europe/Berlin"), "the zone stays");
        let once = changed(&every, TimesChange { every: Change::Clear, at: at(200), ..NONE }).unwrap();
        assert_eq!(once, Times { at: Some(minute(200)), ..Times::default() });
        let refused = |before, change| changed(before, change).unwrap_err().field().map(str::to_owned);
        assert_eq!(refused(&every, TimesChange { every: Change::Clear, ..NONE }).as_deref(), Some("at"));
        let both = TimesChange { every: hourly(), cron: cron("0 9 * * *"), ..NONE };
        assert_eq!(refused(&every, both).as_deref(), Some("every"));
        let zone = TimesChange { time_zone: cron("Europe/Berlin"), ..NONE };
        assert_eq!(refused(&every, zone).as_deref(), Some("time_zone"));
    }
}
