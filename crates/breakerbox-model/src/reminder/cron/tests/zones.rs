//! Tests how clock changes affect occurrences: gaps, overlaps, leap days, ends of years.

use breakerbox_core::Timestamp;

use super::super::Cron;

fn at(text: &str) -> Timestamp {
    let moment: jiff::Timestamp = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Timestamp::from_micros(u64::try_from(moment.as_microsecond()).unwrap())
}

fn shown(at: Timestamp, zone: &str) -> String {
    let moment = jiff::Timestamp::from_microsecond(i64::try_from(at.as_micros()).unwrap()).unwrap();
    let local = moment.in_tz(zone).unwrap();
    format!("{}", local.strftime("%Y-%m-%dT%H:%M%:z"))
}

/// Returns the occurrences after a time, in local time. Checks that a search backward finds the same.
fn walk(cron: &str, zone: &str, after: &str, times: usize) -> Vec<String> {
    let cron = Cron::new(cron, zone).unwrap();
    let mut found: Vec<Timestamp> = Vec::new();
    while found.len() < times {
        let last = found.last().copied().unwrap_or_else(|| at(after));
        found.push(cron.after(last).expect("it goes on"));
    }
    for pair in found.windows(2) {
        let just_before = Timestamp::from_micros(pair[1].as_micros() - 1);
        assert_eq!(cron.until(just_before), Some(pair[0]), "{cron} in {zone}, backwards");
        assert_eq!(cron.until(pair[1]), Some(pair[1]), "{cron} in {zone}");
        assert_eq!(cron.from(pair[1]), Some(pair[1]), "{cron} in {zone}");
        assert_eq!(cron.count(pair[0], pair[1], 10), 1, "{cron} in {zone}");
    }
    found.into_iter().map(|at| shown(at, zone)).collect()
}

#[track_caller]
fn check(zone: &str, table: &[(&str, &str, &[&str])]) {
    for (cron, after, expected) in table {
        assert_eq!(walk(cron, zone, after, expected.len()), *expected, "{cron} in {zone} after {after}");
    }
}

/// The hour from two to three does not exist on 29 March 2026, and occurs twice on 25 October.
#[test]
fn berlin() {
    check(
        "Europe/Berlin",
        &[
            (
                "30 2 * * *",
                "2026-03-28T00:00:00Z",
                &["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
            ),
            ("0 2 * * *", "2026-03-28T12:00:00Z", &["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
            // All of these fall into the gap, and cause one run.
            (
                "0,20,40 2 * * *",
                "2026-03-28T12:00:00Z",
                &["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
            ),
            // So do those in the gap together with one that is due at its end.
            ("0 2,3 * * *", "2026-03-28T12:00:00Z", &["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
            (
                "30 * * * *",
                "2026-03-29T00:00:00Z",
                &["2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"],
            ),
            ("0 */2 * * *", "2026-03-28T22:30:00Z", &["2026-03-29T00:00+01:00", "2026-03-29T03:00+02:00"]),
            // A fixed hour fires the first time only.
            ("30 2 * * *", "2026-10-24T12:00:00Z", &["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
            (
                "0,30 1-3 * * *",
                "2026-10-24T23:00:00Z",
                &[
                    "2026-10-25T01:30+02:00",
                    "2026-10-25T02:00+02:00",
                    "2026-10-25T02:30+02:00",
                    "2026-10-25T03:00+01:00",
                ],
            ),
            // Hours that `*` matches fire both times.
            (
                "30 * * * *",
                "2026-10-24T23:00:00Z",
                &[
                    "2026-10-25T01:30+02:00",
                    "2026-10-25T02:30+02:00",
                    "2026-10-25T02:30+01:00",
                    "2026-10-25T03:30+01:00",
                ],
            ),
            (
                "0 */2 * * *",
                "2026-10-24T21:30:00Z",
                &[
                    "2026-10-25T00:00+02:00",
                    "2026-10-25T02:00+02:00",
                    "2026-10-25T02:00+01:00",
                    "2026-10-25T04:00+01:00",
                ],
            ),
        ],
    );
}

/// The hour from two to three does not exist on 8 March 2026; the hour from one to two occurs twice on 1 November.
#[test]
fn new_york() {
    check(
        "America/New_York",
        &[
            (
                "30 2 8 3 *",
                "2026-01-01T00:00:00Z",
                &["2026-03-08T03:00-04:00", "2027-03-08T02:30-05:00", "2028-03-08T02:30-05:00"],
            ),
            ("30 1 * * SUN", "2026-10-31T00:00:00Z", &["2026-11-01T01:30-04:00", "2026-11-08T01:30-05:00"]),
            (
                "@hourly",
                "2026-11-01T04:30:00Z",
                &["2026-11-01T01:00-04:00", "2026-11-01T01:00-05:00", "2026-11-01T02:00-05:00"],
            ),
            ("0 0 * * *", "2026-10-31T12:00:00Z", &["2026-11-01T00:00-04:00", "2026-11-02T00:00-05:00"]),
        ],
    );
}

/// A change by half an hour: two to half past two does not exist on 4 October 2026; half past one to two occurs twice
/// on 5 April.
#[test]
fn lord_howe() {
    check(
        "Australia/Lord_Howe",
        &[
            ("15 2 * * *", "2026-10-03T12:00:00Z", &["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
            ("30 2 * * *", "2026-10-03T12:00:00Z", &["2026-10-04T02:30+11:00", "2026-10-05T02:30+11:00"]),
            (
                "*/15 * * * *",
                "2026-10-03T15:20:00Z",
                &["2026-10-04T02:30+11:00", "2026-10-04T02:45+11:00", "2026-10-04T03:00+11:00"],
            ),
            ("45 1 * * *", "2026-04-04T12:00:00Z", &["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]),
            (
                "45 * * * *",
                "2026-04-04T14:00:00Z",
                &["2026-04-05T01:45+11:00", "2026-04-05T01:45+10:30", "2026-04-05T02:45+10:30"],
            ),
            // The first half of the hour occurs once, the second half twice.
            (
                "*/20 * * * *",
                "2026-04-04T14:00:00Z",
                &[
                    "2026-04-05T01:20+11:00",
                    "2026-04-05T01:40+11:00",
                    "2026-04-05T01:40+10:30",
                    "2026-04-05T02:00+10:30",
                ],
            ),
        ],
    );
}

/// 30 December 2011 did not exist: the 29th was followed by the 31st.
#[test]
fn apia() {
    check(
        "Pacific/Apia",
        &[
            (
                "0 12 * * *",
                "2011-12-29T00:00:00Z",
                &["2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"],
            ),
            ("0 9 30 12 *", "2011-06-01T00:00:00Z", &["2011-12-31T00:00+14:00", "2012-12-30T09:00+14:00"]),
            // The skipped day was a Friday.
            ("0 9 * * FRI", "2011-12-24T00:00:00Z", &["2011-12-31T00:00+14:00", "2012-01-06T09:00+14:00"]),
            (
                "@hourly",
                "2011-12-30T08:30:00Z",
                &["2011-12-29T23:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T01:00+14:00"],
            ),
        ],
    );
}

/// A change at midnight: the day begins at one o'clock.
#[test]
fn a_day_that_begins_late() {
    check(
        "America/Santiago",
        &[("@daily", "2026-09-05T12:00:00Z", &["2026-09-06T01:00-03:00", "2026-09-07T00:00-03:00"])],
    );
}

/// Chihuahua's border region set its clocks back at midnight on 30 November 2022. That is the last entry of its
/// table, and later than the change that the rule for later years would have caused in that year.
#[test]
fn where_a_table_ends_and_a_rule_begins() {
    check(
        "America/Ciudad_Juarez",
        &[
            ("30 23 * * *", "2022-11-29T12:00:00Z", &["2022-11-29T23:30-06:00", "2022-11-30T23:30-07:00"]),
            (
                "30 * * * *",
                "2022-11-30T04:45:00Z",
                &["2022-11-29T23:30-06:00", "2022-11-29T23:30-07:00", "2022-11-30T00:30-07:00"],
            ),
        ],
    );
    let cron = Cron::new("30 * * * *", "America/Ciudad_Juarez").unwrap();
    assert_eq!(cron.count(at("2022-11-29T00:00:00Z"), at("2022-12-01T00:00:00Z"), 99), 48);
}

/// Liberia changed to a whole-minute offset in 1972: the clock jumped from 00:00:00 to 00:44:30.
#[test]
fn a_jump_that_ends_within_a_minute() {
    let cron = Cron::new("10 0 * * *", "Africa/Monrovia").unwrap();
    let first = cron.after(at("1972-01-06T12:00:00Z")).unwrap();
    assert_eq!(first, at("1972-01-07T00:44:30Z"));
    assert_eq!(cron.after(first), Some(at("1972-01-08T00:10:00Z")));
    assert_eq!(cron.until(at("1972-01-07T23:00:00Z")), Some(first));
    assert_eq!(cron.until(at("1972-01-07T00:44:29Z")), Some(at("1972-01-06T00:54:30Z")));
    assert_eq!(cron.count(at("1972-01-06T12:00:00Z"), at("1972-01-08T12:00:00Z"), 9), 2);
}

#[test]
fn leap_days_and_the_ends_of_years() {
    check(
        "UTC",
        &[
            ("0 0 29 2 *", "2024-03-01T00:00:00Z", &["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
            // 2100 has no leap day.
            ("0 0 29 2 *", "2096-02-29T00:00:00Z", &["2104-02-29T00:00+00:00"]),
            // Weekday `*/6` is a Sunday or a Saturday.
            ("0 0 29 2 */6", "2024-01-01T00:00:00Z", &["2032-02-29T00:00+00:00", "2048-02-29T00:00+00:00"]),
            (
                "0 12 28-31 2 *",
                "2027-02-28T00:00:00Z",
                &["2027-02-28T12:00+00:00", "2028-02-28T12:00+00:00", "2028-02-29T12:00+00:00"],
            ),
            ("59 23 31 12 *", "2025-12-31T23:59:00Z", &["2026-12-31T23:59+00:00"]),
            ("*/30 * * * *", "2025-12-31T23:30:00Z", &["2026-01-01T00:00+00:00", "2026-01-01T00:30+00:00"]),
            ("@yearly", "2025-06-01T00:00:00Z", &["2026-01-01T00:00+00:00", "2027-01-01T00:00+00:00"]),
            ("@monthly", "2025-12-15T00:00:00Z", &["2026-01-01T00:00+00:00", "2026-02-01T00:00+00:00"]),
            (
                "0 0 31 * *",
                "2026-01-31T00:00:00Z",
                &["2026-03-31T00:00+00:00", "2026-05-31T00:00+00:00", "2026-07-31T00:00+00:00"],
            ),
            // Either the 13th or a Friday matches.
            (
                "0 0 13 * FRI",
                "2026-01-05T00:00:00Z",
                &["2026-01-09T00:00+00:00", "2026-01-13T00:00+00:00", "2026-01-16T00:00+00:00"],
            ),
            // Both must match: an odd day that is a Friday.
            (
                "0 0 */2 * FRI",
                "2026-01-05T00:00:00Z",
                &["2026-01-09T00:00+00:00", "2026-01-23T00:00+00:00", "2026-02-13T00:00+00:00"],
            ),
            ("@weekly", "2026-01-01T00:00:00Z", &["2026-01-04T00:00+00:00", "2026-01-11T00:00+00:00"]),
        ],
    );
}

/// A leap day on a Sunday. 2100 has no leap day, which shifts the weekdays of later leap days.
#[test]
fn the_rarest_time_is_found_across_a_century() {
    let expected = ["2060-02-29T00:00+00:00", "2088-02-29T00:00+00:00", "2128-02-29T00:00+00:00"];
    check("UTC", &[("0 0 29 2 */7", "2032-02-29T00:00:00Z", &expected)]);
    check("Europe/Berlin", &[("0 12 29 2 */7", "2088-03-01T00:00:00Z", &["2128-02-29T12:00+01:00"])]);
}

/// Times within a minute, and at the limits of the calendar.
#[test]
fn moments_between_and_beyond() {
    let cron = Cron::new("* * * * *", "Europe/Berlin").unwrap();
    let noon = at("2026-01-01T12:00:00Z");
    let a_bit_later = Timestamp::from_micros(noon.as_micros() + 1);
    let a_bit_before = Timestamp::from_micros(noon.as_micros() - 1);
    assert_eq!(cron.from(noon), Some(noon));
    assert_eq!(cron.from(a_bit_later), Some(at("2026-01-01T12:01:00Z")));
    assert_eq!(cron.from(a_bit_before), Some(noon));
    assert_eq!(cron.after(a_bit_before), Some(noon));
    assert_eq!(cron.after(a_bit_later), Some(at("2026-01-01T12:01:00Z")));
    assert_eq!(cron.until(a_bit_before), Some(at("2026-01-01T11:59:00Z")));
    assert_eq!(cron.until(a_bit_later), Some(noon));
    assert_eq!(cron.count(a_bit_before, a_bit_later, 9), 1);
    assert_eq!(cron.count(noon, noon, 9), 0);
    assert_eq!(cron.count(a_bit_later, a_bit_before, 9), 0);
    for far in [u64::MAX, u64::MAX - 1, i64::MAX as u64, 253_402_300_800_000_000] {
        let far = Timestamp::from_micros(far);
        assert_eq!((cron.after(far), cron.from(far), cron.until(far)), (None, None, None), "{far:?}");
        assert_eq!(cron.count(noon, far, 9), 0, "{far:?}");
    }
    let end = at("9999-12-30T21:59:59Z");
    assert!(cron.after(end).is_none_or(|next| next > end));
    let leap = Cron::new("0 0 29 2 *", "Europe/Berlin").unwrap();
    assert_eq!(leap.after(end), None);
    assert_eq!(leap.until(Timestamp::ZERO), None, "nothing is before 1970");
    assert_eq!(cron.until(Timestamp::ZERO), Some(Timestamp::ZERO));
}
