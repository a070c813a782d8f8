//! The drawing of one key: a band with the states of its circuit, and bars with its calls below the band.
//!
//! Colours of the band mean states; colours of the bars mean results. Admitted calls stand on a line, and refused calls
//! hang from it, so that a colour need not say which they were.

use std::io::{self, Write};
use std::time::Duration;

use breakerbox_core::CircuitStatus;

use super::axis::Span;
use crate::summary::readable;
use crate::tally::Tally;
use crate::timeline::{Cell, Shown, Stretch, Timeline};

/// The width of a drawing, in SVG units. Browsers stretch the drawing to the width of the page.
const WIDTH: f64 = 1_000.0;
/// The height of the state band at the top of a drawing.
const BAND: f64 = 16.0;
/// The distance between the band and the bars.
const GAP: f64 = 6.0;
/// The height of the bars, above and below their line together.
const BARS: f64 = 64.0;

/// The minimum width of a half-open period, unless there are more than [`MOST_WIDENED`].
const THINNEST: f64 = 3.0;
const MOST_WIDENED: usize = 60;

/// The kinds of calls above the line and below it, each in the order from the line outwards.
const ABOVE: [Shown; 2] = [Shown::Good, Shown::Failed];
const BELOW: [Shown; 2] = [Shown::Delayed, Shown::Saved];

/// Writes the drawing and its axis.
pub(super) fn write(
    timeline: &Timeline,
    tally: &Tally,
    span: Span,
    output: &mut dyn Write,
) -> io::Result<()> {
    let is_sampled = tally.samples > 0;
    let (kind, height) = if is_sampled { ("states", BAND) } else { ("calls", BAND + GAP + BARS) };
    writeln!(
        output,
        "<svg role=\"img\" class=\"{kind}\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {height}\" \
         preserveAspectRatio=\"none\">",
        description(tally, span),
    )?;
    let ticks = span.ticks();
    let grid: String =
        ticks.iter().map(|tick| format!("M{:.1} 0v{height}", span.fraction(tick.at_ms) * WIDTH)).collect();
    writeln!(output, "<path class=\"grid\" d=\"{grid}\"/>")?;
    band(timeline, span, output)?;
    if !is_sampled {
        bars(timeline, span, output)?;
    }
    writeln!(output, "</svg>")?;
    write!(output, "<div class=\"axis\" aria-hidden=\"true\">")?;
    for tick in ticks {
        let percent = span.fraction(tick.at_ms) * 100.0;
        // A label at an edge stays within the page.
        let edge = match percent {
            ..3.0 => " class=\"first\"",
            97.0.. => " class=\"last\"",
            _ => "",
        };
        write!(output, "<span{edge} style=\"left:{percent:.1}%\">{}</span>", tick.label)?;
    }
    writeln!(output, "</div>")
}

/// Describes the drawing for those who can't see it. The list of transitions below has the details.
fn description(tally: &Tally, span: Span) -> String {
    let trips = if tally.trips == 1 { "1 trip".into() } else { format!("{} trips", tally.trips) };
    let mut text = format!(
        "Timeline {}: {trips}, open for {}, disabled for {}.",
        span.range(),
        readable(tally.time_open),
        readable(tally.time_disabled)
    );
    if tally.samples == 0 {
        text.push_str(&format!(
            " Of {} calls, {} were admitted, of which {} failed; {} were refused, of which {} would have failed and {} \
             would have succeeded.",
            tally.calls,
            tally.admitted,
            tally.failed_calls_admitted,
            tally.refused,
            tally.failed_calls_refused,
            tally.successful_calls_refused
        ));
    }
    text
}

fn band(timeline: &Timeline, span: Span, output: &mut dyn Write) -> io::Result<()> {
    // Before its first transition a circuit is closed.
    let closed = Stretch { from_ms: span.from, status: Some(CircuitStatus::Closed), rule: None };
    let begins: Vec<Stretch> = std::iter::once(closed).chain(timeline.stretches().iter().copied()).collect();
    // Probes are short and matter most: they are drawn last and, unless there are many, with a minimum width.
    let half_open = |stretch: &Stretch| stretch.status == Some(CircuitStatus::HalfOpen);
    let widened = begins.iter().filter(|stretch| half_open(stretch)).count() <= MOST_WIDENED;
    let x = |at_ms| span.fraction(at_ms) * WIDTH;
    for probing in [false, true] {
        for (n, stretch) in begins.iter().enumerate().filter(|(_, stretch)| half_open(stretch) == probing) {
            let (from, to) = (stretch.from_ms, begins.get(n + 1).map_or(span.to, |next| next.from_ms));
            let (left, mut width) = (x(from), x(to) - x(from));
            if probing && widened {
                width = width.max(THINNEST);
            }
            writeln!(
                output,
                "<rect class=\"{}\" x=\"{left:.2}\" y=\"0\" width=\"{width:.2}\" height=\"{BAND}\"><title>{} {} for {}</title></rect>",
                stretch.status.map_or("many", CircuitStatus::name),
                state_label(stretch.status),
                span.point(from),
                readable(Duration::from_millis(to.saturating_sub(from))),
            )?;
        }
    }
    Ok(())
}

/// Writes the calls as stacked bars on both sides of a line, scaled so that the tallest fill the height. One path for
/// each kind of call keeps the page small.
fn bars(timeline: &Timeline, span: Span, output: &mut dyn Write) -> io::Result<()> {
    let (above, below) = (most(timeline, ABOVE), most(timeline, BELOW));
    #[allow(clippy::cast_precision_loss)] // A drawing has a hundred steps.
    let (scale, above) = (BARS / (above + below).max(1) as f64, above as f64);
    let line = BAND + GAP + above * scale;
    let mut paths = Shown::ALL.map(|_| String::new());
    for cell in timeline.cells() {
        let from = span.from.saturating_add(cell.index.saturating_mul(timeline.cell_ms()));
        let to = from.saturating_add(timeline.cell_ms());
        let x = span.fraction(from) * WIDTH;
        let width = span.fraction(to) * WIDTH - x;
        for (kinds, direction) in [(ABOVE, -1.0), (BELOW, 1.0)] {
            let mut y = line;
            for shown in kinds {
                let height = f64::from(cell.counts[shown as usize]) * scale * direction;
                if height != 0.0 {
                    let path = &mut paths[shown as usize];
                    path.push_str(&format!("M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z"));
                    y += height;
                }
            }
        }
    }
    for shown in Shown::ALL {
        let path = &paths[shown as usize];
        if !path.is_empty() {
            writeln!(output, "<path class=\"{}\" d=\"{path}\"/>", class(shown))?;
        }
    }
    writeln!(output, "<path class=\"line\" d=\"M0 {line:.1}h{WIDTH}\"/>")
}

/// Returns the number of calls in the bar that reaches farthest from the line, in either direction.
pub(super) fn tallest(timeline: &Timeline) -> u64 {
    most(timeline, ABOVE).max(most(timeline, BELOW))
}

/// Returns the maximum number of calls of these kinds in one cell.
fn most(timeline: &Timeline, kinds: [Shown; 2]) -> u64 {
    let count = |cell: &Cell| kinds.iter().map(|shown| u64::from(cell.counts[*shown as usize])).sum();
    timeline.cells().iter().map(count).max().unwrap_or(0)
}

/// Returns whether the calls of a kind are drawn above the line.
pub(super) fn is_above(shown: Shown) -> bool {
    ABOVE.contains(&shown)
}

/// Returns the CSS class of a kind of calls.
pub(super) const fn class(shown: Shown) -> &'static str {
    match shown {
        Shown::Good => "good",
        Shown::Failed => "failed",
        Shown::Saved => "saved",
        Shown::Delayed => "delayed",
    }
}

/// Returns the name of a state, for people.
pub(super) const fn state_label(status: Option<CircuitStatus>) -> &'static str {
    match status {
        Some(CircuitStatus::HalfOpen) => "half-open",
        Some(status) => status.name(),
        None => "many changes",
    }
}
