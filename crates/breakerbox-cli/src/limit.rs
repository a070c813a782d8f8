//! The `--limit` of listings: the maximum number of results that a command prints. The client fetches them page by
//! page.

use clap::Args;

/// The maximum number of results to print.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Maximum number of results, at least 1
    #[arg(long = "limit", value_name = "N", default_value_t = 100, value_parser = one_or_more)]
    pub(super) most: usize,
}

fn one_or_more(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|most| *most > 0).ok_or("must be a whole number, 1 or more")
}
