//! Suggestions for misspelt names ("did you mean ...?").

use alloc::vec::Vec;

/// Returns the candidate most similar to `word`; `None` if none is similar enough.
///
/// ```
/// assert_eq!(breakerbox_core::nearest("windw", ["window", "probes"]), Some("window"));
/// assert_eq!(breakerbox_core::nearest("colour", ["window", "probes"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word is not a misspelt name, and the cost of computing the distance is quadratic in the length.
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    let (distance, best) = candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .min_by_key(|(d, _)| *d)?;
    (distance <= (best.len() / 3).max(1)).then_some(best)
}

/// Returns the number of single-character edits between two words (Levenshtein), ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let table = [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("Cool_Off", "cool_off", 0)];
        for (a, b, expected) in table {
            assert_eq!(distance(a, b), expected, "{a} to {b}");
        }
    }

    #[test]
    fn finds_what_was_meant_and_nothing_far() {
        let names = ["cool_off", "cool_off_max", "failures", "failure_rate"];
        assert_eq!(nearest("cooloff", names), Some("cool_off"));
        assert_eq!(nearest("failurerate", names), Some("failure_rate"));
        assert_eq!(nearest("timeout", names), None);
        assert_eq!(nearest(&"x".repeat(10_000_000), names), None);
    }
}
