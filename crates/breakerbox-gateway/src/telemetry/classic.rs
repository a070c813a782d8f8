//! The classic Prometheus text format, version 0.0.4, made from the OpenMetrics text of the same metrics. Samples are the
//! same in both; the lines about a metric differ.

/// Converts OpenMetrics text. A counter is named with its suffix `_total` in the lines about it, and there are neither
/// units nor an end mark.
pub(super) fn of_open_metrics(text: &str) -> String {
    let mut classic = String::with_capacity(text.len());
    // OpenMetrics states the type after the help, and the classic format names a counter in both.
    let mut help: Option<&str> = None;
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# HELP ") {
            help = Some(about);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|about| about.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take().and_then(|about| about.split_once(' ')) {
                classic += &format!("# HELP {name}{suffix} {words}\n");
            }
            classic += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with("# ") {
            classic += line;
            classic.push('\n');
        }
    }
    classic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_about_a_metric_has_the_name_of_its_samples() {
        let open_metrics = "# HELP a Accepted events.\n# TYPE a counter\na_total{x=\"# y\"} 3\n\
            # HELP b_bytes Bytes.\n# TYPE b_bytes gauge\n# UNIT b_bytes bytes\nb_bytes 7\n# EOF\n";
        let classic = "# HELP a_total Accepted events.\n# TYPE a_total counter\na_total{x=\"# y\"} 3\n\
            # HELP b_bytes Bytes.\n# TYPE b_bytes gauge\nb_bytes 7\n";
        assert_eq!(of_open_metrics(open_metrics), classic);
    }
}
