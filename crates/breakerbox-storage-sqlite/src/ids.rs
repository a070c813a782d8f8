//! Generates ids from the wall-clock time. No id is generated twice, even if the clock is set back.
//!
//! Ids that were generated while the clock was ahead form a range in the future. New ids follow the clock again,
//! below that range, and continue above it when the time reaches it. At most one range is stored: a second one is
//! merged with it.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::Id;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{micros, time};

/// The tables whose ids [`Ids`] generates.
const TABLES: [&str; 9] = [
    "events",
    "deliveries",
    "endpoints",
    "lanes",
    "api_keys",
    "jobs",
    "reminders",
    "notifications",
    "idempotency_keys",
];

/// The maximum time that an id may be ahead of the clock without counting as such. Small differences are
/// normal, because a large batch takes many ids and clocks are adjusted.
pub(super) const TOLERANCE: Duration = Duration::from_secs(30);

/// How long an [`IdsAhead`] range is kept after the clock has passed it.
const KEPT: Duration = Duration::from_secs(2 * 86_400);

/// A range of ids that were generated while the clock was ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdsAhead {
    pub(super) first: i64,
    pub(super) last: i64,
    /// When it was detected that the range is ahead. Rows with ids in the range count as created at this
    /// time.
    pub(super) seen_at: Timestamp,
}

impl IdsAhead {
    /// Reads the stored range, if there is one.
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let mut value = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
        let mut value = |name: &str| value.query_row([name], |row| row.get::<_, i64>(0)).optional();
        let (first, last) = (value("ids_ahead_first")?, value("ids_ahead_last")?);
        let seen_at = value("ids_ahead_seen_at")?;
        Ok(first.zip(last).zip(seen_at).map(|((first, last), seen_at)| Self {
            first,
            last,
            seen_at: time(seen_at),
        }))
    }

    fn save(self, connection: &Connection) -> rusqlite::Result<()> {
        let mut upsert =
            connection.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
        upsert.execute(params!["ids_ahead_first", self.first])?;
        upsert.execute(params!["ids_ahead_last", self.last])?;
        upsert.execute(params!["ids_ahead_seen_at", micros(self.seen_at)])?;
        Ok(())
    }

    fn merged(self, other: Option<Self>) -> Self {
        other.map_or(self, |other| Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            seen_at: self.seen_at.max(other.seen_at),
        })
    }
}

/// Returns the highest id in the database below `limit`.
fn highest_below(connection: &Connection, limit: i64) -> rusqlite::Result<i64> {
    let mut highest = 0;
    for table in TABLES {
        let found: Option<i64> = connection
            .prepare(&format!("SELECT max(id) FROM {table} WHERE id < ?1"))?
            .query_row([limit], |row| row.get(0))?;
        highest = highest.max(found.unwrap_or(0));
    }
    // The ids of deliveries that are not written yet are also in use.
    let reserved: Option<i64> = connection
        .prepare("SELECT max(f.event + e.fan_out) FROM fan_outs f JOIN events e ON e.id = f.event WHERE f.event < ?1")?
        .query_row([limit], |row| row.get(0))?;
    Ok(highest.max(reserved.unwrap_or(0)))
}

/// Returns the highest id in the database, without the stored range of ids that are ahead of the clock.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<Id> {
    let ahead = IdsAhead::load(connection)?;
    let highest = highest_below(connection, i64::MAX)?;
    let highest = match ahead {
        Some(ahead) if (ahead.first..=ahead.last).contains(&highest) => {
            highest_below(connection, ahead.first)?
        }
        _ => highest,
    };
    Ok(Id::from_number(highest).unwrap_or_else(|| Id::first_at(Timestamp::ZERO)))
}

/// Stores the range of ids that are ahead of `now` by [`TOLERANCE`] or more, if there are any.
pub(super) fn note_ahead(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let limit = Id::first_at(now + TOLERANCE).number();
    let mut lowest: Option<i64> = None;
    for table in TABLES {
        let found: Option<i64> = connection
            .prepare(&format!("SELECT min(id) FROM {table} WHERE id >= ?1"))?
            .query_row([limit], |row| row.get(0))?;
        lowest = lowest.into_iter().chain(found).min();
    }
    let Some(first) = lowest else { return Ok(()) };
    let last = highest_below(connection, i64::MAX)?;
    let range = IdsAhead { first, last, seen_at: now };
    range.merged(IdsAhead::load(connection)?).save(connection)
}

/// Generates ids that sort by creation time and are never reused.
pub(super) struct Ids {
    last: i64,
    ahead: Option<IdsAhead>,
    /// The first id after the clock last jumped forward by more than [`TOLERANCE`], and the last id before that jump.
    since_jump: (i64, i64),
}

impl Ids {
    /// Creates a generator that continues after the ids in the database.
    pub(super) fn open(connection: &Connection, now: Timestamp) -> rusqlite::Result<Self> {
        let mut ahead = IdsAhead::load(connection)?;
        // The range is kept as long as anything depends on the age of an id.
        if ahead.is_some_and(|ahead| ahead.last < Id::first_at(now.before(KEPT)).number()) {
            connection.execute("DELETE FROM meta WHERE name LIKE 'ids_ahead_%'", [])?;
            ahead = None;
        }
        let last = highest_below(connection, ahead.map_or(i64::MAX, |ahead| ahead.first))?;
        let above = match ahead {
            // Ids that were generated above the range.
            Some(ahead) => highest_below(connection, i64::MAX)?.max(ahead.last),
            None => last,
        };
        let last = if ahead.is_some_and(|ahead| above > ahead.last) { above } else { last };
        Ok(Self { last, ahead, since_jump: (last.saturating_add(1), last) })
    }

    /// Returns the range of ids that are ahead of the clock, if there is one.
    pub(super) fn ahead(&self) -> Option<IdsAhead> {
        self.ahead
    }

    /// Reserves `count` consecutive ids, and returns the first.
    pub(super) fn next(&mut self, count: u32, now: Timestamp) -> Id {
        let at = Id::first_at(now).number();
        let tolerance = Id::first_at(Timestamp::ZERO + TOLERANCE).number();
        let (segment, before) = self.since_jump;
        if at > self.last.saturating_add(tolerance) {
            self.since_jump = (at, self.last);
        } else if self.last > at.saturating_add(tolerance)
            && segment > at
            && segment.saturating_sub(before) > tolerance
        {
            // The clock was set back to a time before these ids, so they are now ahead.
            let range = IdsAhead { first: segment, last: self.last, seen_at: now };
            self.ahead = Some(range.merged(self.ahead));
            self.last = before;
            self.since_jump = (before.saturating_add(1), before);
        }
        let more = i64::from(count.max(1) - 1);
        let mut first = at.max(self.last.saturating_add(1));
        if let Some(ahead) = self.ahead
            && first <= ahead.last
            && first.saturating_add(more) >= ahead.first
        {
            first = ahead.last.saturating_add(1);
        }
        self.last = first.saturating_add(more);
        Id::from_number(first).unwrap_or_else(|| Id::first_at(now))
    }

    /// Returns whether the row with this id was created within the last `span`. Ids that are ahead of the
    /// clock count as created when they were detected.
    pub(super) fn is_younger(&self, id: i64, span: Duration, now: Timestamp) -> bool {
        match self.ahead {
            Some(ahead) if (ahead.first..=ahead.last).contains(&id) => now.since(ahead.seen_at) < span,
            _ => id >= Id::first_at(now.before(span)).number(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(hours: u32) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000) + hours * HOUR
    }

    fn after(last: Timestamp) -> Ids {
        let last = Id::first_at(last).number();
        Ids { last, ahead: None, since_jump: (last + 1, last) }
    }

    #[test]
    fn ids_follow_a_clock_that_was_ahead_and_is_set_back() {
        let mut ids = after(at(0));
        let (right, wrong) = (ids.next(1, at(1)), ids.next(10, at(7)));
        assert_eq!((right.made_at(), wrong.made_at()), (at(1), at(7)));
        let back = ids.next(1, at(1) + HOUR / 2);
        assert_eq!(back.made_at(), at(1) + HOUR / 2, "it follows the clock");
        assert!(right < back && back < wrong);
        let behind = ids.next(3, at(7));
        assert_eq!(behind.number(), wrong.number() + 10, "none twice, also when the time gets there");
        assert_eq!(ids.next(1, at(8)).made_at(), at(8));
    }

    #[test]
    fn a_batch_never_reaches_into_the_range() {
        let mut ids = after(at(0));
        let wrong = ids.next(1, at(7));
        let just_before = Timestamp::from_micros(at(7).as_micros() - 1_000);
        assert!(ids.next(1, at(1)) < wrong);
        let batch = ids.next(3 << 21, just_before);
        assert!(batch > wrong, "{batch}");
    }

    #[test]
    fn without_a_jump_a_clock_that_is_set_back_waits() {
        let mut ids = after(at(5));
        let last = ids.next(1, at(5));
        assert_eq!(ids.next(1, at(1)).number(), last.number() + 1);
        assert!(ids.ahead().is_none());
    }

    #[test]
    fn what_was_made_ahead_gets_old_from_when_that_was_noticed() {
        let mut ids = after(at(0));
        let wrong = ids.next(1, at(1_000)).number();
        let right = ids.next(1, at(1)).number();
        for (id, now, expected) in [
            (wrong, at(2), true),
            (wrong, at(24), true),
            (wrong, at(25), false),
            (right, at(24), true),
            (right, at(26), false),
        ] {
            assert_eq!(ids.is_younger(id, 24 * HOUR, now), expected, "{id} at {now:?}");
        }
    }
}
