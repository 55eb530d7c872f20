//! `forkful set`, `multiset`, `get`, `unset` and `conf`: persistent settings.

use std::collections::BTreeMap;

use clap::Args;
use forkful_api::types::{ActionRequest, AppChange, Settings as Printed, Verb};
use forkful_core::spec::environment::shown_value;

use super::act::{request, tell};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};
use crate::output::progress::Progress;
use crate::output::{self, format};
use crate::settings::{PM2_ROTATION, Settings, normal_key, rotation_key};

#[derive(Debug, Args)]
#[command(after_help = "\
The settings of PM2's module pm2-logrotate (max_size, retain, compress) and of `log_rotate` are the
defaults for apps without `log_rotate` that are started afterwards. `APP:KEY` sets the environment
variable KEY of that app and restarts it; `forkful env APP` shows it, and a configuration file that is
used again replaces it. Other settings are only saved.

Examples:
  forkful set pm2-logrotate:max_size 50M
  forkful set log_rotate:keep 5
  forkful set api:LOG_LEVEL debug")]
pub(crate) struct SetArgs {
    /// A module and a name: `module:name` or `module.name`.
    pub(crate) key: String,
    /// The value.
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful multiset \"pm2-logrotate:max_size 50M pm2-logrotate:retain 5\"")]
pub(crate) struct MultisetArgs {
    /// Keys and values in turn, quoted if they contain spaces.
    pub(crate) pairs: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful get                              all settings, without secrets
  forkful get pm2-logrotate                settings of a module
  forkful get pm2-logrotate:max_size       only the value")]
pub(crate) struct GetArgs {
    /// A key or a module; by default all settings.
    pub(crate) key: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful unset pm2-logrotate:max_size
  forkful unset all")]
pub(crate) struct UnsetArgs {
    /// A key, or `all`.
    pub(crate) key: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful conf                             as `forkful get`
  forkful conf pm2-logrotate:retain 5      as `forkful set`")]
pub(crate) struct ConfArgs {
    /// A key or a module; by default all settings.
    pub(crate) key: Option<String>,
    /// The value.
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
}

pub(super) async fn set(home: &Home, args: SetArgs) -> Result<Exit, Failure> {
    keep(home, vec![(args.key, args.value)]).await
}

pub(super) async fn multiset(home: &Home, args: &MultisetArgs) -> Result<Exit, Failure> {
    let wrong = |what: &str| {
        Failure::new(Exit::WrongUse, format!("{:?} {what}", args.pairs))
            .hint("write keys and values in turn, as in `forkful multiset \"a:b 1 a:c 2\"`")
    };
    let words = shell_words::split(&args.pairs).map_err(|_| wrong("has a quote that is not closed"))?;
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(wrong("has a key without a value"));
    }
    keep(home, words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()).await
}

pub(super) fn get(home: &Home, args: &GetArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(home.path())?;
    let key = args.key.as_deref().filter(|key| *key != "all").map(normal_key);
    if let Some(value) = key.as_deref().and_then(|key| settings.values.get(key)) {
        // A value requested by its name is printed as it is.
        if args.json {
            output::print_json(&Printed::One(value))?;
        } else {
            output::print(&format!("{}\n", format::visible(value)))?;
        }
        return Ok(Exit::Done);
    }
    let meant: BTreeMap<&str, &str> = settings
        .values
        .iter()
        .filter(|(known, _)| match &key {
            Some(module) => known.split_once(':').is_some_and(|(name, _)| name == module),
            None => true,
        })
        .map(|(known, value)| (known.as_str(), shown_value(known, value)))
        .collect();
    if let (Some(key), true) = (&key, meant.is_empty()) {
        return Err(Failure::new(Exit::Failed, format!("`{key}` is not set"))
            .hint("`forkful get` shows all settings; `forkful set` sets one"));
    }
    if args.json {
        output::print_json(&Printed::All(meant))?;
    } else {
        let lines =
            meant.iter().map(|(key, value)| format!("{} {}\n", format::visible(key), format::visible(value)));
        output::print(&lines.collect::<String>())?;
    }
    Ok(Exit::Done)
}

pub(super) fn unset(home: &Home, args: &UnsetArgs) -> Result<Exit, Failure> {
    let key = normal_key(&args.key);
    let absent = || {
        let error = if key == "all" { "nothing is set".to_owned() } else { format!("`{key}` is not set") };
        Failure::new(Exit::Failed, error).hint("`forkful get` shows all settings")
    };
    if Settings::load(home.path())?.values.is_empty() {
        // The home may not exist either.
        return Err(absent());
    }
    Settings::change(home.path(), |settings| if settings.unset(&key) { Ok(()) } else { Err(absent()) })?;
    output::say(&format!("{} unset\n", format::visible(&key)))?;
    Ok(Exit::Done)
}

pub(super) async fn conf(home: &Home, args: ConfArgs) -> Result<Exit, Failure> {
    match args {
        ConfArgs { key: Some(key), value: Some(value) } => keep(home, vec![(key, value)]).await,
        ConfArgs { key, value: _ } => get(home, &GetArgs { key, json: false }),
    }
}

/// Saves all settings or none, and passes the others to the apps that they are for.
async fn keep(home: &Home, pairs: Vec<(String, String)>) -> Result<Exit, Failure> {
    home::create(home)?;
    let pairs: Vec<(String, String)> =
        pairs.into_iter().map(|(key, value)| (normal_key(&key), value)).collect();
    let lines = pairs.iter().map(|(key, value)| {
        format!("{} {}\n", format::visible(key), format::visible(shown_value(key, value)))
    });
    let lines: String = lines.collect();
    let (variables, settings) = of_apps(home, pairs).await?;
    let keys: Vec<String> = settings.iter().map(|(key, _)| key.clone()).collect();
    Settings::change(home.path(), |saved| {
        settings.into_iter().try_for_each(|(key, value)| saved.set(key, value))
    })?;
    output::print(&lines)?;
    tell_of_saved(&keys);
    if variables.is_empty() { Ok(Exit::Done) } else { pass_on(home, &variables).await }
}

/// Variables by the names of their apps.
type Variables = BTreeMap<String, BTreeMap<String, String>>;

/// Separates variables of existing apps (`app:key`) from settings. A variable belongs to its app, whose definition has it, and is no setting.
async fn of_apps(
    home: &Home,
    pairs: Vec<(String, String)>,
) -> Result<(Variables, Vec<(String, String)>), Failure> {
    let is_of_no_app = pairs.iter().all(|(key, _)| rotation_key(key).is_some());
    let client = if is_of_no_app { None } else { connection::running(home).await? };
    let known = match client {
        Some(mut client) => client.list().await?.apps,
        None => Vec::new(),
    };
    let (mut variables, mut settings) = (Variables::new(), Vec::new());
    for (key, value) in pairs {
        let is_app = |name: &str| known.iter().any(|app| app.definition.name == name);
        match key.split_once(':').filter(|(name, _)| rotation_key(&key).is_none() && is_app(name)) {
            Some((name, variable)) => {
                variables.entry(name.to_owned()).or_default().insert(variable.to_owned(), value);
            }
            None => settings.push((key, value)),
        }
    }
    Ok((variables, settings))
}

/// Says what saved settings do.
fn tell_of_saved(keys: &[String]) {
    let (of_rotation, others): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| rotation_key(key.as_str()).is_some());
    if !of_rotation.is_empty() {
        output::note("applies to apps without `log_rotate` that are started from now on");
    }
    let (of_pm2, idle): (Vec<_>, Vec<_>) = others.into_iter().partition(|key| key.starts_with(PM2_ROTATION));
    let told =
        |keys: Vec<&String>| keys.into_iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    if !of_pm2.is_empty() {
        output::note(&format!(
            "{}: saved, without an effect: log files are rotated by their size, and when they are as old as \
             `log_rotate:max_age` says",
            told(of_pm2)
        ));
    }
    if !idle.is_empty() {
        output::note(&format!("{}: saved; `forkful get` shows it; no app has this name", told(idle)));
    }
}

/// As in PM2, `app:key` sets a variable of an existing app and restarts it.
async fn pass_on(home: &Home, variables: &Variables) -> Result<Exit, Failure> {
    let (mut client, _) = connection::needed(home).await?;
    let changes = variables.iter().map(|(name, env)| AppChange {
        name: Some(name.clone()),
        env: env.clone(),
        ..AppChange::default()
    });
    let request =
        ActionRequest { changes: changes.collect(), ..request(variables.keys().cloned().collect(), false) };
    let reply = {
        let _progress = Progress::start("restarting…".to_owned());
        client.action(Verb::Restart, &request).await?
    };
    tell(&mut client, vec![("restarted", reply)], false).await
}
