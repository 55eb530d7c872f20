//! Options that describe an app: one for each key in the table with an option, and a few that are not keys.

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use forkful_config::{CliOption, Group, Kind, KnownKey, Many, supported_keys};

/// Options that describe an app.
pub(crate) type AppOptionArgs = KeyArgs<OtherArgs>;

/// Given keys with their values as text.
pub(crate) type GivenKeys = Vec<(&'static KnownKey, Vec<String>)>;

/// Options for keys in the table, and other options.
#[derive(Debug)]
pub(crate) struct KeyArgs<T> {
    pub(crate) keys: GivenKeys,
    pub(crate) other: T,
}

/// Options that are not keys.
pub(crate) trait BesideKeys: Args {
    /// The allowed keys; empty: all keys.
    const KEYS: &'static [&'static str] = &[];
    /// A common heading in `--help`, instead of a heading for each group.
    const HEADING: Option<&'static str> = None;

    /// The keys that have options.
    fn keys() -> impl Iterator<Item = &'static KnownKey> {
        supported_keys().filter(|key| Self::KEYS.is_empty() || Self::KEYS.contains(&key.name))
    }
}

impl BesideKeys for OtherArgs {}

/// Options that are not keys of a configuration.
#[derive(Debug, Args)]
pub(crate) struct OtherArgs {
    /// Arguments of the script.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
    /// KEY=VALUE adds a variable; NAME selects the config's block `env_NAME`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE|NAME")]
    pub(crate) env: Vec<String>,
    /// Config files: only the apps with these names.
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// Watch only files with these extensions.
    #[arg(long, value_name = "EXTENSIONS", value_delimiter = ',', help_heading = Group::Renew.heading())]
    pub(crate) ext: Vec<String>,
    #[arg(long, short = 'a', hide = true)]
    pub(crate) update_env: bool,
    // Accepted because PM2's users pass them; their effect is the default here.
    #[arg(long, hide = true)]
    no_vizion: bool,
    #[arg(long, hide = true)]
    no_pmx: bool,
    #[arg(long, hide = true)]
    no_automation: bool,
    #[arg(long, hide = true)]
    disable_source_map_support: bool,
    #[arg(long, hide = true)]
    parallel: Option<u32>,
}

impl<T: BesideKeys> Args for KeyArgs<T> {
    fn augment_args(command: Command) -> Command {
        let options = T::keys().flat_map(|key| {
            let option = key.option.map(|option| argument(key, option));
            option.into_iter().chain(key.negation.map(|help| negation(key, help)))
        });
        let heading = |argument: Arg| match T::HEADING {
            Some(heading) => argument.help_heading(heading),
            None => argument,
        };
        T::augment_args(command.args(options.map(heading)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: BesideKeys> FromArgMatches for KeyArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = T::keys().filter_map(|key| Some((key, texts(matches, key)?)));
        Ok(Self { keys: given.collect(), other: T::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T> KeyArgs<T> {
    /// The text given for a key's option.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(known, _)| known.name == key)?.1.first().map(String::as_str)
    }
}

/// The texts given for a key.
fn texts(matches: &ArgMatches, key: &KnownKey) -> Option<Vec<String>> {
    if key.negation.is_some() && matches.get_flag(&no(key)) {
        return Some(vec!["false".to_owned()]);
    }
    let option = key.option?;
    let long = long(key, option);
    if option.value.is_empty() {
        return matches.get_flag(&long).then(|| vec!["true".to_owned()]);
    }
    Some(matches.get_raw(&long)?.map(|text| text.to_string_lossy().into_owned()).collect())
}

fn long(key: &KnownKey, option: CliOption) -> String {
    if option.long.is_empty() { key.name.replace('_', "-") } else { option.long.to_owned() }
}

fn no(key: &KnownKey) -> String {
    format!("no-{}", key.name.replace('_', "-"))
}

fn argument(key: &KnownKey, option: CliOption) -> Arg {
    let long = long(key, option);
    let mut argument = Arg::new(long.clone()).long(long).help(option.help).help_heading(key.group.heading());
    if let Some(short) = option.short {
        argument = argument.short(short);
    }
    if !option.alias.is_empty() {
        argument = argument.visible_alias(option.alias);
    }
    if key.negation.is_some() {
        argument = argument.overrides_with(no(key));
    }
    if option.value.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    argument = match option.many {
        Many::No => argument.action(ArgAction::Set),
        Many::Repeated => argument.action(ArgAction::Append),
        Many::Commas => argument.action(ArgAction::Append).value_delimiter(','),
    };
    if option.may_stand_alone {
        argument = argument.num_args(0..=1).default_missing_value("true").require_equals(option.needs_equals);
    }
    let may_begin_with_dash = matches!(key.kind, Kind::Instances | Kind::Words);
    argument.value_name(option.value).value_parser(parser(key)).allow_hyphen_values(may_begin_with_dash)
}

fn negation(key: &KnownKey, help: &'static str) -> Arg {
    let argument = Arg::new(no(key)).long(no(key)).help(help).help_heading(key.group.heading());
    let argument = argument.action(ArgAction::SetTrue);
    match key.option {
        Some(option) => argument.overrides_with(long(key, option)),
        None => argument,
    }
}

/// The checks done by clap. Other values are checked when the key is set, with the messages of a
/// configuration file.
fn parser(key: &KnownKey) -> ValueParser {
    match key.kind {
        // PM2's option is in seconds.
        _ if key.name == "watch_delay" => ValueParser::string(),
        Kind::Duration | Kind::DurationOrNone => ValueParser::new(super::duration),
        Kind::Signal => ValueParser::new(signal),
        Kind::Count => clap::value_parser!(u32).into(),
        Kind::ExitCodes => clap::value_parser!(i32).range(0..=255).into(),
        Kind::Choice(names) => PossibleValuesParser::new(names).into(),
        _ => ValueParser::string(),
    }
}

fn signal(text: &str) -> Result<String, String> {
    match forkful_config::parse_signal(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected a signal name or number such as SIGTERM or 15".to_owned()),
    }
}
