//! Settings from environment variables.
//!
//! An empty variable counts as unset, since many tools pass unset variables that way. An unknown variable is an error
//! if its name is close to a setting's, since it is likely a typo. Otherwise it is only reported, since other programs
//! also set variables with this prefix (Kubernetes does, for a service called breakerbox).

use breakerbox_core::{POLICY_KEYS, nearest};

use super::error::{ConfigError, Wrong};
use super::format::Raw;
use super::layers::Origin;
use super::names::{self, PREFIX};
use super::settings::SETTINGS;

/// Variables, without their prefix, that are not settings of the gateway; other commands or the store tests read them.
const OF_OTHERS: &[&str] = &["CONFIG", "URL", "API_KEY", "WEBHOOK_SECRET", "REDIS_SERVER", "POSTGRES_BIN"];

/// The settings found in the environment.
#[derive(Default)]
pub(super) struct Read {
    pub(super) set_values: Vec<(String, Raw, Origin)>,
    pub(super) errors: Vec<ConfigError>,
    pub(super) unknown: Vec<String>,
}

pub(super) fn read<'v>(variables: impl IntoIterator<Item = (&'v str, &'v str)>) -> Read {
    let known: Vec<(String, String)> = SETTINGS
        .iter()
        .map(|setting| (setting.variable(), setting.key.to_owned()))
        .chain(POLICY_KEYS.iter().map(|key| {
            let key = format!("{}{key}", names::POLICY);
            (names::variable(&key), key)
        }))
        .collect();
    let mut read = Read::default();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if value.is_empty() || OF_OTHERS.contains(&rest) {
            continue;
        }
        let origin = Origin::Environment(name.into());
        if let Some((_, key)) = known.iter().find(|(variable, _)| variable == name) {
            read.set_values.push((key.clone(), Raw::Words(vec![value.into()]), origin));
            continue;
        }
        // Compared without the prefix; with it, every name would be close.
        match nearest(rest, known.iter().filter_map(|(variable, _)| variable.strip_prefix(PREFIX))) {
            Some(meant) => {
                let reason = Wrong::Unknown { nearest: Some(format!("{PREFIX}{meant}")) };
                read.errors.push(ConfigError { key: String::new(), origin, reason });
            }
            None => read.unknown.push(name.into()),
        }
    }
    read
}
