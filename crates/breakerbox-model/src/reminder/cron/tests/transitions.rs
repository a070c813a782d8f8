//! Compares any expression, around any clock change of any zone, with a simple implementation of the rules that
//! checks every local minute.

use std::collections::BTreeSet;

use breakerbox_core::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp as Moment, ToSpan};
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::Cron;

const HOURS: i64 = 30;

/// The zone's clock changes from 1970 to 2040.
fn changes(zone: &TimeZone) -> Vec<Moment> {
    let end: Moment = "2040-01-01T00:00:00Z".parse().unwrap();
    zone.following("1970-01-05T00:00:00Z".parse().unwrap())
        .map(|change| change.timestamp())
        .take_while(|at| *at < end)
        .collect()
}

fn matches(cron: &Cron, local: DateTime) -> bool {
    let has = |set: u64, value: i8| set & (1 << value) != 0;
    let fields = &cron.fields;
    let in_month = has(fields.days, local.day());
    let in_week = has(fields.weekdays, local.weekday().to_sunday_zero_offset());
    has(fields.minutes, local.minute())
        && has(fields.hours, local.hour())
        && has(fields.months, local.month())
        && if fields.either_day { in_month || in_week } else { in_month && in_week }
}

/// The occurrences according to the rules, for all local minutes that could correspond to a time in this span.
fn by_the_rules(cron: &Cron, from: Moment, before: Moment) -> BTreeSet<Moment> {
    let mut found = BTreeSet::new();
    let mut local = TimeZone::UTC.to_datetime(from - 40.hours()).round(jiff::Unit::Minute).unwrap();
    let end = TimeZone::UTC.to_datetime(before + 40.hours());
    while local < end {
        if matches(cron, local) {
            let meant = cron.zone.to_ambiguous_timestamp(local);
            match meant.offset() {
                AmbiguousOffset::Unambiguous { offset } => {
                    found.insert(offset.to_timestamp(local).unwrap());
                }
                AmbiguousOffset::Gap { before, .. } => {
                    // By the old offset, this time would have been after the jump.
                    let never = before.to_timestamp(local).unwrap();
                    let jumps = cron.zone.following(never - 48.hours()).map(|change| change.timestamp());
                    found.insert(jumps.take_while(|jump| *jump <= never).last().unwrap());
                }
                AmbiguousOffset::Fold { before, after } => {
                    found.insert(before.to_timestamp(local).unwrap());
                    if cron.fields.every_hour {
                        found.insert(after.to_timestamp(local).unwrap());
                    }
                }
            }
        }
        local += 1.minute();
    }
    found.into_iter().filter(|at| (from..before).contains(at)).collect()
}

fn core(at: Moment) -> Timestamp {
    Timestamp::from_micros(u64::try_from(at.as_microsecond()).unwrap())
}

fn shown(cron: &Cron, all: &[Timestamp]) -> Vec<String> {
    let moment = |at: &Timestamp| Moment::from_microsecond(i64::try_from(at.as_micros()).unwrap()).unwrap();
    all.iter().map(|at| moment(at).to_zoned(cron.zone.clone()).to_string()).collect()
}

/// Compares searches forward and backward, and counts, over the hours around a change.
fn compare(cron: &Cron, change: Moment) {
    let (from, before) = (change - HOURS.hours(), change + HOURS.hours());
    let expected: Vec<Timestamp> = by_the_rules(cron, from, before).into_iter().map(core).collect();
    let (from, before) = (core(from), core(before));

    let mut forwards = Vec::new();
    let mut next = cron.from(from);
    while let Some(at) = next.filter(|at| *at < before) {
        assert!(forwards.last().is_none_or(|last| *last < at), "{cron:?}: after {forwards:?} comes {at:?}");
        forwards.push(at);
        next = cron.after(at);
    }
    assert_eq!(shown(cron, &forwards), shown(cron, &expected), "{cron:?}, forwards");

    let mut backwards = Vec::new();
    let just_before = |at: Timestamp| Timestamp::from_micros(at.as_micros() - 1);
    let mut last = cron.until(just_before(before));
    while let Some(at) = last.filter(|at| *at >= from) {
        assert!(
            backwards.last().is_none_or(|last| *last > at),
            "{cron:?}: before {backwards:?} comes {at:?}"
        );
        backwards.push(at);
        last = cron.until(just_before(at));
    }
    backwards.reverse();
    assert_eq!(shown(cron, &backwards), shown(cron, &expected), "{cron:?}, backwards");

    let count = u32::try_from(expected.len()).unwrap();
    assert_eq!(cron.count(from, before, u32::MAX), count, "{cron:?}, counted");
    assert_eq!(cron.count(from, before, 7), count.min(7), "{cron:?}, counted up to 7");
    if let Some(middle) = expected.get(expected.len() / 2) {
        let rest = u32::try_from(expected.len() - expected.len() / 2).unwrap();
        assert_eq!(cron.count(*middle, before, u32::MAX), rest, "{cron:?}, counted from {middle:?}");
    }
}

fn list(values: std::ops::RangeInclusive<u8>, most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(values, 1..=most)
        .prop_map(|values| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

fn expression() -> impl Strategy<Value = String> {
    let star = || Just("*".to_owned());
    let minutes = prop_oneof![list(0..=59, 3), star(), (1_u8..=59).prop_map(|step| format!("*/{step}"))];
    let hours =
        prop_oneof![list(0..=4, 3), list(0..=23, 3), star(), (1_u8..=5).prop_map(|s| format!("*/{s}"))];
    let days = prop_oneof![3 => star(), 1 => list(1..=28, 5), 1 => Just("*/2".to_owned())];
    let weekdays = prop_oneof![3 => star(), 1 => list(0..=7, 3)];
    (minutes, hours, days, weekdays).prop_map(|(m, h, d, w)| format!("{m} {h} {d} * {w}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_or_doubled_where_a_clock_changes(
        text in expression(),
        zone in any::<Index>(),
        change in any::<Index>(),
    ) {
        let zones: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
        let cron = Cron::new(&text, &zones[zone.index(zones.len())]).unwrap();
        let changes = changes(&cron.zone);
        let change = if changes.is_empty() {
            "2026-03-29T01:00:00Z".parse().unwrap()
        } else {
            changes[change.index(changes.len())]
        };
        compare(&cron, change);
    }
}

#[test]
#[ignore = "every change of every zone takes minutes; the random ones above are enough from day to day"]
fn every_change_of_every_zone() {
    for zone in TimeZoneDatabase::bundled().available() {
        let crons = ["*/20 * * * *", "25 0-4 * * *"].map(|text| Cron::new(text, zone.as_str()).unwrap());
        for cron in crons {
            for change in changes(&cron.zone) {
                compare(&cron, change);
            }
        }
    }
}
