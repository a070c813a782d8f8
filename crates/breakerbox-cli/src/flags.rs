//! The flags of `serve`, generated from the list of settings, so that every setting has a flag.

use breakerbox_core::POLICY_KEYS;
use breakerbox_gateway::config::{Config, SETTINGS, Sources, policy_form, policy_help};
use clap::builder::{Resettable, StyledStr};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The settings given as flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags(Vec<(String, Vec<String>)>);

impl Flags {
    pub(super) fn over(self, sources: Sources) -> Sources {
        self.0.into_iter().fold(sources, |sources, (flag, values)| sources.flag(flag, values))
    }
}

/// Returns a flag's id in clap.
fn id(flag: &str) -> &str {
    flag.trim_start_matches('-')
}

/// A flag of `serve`.
struct Flag {
    name: String,
    /// The description, without a full stop.
    what: String,
    /// The accepted values, as a phrase that follows "accepts".
    expects: String,
    default: String,
    table: String,
    value_name: &'static str,
    /// Whether the flag may be given without a value.
    is_switch: bool,
}

/// Returns the placeholder for a flag's value in `--help`, given the description of the accepted values.
fn value_name(expects: &str) -> &'static str {
    match expects {
        text if text.starts_with("a duration") => "DURATION",
        text if text.starts_with("a size") => "SIZE",
        text if text.starts_with("a whole number") || text.starts_with("a number") => "N",
        text if text.starts_with("a path") => "PATH",
        _ => "VALUE",
    }
}

/// Returns all flags of `serve`, one for each setting that is not a secret.
fn all() -> Vec<Flag> {
    let settings = SETTINGS.iter().filter_map(|setting| {
        let table = setting.key.split_once('.').map_or("settings", |(table, _)| table);
        Some(Flag {
            name: setting.flag()?,
            what: setting.what.trim_end_matches('.').to_owned(),
            default: setting.default_value(),
            table: table.to_owned(),
            value_name: value_name(&setting.expects()),
            expects: setting.expects(),
            is_switch: setting.switch,
        })
    });
    let config = Config::default();
    let defaults = config.policy.in_force(config.delivery.timeout);
    let policy = POLICY_KEYS.iter().map(|key| {
        let name = format!("--policy-{}", key.replace('_', "-"));
        let default = defaults.iter().find(|(name, _)| name == key).map_or("none", |(_, value)| value);
        Flag {
            name,
            what: policy_help(key).to_owned(),
            expects: policy_form(key).to_owned(),
            default: default.to_owned(),
            table: "policy".to_owned(),
            value_name: value_name(policy_form(key)),
            is_switch: false,
        }
    });
    settings.chain(policy).collect()
}

fn argument(flag: Flag) -> Arg {
    let name = id(&flag.name).to_owned();
    let mut heading = flag.table.clone();
    heading[..1].make_ascii_uppercase();
    let Flag { what, expects, default, .. } = &flag;
    // The short help has the first sentence alone.
    let first = what.split(". ").next().unwrap_or(what);
    let short = format!("{first} [default: {default}]");
    let long = format!("{what}. Accepts {expects} [default: {default}]");
    let argument = Arg::new(name.clone())
        .long(name)
        .value_name(flag.value_name)
        .action(ArgAction::Append)
        .allow_hyphen_values(true)
        .help(StyledStr::from(short))
        .long_help(StyledStr::from(long))
        .help_heading(Resettable::Value(heading.into()));
    // The policy has two dozen flags that are rarely used, and would hide the rest.
    let argument = argument.hide_short_help(flag.table == "policy");
    if flag.is_switch {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        all().into_iter().fold(command, |command, flag| command.arg(argument(flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |flag: Flag| {
            let values = matches.get_many::<String>(id(&flag.name))?.cloned().collect();
            Some((flag.name, values))
        };
        Ok(Self(all().into_iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
