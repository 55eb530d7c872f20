//! Implements the calls with the same requests to the daemon as the commands. No call starts a daemon.

use std::fmt::Write as _;
use std::path::Path;

use forkful_api::client::{Client, ClientError};
use forkful_api::incidents::IncidentsQuery;
use forkful_api::types::{ActionRequest, ErrorCode, LogsQuery, Verb, WorkerView, join_targets};
use forkful_core::scale::ScaleTarget;
use forkful_os::wall_clock::now_ms;
use serde_json::{Value, json};

use super::answer::{ANSWER_BYTES_MAX, Secrets, bounded, newest};
use super::arguments::{Call, WantedIncidents, WantedLogs};
use crate::commands::act::request;
use crate::commands::doctor;
use crate::connection;
use crate::exit::Failure;
use crate::home::Home;

/// The largest report that is read.
const REPORT_BYTES_MAX: u64 = 16 << 20;
/// Maximum reports in a list.
const REPORTS_MAX: usize = 200;
/// Maximum log lines to search for a text.
const LINES_SEARCHED_MAX: u32 = 20_000;

/// Performs a call; returns the text of the answer, or an error.
pub(super) async fn call(home: &Home, reports: Option<&Path>, call: Call) -> Result<String, String> {
    let mut client = connection::running(home).await.map_err(|failure| words(&failure))?;
    let secrets = match &mut client {
        Some(client) => secrets(client).await?,
        None => Secrets::default(),
    };
    let answer = match (call, client) {
        (Call::LabReports { name }, _) => lab_reports(reports, name),
        (call, Some(client)) => asked(client, call).await,
        (_, None) => Err("no daemon is running, so there are no apps".to_owned()),
    };
    let answer = answer.map_err(|why| bounded(secrets.mask(why), ""))?;
    let text = match secrets.mask_value(answer) {
        Value::String(text) => text,
        value => serde_json::to_string_pretty(&value).map_err(|error| error.to_string())?,
    };
    Ok(bounded(text, "Ask for one app, or for fewer lines."))
}

async fn asked(mut client: Client, call: Call) -> Result<Value, String> {
    if let Some(app) = call.one_app() {
        find(&mut client, app).await?;
    }
    match call {
        Call::ListApps => value(client.table().await),
        Call::DescribeApp { app } => {
            let mut found = client.describe(&app).await.map_err(|error| refused(&error))?;
            found.apps.iter_mut().for_each(|app| app.definition.redact_secrets());
            value(Ok(found))
        }
        Call::Doctor { app, seconds, ago } => {
            let found = doctor::past(&mut client, &app, seconds, ago).await;
            serde_json::to_value(found.map_err(|failure| words(&failure))?).map_err(|error| error.to_string())
        }
        Call::Stalls { target } => value(client.stalls(&target).await),
        Call::Metrics { app } => metrics(client, app).await,
        Call::Incidents(wanted) => incidents(client, wanted).await,
        Call::Incident { id } => value(client.incident(id).await),
        Call::AppLogs(wanted) => logs(client, wanted).await,
        Call::Act { verb, app } => value(client.action(verb, &request(vec![app], false)).await),
        Call::Scale { app, workers } => {
            let target: ScaleTarget = workers.to_string().parse().map_err(|_| "no such number".to_owned())?;
            let request = ActionRequest { instances: Some(target), ..request(vec![app], false) };
            value(client.action(Verb::Scale, &request).await)
        }
        Call::LabReports { .. } => Err("reports need no daemon".to_owned()),
    }
}

/// Fails unless there is an app with this name or a worker with this id. A program may write something else that a target may be, such as
/// `all`, a namespace or a pattern, and would then stop more than it means.
async fn find(client: &mut Client, app: &str) -> Result<(), String> {
    let list = client.list().await.map_err(|error| refused(&error))?;
    let mut workers = list.apps.iter().flat_map(|found| &found.workers);
    let is_there = list.apps.iter().any(|found| found.definition.name == app)
        || workers.any(|worker| worker.pm_id.to_string() == app);
    if is_there {
        Ok(())
    } else {
        Err(format!("there is no app `{app}`; `app` is the name of one app or the id of one worker"))
    }
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

async fn metrics(mut client: Client, app: Option<String>) -> Result<Value, String> {
    let list = client.list_measured().await.map_err(|error| refused(&error))?;
    let worker = |worker: &WorkerView| {
        json!({
            "pm_id": worker.pm_id, "status": worker.status, "cpu_percent": worker.cpu_percent,
            "memory_bytes": worker.memory_bytes, "blocked_ms": worker.blocked_ms, "metrics": worker.metrics,
            "reported_by_the_app": worker.reports.metrics,
        })
    };
    // The name of an app comes first: an app may be named like a worker's id.
    let is_name = app.as_ref().is_some_and(|app| list.apps.iter().any(|found| *app == found.definition.name));
    let mut apps = Vec::new();
    for found in &list.apps {
        let is_wanted = |view: &&WorkerView| match &app {
            None => true,
            Some(app) if is_name => *app == found.definition.name,
            Some(app) => *app == view.pm_id.to_string(),
        };
        let workers: Vec<Value> = found.workers.iter().filter(is_wanted).map(worker).collect();
        if !workers.is_empty() || app.as_ref().is_none_or(|app| *app == found.definition.name) {
            apps.push(json!({ "app": found.definition.name, "workers": workers }));
        }
    }
    match app {
        Some(name) if apps.is_empty() => Err(format!("there is no app or worker `{name}`")),
        _ => Ok(json!({ "apps": apps })),
    }
}

/// The newest incidents in short, the newest last.
async fn incidents(mut client: Client, wanted: WantedIncidents) -> Result<Value, String> {
    let WantedIncidents { app, since, limit } = wanted;
    let targets = app.map_or_else(String::new, |app| join_targets(&[app]));
    let since_ms = since.map_or(0, |since| now_ms().saturating_sub(since.as_millis() as u64));
    let query = IncidentsQuery { targets, since_ms, after: 0 };
    let found = client.incidents(&query).await.map_err(|error| refused(&error))?.incidents;
    let (found, left_out) = newest(found, limit);
    Ok(json!({ "incidents": found, "left_out": left_out }))
}

async fn logs(client: Client, wanted: WantedLogs) -> Result<Value, String> {
    let WantedLogs { app, lines: wanted, stream, contains } = wanted;
    let lines = if contains.is_some() { LINES_SEARCHED_MAX } else { wanted };
    let query = LogsQuery { targets: join_targets(&[app]), lines, follow: false, stream };
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
fn lab_reports(folder: Option<&Path>, name: Option<String>) -> Result<Value, String> {
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
