//! Implements the calls with the same requests to the daemon as the commands. No call starts a daemon.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use forkful_api::client::{Client, ClientError};
use forkful_api::incidents::IncidentsQuery;
use forkful_api::types::{ActionRequest, ErrorCode, LogStream, LogsQuery, Verb, join_targets};
use forkful_core::scale::ScaleTarget;
use forkful_os::wall_clock::now_ms;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{ANSWER_BYTES_MAX, Secrets, bounded};
use super::tools::{DOCTOR_SECONDS, INCIDENTS_DEFAULT, INCIDENTS_MAX, LINES_DEFAULT, LINES_MAX, ToolName};
use crate::commands::act::request;
use crate::commands::doctor;
use crate::connection;
use crate::exit::Failure;
use crate::home::Home;

/// The longest accepted app name.
const NAME_BYTES_MAX: usize = 256;
/// The largest report that is read.
const REPORT_BYTES_MAX: u64 = 16 << 20;
/// Maximum reports in a list.
const REPORTS_MAX: usize = 200;
/// Maximum log lines to search for a text.
const LINES_SEARCHED_MAX: u32 = 20_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfApp {
    app: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSome {
    app: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLogs {
    app: String,
    lines: Option<u32>,
    stream: Option<LogStream>,
    contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfScale {
    app: String,
    workers: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfDoctor {
    app: String,
    seconds: Option<u64>,
    ago: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfIncidents {
    app: Option<String>,
    since: Option<u64>,
    limit: Option<u64>,
    id: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfReport {
    name: Option<String>,
}

/// Performs a call; returns the text of the answer, or an error.
pub(super) async fn call(
    home: &Home,
    reports: Option<&Path>,
    tool: ToolName,
    arguments: Value,
) -> Result<String, String> {
    let mut client = connection::running(home).await.map_err(|failure| words(&failure))?;
    let secrets = match &mut client {
        Some(client) => secrets(client).await?,
        None => Secrets::default(),
    };
    let answer = match client {
        _ if tool == ToolName::LabReports => lab_reports(reports, read(arguments)?),
        Some(client) => asked(client, tool, arguments).await,
        None => Err("no daemon is running, so there are no apps".to_owned()),
    };
    let answer = answer.map_err(|why| bounded(secrets.mask(&why), ""))?;
    let text = match secrets.mask_value(answer) {
        Value::String(text) => text,
        value => serde_json::to_string_pretty(&value).map_err(|error| error.to_string())?,
    };
    Ok(bounded(text, "Ask for one app, or for fewer lines."))
}

async fn asked(mut client: Client, tool: ToolName, arguments: Value) -> Result<Value, String> {
    match tool {
        ToolName::ListApps => {
            let Nothing {} = read(arguments)?;
            value(client.table().await)
        }
        ToolName::DescribeApp => {
            let OfApp { app } = read(arguments)?;
            let mut found = client.describe(&named(app)?).await.map_err(|error| refused(&error))?;
            found.apps.iter_mut().for_each(|app| app.definition.redact_arguments());
            value(Ok(found))
        }
        ToolName::Doctor => {
            let OfDoctor { app, seconds, ago } = read(arguments)?;
            let seconds = seconds.unwrap_or(DOCTOR_SECONDS);
            let ago = Duration::from_secs(ago.unwrap_or_default());
            let found = doctor::past(&mut client, &named(app)?, seconds, ago).await;
            serde_json::to_value(found.map_err(|failure| words(&failure))?).map_err(|error| error.to_string())
        }
        ToolName::Stalls => {
            let OfSome { app } = read(arguments)?;
            value(client.stalls(&named(app.unwrap_or_else(|| "all".to_owned()))?).await)
        }
        ToolName::Metrics => metrics(client, read(arguments)?).await,
        ToolName::Incidents => incidents(client, read(arguments)?).await,
        ToolName::AppLogs => logs(client, read(arguments)?).await,
        ToolName::Restart | ToolName::Reload | ToolName::Stop => {
            let OfApp { app } = read(arguments)?;
            let verb = match tool {
                ToolName::Restart => Verb::Restart,
                ToolName::Reload => Verb::Reload,
                _ => Verb::Stop,
            };
            value(client.action(verb, &request(vec![named(app)?], false)).await)
        }
        ToolName::Scale => {
            let OfScale { app, workers } = read(arguments)?;
            let target: ScaleTarget = workers.to_string().parse().map_err(|_| "no such number".to_owned())?;
            let request = ActionRequest { instances: Some(target), ..request(vec![named(app)?], false) };
            value(client.action(Verb::Scale, &request).await)
        }
        ToolName::LabReports => Err("reports need no daemon".to_owned()),
    }
}

/// Parses the arguments of a call.
fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("the arguments are wrong: {error}"))
}

fn named(app: String) -> Result<String, String> {
    if app.is_empty() || app.len() > NAME_BYTES_MAX {
        return Err(format!("`app` has 1 to {NAME_BYTES_MAX} characters"));
    }
    Ok(app)
}

fn value<T: serde::Serialize>(reply: Result<T, ClientError>) -> Result<Value, String> {
    let reply = reply.map_err(|error| refused(&error))?;
    serde_json::to_value(reply).map_err(|error| error.to_string())
}

fn refused(error: &ClientError) -> String {
    match error {
        ClientError::Refused { reply } => match &reply.hint {
            Some(hint) => format!("{}; {hint}", reply.error),
            None => reply.error.clone(),
        },
        other => other.to_string(),
    }
}

fn words(failure: &Failure) -> String {
    failure.error.to_string()
}

/// The masked values of all environments.
async fn secrets(client: &mut Client) -> Result<Secrets, String> {
    let whole = match client.environment("all", true).await {
        Ok(whole) => whole,
        // Without an app there is no environment.
        Err(error) if error.refusal() == Some(ErrorCode::NoSuchTarget) => return Ok(Secrets::default()),
        // The secrets are unknown, so nothing may be returned.
        Err(error) => return Err(refused(&error)),
    };
    let shown = client.environment("all", false).await.map_err(|error| refused(&error))?;
    Ok(Secrets::between(&whole.apps, &shown.apps))
}

async fn metrics(mut client: Client, OfSome { app }: OfSome) -> Result<Value, String> {
    let list = client.list_measured().await.map_err(|error| refused(&error))?;
    let worker = |worker: &forkful_api::types::WorkerView| {
        json!({
            "pm_id": worker.pm_id, "status": worker.status, "cpu_percent": worker.cpu_percent,
            "memory_bytes": worker.memory_bytes, "blocked_ms": worker.blocked_ms, "metrics": worker.metrics,
            "reported_by_the_app": worker.reports.metrics,
        })
    };
    let wanted =
        list.apps.iter().filter(|found| app.as_ref().is_none_or(|name| *name == found.definition.name));
    let apps: Vec<Value> = wanted
        .map(|app| json!({ "app": app.definition.name, "workers": app.workers.iter().map(worker).collect::<Vec<_>>() }))
        .collect();
    match app {
        Some(name) if apps.is_empty() => Err(format!("there is no app `{name}`")),
        _ => Ok(json!({ "apps": apps })),
    }
}

/// The newest incidents in short, the newest last; or one with its details.
async fn incidents(mut client: Client, wish: OfIncidents) -> Result<Value, String> {
    let OfIncidents { app, since, limit, id } = wish;
    if let Some(id) = id {
        if app.is_some() || since.is_some() || limit.is_some() {
            return Err("`id` is for one incident, without `app`, `since` and `limit`".to_owned());
        }
        return value(client.incident(id).await);
    }
    let limit = limit.unwrap_or(INCIDENTS_DEFAULT);
    if limit == 0 || limit > INCIDENTS_MAX {
        return Err(format!("`limit` must be 1 to {INCIDENTS_MAX}"));
    }
    let targets = app.map(named).transpose()?.map_or_else(String::new, |app| join_targets(&[app]));
    let since_ms = since.map_or(0, |seconds| now_ms().saturating_sub(seconds.saturating_mul(1000)));
    let query = IncidentsQuery { targets, since_ms, after: 0 };
    let mut found = client.incidents(&query).await.map_err(|error| refused(&error))?.incidents;
    let left_out = found.len().saturating_sub(limit as usize);
    found.drain(..left_out);
    Ok(json!({ "incidents": found, "left_out": left_out }))
}

async fn logs(client: Client, wish: OfLogs) -> Result<Value, String> {
    let OfLogs { app, lines, stream, contains } = wish;
    let wanted = lines.unwrap_or(LINES_DEFAULT);
    if wanted == 0 || wanted > LINES_MAX {
        return Err(format!("`lines` must be 1 to {LINES_MAX}"));
    }
    let asked = if contains.is_some() { LINES_SEARCHED_MAX } else { wanted };
    let query = LogsQuery { targets: join_targets(&[named(app)?]), lines: asked, follow: false, stream };
    let mut reader = client.logs(&query).await.map_err(|error| refused(&error))?;
    let mut kept = std::collections::VecDeque::new();
    let mut bytes = 0;
    while let Some(line) = reader.next().await.map_err(|error| refused(&error))? {
        if contains.as_ref().is_some_and(|text| !line.line.contains(text.as_str())) {
            continue;
        }
        bytes += line.line.len();
        kept.push_back(line);
        while kept.len() > wanted as usize || bytes > 2 * ANSWER_BYTES_MAX && kept.len() > 1 {
            bytes -= kept.pop_front().map_or(0, |first| first.line.len());
        }
    }
    let mut text = String::new();
    for line in kept {
        let worker = line.pm_id.map_or_else(String::new, |pm_id| format!(":{pm_id}"));
        writeln!(text, "[{}{worker} {}] {}", line.app, line.stream, line.line)
            .map_err(|error| error.to_string())?;
    }
    Ok(Value::String(if text.is_empty() { "no line".to_owned() } else { text }))
}

fn is_report(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "json")
}

/// The names of the reports in the folder, or one report.
fn lab_reports(folder: Option<&Path>, OfReport { name }: OfReport) -> Result<Value, String> {
    let folder = folder.ok_or("no folder of reports was named")?;
    let entries = fs_err::read_dir(folder).map_err(|error| error.to_string())?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // Not a link: a report is a file in this folder.
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            entry.file_name().into_string().ok().filter(|name| is_file && is_report(name))
        })
        .collect();
    names.sort_unstable();
    names.truncate(REPORTS_MAX);
    let Some(name) = name else { return Ok(json!({ "reports": names })) };
    // Only listed names, so that no path leads out of the folder.
    if !names.contains(&name) {
        return Err(format!("there is no report `{name}`"));
    }
    let path = folder.join(&name);
    let size = fs_err::metadata(&path).map_err(|error| error.to_string())?.len();
    if size > REPORT_BYTES_MAX {
        return Err(format!("`{name}` has more than {REPORT_BYTES_MAX} bytes"));
    }
    let text = fs_err::read_to_string(&path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("`{name}` is no JSON: {error}"))
}
