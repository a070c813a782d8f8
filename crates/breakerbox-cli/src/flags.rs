//! The flags of `serve`, one for each setting, generated from the list of settings. So a new setting has its flag at
//! once.

use breakerbox_core::POLICY_KEYS;
use breakerbox_gateway::config::{Config, SETTINGS, Sources, policy_help};
use clap::builder::{Resettable, StyledStr};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The settings that were given as flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags(Vec<(String, Vec<String>)>);

impl Flags {
    pub(super) fn over(self, sources: Sources) -> Sources {
        self.0.into_iter().fold(sources, |sources, (flag, values)| sources.flag(flag, values))
    }
}

/// Returns the id of a flag in clap.
fn id(flag: &str) -> &str {
    flag.trim_start_matches('-')
}

/// Returns all flags: the name, the help, the table, and whether the value is optional.
fn all() -> Vec<(String, String, String, bool)> {
    let settings = SETTINGS.iter().filter_map(|setting| {
        let table = setting.key.split_once('.').map_or("settings", |(table, _)| table);
        let help = format!("{} [default: {}]", setting.what.trim_end_matches('.'), setting.default_value());
        Some((setting.flag()?, help, table.to_owned(), setting.switch))
    });
    let config = Config::default();
    let defaults = config.policy.in_force(config.delivery.timeout);
    let policy = POLICY_KEYS.iter().map(|key| {
        let flag = format!("--policy-{}", key.replace('_', "-"));
        let default = defaults.iter().find(|(name, _)| name == key).map_or("none", |(_, value)| value);
        (flag, format!("{} [default: {default}]", policy_help(key)), "policy".to_owned(), false)
    });
    settings.chain(policy).collect()
}

fn argument(flag: &str, what: &str, table: &str, switch: bool) -> Arg {
    let name = id(flag).to_owned();
    let mut heading = table.to_owned();
    heading[..1].make_ascii_uppercase();
    let argument = Arg::new(name.clone())
        .long(name)
        .value_name("VALUE")
        .action(ArgAction::Append)
        .allow_hyphen_values(true)
        .help(StyledStr::from(what.to_owned()))
        .help_heading(Resettable::Value(heading.into()));
    // These two dozen numbers are rarely changed, and would hide the rest.
    let argument = argument.hide_short_help(table == "policy");
    if switch {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let add = |command: Command, (flag, what, table, switch): (String, String, String, bool)| {
            command.arg(argument(&flag, &what, &table, switch))
        };
        all().into_iter().fold(command, add)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |(flag, ..): (String, String, String, bool)| {
            let values = matches.get_many::<String>(id(&flag))?.cloned().collect();
            Some((flag, values))
        };
        Ok(Self(all().into_iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
