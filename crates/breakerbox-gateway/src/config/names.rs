//! The names of settings as keys, variables and flags, and suggestions for misspelt names.

use breakerbox_core::{POLICY_KEYS, nearest};

use super::settings::SETTINGS;

/// The prefix of all environment variables.
pub(super) const PREFIX: &str = "BREAKERBOX_";
/// The prefix of all keys in the policy table.
pub(super) const POLICY: &str = "policy.";

/// Returns the environment variable for a key.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// Returns the flag for a key.
pub(super) fn flag(key: &str) -> String {
    format!("--{}", key.replace(['.', '_'], "-"))
}

/// Returns every key that is allowed in a file.
pub(super) fn keys() -> impl Iterator<Item = String> {
    let policy = POLICY_KEYS.iter().map(|key| format!("{POLICY}{key}"));
    SETTINGS.iter().map(|setting| setting.key.to_owned()).chain(policy)
}

/// Returns whether a file may have a table with this name.
pub(super) fn is_table(path: &str) -> bool {
    keys().any(|key| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the known key or table that a misspelt or misplaced key probably means. `None` if none is close.
pub(super) fn meant(path: &str) -> Option<String> {
    let leaf = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let keys: Vec<String> = keys().collect();
    let wanted = leaf(path);
    // Spelt correctly, but in the wrong table: the best match.
    let moved = || keys.iter().find(|key| leaf(key) == wanted).map(String::as_str);
    let near = || nearest(path, keys.iter().map(String::as_str));
    // Misspelt, and in the wrong table.
    let leaves: Vec<String> = keys.iter().map(|key| leaf(key)).collect();
    let near_leaf = || {
        let found = nearest(&wanted, leaves.iter().map(String::as_str))?;
        keys.iter().find(|key| leaf(key) == found).map(String::as_str)
    };
    let tables: Vec<&str> = keys.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    let near_table = || nearest(path, tables.iter().copied()).map(|table| format!("[{table}]"));
    moved().or_else(near).map(String::from).or_else(near_table).or_else(|| near_leaf().map(String::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        for (path, expected) in [
            ("delivery.timout", Some("delivery.timeout")),
            ("timeout", Some("delivery.timeout")),
            ("limits.slots", Some("delivery.slots")),
            ("slotss", Some("delivery.slots")),
            ("polcy.window", Some("policy.window")),
            ("policy.cooloff", Some("policy.cool_off")),
            ("delivry", Some("[delivery]")),
            ("colour", None),
        ] {
            assert_eq!(meant(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn no_two_settings_share_a_name() {
        let mut variables: Vec<_> = SETTINGS.iter().map(super::super::Setting::variable).collect();
        variables.extend(POLICY_KEYS.iter().map(|key| variable(&format!("{POLICY}{key}"))));
        variables.extend(["BREAKERBOX_CONFIG", "BREAKERBOX_URL", "BREAKERBOX_API_KEY"].map(String::from));
        let all = variables.len();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), all);
    }
}
