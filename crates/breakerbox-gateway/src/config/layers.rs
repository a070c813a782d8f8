//! Precedence of settings: flags override variables, variables override the file, the file overrides the defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use breakerbox_core::POLICY_KEYS;
use breakerbox_model::objects::ApiKeyText;

use super::error::{ConfigError, ConfigErrors, Wrong};
use super::format::Raw;
use super::settings::SETTINGS;
use super::size::format_size;
use super::{Config, environment, file, names};

/// The configuration file that is read by default, if it exists.
pub const FILE_NAME: &str = "breakerbox.toml";

/// The source of a setting's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The built-in default: no source sets the value.
    Default,
    /// A configuration file.
    File {
        /// The path of the configuration file.
        path: PathBuf,
        /// The line, starting at 1. 0 means the whole file.
        line: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// A command-line flag, by its name.
    Flag(String),
}

impl Origin {
    pub(super) fn file(path: &Path, line: usize) -> Self {
        Self::File { path: path.into(), line }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}: line {line}", path.display()),
            Self::Environment(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// The sources of settings, which [`load`](Self::load) reads.
///
/// ```
/// use breakerbox_gateway::config::{Origin, Sources};
///
/// let set_values = Sources::default()
///     .variables([("BREAKERBOX_DELIVERY_TIMEOUT", "20s")])
///     .flag("--listen", ["127.0.0.1:0"]);
/// let loaded = set_values.load().unwrap();
/// assert_eq!(loaded.config.delivery.timeout.as_secs(), 20);
/// assert_eq!(loaded.origin("listen"), &Origin::Flag("--listen".into()));
///
/// let errors = Sources::default().flag("--delivery-timeout", ["20"]).load().unwrap_err();
/// assert!(errors.to_string().starts_with("--delivery-timeout: \"20\" needs a unit"));
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Sources {
    file: Option<PathBuf>,
    variables: Vec<(String, String)>,
    flags: Vec<(String, Vec<String>)>,
}

impl Sources {
    /// Adds a configuration file, which must exist.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Adds `breakerbox.toml` in this directory, if it exists and no other file was added.
    pub fn file_if_in(mut self, folder: &Path) -> Self {
        let path = folder.join(FILE_NAME);
        if self.file.is_none() && path.is_file() {
            self.file = Some(path);
        }
        self
    }

    /// Adds environment variables. Those that do not begin with `BREAKERBOX_` are ignored.
    pub fn variables<N: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.variables.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Adds a flag, such as `--delivery-timeout`, with its values: several if it was repeated.
    pub fn flag<V: Into<String>>(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.flags.push((name.into(), values.into_iter().map(Into::into).collect()));
        self
    }

    /// Reads and checks all sources.
    ///
    /// # Errors
    /// Returns all errors, including those in values that another source overrides. Otherwise, such an error would
    /// surface only when the override is removed.
    pub fn load(&self) -> Result<Loaded, ConfigErrors> {
        let mut errors = vec![];
        // All given values, with the highest precedence last.
        let mut set_values: Vec<(String, Raw, Origin)> = vec![];
        if let Some(path) = &self.file {
            let (values, wrong) = file::read(path);
            errors.extend(wrong);
            set_values.extend(values.into_iter().map(|value| {
                let origin = Origin::file(path, value.line);
                (value.key, value.raw, origin)
            }));
        }
        let variables =
            environment::read(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        errors.extend(variables.errors);
        set_values.extend(variables.set_values);
        set_values.extend(self.flags.iter().filter_map(|(name, values)| {
            let key = key_of_flag(name)?;
            Some((key, Raw::Words(values.clone()), Origin::Flag(name.clone())))
        }));

        let mut loaded = Loaded {
            config: Config::default(),
            origins: BTreeMap::new(),
            file: self.file.clone(),
            unknown_variables: variables.unknown,
        };
        for (key, raw, origin) in set_values {
            if let Err(reason) = loaded.take(&key, &raw, &origin) {
                errors.push(ConfigError { key, origin, reason });
            }
        }
        if loaded.config.dev {
            loaded.config.allow_loopback();
            if loaded.origin("egress.allow") == &Origin::Default {
                let origin = loaded.origin("dev").clone();
                loaded.origins.insert("egress.allow".into(), origin);
            }
        }
        if errors.is_empty() {
            errors.extend(loaded.misfits());
        }
        if errors.is_empty() { Ok(loaded) } else { Err(ConfigErrors(errors)) }
    }
}

/// Returns the key that a flag sets.
fn key_of_flag(name: &str) -> Option<String> {
    let of_settings = SETTINGS.iter().find(|setting| setting.flag().as_deref() == Some(name));
    of_settings.map(|setting| setting.key.to_owned()).or_else(|| {
        let mut keys = POLICY_KEYS.iter().map(|key| format!("{}{key}", names::POLICY));
        keys.find(|key| names::flag(key) == name)
    })
}

/// A [`Config`], and the source of each value.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The settings that result from all sources.
    pub config: Config,
    /// The file that was read. `None` if there was none.
    pub file: Option<PathBuf>,
    /// Variables that begin with `BREAKERBOX_` and are not settings.
    pub unknown_variables: Vec<String>,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Returns the source of the value for a key, or [`Origin::Default`] if no source sets the key.
    #[must_use]
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    fn take(&mut self, key: &str, raw: &Raw, origin: &Origin) -> Result<(), Wrong> {
        if let Some(key) = key.strip_prefix(names::POLICY) {
            self.config.policy.take(key, raw)?;
        } else if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
            if setting.secret && !matches!(origin, Origin::Environment(_)) {
                return Err(Wrong::SecretHere { variable: setting.variable() });
            }
            (setting.take)(&mut self.config, raw)?;
        }
        self.origins.insert(key.into(), origin.clone());
        Ok(())
    }

    /// Returns errors for values that are valid on their own but not together.
    fn misfits(&self) -> Vec<ConfigError> {
        let Config { delivery, limits, policy, .. } = &self.config;
        let mut errors = vec![];
        let mut at_most = |lower: &'static str, found: u64, upper: &'static str, bound: u64| {
            if found <= bound {
                return;
            }
            let (found, bound) = (format_size(found), format_size(bound));
            // Report the key that was set, not the one that has its default.
            let (key, reason) = if self.origin(lower) == &Origin::Default {
                (upper, Wrong::Below { other: lower, bound: found, found: bound })
            } else {
                (lower, Wrong::Above { other: upper, bound, found })
            };
            errors.push(ConfigError { key: key.into(), origin: self.origin(key).clone(), reason });
        };
        at_most(
            "delivery.response_kept",
            delivery.response_kept,
            "delivery.response_read",
            delivery.response_read,
        );
        at_most("limits.payload", limits.payload, "limits.batch_bytes", limits.batch_bytes);
        if let Err(error) = policy.build(delivery.timeout) {
            let no_field = error.field() == "policy";
            let key = if no_field { "policy".into() } else { format!("{}{}", names::POLICY, error.field()) };
            let text = error.to_string();
            let reason = text.strip_prefix(&format!("{}: ", error.field())).unwrap_or(&text).to_owned();
            let origin = self.origin(&key).clone();
            errors.push(ConfigError { key, origin, reason: Wrong::Refused(reason) });
        }
        let initial_key = self.config.secrets.initial_admin_key.as_ref();
        if let Some(Err(error)) = initial_key.map(|key| key.reveal().parse::<ApiKeyText>()) {
            let key = "secrets.initial_admin_key";
            let origin = self.origin(key).clone();
            errors.push(ConfigError { key: key.into(), origin, reason: Wrong::Refused(error.to_string()) });
        }
        for (key, why) in self.config.notify.misfits(&self.config.egress.addresses()) {
            let origin = self.origin(key).clone();
            errors.push(ConfigError { key: key.into(), origin, reason: Wrong::Refused(why) });
        }
        errors
    }
}
