//! Tests of schedules: errors, ends, missed occurrences, and the stored form.

use proptest::prelude::*;

use super::*;
use crate::reminder::{MAX_SKIPPED, Missed, ScheduleError};

const NOW: Timestamp = minute(1_000);

fn new(first_at: Option<Timestamp>, repeat: Repeat) -> Result<Schedule, ScheduleError> {
    Schedule::new(first_at, repeat, None, None, NOW)
}

#[test]
fn what_is_wrong_is_named() {
    let far = Some(at("9999-01-01T00:00:00Z"));
    let soon = Some(minute(1_010));
    let daily = || cron("0 0 29 2 *", "UTC");
    let table = [
        (
            new(None, Repeat::Once),
            "at",
            "at: is missing; send the time of the run, or every or cron to repeat",
        ),
        (new(far, Repeat::Once), "at", "at: must be before the year 9999"),
        (new(far, daily()), "at", "at: must be before the year 9999"),
        (
            new(Some(at("9998-01-01T00:00:00Z")), daily()),
            "at",
            "at: the cron expression has no time after it; use an earlier one",
        ),
        (new(None, Repeat::Every(Duration::ZERO)), "every", "every: must be from 1s to 1825d, but is 0s"),
        (
            new(None, Repeat::Every(Duration::from_micros(999_999))),
            "every",
            "every: must be from 1s to 1825d, but is 999ms",
        ),
        (new(None, every(157_680_001)), "every", "every: must be from 1s to 1825d, but is 1825d1s"),
        (Schedule::new(soon, every(60), far, None, NOW), "ends_at", "ends_at: must be before the year 9999"),
        (
            Schedule::new(soon, every(60), Some(minute(999)), None, NOW),
            "ends_at",
            "ends_at: 2026-01-01T16:39:00Z is in the past; omit it, or use a later time",
        ),
        (
            Schedule::new(soon, every(60), Some(minute(1_009)), None, NOW),
            "ends_at",
            "ends_at: must not be before the first run, 2026-01-01T16:50:00Z",
        ),
        (
            Schedule::new(None, daily(), Some(minute(1_009)), None, NOW),
            "ends_at",
            "ends_at: must not be before the first run, 2028-02-29T00:00:00Z",
        ),
        (
            Schedule::new(soon, every(60), None, Some(0), NOW),
            "max_runs",
            "max_runs: must be at least 1; omit it for no limit",
        ),
    ];
    for (schedule, field, expected) in table {
        let error = schedule.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.field(), field, "{expected}");
    }
}

#[test]
fn where_it_begins() {
    let table = [
        // Without a first time, a repeating schedule begins now.
        (new(None, every(3_600)), NOW),
        (new(None, cron("* * * * *", "UTC")), NOW),
        (new(None, cron("41 * * * *", "UTC")), minute(1_001)),
        // A time in the future is the first occurrence or, for a cron expression, the earliest.
        (new(Some(minute(1_005)), Repeat::Once), minute(1_005)),
        (new(Some(minute(1_005)), every(3_600)), minute(1_005)),
        (new(Some(minute(1_005)), cron("*/15 * * * *", "UTC")), minute(1_005)),
        (new(Some(minute(1_006)), cron("*/15 * * * *", "UTC")), minute(1_020)),
        // Of the occurrences before the reminder was created, only the latest is fired.
        (new(Some(minute(10)), Repeat::Once), minute(10)),
        (new(Some(minute(7)), every(600)), minute(997)),
        (new(Some(minute(0)), every(600)), NOW),
        (new(Some(minute(0)), cron("*/15 * * * *", "UTC")), minute(990)),
        (new(Some(minute(995)), cron("*/15 * * * *", "UTC")), minute(1_005)),
        (Schedule::new(Some(minute(0)), every(600), Some(NOW), None, NOW), NOW),
    ];
    for (place, (schedule, first)) in table.into_iter().enumerate() {
        assert_eq!(schedule.unwrap().first(), Some(first), "row {place}");
    }
}

#[test]
fn what_comes_after() {
    let ending = |repeat| Schedule { ends_at: Some(minute(30)), ..from(minute(10), repeat) };
    let past_it = Timestamp::from_micros(minute(20).as_micros() + 1);
    let just_before = Timestamp::from_micros(minute(20).as_micros() - 1);
    let table = [
        (ending(Repeat::Once), minute(0), Some(minute(10))),
        (ending(Repeat::Once), minute(10), None),
        (ending(every(600)), Timestamp::ZERO, Some(minute(10))),
        (ending(every(600)), minute(9), Some(minute(10))),
        (ending(every(600)), minute(10), Some(minute(20))),
        (ending(every(600)), just_before, Some(minute(20))),
        (ending(every(600)), minute(20), Some(minute(30))),
        (ending(every(600)), past_it, Some(minute(30))),
        // The end is inclusive.
        (ending(every(600)), minute(30), None),
        (ending(every(601)), minute(21), None),
        (ending(every(600)), Timestamp::from_micros(u64::MAX), None),
        (from(minute(10), every(600)), Timestamp::from_micros(u64::MAX), None),
        (ending(cron("*/10 * * * *", "UTC")), minute(0), Some(minute(10))),
        (ending(cron("*/10 * * * *", "UTC")), minute(20), Some(minute(30))),
        (ending(cron("*/10 * * * *", "UTC")), minute(30), None),
        (ending(cron("*/7 * * * *", "UTC")), minute(0), Some(minute(14))),
    ];
    for (schedule, after, expected) in table {
        assert_eq!(schedule.after(after), expected, "{schedule:?} after {after:?}");
    }
}

/// A day is 24 hours, even when the clocks change.
#[test]
fn every_counts_elapsed_time() {
    let schedule = from(at("2026-03-28T08:00:00+01:00"), every(86_400));
    let next = schedule.after(at("2026-03-28T08:00:00+01:00"));
    assert_eq!(next, Some(at("2026-03-29T09:00:00+02:00")), "the 29th has 23 hours");
    let local = from(at("2026-03-28T08:00:00+01:00"), cron("0 8 * * *", "Europe/Berlin"));
    assert_eq!(local.after(at("2026-03-28T08:00:00+01:00")), Some(at("2026-03-29T08:00:00+02:00")));
}

#[test]
fn what_was_missed() {
    let ending = |repeat| Schedule { ends_at: Some(minute(45)), ..from(minute(10), repeat) };
    let missed = |at, skipped| Some(Missed { latest: minute(at), skipped });
    for repeat in [every(600), cron("*/10 * * * *", "UTC")] {
        let schedule = ending(repeat);
        let table = [
            (None, 9, None),
            (None, 10, missed(10, 0)),
            (None, 19, missed(10, 0)),
            (None, 20, missed(20, 1)),
            (None, 44, missed(40, 3)),
            // The schedule ends.
            (None, 5_000, missed(40, 3)),
            (Some(5), 25, missed(20, 1)),
            (Some(10), 25, missed(20, 0)),
            (Some(15), 45, missed(40, 2)),
            (Some(20), 29, None),
            (Some(20), 30, missed(30, 0)),
            (Some(30), 20, None),
            (Some(40), 5_000, None),
        ];
        for (after, until, expected) in table {
            let found = schedule.latest(after.map(minute), minute(until));
            assert_eq!(found, expected, "{:?}: after {after:?} until {until}", schedule.repeat);
        }
    }
    let once = ending(Repeat::Once);
    let table = [
        (None, 9, None),
        (None, 10, missed(10, 0)),
        (None, 50, missed(10, 0)),
        (Some(9), 50, missed(10, 0)),
        (Some(10), 50, None),
    ];
    for (after, until, expected) in table {
        assert_eq!(once.latest(after.map(minute), minute(until)), expected, "{after:?} {until}");
    }
}

/// The count is capped, but the latest occurrence is correct.
#[test]
fn a_year_of_down_time() {
    let begin = at("2025-06-01T00:00:00Z");
    let until = at("2026-06-01T00:00:30Z");
    let latest = at("2026-06-01T00:00:00Z");
    for repeat in [every(60), cron("* * * * *", "Europe/Berlin"), cron("* * * * *", "UTC")] {
        let schedule = from(begin, repeat);
        let missed = schedule.latest(Some(begin), until).unwrap();
        assert_eq!(missed, Missed { latest, skipped: MAX_SKIPPED }, "{:?}", schedule.repeat);
    }
    // A year has 8,760 hours, even in a zone with days of 23 and 25 hours.
    for repeat in [every(3_600), cron("@hourly", "Europe/Berlin"), cron("@hourly", "UTC")] {
        let schedule = from(begin, repeat);
        let missed = schedule.latest(Some(begin), until).unwrap();
        assert_eq!(missed, Missed { latest, skipped: 8_759 }, "{:?}", schedule.repeat);
    }
    let nothing = from(begin, cron("0 0 29 2 *", "Europe/Berlin"));
    assert_eq!(nothing.latest(Some(begin), until), None);
}

/// A thousand reminders each missed a year: stepping through each occurrence would take hours.
#[test]
fn a_year_of_down_time_is_cheap() {
    let schedule = from(at("2025-06-01T00:00:00Z"), cron("* * * * *", "Europe/Berlin"));
    for reminder in 0..1_000 {
        let until = at("2026-06-01T00:00:00Z") + Duration::from_secs(60 * reminder);
        assert_eq!(schedule.latest(None, until).map(|missed| missed.latest), Some(until));
    }
}

#[test]
fn minutely_through_a_change_of_clocks() {
    for (zone, day) in [
        ("Europe/Berlin", "2026-03-28T23:00:00Z"),
        ("Europe/Berlin", "2026-10-24T22:00:00Z"),
        ("America/New_York", "2026-03-08T05:00:00Z"),
        ("America/New_York", "2026-11-01T04:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T13:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T13:30:00Z"),
    ] {
        let schedule = from(at(day), cron("* * * * *", zone));
        let mut last = schedule.first().unwrap();
        for passed in 1..=360 {
            last = schedule.after(last).unwrap();
            assert_eq!(last, at(day) + Duration::from_secs(60 * passed), "{zone}");
        }
    }
}

#[test]
fn it_is_kept_as_compact_json() {
    let table = [
        (from(minute(0), Repeat::Once), r#"{"at":1767225600000000}"#),
        (from(minute(0), every(90)), r#"{"at":1767225600000000,"every_ms":90000}"#),
        (
            Schedule { ends_at: Some(minute(1)), max_runs: Some(3), ..from(minute(0), every(1)) },
            r#"{"at":1767225600000000,"every_ms":1000,"ends_at":1767225660000000,"max_runs":3}"#,
        ),
        (
            from(minute(0), cron("0 9 * * MON", "Europe/Berlin")),
            r#"{"at":1767225600000000,"cron":"0 9 * * MON","zone":"Europe/Berlin"}"#,
        ),
    ];
    for (schedule, text) in table {
        assert_eq!(serde_json::to_string(&schedule).unwrap(), text);
        assert_eq!(serde_json::from_str::<Schedule>(text).unwrap(), schedule, "{text}");
    }
    let wrong = [
        (r#"{"at":0,"cron":"0 25 * * *","zone":"UTC"}"#, "cron: field 2 (hour): \"25\" is out of range"),
        (r#"{"at":0,"cron":"@daily","zone":"Mars/Olympus"}"#, "time_zone: \"Mars/Olympus\" is unknown"),
        (r#"{"at":0,"every_ms":0}"#, "every: must be from 1s"),
        (r#"{"at":0,"every_ms":1000,"cron":"@daily","zone":"UTC"}"#, "every: can't be combined with cron"),
        (r#"{"at":0,"max_runs":0}"#, "max_runs: must be at least 1"),
        (r#"{"at":0,"except":["2026-12-24"]}"#, "unknown field `except`"),
        (r#"{"every_ms":1000}"#, "missing field `at`"),
    ];
    for (text, start) in wrong {
        let error = serde_json::from_str::<Schedule>(text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{text}: {error}");
    }
    // A schedule that has ended or is in the past can be read back, because time passes while it is stored.
    assert!(serde_json::from_str::<Schedule>(r#"{"at":5,"ends_at":7}"#).is_ok());
}

#[test]
fn no_schedule_begins_at_the_end_of_the_calendar() {
    let now = at("9999-06-01T00:00:00Z");
    let new_year = Schedule::new(Some(minute(0)), cron("0 0 1 1 *", "UTC"), None, None, now).unwrap();
    assert_eq!(new_year.first(), Some(at("9998-01-01T00:00:00Z")));
    let stored_schedule = serde_json::to_string(&new_year).unwrap();
    assert_eq!(serde_json::from_str::<Schedule>(&stored_schedule).unwrap(), new_year);
}

fn some_repeat() -> impl Strategy<Value = Repeat> {
    let crons = [
        ("* * * * *", "UTC"),
        ("*/7 * * * *", "Europe/Berlin"),
        ("5,50 * * * *", "Australia/Lord_Howe"),
        ("30 0-3 * * *", "America/New_York"),
        ("0 0 * * MON-FRI", "Pacific/Apia"),
    ];
    prop_oneof![
        Just(Repeat::Once),
        (1_000_u64..200_000_000).prop_map(|ms| Repeat::Every(Duration::from_millis(ms))),
        prop::sample::select(crons.to_vec()).prop_map(|(text, zone)| cron(text, zone)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The latest occurrence in a span is the last one that stepping through it finds, and the counts agree.
    #[test]
    fn the_latest_is_where_a_walk_ends(
        repeat in some_repeat(),
        begin in 0_u64..8 * 366 * 86_400,
        after in prop::option::of(-100_000_i64..500_000),
        span in 0_u64..400_000,
        ends in prop::option::of(0_u64..500_000),
    ) {
        let begin = at("2020-01-01T00:00:00Z") + Duration::from_secs(begin);
        let schedule = Schedule { ends_at: ends.map(|s| begin + Duration::from_secs(s)), ..from(begin, repeat) };
        let after = after.map(|seconds| match u64::try_from(seconds) {
            Ok(later) => begin + Duration::from_secs(later),
            Err(_) => begin.before(Duration::from_secs(seconds.unsigned_abs())),
        });
        let until = after.unwrap_or(begin) + Duration::from_secs(span);
        let mut walked: Vec<Timestamp> = Vec::new();
        let mut next = after.map_or_else(|| schedule.first(), |after| schedule.after(after));
        while let Some(found) = next.filter(|found| *found <= until) {
            prop_assert!(walked.last().is_none_or(|last| *last < found), "strictly later: {walked:?}, {found:?}");
            prop_assert!(after.is_none_or(|after| found > after));
            prop_assert!(found >= begin);
            walked.push(found);
            next = schedule.after(found);
        }
        let expected = walked.last().map(|latest| Missed {
            latest: *latest,
            skipped: u32::try_from(walked.len() - 1).unwrap().min(MAX_SKIPPED),
        });
        prop_assert_eq!(schedule.latest(after, until), expected);
    }

    /// Any input is either rejected or yields a schedule whose methods don't panic and that is unchanged when read
    /// back.
    #[test]
    fn nothing_panics(
        first_at in prop::option::of(any::<u64>()),
        ends_at in prop::option::of(any::<u64>()),
        every in any::<Duration>(),
        asked in any::<u64>(),
        now in any::<u64>(),
        repeat in some_repeat(),
        text in ".{0,20}|[0-9*/, a-zA-Z-]{0,30}",
    ) {
        let at = Timestamp::from_micros;
        drop(Cron::new(&text, "UTC"));
        for repeat in [Repeat::Every(every), repeat] {
            let raw = Schedule {
                first_at: at(first_at.unwrap_or(0)), repeat: repeat.clone(), ends_at: ends_at.map(at), max_runs: None,
            };
            let new = Schedule::new(first_at.map(at), repeat, ends_at.map(at), Some(1), at(now));
            if let Ok(new) = &new {
                let stored_schedule = serde_json::to_string(new).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Schedule>(&stored_schedule).unwrap(), new);
                prop_assert!(new.first().is_some());
            }
            for schedule in new.into_iter().chain([raw]) {
                let _ = schedule.first();
                prop_assert!(schedule.after(at(asked)).is_none_or(|next| next > at(asked)));
                let missed = schedule.latest(Some(at(asked)), at(now));
                prop_assert!(missed.is_none_or(|missed| missed.latest > at(asked) && missed.latest <= at(now)));
            }
        }
    }
}
