//! Prints settings: the effective configuration with the source of each value, the commented file with all defaults,
//! and the table in the documentation.

use std::fmt::Write;

use serde_json::{Value, json};

use super::layers::{Loaded, Origin};
use super::policy_help::policy_help;
use super::settings::SETTINGS;
use super::{Config, names};

/// The column where comments begin, unless the value is longer.
const COLUMN: usize = 40;

impl Loaded {
    /// Returns the effective configuration as TOML, each value with its source. Secrets are hidden and commented out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# The effective settings, with the origin of each value.\n");
        let mut table = "";
        for setting in SETTINGS {
            begin_table(&mut text, &mut table, setting.key);
            let hides = setting.secret || self.has_password(setting.key);
            let value = if hides { "(hidden)".to_owned() } else { (setting.show)(&self.config) };
            let origin = self.origin(setting.key);
            if setting.secret && *origin == Origin::Default {
                entry(&mut text, setting.key, "\"\"", true, "not set");
            } else {
                entry(&mut text, setting.key, &value, hides, &origin.to_string());
            }
        }
        let preset = self.origin("policy.preset");
        for (name, value) in self.config.policy.in_force(self.config.delivery.timeout) {
            let key = format!("{}{name}", names::POLICY);
            begin_table(&mut text, &mut table, "policy.");
            let follows = name == "probe_timeout" && self.config.policy.probe_follows_timeout();
            let origin = match self.origin(&key) {
                Origin::Default if follows => "default: the endpoint's timeout plus 2s".into(),
                Origin::Default if *preset != Origin::Default => "default, or from the preset".into(),
                origin => origin.to_string(),
            };
            entry(&mut text, &key, &value, follows, &origin);
        }
        text
    }

    /// Returns the effective configuration as JSON: each key with its value and its source.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let entry = |value: &str, hides: bool, origin: &Origin| {
            let shown = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
            let value = shown.and_then(|table| serde_json::to_value(&table["value"]).ok()).filter(|_| !hides);
            json!({ "value": value, "origin": origin.to_string(), "hidden": hides })
        };
        let settings = SETTINGS.iter().map(|setting| {
            let hides = setting.secret || self.has_password(setting.key);
            let value = (setting.show)(&self.config);
            (setting.key.to_owned(), entry(&value, hides, self.origin(setting.key)))
        });
        let policy =
            self.config.policy.in_force(self.config.delivery.timeout).into_iter().map(|(name, value)| {
                let key = format!("{}{name}", names::POLICY);
                let origin = self.origin(&key);
                let entry = entry(&value, false, origin);
                (key, entry)
            });
        Value::Object(settings.chain(policy).collect())
    }

    /// Returns whether the URL at this key contains a password.
    fn has_password(&self, key: &str) -> bool {
        let proxy = self.config.egress.proxy.as_ref();
        key == "egress.proxy" && proxy.is_some_and(|url| url.password().is_some())
    }
}

/// Writes a table's heading, if this is the table's first key.
fn begin_table<'k>(text: &mut String, current: &mut &'k str, key: &'k str) {
    let table = key.rsplit_once('.').map_or("", |(table, _)| table);
    if table != *current {
        let _ = writeln!(text, "\n[{table}]");
        *current = table;
    }
}

fn entry(text: &mut String, key: &str, value: &str, commented: bool, origin: &str) {
    let mark = if commented { "# " } else { "" };
    let line = format!("{mark}{} = {value}", leaf(key));
    // A file name may contain control characters, and a line break would end the comment.
    let origin: String = origin.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let _ = writeln!(text, "{line:<COLUMN$} # {origin}");
}

fn leaf(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Returns the content of `breakerbox.example.toml`: every setting with its default, commented out.
#[must_use]
pub fn example() -> String {
    let config = Config::default();
    let mut text = String::from(
        "# Settings of `breakerbox serve`, each with its default. To change a setting, remove the # before it.\n\
         # The gateway reads the file of --config, or else breakerbox.toml in the current directory.\n\
         # An environment variable (BREAKERBOX_DELIVERY_TIMEOUT) overrides this file; a flag (--delivery-timeout) overrides both.\n\
         # `breakerbox serve --print-config` prints the effective settings with the origin of each value.\n",
    );
    let mut table = "";
    for setting in SETTINGS {
        begin_table(&mut text, &mut table, setting.key);
        text.push('\n');
        for line in folded(setting.what) {
            let _ = writeln!(text, "# {line}");
        }
        if setting.secret {
            let _ = writeln!(text, "# Set {}.", setting.variable());
        } else {
            let _ = writeln!(text, "#{} = {}", leaf(setting.key), (setting.show)(&config));
        }
    }
    text.push_str(
        "\n# The default policy of circuits, which tenants and endpoints can override. docs/defaults.md describes each value.\n\
         # A preset such as `preset = \"convoy\"` starts from the values of a known breaker.\n[policy]\n",
    );
    for (key, value) in config.policy.in_force(config.delivery.timeout) {
        if key == "probe_timeout" {
            text.push_str("# Default: the timeout of the endpoint plus 2 s.\n");
        }
        let _ = writeln!(text, "#{key} = {value}");
    }
    text
}

/// Returns the table rows for `docs/operating/configuration.md`.
#[must_use]
pub fn reference() -> String {
    let config = Config::default();
    let mut text =
        String::from("| key | default | variable | flag | description |\n| --- | --- | --- | --- | --- |\n");
    for setting in SETTINGS {
        let default = if setting.secret { "none".into() } else { format!("`{}`", (setting.show)(&config)) };
        let flag = setting.flag().map_or_else(|| "none".into(), |flag| format!("`{flag}`"));
        let (key, variable, what) = (setting.key, setting.variable(), setting.what);
        let expects = setting.expects();
        let _ = writeln!(text, "| `{key}` | {default} | `{variable}` | {flag} | {what} Accepts {expects}. |");
    }
    for (key, value) in config.policy.in_force(config.delivery.timeout) {
        let help = policy_help(key);
        let key = format!("{}{key}", names::POLICY);
        let (variable, flag) = (names::variable(&key), names::flag(&key));
        let _ = writeln!(
            text,
            "| `{key}` | `{value}` | `{variable}` | `{flag}` | {help}. See [defaults](../defaults.md). |"
        );
    }
    text
}

/// Wraps a string into lines that fit on a screen.
fn folded(text: &str) -> Vec<String> {
    const WIDTH: usize = 110;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is at least one");
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            lines.push(word.into());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
