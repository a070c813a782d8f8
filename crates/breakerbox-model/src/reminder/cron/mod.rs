//! Cron expressions in a time zone.
//!
//! | part | what it knows |
//! | --- | --- |
//! | [`fields`] | how an expression is read |
//! | [`calendar`] | which local times match, by the calendar alone |
//! | [`stretch`] | what the zone's clock makes of them: gaps and overlaps |
//!
//! A cron crate would do the first two. But cronexpr skips what falls into a gap, looks four years ahead and never back;
//! croner takes only one minute of one hour for a fixed time, and gives up in a gap of more than two hours. Neither says which
//! part of which field is wrong. What would be left of them is smaller than what it takes to bend the rest.

mod calendar;
mod error;
mod fields;
mod stretch;

use std::fmt;

use breakerbox_core::{Timestamp, nearest};
use jiff::ToSpan;
use jiff::tz::{TimeZone, TimeZoneDatabase};

pub use error::CronError;
pub use fields::CronField;
use fields::Fields;
use stretch::Stretch;

use super::error::ScheduleError;

/// How far a search goes. The rarest time that there is, a leap day on a given weekday, is 40 years after the one before
/// it when a century without a leap day lies between.
const SEARCH_YEARS: i16 = 41;
/// What is longer is no expression, whatever it is.
const MAX_LENGTH: usize = 256;

/// A cron expression in a time zone.
///
/// Five fields: minute, hour, day of the month, month, weekday. Each is `*`, a value, a range `1-5`, a step `*/15` or
/// `10-30/5`, or a list of those with commas. Months and weekdays have names (`JAN`, `MON`); 0 and 7 are Sunday. If neither
/// day nor weekday begins with `*`, either may match. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are short
/// for what they say.
///
/// Where the zone's clock jumps:
/// - A local time that **does not exist** fires at the first moment after the gap, once, however many fall into it. None is
///   skipped: in a night without half past two, `30 * * * *` fires at three, and again at half past.
/// - A local time that **comes twice** fires the first time only. If the hour field begins with `*`, hours are counted as
///   they pass, and both times fire.
///
/// The zones are those of the IANA database, built into the program: it needs none on the machine, and all processes of one
/// version agree. When a country changes its rules, a later version knows.
///
/// ```
/// use breakerbox_model::reminder::Cron;
///
/// let cron = Cron::new("30 2 * * MON-FRI", "Europe/Berlin")?;
/// assert_eq!((cron.to_string().as_str(), cron.zone()), ("30 2 * * MON-FRI", "Europe/Berlin"));
///
/// let wrong = Cron::new("0 25 * * *", "Europe/Berlin").unwrap_err();
/// assert_eq!(wrong.to_string(), "cron: field 2 (hour): \"25\" is out of range; write 0 to 23");
/// # Ok::<(), breakerbox_model::reminder::ScheduleError>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    text: Box<str>,
    fields: Fields,
    zone: TimeZone,
}

impl Cron {
    /// Reads an expression, for this zone of the IANA database.
    ///
    /// # Errors
    /// If it is no expression, never happens, or there is no such zone.
    pub fn new(text: &str, zone: &str) -> Result<Self, ScheduleError> {
        let text = text.trim();
        if text.len() > MAX_LENGTH {
            return Err(CronError::TooLong { found: text.len() }.into());
        }
        let fields = Fields::read(text)?;
        Ok(Self { text: text.into(), fields, zone: find_zone(zone)? })
    }

    /// The name of the time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    pub(super) const fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The first occurrence at this time or later.
    pub(super) fn from(&self, at: Timestamp) -> Option<Timestamp> {
        self.forward(at.as_micros().div_ceil(1_000_000))
    }

    /// The first occurrence after this time.
    pub(super) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        self.forward(at.as_micros() / 1_000_000 + 1)
    }

    /// The last occurrence at this time or earlier.
    pub(super) fn until(&self, at: Timestamp) -> Option<Timestamp> {
        let until = moment(at.as_micros() / 1_000_000)?;
        let limit = until - (i64::from(SEARCH_YEARS) * 366 * 24).hours();
        let mut stretch = Stretch::around(&self.zone, until);
        loop {
            if let Some(found) = stretch.last(&self.fields, until) {
                return core(found);
            }
            stretch = stretch.before(&self.zone).filter(|before| before.ends_after(limit))?;
        }
    }

    /// How many occurrences there are from one time until just before another; at most `most` are counted.
    pub(super) fn count(&self, from: Timestamp, before: Timestamp, most: u32) -> u32 {
        let seconds = |at: Timestamp| moment(at.as_micros().div_ceil(1_000_000));
        let (Some(from), Some(before)) = (seconds(from), seconds(before)) else { return 0 };
        let mut stretch = Stretch::around(&self.zone, from);
        let mut counted = 0;
        while counted < most {
            counted += stretch.count(&self.fields, from, before, most - counted);
            match stretch.after(&self.zone) {
                Some(next) if next.starts_before(before) => stretch = next,
                _ => break,
            }
        }
        counted
    }

    fn forward(&self, from_second: u64) -> Option<Timestamp> {
        let from = moment(from_second)?;
        let limit = from.saturating_add((i64::from(SEARCH_YEARS) * 366 * 24).hours()).ok()?;
        let mut stretch = Stretch::around(&self.zone, from);
        loop {
            if let Some(found) = stretch.first(&self.fields, from) {
                return core(found);
            }
            stretch = stretch.after(&self.zone).filter(|after| after.starts_before(limit))?;
        }
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?} in {})", self.text, self.zone())
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.zone() == other.zone()
    }
}

impl Eq for Cron {}

fn find_zone(name: &str) -> Result<TimeZone, ScheduleError> {
    // Not the machine's own database: a fleet has to agree, whatever each machine has.
    let zones = TimeZoneDatabase::bundled();
    match zones.get(name) {
        Ok(zone) if !zone.is_unknown() => Ok(zone),
        _ => {
            let found: String = name.chars().take(40).collect();
            let names: Vec<String> = zones.available().map(|name| name.to_string()).collect();
            let near = nearest(&found, names.iter().map(String::as_str)).map(str::to_owned);
            Err(ScheduleError::UnknownZone { found, near })
        }
    }
}

fn moment(second: u64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(i64::try_from(second).ok()?).ok()
}

fn core(moment: jiff::Timestamp) -> Option<Timestamp> {
    Some(Timestamp::from_micros(u64::try_from(moment.as_microsecond()).ok()?))
}

#[cfg(test)]
mod tests;
