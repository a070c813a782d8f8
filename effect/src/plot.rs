//! Plots as SVG: no external resource, readable on light and dark pages.

use std::fmt::Write as _;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 86.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 64.0;

/// The colours, for light and dark pages. A page in an `img` element follows the reader's preference, too.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#333}.title{font-size:16px;font-weight:600}.note{fill:#666}\
.grid{stroke:#8886;stroke-width:1}.axis{stroke:#888;stroke-width:1}.other{fill:#6b7280}.ours{fill:#0a7d4f}\
.ours-text{font-weight:600;fill:#0a7d4f}.line{fill:none;stroke-width:2}.bound{stroke:#c2410c;stroke-dasharray:6 4}\
.worst{stroke:#0a7d4f}.hanging{stroke:#9ca3af}.median{stroke:#2563eb}\
.page{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.note{fill:#aaa}.other{fill:#9ca3af}.ours{fill:#34d399}\
.ours-text{fill:#34d399}.bound{stroke:#fb923c}.worst{stroke:#34d399}.median{stroke:#60a5fa}.page{fill:#0d1117}}";

/// A logarithmic axis, with the powers of ten that it spans.
#[derive(Clone, Copy)]
pub(crate) struct Axis {
    from: i32,
    to: i32,
}

impl Axis {
    /// Returns the axis that shows all these values. Zero is shown at its lower end.
    #[allow(clippy::cast_possible_truncation)] // Exponents are small.
    pub(crate) fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let low = positive.clone().fold(f64::INFINITY, f64::min);
        let high = positive.fold(0.0, f64::max);
        if !low.is_finite() {
            return Self { from: 0, to: 1 };
        }
        let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        Self { from, to: to.max(from + 1) }
    }

    /// Returns where a value lies, from 0 to 1.
    fn share(self, value: f64) -> f64 {
        let value = value.max(10_f64.powi(self.from));
        (value.log10() - f64::from(self.from)) / f64::from(self.to - self.from)
    }

    fn x(self, value: f64) -> f64 {
        LEFT + self.share(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.share(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        (self.from..=self.to).map(|power| 10_f64.powi(power))
    }
}

/// A labelled point.
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) is_ours: bool,
}

/// The words of a plot.
pub(crate) struct Words {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// How a value of the axis is written.
    pub(crate) x_tick: fn(f64) -> String,
    pub(crate) y_tick: fn(f64) -> String,
}

/// Draws labelled points. Labels that would overlap are moved apart.
pub(crate) fn scatter(points: &[Point], words: &Words) -> String {
    let x_axis = Axis::around(points.iter().map(|point| point.x));
    let y_axis = Axis::around(points.iter().map(|point| point.y));
    let mut svg = frame(x_axis, y_axis, words);
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for point in points {
        let (x, y) = (x_axis.x(point.x), y_axis.y(point.y));
        let class = if point.is_ours { "ours" } else { "other" };
        let radius = if point.is_ours { 7 } else { 5 };
        let _ = write!(svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
        #[allow(clippy::cast_precision_loss)] // Labels are short.
        let width = point.label.chars().count() as f64 * 7.2;
        let fits_right = x + 12.0 + width < WIDTH - 4.0;
        let (from, anchor) = if fits_right { (x + 11.0, "start") } else { (x - 11.0 - width, "end") };
        let overlaps = |y: f64, taken: &[(f64, f64, f64)]| {
            taken
                .iter()
                .any(|(left, right, at)| from < *right && *left < from + width && (at - y).abs() < 15.0)
        };
        let places = [0.0, -16.0, 16.0, -32.0, 32.0];
        let shift = places.into_iter().find(|shift| !overlaps(y + shift, &taken)).unwrap_or(0.0);
        taken.push((from, from + width, y + shift));
        let text_x = if fits_right { x + 11.0 } else { x - 11.0 };
        let class = if point.is_ours { " class=\"ours-text\"" } else { "" };
        let label = escape(&point.label);
        let y = y + shift + 4.5;
        let _ = write!(
            svg,
            "<text{class} x=\"{text_x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{label}</text>"
        );
    }
    svg + "</svg>\n"
}

/// A line of a plot: its class in the style, its name, and its points.
pub(crate) struct Line {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws lines, with a legend.
pub(crate) fn lines(lines: &[Line], words: &Words) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let (x_axis, y_axis) =
        (Axis::around(all().map(|point| point.0)), Axis::around(all().map(|point| point.1)));
    let mut svg = frame(x_axis, y_axis, words);
    let mut legend = TOP + 18.0;
    for Line { class, name, points } in lines {
        let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", x_axis.x(*x), y_axis.y(*y));
        let places: Vec<_> = points.iter().map(place).collect();
        let _ = write!(svg, "<polyline class=\"line {class}\" points=\"{}\"/>", places.join(" "));
        let (x, text, y) = (LEFT + 16.0, LEFT + 52.0, legend + 4.5);
        let end = x + 28.0;
        let _ = write!(svg, "<path class=\"line {class}\" d=\"M{x} {legend}H{end}\"/>");
        let _ = write!(svg, "<text x=\"{text}\" y=\"{y}\">{}</text>", escape(name));
        legend += 20.0;
    }
    svg + "</svg>\n"
}

/// Returns the beginning of a plot: its size, style, title, axes and grid.
fn frame(x_axis: Axis, y_axis: Axis, words: &Words) -> String {
    let title = escape(words.title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\"><title>{title}</title><style>{STYLE}</style>\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\
         <text class=\"title\" x=\"{LEFT}\" y=\"28\">{title}</text>"
    );
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for tick in x_axis.ticks() {
        let (x, text) = (x_axis.x(tick), escape(&(words.x_tick)(tick)));
        let _ = write!(svg, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>");
        let _ = write!(
            svg,
            "<text class=\"note\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            bottom + 18.0
        );
    }
    for tick in y_axis.ticks() {
        let (y, text) = (y_axis.y(tick), escape(&(words.y_tick)(tick)));
        let _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
        let _ = write!(
            svg,
            "<text class=\"note\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 8.0,
            y + 4.5
        );
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\"/>");
    let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, bottom));
    let (x, y) = (escape(words.x), escape(words.y));
    let _ =
        write!(svg, "<text x=\"{middle_x:.1}\" y=\"{}\" text-anchor=\"middle\">{x}</text>", HEIGHT - 14.0);
    let _ = write!(
        svg,
        "<text transform=\"translate(20 {middle_y:.1}) rotate(-90)\" text-anchor=\"middle\">{y}</text>"
    );
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        Words { title: "a & b", x: "x", y: "y", x_tick: |x| x.to_string(), y_tick: |y| y.to_string() }
    }

    #[test]
    fn an_axis_spans_whole_powers_of_ten_and_shows_zero_at_its_end() {
        let axis = Axis::around([0.0, 3.0, 450.0].into_iter());
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [1.0, 10.0, 100.0, 1_000.0]);
        assert!(axis.share(0.0).abs() < 1e-9 && (axis.share(1_000.0) - 1.0).abs() < 1e-9);
        assert!((axis.share(10.0) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn every_point_is_labelled_and_nothing_is_loaded() {
        let point = |label: &str, x, is_ours| Point { label: label.to_owned(), x, y: 5.0, is_ours };
        let svg = scatter(&[point("<one>", 10.0, false), point("two", 10.5, true)], &words());
        assert!(svg.contains("&lt;one&gt;") && svg.contains(">two<") && svg.contains("a &amp; b"));
        assert!(svg.contains("prefers-color-scheme:dark") && !svg.contains("href") && !svg.contains("url("));
        let heights: Vec<_> =
            svg.match_indices("text-anchor=\"start\"").map(|(at, _)| &svg[at - 10..at]).collect();
        assert_ne!(heights[0], heights[1], "labels at the same place are moved apart");
    }

    #[test]
    fn lines_have_a_legend() {
        let line = Line { class: "bound", name: "bound", points: vec![(0.1, 1.0), (10.0, 20.0)] };
        let svg = lines(&[line], &words());
        assert!(svg.contains("<polyline class=\"line bound\"") && svg.contains(">bound</text>"));
    }
}
