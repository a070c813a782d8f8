//! Maps local times to absolute times in a zone.
//!
//! A zone's time is a sequence of periods with a constant UTC offset. Within a period, local times and absolute times
//! correspond one to one. Where a period begins, the clock jumps: forward over local times that do not exist (they
//! fire at the jump, once), or back over local times that occurred before (they fire again only if the hour field
//! begins with `*`).

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::fields::Fields;

/// A period in which a zone has a constant UTC offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct OffsetPeriod {
    start: Option<Jump>,
    /// The beginning of the next period. `None`: this is the last one.
    end: Option<Timestamp>,
    offset: Offset,
}

/// A jump of the local clock: its time, and the UTC offset before the jump.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Timestamp,
    from: Offset,
}

impl OffsetPeriod {
    /// Returns the period that contains this time, which must be a full second.
    pub(super) fn around(zone: &TimeZone, at: Timestamp) -> Self {
        let second_after = at.saturating_add(1.second()).unwrap_or(Timestamp::MAX);
        let mut start = zone.preceding(second_after).next().map(|change| change.timestamp());
        let mut end = None;
        // At the boundary between a zone's table of changes and its rule for later years, jiff may return a change by
        // the rule that is earlier than the table's last one. The changes that follow are correct, so they take
        // precedence.
        for change in zone.following(start.unwrap_or(at)) {
            if change.timestamp() > at {
                end = Some(change.timestamp());
                break;
            }
            start = Some(change.timestamp());
        }
        let start = start.and_then(|at| {
            let before = at.checked_sub(1.second()).ok()?;
            Some(Jump { at, from: zone.to_offset(before) })
        });
        Self { start, end, offset: zone.to_offset(at) }
    }

    /// Returns the next period, if there is one.
    pub(super) fn after(&self, zone: &TimeZone) -> Option<Self> {
        self.end.map(|end| Self::around(zone, end))
    }

    /// Returns the previous period, if there is one.
    pub(super) fn before(&self, zone: &TimeZone) -> Option<Self> {
        let before = self.start?.at.checked_sub(1.second()).ok()?;
        Some(Self::around(zone, before))
    }

    /// Returns whether the period begins before this time.
    pub(super) fn starts_before(&self, at: Timestamp) -> bool {
        self.start.is_none_or(|start| start.at < at)
    }

    /// Returns whether the period ends after this time.
    pub(super) fn ends_after(&self, at: Timestamp) -> bool {
        self.end.is_none_or(|end| end > at)
    }

    /// Returns the period's first occurrence at or after this time, if there is one.
    pub(super) fn first(&self, fields: &Fields, from: Timestamp) -> Option<Timestamp> {
        if let Some(jump) = self.moved_here(fields).filter(|jump| *jump >= from) {
            return Some(jump);
        }
        let found = fields.next(full_minute(self.opens(fields, from))?)?;
        if found < self.closes() { self.offset.to_timestamp(found).ok() } else { None }
    }

    /// Returns the period's last occurrence at or before this time, if there is one.
    pub(super) fn last(&self, fields: &Fields, until: Timestamp) -> Option<Timestamp> {
        let last_second = self.end.and_then(|end| end.checked_sub(1.second()).ok());
        let until = last_second.map_or(until, |last| until.min(last));
        let opens = self.opens(fields, Timestamp::MIN);
        let found = fields.previous(self.offset.to_datetime(until)).filter(|found| *found >= opens);
        let found = found.and_then(|found| self.offset.to_timestamp(found).ok());
        found.or_else(|| self.moved_here(fields).filter(|jump| *jump <= until))
    }

    /// Counts the period's occurrences at or after `from` and before `before`, up to `most`.
    pub(super) fn count(&self, fields: &Fields, from: Timestamp, before: Timestamp, most: u32) -> u32 {
        let before = self.end.map_or(before, |end| before.min(end));
        let range = full_minute(self.opens(fields, from)).zip(full_minute(self.offset.to_datetime(before)));
        let counted = match range {
            Some((opens, closes)) if opens < closes => fields.count(opens, closes, most),
            _ => 0,
        };
        let moved = self.moved_here(fields).filter(|jump| *jump >= from && *jump < before);
        // A local time of the period itself at that moment was already counted.
        let twice = moved.is_some_and(|jump| {
            let local = self.offset.to_datetime(jump);
            local.second() == 0 && fields.next(local) == Some(local)
        });
        (counted + u32::from(moved.is_some() && !twice)).min(most)
    }

    /// Returns the beginning of the period if it follows a gap in local time that contains a matching time.
    /// That time fires at the beginning of the period.
    fn moved_here(&self, fields: &Fields) -> Option<Timestamp> {
        let start = self.start?;
        let missing = full_minute(start.from.to_datetime(start.at))?;
        let first = self.offset.to_datetime(start.at);
        (missing < first && fields.next(missing)? < first).then_some(start.at)
    }

    /// Returns the local time in this period at which the search for matches begins: `from` or the period's
    /// start, whichever is later. After a jump back, local times that already occurred before the jump are
    /// excluded, unless the hour field begins with `*`.
    fn opens(&self, fields: &Fields, from: Timestamp) -> DateTime {
        let Some(start) = self.start else { return self.offset.to_datetime(from) };
        let from = self.offset.to_datetime(from.max(start.at));
        let again_until = start.from.to_datetime(start.at);
        if fields.every_hour { from } else { from.max(again_until) }
    }

    /// Returns the local time at which the period ends.
    fn closes(&self) -> DateTime {
        self.end.map_or(DateTime::MAX, |end| self.offset.to_datetime(end))
    }
}

/// Returns the first full minute at or after this time.
fn full_minute(local: DateTime) -> Option<DateTime> {
    let seconds = local.second();
    let part = local.subsec_nanosecond();
    debug_assert_eq!(part, 0, "moments are full seconds");
    if seconds == 0 { Some(local) } else { local.checked_add((60 - i64::from(seconds)).seconds()).ok() }
}
