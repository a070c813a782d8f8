//! Short ids, which tables show and commands accept as names.

use breakerbox_model::objects::Id;

/// The number of characters of a short id.
const SHORT: usize = 8;

/// Returns the part of an id that tables show: its last characters, which differ between neighbours. Other texts are
/// returned unchanged.
pub(super) fn short_id(id: &str) -> &str {
    match id.split_once('_') {
        Some((_, digits)) if digits.parse::<Id>().is_ok() => &digits[digits.len() - SHORT..],
        _ => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_the_ends_of_ids() {
        for (id, expected) in [
            ("dlv_01h5k2m8w4c7e", "2m8w4c7e"),
            ("lane_01h5k2m8w4c7e", "2m8w4c7e"),
            ("acme", "acme"),
            ("key_1", "key_1"),
            ("gateway", "gateway"),
        ] {
            assert_eq!(short_id(id), expected);
        }
    }
}
