//! Tests which expressions are parsed, with which result, and the errors for the others.

use super::super::fields::Fields;
use super::super::{Cron, MAX_LENGTH};

fn set(values: impl IntoIterator<Item = u32>) -> u64 {
    values.into_iter().fold(0, |set, value| set | (1 << value))
}

#[test]
fn each_shape_is_read() {
    type Part = fn(&Fields) -> u64;
    let (minutes, hours, days): (Part, Part, Part) = (|f| f.minutes, |f| f.hours, |f| f.days);
    let (months, weekdays): (Part, Part) = (|f| f.months, |f| f.weekdays);
    let table: Vec<(&str, Part, u64)> = vec![
        ("* * * * *", minutes, set(0..60)),
        ("* * * * *", hours, set(0..24)),
        ("* * * * *", days, set(1..32)),
        ("* * * * *", months, set(1..13)),
        ("* * * * *", weekdays, set(0..7)),
        ("7 * * * *", minutes, set([7])),
        ("07 * * * *", minutes, set([7])),
        ("*/15 * * * *", minutes, set([0, 15, 30, 45])),
        ("*/59 * * * *", minutes, set([0, 59])),
        ("10-14 * * * *", minutes, set(10..15)),
        ("10-30/10 * * * *", minutes, set([10, 20, 30])),
        ("10-29/10 * * * *", minutes, set([10, 20])),
        ("0,5,10-12,50-59/4 * * * *", minutes, set([0, 5, 10, 11, 12, 50, 54, 58])),
        ("0 9-17/4,23 * * *", hours, set([9, 13, 17, 23])),
        ("0 0 1,31 * *", days, set([1, 31])),
        ("0 0 */10 * *", days, set([1, 11, 21, 31])),
        ("0 0 * JAN,feb,Dec *", months, set([1, 2, 12])),
        ("0 0 * mar-5 *", months, set([3, 4, 5])),
        ("0 0 * */4 *", months, set([1, 5, 9])),
        ("0 0 * * SUN", weekdays, set([0])),
        ("0 0 * * 7", weekdays, set([0])),
        ("0 0 * * 0,7", weekdays, set([0])),
        ("0 0 * * mon-FRI", weekdays, set(1..6)),
        ("0 0 * * FRI-SUN", weekdays, set([5, 6, 0])),
        ("0 0 * * 5-7", weekdays, set([5, 6, 0])),
        ("0 0 * * SUN-TUE", weekdays, set([0, 1, 2])),
        ("0 0 * * SUN-SUN", weekdays, set([0])),
        ("0 0 * * */3", weekdays, set([0, 3, 6])),
        ("0 0 * * */7", weekdays, set([0])),
        ("0 0 * * 1-7/2", weekdays, set([1, 3, 5, 0])),
        ("  0\t0  *  *  *", hours, set([0])),
    ];
    for (text, part, expected) in table {
        let fields = Fields::read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(part(&fields), expected, "{text}");
    }
}

#[test]
fn short_forms_mean_what_they_say() {
    for (short, long) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Daily", "0 0 * * *"),
    ] {
        assert_eq!(Fields::read(short).unwrap(), Fields::read(long).unwrap(), "{short}");
        assert_eq!(Cron::new(short, "UTC").unwrap().to_string(), short, "it stays as it was written");
    }
}

#[test]
fn a_star_in_front_decides_how_days_and_hours_count() {
    for (text, either_day, every_hour) in [
        ("0 * 1 * 1", true, true),
        ("0 */2 1 * 1", true, true),
        ("0 0-23 1 * 1", true, false),
        ("0 2 * * 1", false, false),
        ("0 2 */2 * 1", false, false),
        ("0 2 1 * */2", false, false),
        ("0 2 1-31 * 0-6", true, false),
    ] {
        let fields = Fields::read(text).unwrap();
        assert_eq!((fields.either_day, fields.every_hour), (either_day, every_hour), "{text}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let long = format!("{} * * * *", "1,".repeat(MAX_LENGTH / 2));
    let table = [
        (
            "",
            "cron: must have five fields (minute hour day month weekday, such as \"30 9 * * MON-FRI\"), but has 0",
        ),
        (
            "* * * *",
            "cron: must have five fields (minute hour day month weekday, such as \"30 9 * * MON-FRI\"), but has 4",
        ),
        (
            "0 * * * * *",
            "cron: must have five fields (minute hour day month weekday, such as \"30 9 * * MON-FRI\"), but has 6; seconds are not supported",
        ),
        (&long, "cron: must have at most 256 characters, but has 264"),
        ("@reboot", "cron: \"@reboot\" is unknown; use @hourly, @daily, @weekly, @monthly or @yearly"),
        ("@every 5m", "cron: \"@every 5m\" is unknown; use @hourly, @daily, @weekly, @monthly or @yearly"),
        ("60 * * * *", "cron: field 1 (minute): \"60\" is out of range; write 0 to 59"),
        ("999 * * * *", "cron: field 1 (minute): \"999\" is out of range; write 0 to 59"),
        ("0 24 * * *", "cron: field 2 (hour): \"24\" is out of range; write 0 to 23"),
        ("0 0 0 * *", "cron: field 3 (day): \"0\" is out of range; write 1 to 31"),
        ("0 0 * 13 *", "cron: field 4 (month): \"13\" is out of range; write 1 to 12, or JAN to DEC"),
        ("0 0 * * 8", "cron: field 5 (weekday): \"8\" is out of range; write 0 to 7, or SUN to SAT"),
        ("0 9-24 * * *", "cron: field 2 (hour): \"9-24\" is out of range; write 0 to 23"),
        (
            "0 0 L * *",
            "cron: field 3 (day): \"L\" is not a valid day; write 1 to 31, a list such as \"1,15\", a range such as \"1-7\" or a step such as \"*/2\"",
        ),
        (
            "0 0 * * FRI#2",
            "cron: field 5 (weekday): \"FRI#2\" is not a valid weekday; write 0 to 7, or SUN to SAT, a list such as \"MON,FRI\" or a range such as \"1-5\"",
        ),
        (
            "0 0 * JUNE *",
            "cron: field 4 (month): \"JUNE\" is not a valid month; write 1 to 12, or JAN to DEC, a list such as \"JAN,JUL\", a range such as \"1-6\" or a step such as \"*/3\"",
        ),
        (
            "? * * * *",
            "cron: field 1 (minute): \"?\" is not a valid minute; write 0 to 59, a list such as \"0,30\", a range such as \"10-20\" or a step such as \"*/15\"",
        ),
        (
            "-5 * * * *",
            "cron: field 1 (minute): \"-5\" is not complete; write 0 to 59, a list such as \"0,30\", a range such as \"10-20\" or a step such as \"*/15\"",
        ),
        (
            "+5 * * * *",
            "cron: field 1 (minute): \"+5\" is not a valid minute; write 0 to 59, a list such as \"0,30\", a range such as \"10-20\" or a step such as \"*/15\"",
        ),
        (
            "0 9,,17 * * *",
            "cron: field 2 (hour): \"\" is not complete; write 0 to 23, a list such as \"9,17\", a range such as \"9-17\" or a step such as \"*/2\"",
        ),
        (
            "0 9- * * *",
            "cron: field 2 (hour): \"9-\" is not complete; write 0 to 23, a list such as \"9,17\", a range such as \"9-17\" or a step such as \"*/2\"",
        ),
        (
            "0 17-9 * * *",
            "cron: field 2 (hour): \"17-9\" runs backwards; write the smaller one first, or two ranges with a comma",
        ),
        (
            "0 0 * * FRI-MON",
            "cron: field 5 (weekday): \"FRI-MON\" runs backwards; write the smaller one first, or two ranges with a comma",
        ),
        ("*/0 * * * *", "cron: field 1 (minute): the step of \"*/0\" must be from 1 to 59"),
        ("*/60 * * * *", "cron: field 1 (minute): the step of \"*/60\" must be from 1 to 59"),
        ("*/ * * * *", "cron: field 1 (minute): the step of \"*/\" must be from 1 to 59"),
        ("*/+5 * * * *", "cron: field 1 (minute): the step of \"*/+5\" must be from 1 to 59"),
        ("1-5/x * * * *", "cron: field 1 (minute): the step of \"1-5/x\" must be from 1 to 59"),
        ("5/10 * * * *", "cron: field 1 (minute): \"5/10\" has a step, but no range; write \"5-59/10\""),
        (
            "0 0 31 2 *",
            "cron: field 3 (day): never happens: no month of field 4 has this day; write an existing day",
        ),
        (
            "0 0 30,31 FEB *",
            "cron: field 3 (day): never happens: no month of field 4 has this day; write an existing day",
        ),
        (
            "0 0 31 4,6,9,11 *",
            "cron: field 3 (day): never happens: no month of field 4 has this day; write an existing day",
        ),
    ];
    for (text, expected) in table {
        let error = Cron::new(text, "UTC").unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
        assert_eq!(error.field(), "cron");
    }
}

#[test]
fn what_is_rare_is_no_mistake() {
    for text in ["0 0 29 2 *", "0 0 29 2 */6", "0 0 31 2 MON", "0 0 31 2,3 *", "0 0 31 1-12 *"] {
        assert!(Cron::new(text, "UTC").is_ok(), "{text}");
    }
}

#[test]
fn zones_are_found_by_their_names() {
    for (name, found) in [
        ("UTC", "UTC"),
        ("utc", "UTC"),
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
    ] {
        assert_eq!(Cron::new("@daily", name).unwrap().zone(), found);
    }
    let table = [
        (
            "Europe/Berln",
            "time_zone: \"Europe/Berln\" is unknown (did you mean \"Europe/Berlin\"?); write a name such as",
        ),
        ("", "time_zone: \"\" is unknown; write a name such as \"Europe/Berlin\" or \"UTC\""),
        ("Etc/Unknown", "time_zone: \"Etc/Unknown\" is unknown"),
        ("../../etc/passwd", "time_zone: \"../../etc/passwd\" is unknown; write"),
        ("+02:00", "time_zone: \"+02:00\" is unknown"),
    ];
    for (name, expected) in table {
        let error = Cron::new("@daily", name).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.field(), "time_zone");
    }
}

#[test]
fn equal_means_the_same_text_in_the_same_zone() {
    let cron = |text, zone| Cron::new(text, zone).unwrap();
    assert_eq!(cron("0 9 * * *", "UTC"), cron(" 0 9 * * * ", "utc"));
    assert_ne!(cron("0 9 * * *", "UTC"), cron("0 9 * * *", "Europe/Berlin"));
    assert_ne!(cron("0 9 * * *", "UTC"), cron("0 10 * * *", "UTC"));
    assert_eq!(format!("{:?}", cron("0 9 * * *", "UTC")), "Cron(\"0 9 * * *\" in UTC)");
}
