//! The page: one self-contained HTML file with a timeline for each key. It contains no scripts and loads no other
//! resources.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::time::Duration;

use breakerbox_core::{Policy, Status, format_duration};

use super::engine::{Finished, KeyLife};
use super::summary::{counted, readable};
use super::tally::Tally;
use super::timeline::{Cell, Shown, Stretch, Timeline};

const STYLE: &str = include_str!("page.css");

/// The maximum number of keys on a page. Browsers are slow with more.
const KEYS: usize = 2_000;
/// The maximum number of state periods on a page, of all keys together. Browsers are slow with more.
const STRETCHES: usize = 50_000;

/// The maximum number of transitions listed below a timeline.
const LISTED: usize = 200;

/// The width of a drawing, in SVG units. Browsers stretch the drawing to the width of the page.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 72.0;
/// The height of the state band at the top of a drawing. The calls are drawn below the band.
const BAND: f64 = 16.0;
const GAP: f64 = 4.0;
const THINNEST: f64 = 2.0;
const MOST_WIDENED: usize = 60;

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
    let span = Span { from: finished.started_ms, to: finished.ended_ms.max(finished.started_ms + 1) };
    head(finished, policy, source, &mut output)?;
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

/// The time range that the page covers, in milliseconds.
#[derive(Clone, Copy)]
struct Span {
    from: u64,
    to: u64,
}

impl Span {
    /// Returns the horizontal position in the drawing for a time.
    #[allow(clippy::cast_precision_loss)] // A drawing has a thousand steps.
    fn x(self, at_ms: u64) -> f64 {
        let at = at_ms.clamp(self.from, self.to) - self.from;
        at as f64 / (self.to - self.from) as f64 * WIDTH
    }

    fn since_start(self, at_ms: u64) -> String {
        readable(Duration::from_millis(at_ms.saturating_sub(self.from)))
    }
}

fn head(finished: &Finished, policy: &Policy, source: &str, output: &mut dyn Write) -> io::Result<()> {
    let total = finished.total();
    let span = Duration::from_millis(finished.ended_ms - finished.started_ms);
    writeln!(
        output,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Replay of {source}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
         <h1>Replay of {source}</h1>\n<p>{keys} over {span}, from at_ms {from} to {to}. Trips at {rules}.</p>",
        source = Escaped(source),
        keys = counted(finished.lives.len(), "key"),
        span = readable(span),
        from = finished.started_ms,
        to = finished.ended_ms,
        rules = Escaped(&rules(policy)),
    )?;
    numbers(&total, output)?;
    let states = [
        ("closed", "closed"),
        ("open", "open"),
        ("half_open", "half-open"),
        ("disabled", "disabled"),
        ("many", "many changes"),
    ];
    legend("States (band)", &states, output)?;
    if total.samples == 0 {
        legend("Calls (bars)", &Shown::ALL.map(|shown| (class(shown), label(shown))), output)?;
    }
    Ok(())
}

fn legend(title: &str, entries: &[(&str, &str)], output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "<ul class=\"legend\"><li>{title}</li>")?;
    for (class, label) in entries {
        writeln!(
            output,
            "<li><svg aria-hidden=\"true\" viewBox=\"0 0 1 1\"><rect class=\"{class}\" width=\"1\" height=\"1\"/></svg>{label}</li>"
        )?;
    }
    writeln!(output, "</ul>")
}

fn key_section(life: &KeyLife, span: Span, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "<section><h2>{}</h2>", Escaped(&life.key))?;
    numbers(&life.tally, output)?;
    if let Some(timeline) = &life.timeline {
        drawing(timeline, life.tally.trips, span, output)?;
        transitions(timeline.stretches(), span, output)?;
    }
    writeln!(output, "</section>")
}

/// Writes a key's counts as HTML.
fn numbers(tally: &Tally, output: &mut dyn Write) -> io::Result<()> {
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
    write!(output, "<dl>")?;
    for (term, value) in numbers {
        write!(output, "<div><dt>{term}</dt><dd>{value}</dd></div>")?;
    }
    writeln!(output, "</dl>")
}

fn drawing(timeline: &Timeline, trips: u64, span: Span, output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "<svg role=\"img\" aria-label=\"Timeline of states and calls, {trips} trips\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\">"
    )?;
    // Before its first transition a circuit is closed.
    let closed = Stretch { from_ms: span.from, status: Some(Status::Closed), rule: None };
    let begins: Vec<Stretch> = std::iter::once(closed).chain(timeline.stretches().iter().copied()).collect();
    // Probes are short and matter most: they are drawn last and, unless there are many, with a minimum width.
    let half_open = |stretch: &Stretch| stretch.status == Some(Status::HalfOpen);
    let widened = begins.iter().filter(|stretch| half_open(stretch)).count() <= MOST_WIDENED;
    for probing in [false, true] {
        for (n, stretch) in begins.iter().enumerate().filter(|(_, stretch)| half_open(stretch) == probing) {
            let (from, to) = (stretch.from_ms, begins.get(n + 1).map_or(span.to, |next| next.from_ms));
            let (x, mut width) = (span.x(from), span.x(to) - span.x(from));
            if probing && widened {
                width = width.max(THINNEST);
            }
            writeln!(
                output,
                "<rect class=\"{}\" x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"{BAND}\"><title>{} from {} for {}</title></rect>",
                stretch.status.map_or("many", Status::name),
                state_label(stretch.status),
                span.since_start(from),
                readable(Duration::from_millis(to - from)),
            )?;
        }
    }
    bars(timeline, span, output)?;
    writeln!(output, "</svg>")?;
    let middle = span.from + (span.to - span.from) / 2;
    writeln!(
        output,
        "<div class=\"axis\" aria-hidden=\"true\"><span>0s</span><span>{}</span><span>{}</span></div>",
        span.since_start(middle),
        span.since_start(span.to)
    )
}

/// Writes the calls as stacked bars, scaled so that the tallest fills the height. One path for each kind of call
/// keeps the page small.
fn bars(timeline: &Timeline, span: Span, output: &mut dyn Write) -> io::Result<()> {
    let total = |cell: &Cell| cell.counts.iter().map(|count| f64::from(*count)).sum::<f64>();
    let tallest = timeline.cells().iter().map(total).fold(1.0, f64::max);
    let height = |count: u32| f64::from(count) / tallest * (HEIGHT - BAND - GAP);
    let mut paths = Shown::ALL.map(|_| String::new());
    for cell in timeline.cells() {
        let from = span.from.saturating_add(cell.index.saturating_mul(timeline.cell_ms()));
        let to = from.saturating_add(timeline.cell_ms());
        let (x, width) = (span.x(from), span.x(to) - span.x(from));
        let mut y = HEIGHT;
        for (shown, path) in Shown::ALL.into_iter().zip(&mut paths) {
            let height = height(cell.counts[shown as usize]);
            if height > 0.0 {
                y -= height;
                path.push_str(&format!("M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z"));
            }
        }
    }
    for (shown, path) in Shown::ALL.into_iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
        writeln!(output, "<path class=\"{}\" d=\"{path}\"/>", class(shown))?;
    }
    Ok(())
}

fn transitions(stretches: &[Stretch], span: Span, output: &mut dyn Write) -> io::Result<()> {
    if stretches.is_empty() {
        return Ok(());
    }
    writeln!(
        output,
        "<details><summary>Transitions</summary><table><tr><th>after</th><th>at_ms</th><th>to</th><th>rule</th></tr>"
    )?;
    for Stretch { from_ms, status, rule } in stretches.iter().take(LISTED) {
        let (after, label, rule) =
            (span.since_start(*from_ms), state_label(*status), rule.unwrap_or_default());
        writeln!(output, "<tr><td>{after}</td><td>{from_ms}</td><td>{label}</td><td>{rule}</td></tr>")?;
    }
    writeln!(output, "</table>")?;
    if stretches.len() > LISTED {
        writeln!(output, "<p>{} more are not listed.</p>", stretches.len() - LISTED)?;
    }
    writeln!(output, "</details>")
}

const fn class(shown: Shown) -> &'static str {
    match shown {
        Shown::Good => "good",
        Shown::Failed => "failed",
        Shown::Saved => "saved",
        Shown::Delayed => "delayed",
    }
}

const fn label(shown: Shown) -> &'static str {
    match shown {
        Shown::Good => "admitted, good",
        Shown::Failed => "admitted, failed",
        Shown::Saved => "refused, would have failed",
        Shown::Delayed => "refused, would have succeeded",
    }
}

const fn state_label(status: Option<Status>) -> &'static str {
    match status {
        Some(Status::HalfOpen) => "half-open",
        Some(status) => status.name(),
        None => "many changes",
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
