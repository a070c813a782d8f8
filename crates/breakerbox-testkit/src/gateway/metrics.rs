//! The samples from `/metrics`, as numbers by name.

/// The samples from a gateway's `/metrics`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// Parses the Prometheus text format: one line per sample, such as `name{label="value"} 12`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// Returns the sum of all samples with this name, over all labels. `None` if there is no such metric.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.sum_with(name, "")
    }

    /// Returns the sum of this metric's samples whose labels contain the string `label`. `None` if there are
    /// none.
    #[must_use]
    pub fn sum_with(&self, name: &str, label: &str) -> Option<f64> {
        let is = |sample: &&(String, f64)| {
            let rest = sample.0.strip_prefix(name);
            rest.is_some_and(|rest| (rest.is_empty() || rest.starts_with('{')) && rest.contains(label))
        };
        let found: Vec<_> = self.0.iter().filter(is).map(|sample| sample.1).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_has_the_name_and_the_label() {
        let text = "# HELP a_total x\na_total{k=\"1\"} 2\na_total{k=\"2\"} 3\na_total_more 9\nb 1.5\n# EOF\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.sum("a_total"), Some(5.0));
        assert_eq!(metrics.sum_with("a_total", "k=\"2\""), Some(3.0));
        assert_eq!((metrics.sum("b"), metrics.sum("c")), (Some(1.5), None));
    }
}
