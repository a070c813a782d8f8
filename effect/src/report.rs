//! The report: tables in Markdown, written between markers of a page, and the checks that the command fails on.

use std::fmt::Write as _;
use std::time::Duration;

use crate::breakers::{NO_BREAKER, OURS, PUBLISHED, Row};
use crate::grid::Numbers;
use crate::measures::{Measures, percentile, share};
use crate::plot::{self, Line, Point, Words};
use crate::population::KINDS;
use crate::sweep::{self, Step};

/// The part of attempts at endpoints that are down which a breaker must save.
const SAVED_WHILE_DOWN: f64 = 0.97;
/// The part of good deliveries that may be delayed by more than 10 s.
const DELAYED: f64 = 0.001;

/// A row with its measures over all days.
pub(crate) struct Result {
    pub(crate) row: Row,
    pub(crate) measures: Measures,
    /// The calls for each attempt to recover, by number of workers.
    pub(crate) recovery_calls: [Option<f64>; 3],
}

/// The size of a run, which the report states.
pub(crate) struct Size {
    pub(crate) endpoints: usize,
    pub(crate) events: u64,
    pub(crate) seeds: u64,
}

fn find<'a>(results: &'a [Result], name: &str) -> &'a Measures {
    let found = results.iter().find(|result| result.row.name == name);
    &found.expect("the row is one of the comparison's").measures
}

/// Returns the targets that the comparison misses.
pub(crate) fn missed(results: &[Result]) -> Vec<String> {
    let (ours, none) = (find(results, OURS), find(results, NO_BREAKER));
    let mut missed = Vec::new();
    for other in results.iter().filter(|result| result.row.name != OURS) {
        if other.measures.beats(ours) {
            missed.push(format!("{} has no more failed attempts and no more delay", other.row.name));
        }
    }
    let saved = 1.0 - share(ours.while_down, none.while_down);
    if saved < SAVED_WHILE_DOWN {
        missed.push(format!(
            "{} of the attempts at endpoints that are down are saved, not 97 %",
            percent(saved)
        ));
    }
    let delayed = share(ours.delayed[1], ours.delivered);
    if delayed > DELAYED {
        missed.push(format!(
            "{} of good deliveries are delayed by more than 10 s, not 0.1 %",
            percent(delayed)
        ));
    }
    missed
}

/// Returns the tables of the comparison.
pub(crate) fn day(results: &[Result], size: &Size) -> String {
    let days = if size.seeds == 1 { "day".to_owned() } else { format!("{} days", size.seeds) };
    let mut text = format!(
        "{} endpoints, {} events a day; the mean of {days}, seeds 1 to {}.\n\n",
        count(size.endpoints as u64, 1),
        count(size.events, 1),
        size.seeds
    );
    let none = find(results, NO_BREAKER);
    let table = |head: &str, cells: &dyn Fn(&Result) -> Vec<String>| {
        let columns = head.matches('|').count();
        let mut text = format!("| breaker | {head} |\n|{}\n", " --- |".repeat(columns + 2));
        for result in results {
            let name = if result.row.name == OURS { format!("**{OURS}**") } else { result.row.name.clone() };
            let _ = writeln!(text, "| {name} | {} |", cells(result).join(" | "));
        }
        text + "\n"
    };
    text += "### Requests and delay\n\n";
    text += &table(
        "failed attempts | saved | attempts while down | saved | good deliveries delayed > 1 s | > 10 s | > 1 min | total delay | \
         later than 1 min, for any reason",
        &|result| {
            let m = &result.measures;
            let of = |n: u64| format!("{} ({})", count(n, size.seeds), percent(share(n, m.delivered)));
            vec![
                count(m.failed, size.seeds),
                percent(1.0 - share(m.failed, none.failed)),
                count(m.while_down, size.seeds),
                percent(1.0 - share(m.while_down, none.while_down)),
                of(m.delayed[0]),
                of(m.delayed[1]),
                of(m.delayed[2]),
                human(m.delay.div_f64(days_of(size))),
                count(m.late, size.seeds),
            ]
        },
    );
    text += "### Trips and recoveries\n\n";
    text += &table(
        "time to trip p50 | p99 | time to recover p50 | p99 | worst | trips without an outage | calls for each attempt to \
         recover, 1 worker | 8 | 50",
        &|result| {
            let m = &result.measures;
            let time = |times: &[Duration], percent| percentile(times, percent).map_or("–".to_owned(), human);
            let mut cells = vec![time(&m.to_trip, 50), time(&m.to_trip, 99)];
            cells.extend([50, 99, 100].map(|percent| time(&m.to_recover, percent)));
            cells.push(count(m.false_trips, size.seeds));
            cells.extend(
                result.recovery_calls.map(|calls| calls.map_or("–".to_owned(), |n| format!("{n:.1}"))),
            );
            cells
        },
    );
    text += "### Endpoints and their owners\n\n";
    let to_notify = format!("not notified, of {}", count(none.to_notify, size.seeds));
    let head = format!(
        "endpoints disabled wrongly | owners notified wrongly | {to_notify} | operator notified of its own network"
    );
    text += &table(&head, &|result| {
        let m = &result.measures;
        [m.wrongly_disabled, m.wrongly_notified, m.not_notified, m.operator_notifications]
            .map(|n| count(n, size.seeds))
            .to_vec()
    });
    text += &published(results);
    text += &kinds(results, size);
    text += "### Rules\n\n| breaker | rule |\n| --- | --- |\n";
    for Result { row, .. } in results {
        let _ = writeln!(text, "| {} | {} |", row.name, row.rule);
    }
    text
}

/// Returns how Breakerbox compares with the published breakers.
fn published(results: &[Result]) -> String {
    let ours = find(results, OURS);
    let mut text = "### Breakerbox and the published breakers\n\n\
                    | breaker | its failed attempts, as a multiple of ours | its delay, as a multiple of ours | better in both |\n\
                    | --- | --- | --- | --- |\n"
        .to_owned();
    for name in PUBLISHED {
        let other = find(results, name);
        let delay = other.delay.as_secs_f64() / ours.delay.as_secs_f64().max(f64::MIN_POSITIVE);
        let better = match (other.failed > ours.failed, other.delay > ours.delay) {
            (true, true) => "Breakerbox",
            (false, false) => "the other",
            _ => "neither",
        };
        let _ =
            writeln!(text, "| {name} | {:.1} | {delay:.2} | {better} |", share(other.failed, ours.failed));
    }
    text + "\n"
}

/// Returns where failed attempts and delays come from.
fn kinds(results: &[Result], size: &Size) -> String {
    let (none, ours) = (find(results, NO_BREAKER), find(results, OURS));
    let mut text = "### By kind of endpoint\n\n\
                    | endpoints | kind | failed attempts, no breaker | Breakerbox | delay, Breakerbox |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for (kind, number, name) in KINDS {
        let of = |measures: &Measures| measures.by_kind.get(&kind).copied().unwrap_or_default();
        let (failed, delay) = of(ours);
        let delay = human(delay.div_f64(days_of(size)));
        let cells = [count(of(none).0, size.seeds), count(failed, size.seeds), delay];
        let _ = writeln!(text, "| {} | {name} | {} |", count(number as u64, 1), cells.join(" | "));
    }
    text + "\n"
}

/// Draws the trade-off.
pub(crate) fn day_plot(results: &[Result], size: &Size) -> String {
    let point = |result: &Result| Point {
        label: result.row.label.to_owned(),
        x: per_day(result.measures.while_down, size),
        y: result.measures.delay.as_secs_f64() / days_of(size) / 3_600.0,
        is_ours: result.row.name == OURS,
    };
    let points: Vec<_> = results.iter().map(point).collect();
    let words = Words {
        title: "Requests to endpoints that are down, and the delay of good deliveries, in a day",
        x: "requests to endpoints that are down (fewer is better)",
        y: "delay of good deliveries, hours in total (less is better)",
        x_tick: |x| count_f(x),
        y_tick: |y| count_f(y),
    };
    plot::scatter(&points, &words)
}

/// Returns the table of the sweep.
pub(crate) fn sweep(steps: &[Step], policy: &breakerbox_core::Policy, seeds: u64) -> String {
    let violations: usize = steps.iter().map(|step| step.violations.len()).sum();
    let runs: usize = steps.iter().map(|step| step.runs).sum();
    let rates = sweep::RATES.map(|rate| rate.to_string()).join(", ");
    let calls = sweep::CALLS.map(|(_, _, name)| name).join("; ");
    let mut text = format!(
        "{} outages: {} lengths, {rates} events a second, {seeds} seeds, and calls that are {calls}. {} of them took \
         longer than the bound.\n\n\
         | outage | opened | time to recover p50 | worst | worst, failed calls take 15 s | bound without calls | largest part of its bound |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
        count(runs as u64, 1),
        steps.len(),
        count(violations as u64, 1),
    );
    for step in steps {
        let time = |time: Option<Duration>| time.map_or("–".to_owned(), human);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            human(step.outage),
            percent(share(step.opened as u64, step.runs as u64)),
            time(step.median),
            time(step.worst),
            time(step.worst_hanging),
            human(sweep::plain_bound(step.outage, policy)),
            percent(step.worst_share),
        );
    }
    text
}

/// Draws the recoveries of the sweep.
pub(crate) fn sweep_plot(steps: &[Step], policy: &breakerbox_core::Policy) -> String {
    let line = |class, name, value: &dyn Fn(&Step) -> Option<Duration>| Line {
        class,
        name,
        points: steps
            .iter()
            .filter_map(|step| Some((step.outage.as_secs_f64(), value(step)?.as_secs_f64())))
            .collect(),
    };
    let lines = [
        line("bound", "bound, without the time of the calls", &|step| {
            Some(sweep::plain_bound(step.outage, policy))
        }),
        line("hanging", "longest recovery, failed calls take 15 s", &|step| step.worst_hanging),
        line("worst", "longest recovery, calls take about 1 s or less", &|step| step.worst),
        line("median", "median recovery, calls take about 1 s or less", &|step| step.median),
    ];
    let words = Words {
        title: "Time until calls flow again, by the length of the outage",
        x: "length of the outage",
        y: "time from its end until the circuit is closed",
        x_tick: |x| human(Duration::from_secs_f64(x)),
        y_tick: |y| human(Duration::from_secs_f64(y)),
    };
    plot::lines(&lines, &words)
}

/// Returns the table of the grid.
pub(crate) fn grid(rows: &[(Numbers, Measures)], defaults: Numbers, size: &Size) -> String {
    let mut text = format!(
        "{} endpoints, {} events a day, seeds 1 to {}. The defaults are in bold.\n\n\
         | `cool_off` | `cool_off_factor` | `cool_off_max` | `forgive_after` | failed attempts | attempts while down | delayed > 1 s | \
         > 10 s | total delay | time to recover p50 | p99 |\n|{}\n",
        count(size.endpoints as u64, 1),
        count(size.events, 1),
        size.seeds,
        " --- |".repeat(11),
    );
    for (numbers, m) in rows {
        let mut cells = numbers.cells().to_vec();
        cells.extend([m.failed, m.while_down, m.delayed[0], m.delayed[1]].map(|n| count(n, size.seeds)));
        cells.push(human(m.delay.div_f64(days_of(size))));
        cells
            .extend([50, 99].map(|percent| percentile(&m.to_recover, percent).map_or("–".to_owned(), human)));
        if *numbers == defaults {
            cells.iter_mut().for_each(|cell| *cell = format!("**{cell}**"));
        }
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// Returns the page with another text between the markers of this name; `None` if it has no such markers.
pub(crate) fn replaced(page: &str, name: &str, text: &str) -> Option<String> {
    let (start, end) =
        (format!("<!-- {name}: written by `cargo xtask effect` -->\n"), format!("<!-- {name}: end -->"));
    let from = page.find(&start)? + start.len();
    let to = from + page[from..].find(&end)?;
    Some(format!("{}\n{}\n{}", &page[..from], text.trim_end(), &page[to..]).replace("-->\n\n\n", "-->\n\n"))
}

#[allow(clippy::cast_precision_loss)] // Far below 2^53.
fn days_of(size: &Size) -> f64 {
    size.seeds as f64
}

#[allow(clippy::cast_precision_loss)] // Far below 2^53.
fn per_day(n: u64, size: &Size) -> f64 {
    n as f64 / days_of(size)
}

/// Formats a count, as the rounded mean of so many days, with separators.
fn count(n: u64, days: u64) -> String {
    let digits = ((n + days / 2) / days).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a value of an axis.
fn count_f(value: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A positive power of ten.
    if value >= 1.0 { count(value as u64, 1) } else { value.to_string() }
}

/// Formats a share, exactly enough to tell it from 0 and 100 %.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent {
        p if p == 0.0 || p == 100.0 => 0,
        p if (1.0..=95.0).contains(&p) => 0,
        p if p > 95.0 => 1,
        _ => 3,
    };
    format!("{percent:.digits$} %")
}

/// Formats a duration for people.
fn human(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match seconds {
        s if s < 1.0 => return format!("{s:.2} s"),
        s if s < 60.0 => (s, "s"),
        s if s < 3_600.0 => (s / 60.0, "min"),
        s => (s / 3_600.0, "h"),
    };
    if value < 10.0 {
        return format!("{value:.1} {unit}");
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Positive, and far below 2^63.
    let whole = value.round() as u64;
    format!("{} {unit}", count(whole, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            (count(1_234_567, 1), count(5, 3), count(999, 1)),
            ("1,234,567".into(), "2".into(), "999".into())
        );
        let times = [300, 9_940, 45_000, 90_000, 7_200_000].map(|ms| human(Duration::from_millis(ms)));
        assert_eq!(times, ["0.30 s", "9.9 s", "45 s", "1.5 min", "2.0 h"]);
        let shares = [0.0, 0.000_15, 0.5, 0.978, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "0.015 %", "50 %", "97.8 %", "100 %"]);
    }

    #[test]
    fn a_page_keeps_what_is_outside_of_the_markers() {
        let page = "a\n<!-- day: written by `cargo xtask effect` -->\nold\n<!-- day: end -->\nb\n";
        let once = replaced(page, "day", "new\n").unwrap();
        assert_eq!(once, "a\n<!-- day: written by `cargo xtask effect` -->\n\nnew\n<!-- day: end -->\nb\n");
        assert_eq!(replaced(&once, "day", "new\n").unwrap(), once);
        assert_eq!(replaced(page, "grid", "new"), None);
    }
}
