//! The page: one self-contained HTML file with a timeline for each key. It contains no scripts and loads no other
//! resources.
//!
//! `axis` labels the time, and `drawing` draws a key's timeline. What a drawing shows is also there as text: in its
//! label, in the counts above it and in the list of transitions below it.

mod axis;
mod drawing;

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::time::Duration;

use breakerbox_core::{Policy, format_duration};

use axis::{Span, written};
use drawing::{class, is_above, state_label};

use super::clock::Times;
use super::engine::{Finished, KeyLife};
use super::summary::{counted, readable};
use super::tally::Tally;
use super::timeline::{Shown, Stretch, Timeline};

const STYLE: &str = include_str!("page.css");

/// The maximum number of keys on a page. Browsers are slow with more.
const KEYS: usize = 2_000;
/// The maximum number of state periods on a page, of all keys together. Browsers are slow with more.
const STRETCHES: usize = 50_000;

/// The maximum number of transitions listed below a timeline.
const LISTED: usize = 200;

/// Writes the page. The keys with the most trips come first.
///
/// # Errors
/// Returns an error if the page can't be written.
pub fn write(finished: &mut Finished, policy: &Policy, source: &str, output: impl Write) -> io::Result<()> {
    let widest = finished.lives.iter().filter_map(|life| life.timeline.as_ref()).map(Timeline::cell_ms).max();
    for timeline in finished.lives.iter_mut().filter_map(|life| life.timeline.as_mut()) {
        timeline.widen_to(widest.unwrap_or(1));
    }
    let mut output = io::BufWriter::new(output);
    let (from, times) = (finished.started_ms, finished.times);
    let span = Span { from, to: finished.ended_ms.max(from + 1), times };
    head(finished, policy, source, span, &mut output)?;
    let lives = finished.most_troubled();
    let mut stretches = 0;
    let mut drawn = 0;
    for life in lives.iter().take(KEYS) {
        stretches += life.timeline.as_ref().map_or(0, |timeline| timeline.stretches().len());
        if stretches > STRETCHES {
            break;
        }
        key_section(life, span, &mut output)?;
        drawn += 1;
    }
    if lives.len() > drawn {
        let hidden = counted(lives.len() - drawn, "more key");
        writeln!(output, "<p>Not shown: {hidden}. <code>--summary-json</code> lists all keys.</p>")?;
    }
    writeln!(output, "</main></body></html>")?;
    output.flush()
}

fn head(
    finished: &Finished,
    policy: &Policy,
    source: &str,
    span: Span,
    output: &mut dyn Write,
) -> io::Result<()> {
    let total = finished.total();
    writeln!(
        output,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Replay of {source}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
         <h1>Replay of {source}</h1>\n<p>{keys} over {length}, {range}. Trips at {rules}.</p>",
        source = Escaped(source),
        keys = counted(finished.lives.len(), "key"),
        length = span.since_start(finished.ended_ms),
        range = span.range(),
        rules = Escaped(&rules(policy)),
    )?;
    numbers(&total, None, output)?;
    states_legend(output)?;
    let cell_ms = finished.lives.iter().find_map(|life| life.timeline.as_ref()).map_or(1, Timeline::cell_ms);
    if total.samples == 0 {
        calls_legend(Duration::from_millis(cell_ms), output)?;
    }
    let axis = match span.times {
        Times::Clock => "clock time, in UTC",
        Times::Elapsed => "since the first line of the traffic",
    };
    writeln!(output, "<div class=\"legend\"><span>Time (axis)</span><span>{axis}</span></div>")
}

fn states_legend(output: &mut dyn Write) -> io::Result<()> {
    const STATES: [(&str, &str); 5] = [
        ("closed", "closed"),
        ("open", "open"),
        ("half_open", "half-open"),
        ("disabled", "disabled"),
        ("many", "many changes"),
    ];
    writeln!(output, "<div class=\"legend\"><span>States (band)</span><ul>")?;
    for (class, label) in STATES {
        writeln!(output, "<li>{}{label}</li>", swatch(class, 0.0, 10.0, false))?;
    }
    writeln!(output, "</ul></div>")
}

fn calls_legend(cell: Duration, output: &mut dyn Write) -> io::Result<()> {
    let cell = if cell < Duration::from_secs(1) {
        format!("{} ms", cell.as_millis())
    } else {
        format!("{:.1} s", cell.as_secs_f64())
    };
    writeln!(output, "<div class=\"legend\"><span>Calls per {cell} (bars)</span><ul>")?;
    for shown in Shown::ALL {
        let (top, label) = (if is_above(shown) { 0.0 } else { 5.0 }, label(shown));
        writeln!(output, "<li>{}{label}</li>", swatch(class(shown), top, 5.0, true))?;
    }
    writeln!(output, "</ul></div>")
}

/// Returns a small picture for a legend: a rectangle and, if `has_line`, the line that separates admitted from refused
/// calls.
fn swatch(class: &str, top: f64, height: f64, has_line: bool) -> String {
    let line = if has_line { "<path class=\"line\" d=\"M0 5h10\"/>" } else { "" };
    format!(
        "<svg aria-hidden=\"true\" viewBox=\"0 0 10 10\"><rect class=\"{class}\" y=\"{top}\" width=\"10\" height=\"{height}\"/>{line}</svg>"
    )
}

fn key_section(life: &KeyLife, span: Span, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "<section><h2>{}</h2>", Escaped(&life.key))?;
    numbers(&life.tally, life.timeline.as_ref(), output)?;
    if let Some(timeline) = &life.timeline {
        drawing::write(timeline, &life.tally, span, output)?;
        transitions(timeline.stretches(), span, output)?;
    }
    writeln!(output, "</section>")
}

/// Writes the counts of a key, or of all keys. The timeline adds the scale of the key's bars.
fn numbers(tally: &Tally, timeline: Option<&Timeline>, output: &mut dyn Write) -> io::Result<()> {
    let mut numbers = Vec::new();
    if tally.samples > 0 {
        numbers.push(("samples", tally.samples.to_string()));
    } else {
        numbers.push(("calls", tally.calls.to_string()));
        numbers.push(("refused", tally.refused.to_string()));
        numbers.push(("failed calls refused", tally.failed_calls_refused.to_string()));
        numbers.push(("successful calls refused", tally.successful_calls_refused.to_string()));
    }
    numbers.push(("trips", tally.trips.to_string()));
    numbers.push(("time open", readable(tally.time_open)));
    if !tally.time_disabled.is_zero() {
        numbers.push(("disabled", readable(tally.time_disabled)));
    }
    if let Some(timeline) = timeline.filter(|_| tally.samples == 0) {
        numbers.push(("calls in the tallest bar", drawing::tallest(timeline).to_string()));
    }
    write!(output, "<dl>")?;
    for (term, value) in numbers {
        write!(output, "<div><dt>{term}</dt><dd>{value}</dd></div>")?;
    }
    writeln!(output, "</dl>")
}

fn transitions(stretches: &[Stretch], span: Span, output: &mut dyn Write) -> io::Result<()> {
    if stretches.is_empty() {
        return Ok(());
    }
    let times = match span.times {
        Times::Clock => "time (UTC)",
        Times::Elapsed => "at_ms",
    };
    write!(output, "<details><summary>Transitions ({})</summary><table><tr>", stretches.len())?;
    for column in ["after", times, "to", "rule"] {
        write!(output, "<th scope=\"col\">{column}</th>")?;
    }
    writeln!(output, "</tr>")?;
    for Stretch { from_ms, status, rule } in stretches.iter().take(LISTED) {
        let (after, label, rule) =
            (span.since_start(*from_ms), state_label(*status), rule.unwrap_or_default());
        let at = match span.times {
            Times::Clock => written(*from_ms, "%F %T%.3f"),
            Times::Elapsed => from_ms.to_string(),
        };
        writeln!(output, "<tr><td>{after}</td><td>{at}</td><td>{label}</td><td>{rule}</td></tr>")?;
    }
    writeln!(output, "</table>")?;
    if stretches.len() > LISTED {
        writeln!(output, "<p>{} more are not listed.</p>", stretches.len() - LISTED)?;
    }
    writeln!(output, "</details>")
}

const fn label(shown: Shown) -> &'static str {
    match shown {
        Shown::Good => "admitted, succeeded or ignored",
        Shown::Failed => "admitted, failed",
        Shown::Saved => "refused, would have failed",
        Shown::Delayed => "refused, would have succeeded",
    }
}

/// Describes the policy's rules in words.
fn rules(policy: &Policy) -> String {
    let mut rules = Vec::new();
    let enough = format!("of at least {} calls", policy.min_calls());
    if let Some(rate) = policy.failure_rate() {
        rules.push(format!("{rate} % failures {enough}"));
    }
    if let Some(failures) = policy.failures() {
        rules.push(format!("{failures} failures"));
    }
    if let Some(run) = policy.consecutive_failures() {
        rules.push(format!("{run} consecutive failures"));
    }
    if let Some(mean) = policy.mean_latency() {
        rules.push(format!("a mean latency of {} {enough}", format_duration(mean)));
    }
    if let (Some(rate), Some(slow)) = (policy.slow_rate(), policy.slow_call()) {
        rules.push(format!("{rate} % slower than {} {enough}", format_duration(slow)));
    }
    format!("{}, within {}", rules.join(", or "), format_duration(policy.window()))
}

/// Text that is HTML-escaped when displayed.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the colours of the drawing, for a light and for a dark page.
    fn schemes() -> Vec<Vec<(&'static str, &'static str)>> {
        let colours = |scheme: &'static str| {
            let names = ["closed", "open", "half-open", "disabled", "many", "succeeded", "failed", "panel"];
            let colour = |name: &'static str| {
                let rest = scheme.split_once(&format!("--{name}: ")).unwrap().1;
                (name, rest.split(';').next().unwrap())
            };
            names.map(colour).to_vec()
        };
        let (light, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        vec![colours(light), colours(dark)]
    }

    #[test]
    fn no_colour_means_two_things() {
        for scheme in schemes() {
            for (n, (name, colour)) in scheme.iter().enumerate() {
                let other = scheme[..n].iter().find(|(_, other)| other == colour);
                assert_eq!(other, None, "{name} is {colour}");
            }
        }
    }

    #[test]
    fn every_state_and_kind_of_call_has_a_colour() {
        let kinds = Shown::ALL.map(class);
        for class in ["closed", "open", "half_open", "disabled", "many"].into_iter().chain(kinds) {
            let has_colour = [format!(".{class} {{ fill: var("), format!(".{class}, .")];
            assert!(has_colour.iter().any(|rule| STYLE.contains(rule)), "{class}");
        }
    }
}
