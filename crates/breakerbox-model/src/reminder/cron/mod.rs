//! Cron expressions in a time zone.
//!
//! | part | task |
//! | --- | --- |
//! | [`fields`] | parses an expression |
//! | [`calendar`] | finds the local times that match, without regard to time zones |
//! | [`offset_period`] | maps them to absolute times, across the zone's gaps and overlaps |
//!
//! A cron crate would do the first two. But cronexpr skips times that fall into a gap, searches four years ahead and
//! never back; croner treats only one minute of one hour as a fixed time, and gives up in a gap of more than two
//! hours. Neither reports which part of which field is wrong. The code to adapt one of them would be larger than the
//! code that it saves.

mod calendar;
mod error;
mod fields;
mod offset_period;

use std::fmt;

use breakerbox_core::{Timestamp, nearest};
use jiff::ToSpan;
use jiff::tz::{TimeZone, TimeZoneDatabase};

pub use error::CronError;
pub use fields::CronField;
use fields::Fields;
use offset_period::OffsetPeriod;

use super::error::ScheduleError;

/// The number of years that a search covers. The rarest match, a leap day on a given weekday, occurs up to 40 years
/// after the previous one, if a century year without a leap day lies between them.
const SEARCH_YEARS: i16 = 41;
/// The maximum length of a cron expression, in bytes.
const MAX_LENGTH: usize = 256;

/// A cron expression in a time zone.
///
/// The five fields are minute, hour, day of the month, month and weekday. Each is `*`, a value, a range `1-5`, a step
/// `*/15` or `10-30/5`, or a list of those with commas. Months and weekdays have names (`JAN`, `MON`); 0 and 7 are
/// Sunday. If neither the day nor the weekday field begins with `*`, a match of either is enough. `@hourly`,
/// `@daily`, `@weekly`, `@monthly` and `@yearly` are short forms.
///
/// When the zone's clock is changed:
/// - A local time that **does not exist** fires at the first moment after the gap; several such times fire only once.
///   None is skipped: in a night without half past two, `30 * * * *` fires at three, and again at half past three.
/// - A local time that **occurs twice** fires the first time only. If the hour field begins with `*`, it fires both
///   times.
///
/// Time zones come from a copy of the IANA database in the program, so that all processes of one version agree. When
/// a country changes its rules, a later version of the program includes the change.
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
    /// Parses an expression. `zone` is the name of an IANA time zone.
    ///
    /// # Errors
    /// Returns an error if the expression is invalid or never matches, or the zone is unknown.
    pub fn new(text: &str, zone: &str) -> Result<Self, ScheduleError> {
        let text = text.trim();
        if text.len() > MAX_LENGTH {
            return Err(CronError::TooLong { found: text.len() }.into());
        }
        let fields = Fields::read(text)?;
        Ok(Self { text: text.into(), fields, zone: find_zone(zone)? })
    }

    /// Returns the name of the IANA time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    pub(super) const fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Returns the first occurrence at or after this time, if there is one.
    pub(super) fn from(&self, at: Timestamp) -> Option<Timestamp> {
        self.forward(at.as_micros().div_ceil(1_000_000))
    }

    /// Returns the first occurrence after this time, if there is one.
    pub(super) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        self.forward(at.as_micros() / 1_000_000 + 1)
    }

    /// Returns the last occurrence at or before this time, if there is one.
    pub(super) fn until(&self, at: Timestamp) -> Option<Timestamp> {
        let until = moment(at.as_micros() / 1_000_000)?;
        let limit = until - (i64::from(SEARCH_YEARS) * 366 * 24).hours();
        let mut offset_period = OffsetPeriod::around(&self.zone, until);
        loop {
            if let Some(found) = offset_period.last(&self.fields, until) {
                return core(found);
            }
            offset_period = offset_period.before(&self.zone).filter(|before| before.ends_after(limit))?;
        }
    }

    /// Counts the occurrences at or after `from` and before `before`, up to `most`.
    pub(super) fn count(&self, from: Timestamp, before: Timestamp, most: u32) -> u32 {
        let seconds = |at: Timestamp| moment(at.as_micros().div_ceil(1_000_000));
        let (Some(from), Some(before)) = (seconds(from), seconds(before)) else { return 0 };
        let mut offset_period = OffsetPeriod::around(&self.zone, from);
        let mut counted = 0;
        while counted < most {
            counted += offset_period.count(&self.fields, from, before, most - counted);
            match offset_period.after(&self.zone) {
                Some(next) if next.starts_before(before) => offset_period = next,
                _ => break,
            }
        }
        counted
    }

    fn forward(&self, from_second: u64) -> Option<Timestamp> {
        let from = moment(from_second)?;
        let limit = from.saturating_add((i64::from(SEARCH_YEARS) * 366 * 24).hours()).ok()?;
        let mut offset_period = OffsetPeriod::around(&self.zone, from);
        loop {
            if let Some(found) = offset_period.first(&self.fields, from) {
                return core(found);
            }
            offset_period = offset_period.after(&self.zone).filter(|after| after.starts_before(limit))?;
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
    // Not the machine's own database: all processes of a fleet must agree, regardless of the machine.
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
