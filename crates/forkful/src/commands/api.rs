//! `forkful api`: for programs that use the daemon's socket themselves, such as the npm package. It starts
//! the daemon, and converts definitions written by users to complete ones; answers are JSON.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use forkful_api::apply::{ApplyRequest, plan_without_apps};
use forkful_api::client::ClientError;
use forkful_api::types::{AppChange, AppDefinition, ErrorReply, StartTarget};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::start::Targets;
use crate::connection;
use crate::exit::{Exit, Failure, See};
use crate::home::Home;
use crate::output;
use crate::specs::{Specs, is_config};

#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    #[command(subcommand)]
    pub(crate) verb: ApiVerb,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The names of apps that are started next. A warning names the other apps of the last daemon.
    pub(crate) starts: Vec<String>,
}

/// Helpers for other programs, in addition to the daemon's socket.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiVerb {
    /// Start the daemon if it is not running; print its socket.
    Connect(ConnectArgs),
    /// Read a request of `apply` from stdin and print its plan where no daemon runs, so that no app exists.
    Plan,
    /// Read a request for apps from stdin and print their complete definitions; `null` for a text that could only be a
    /// configuration file, and is none.
    Definitions,
    /// Read options for existing apps from stdin and print the change of them.
    Change,
    /// Read a text and options of a start from stdin and print the target for the daemon; `null` for a configuration file.
    /// Fails where no daemon runs, so that no app exists, and nothing can be started.
    Target,
    /// Read the daemon's refusal of a request from stdin and print it as the commands do, with their hint.
    Explain,
}

/// The longest request; the environment of a process has at most 6 MB on Linux.
const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// The location of a daemon.
#[derive(Serialize)]
struct Connected {
    socket: PathBuf,
    version: &'static str,
}

/// The requested apps and the caller.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// A configuration file; relative paths are relative to `cwd`.
    #[serde(default)]
    file: Option<PathBuf>,
    /// Or the text of a configuration.
    #[serde(default)]
    config: Option<Box<RawValue>>,
    /// Or a text: it is the file if it has the name of a configuration file, else `config` says what it starts.
    #[serde(default)]
    text: Option<String>,
    /// Keys of an app that win over those of the configuration file, as options of the command do.
    #[serde(default)]
    options: Option<Box<RawValue>>,
    /// The caller's working directory, absolute.
    cwd: PathBuf,
    /// The caller's environment.
    env: BTreeMap<String, String>,
    /// The `env_<name>` block to apply.
    #[serde(default)]
    env_name: Option<String>,
    /// Only apps of these names.
    #[serde(default)]
    only: Vec<String>,
    /// Whether to find out when the code of the apps last changed.
    #[serde(default)]
    code_changes: bool,
}

#[derive(Serialize)]
struct Definitions {
    apps: Vec<AppDefinition>,
    /// As in a request of `apply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_changed_at_ms: Option<BTreeMap<String, u64>>,
}

/// Options for existing apps, and the caller.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeRequest {
    /// An object with the keys of an app in a configuration.
    options: Box<RawValue>,
    /// The caller's working directory, absolute.
    cwd: PathBuf,
    /// The caller's environment.
    env: BTreeMap<String, String>,
    /// The `env_<name>` block to choose.
    #[serde(default)]
    env_name: Option<String>,
    /// Add the caller's environment to that of the apps.
    #[serde(default)]
    update_env: bool,
}

/// A text of a start, and the caller.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetRequest {
    /// The text.
    text: String,
    /// The name that the options give to what is started.
    #[serde(default)]
    new_name: Option<String>,
    /// What the text starts, if it names no app; without it, the text is a name.
    #[serde(default)]
    definitions: Option<Request>,
    /// If the app already runs, start a second app under another name.
    #[serde(default)]
    force: bool,
}

pub(super) async fn run(home: &Home, args: &ApiArgs) -> Result<Exit, Failure> {
    match &args.verb {
        ApiVerb::Connect(ConnectArgs { starts }) => {
            let (_, ran_before) = connection::needed(home).await?;
            // Programs show warnings to their users, and no notes.
            if let Some(note) = ran_before.note(starts.iter().map(String::as_str)) {
                output::warn(&note);
            }
            output::print_json(&Connected { socket: home.socket(), version: connection::VERSION })?;
        }
        ApiVerb::Plan => {
            let request: ApplyRequest = read_request()?;
            let plan = plan_without_apps(request.apps);
            output::print_json(&plan.map_err(|reply| ClientError::Refused { reply })?)?;
        }
        ApiVerb::Definitions => output::print_json(&definitions(read_request()?)?)?,
        ApiVerb::Change => output::print_json(&change(read_request()?)?)?,
        ApiVerb::Target => output::print_json(&target(home, read_request()?).await?)?,
        ApiVerb::Explain => output::print_json(&explained(home, read_request()?).await?)?,
    }
    Ok(Exit::Done)
}

fn read_request<T: DeserializeOwned>() -> Result<T, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(REQUEST_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|e| Failure::caused(Exit::WrongUse, e.into()))?;
    serde_json::from_str(&text)
        .map_err(|e| Failure::caused(Exit::WrongUse, anyhow::Error::new(e).context("invalid request")))
}

fn check_cwd(cwd: &Path) -> Result<(), Failure> {
    if cwd.is_absolute() {
        return Ok(());
    }
    let error = format!("cwd must be an absolute path, but is {}", cwd.display());
    Err(Failure::new(Exit::WrongUse, error))
}

fn change(request: ChangeRequest) -> Result<AppChange, Failure> {
    check_cwd(&request.cwd)?;
    let ChangeRequest { options: written, cwd, env, env_name, update_env } = request;
    let specs = Specs { cwd: cwd.into(), env, env_name, ..Specs::default() };
    specs.change(&specs.options_of_text(written.get())?, update_env)
}

async fn target(home: &Home, request: TargetRequest) -> Result<Option<StartTarget>, Failure> {
    let TargetRequest { text, new_name, definitions: wanted, force } = request;
    let mut targets = Targets::default();
    match wanted {
        Some(_) if is_config_file(&text) => return Ok(None),
        Some(wanted) => targets.add_text(&text, new_name.as_deref(), force, || {
            let apps = definitions(wanted)?.map(|found| found.apps).unwrap_or_default();
            Ok((apps, Vec::new()))
        })?,
        None => targets.add_name(text),
    }
    if matches!(connection::found(home).await, Ok(None)) {
        targets.check_without_apps(home)?;
    }
    Ok(targets.into_targets().pop())
}

async fn explained(home: &Home, reply: ErrorReply) -> Result<ErrorReply, Failure> {
    let Some(client) = connection::found(home).await? else { return Ok(reply) };
    let failure = connection::refused(ClientError::Refused { reply: reply.clone() }, &client);
    let see = match failure.see {
        See::Command => reply.see,
        See::At(address) => Some(address),
    };
    Ok(ErrorReply { hint: failure.hint, see, ..reply })
}

/// Whether a text is the name of a configuration file. Stdin has the request.
fn is_config_file(text: &str) -> bool {
    text != "-" && is_config(text)
}

fn definitions(request: Request) -> Result<Option<Definitions>, Failure> {
    check_cwd(&request.cwd)?;
    let Request { file, config, text, options, cwd, env, env_name, only, code_changes } = request;
    let (file, config) = match text {
        Some(text) if is_config_file(&text) => (Some(PathBuf::from(text)), None),
        Some(_) if config.is_none() => return Ok(None),
        _ => (file, config),
    };
    let file = file.map(|file| cwd.join(file));
    let specs = Specs { cwd: cwd.into(), env, env_name, only, ..Specs::default() };
    let apps = match (&file, config) {
        (Some(file), None) => {
            let over = options.map(|written| specs.options_of_text(written.get())).transpose()?;
            specs.apps_of_config(file, &over.unwrap_or_default())?
        }
        (None, Some(config)) => specs.apps_of_text(config.get())?,
        _ => return Err(Failure::new(Exit::WrongUse, "name either a file or a config")),
    };
    let apps: Vec<AppDefinition> = apps.iter().map(AppDefinition::from).collect();
    let code_changed_at_ms = code_changes
        .then(|| super::restart::code_changes(&apps, &file.as_deref().into_iter().collect::<Vec<_>>()));
    Ok(Some(Definitions { apps, code_changed_at_ms }))
}
