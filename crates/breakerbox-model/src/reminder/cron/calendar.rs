//! Finds the local times that match the cron fields, as if every day had each hour exactly once. Time zones are not
//! considered.
//!
//! Every search skips whole months and days that do not match, and ends after [`SEARCH_YEARS`].

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, date};

use super::SEARCH_YEARS;
use super::fields::Fields;

impl Fields {
    /// Returns the first matching local time at or after `from`, if there is one. `from` must be a full minute.
    pub(super) fn next(&self, from: DateTime) -> Option<DateTime> {
        let limit = from.date().checked_add(i32::from(SEARCH_YEARS).years()).unwrap_or(Date::MAX);
        let mut day = self.next_day(from.date(), limit)?;
        if day == from.date() {
            if let Some(found) = self.next_time(from.hour(), from.minute()) {
                return Some(day.at(found.0, found.1, 0, 0));
            }
            day = self.next_day(day.tomorrow().ok()?, limit)?;
        }
        let (hour, minute) = self.next_time(0, 0)?;
        Some(day.at(hour, minute, 0, 0))
    }

    /// Returns the last matching local time at or before `until`, if there is one.
    pub(super) fn previous(&self, until: DateTime) -> Option<DateTime> {
        let limit = until.date().checked_sub(i32::from(SEARCH_YEARS).years()).unwrap_or(Date::MIN);
        let mut day = self.previous_day(until.date(), limit)?;
        if day == until.date() {
            if let Some(found) = self.previous_time(until.hour(), until.minute()) {
                return Some(day.at(found.0, found.1, 0, 0));
            }
            day = self.previous_day(day.yesterday().ok()?, limit)?;
        }
        let (hour, minute) = self.previous_time(23, 59)?;
        Some(day.at(hour, minute, 0, 0))
    }

    /// Counts the matching local times at or after `from` and before `before`, up to `most`. Both times must be
    /// full minutes.
    pub(super) fn count(&self, from: DateTime, before: DateTime, most: u32) -> u32 {
        let mut counted = 0;
        let mut day = self.next_day(from.date(), before.date());
        while let Some(found) = day.filter(|_| counted < most) {
            let start = if found == from.date() { self.times_before(from.hour(), from.minute()) } else { 0 };
            let end = if found == before.date() {
                self.times_before(before.hour(), before.minute())
            } else {
                self.hours.count_ones() * self.minutes.count_ones()
            };
            counted += end.saturating_sub(start);
            day = found.tomorrow().ok().and_then(|next| self.next_day(next, before.date()));
        }
        counted.min(most)
    }

    /// Returns whether any date ever matches. The search covers enough years to include 29 February on every
    /// weekday.
    pub(super) fn ever_happens(&self) -> bool {
        self.next_day(date(2000, 1, 1), date(2000 + SEARCH_YEARS, 1, 1)).is_some()
    }

    fn has_day(&self, day: Date) -> bool {
        let in_month = has(self.days, day.day());
        let in_week = has(self.weekdays, day.weekday().to_sunday_zero_offset());
        has(self.months, day.month())
            && if self.either_day { in_month || in_week } else { in_month && in_week }
    }

    fn next_day(&self, from: Date, limit: Date) -> Option<Date> {
        let mut day = from;
        while day <= limit {
            if !has(self.months, day.month()) {
                day = day.last_of_month().tomorrow().ok()?;
            } else if self.has_day(day) {
                return Some(day);
            } else {
                day = day.tomorrow().ok()?;
            }
        }
        None
    }

    fn previous_day(&self, until: Date, limit: Date) -> Option<Date> {
        let mut day = until;
        while day >= limit {
            if !has(self.months, day.month()) {
                day = day.first_of_month().yesterday().ok()?;
            } else if self.has_day(day) {
                return Some(day);
            } else {
                day = day.yesterday().ok()?;
            }
        }
        None
    }

    fn next_time(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if has(self.hours, hour)
            && let Some(minute) = lowest(self.minutes & !below(minute))
        {
            return Some((hour, minute));
        }
        Some((lowest(self.hours & !below(hour + 1))?, lowest(self.minutes)?))
    }

    fn previous_time(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if has(self.hours, hour)
            && let Some(minute) = highest(self.minutes & below(minute + 1))
        {
            return Some((hour, minute));
        }
        Some((highest(self.hours & below(hour))?, highest(self.minutes)?))
    }

    /// Returns how many of a day's matching times are before this hour and minute.
    fn times_before(&self, hour: i8, minute: i8) -> u32 {
        let hours_before = (self.hours & below(hour)).count_ones();
        let in_this_hour =
            if has(self.hours, hour) { (self.minutes & below(minute)).count_ones() } else { 0 };
        hours_before * self.minutes.count_ones() + in_this_hour
    }
}

const fn has(set: u64, value: i8) -> bool {
    set & (1 << value) != 0
}

/// Returns the bit set of all values below `value`.
const fn below(value: i8) -> u64 {
    (1 << value) - 1
}

fn lowest(set: u64) -> Option<i8> {
    if set == 0 { None } else { i8::try_from(set.trailing_zeros()).ok() }
}

fn highest(set: u64) -> Option<i8> {
    set.checked_ilog2().and_then(|bit| i8::try_from(bit).ok())
}
