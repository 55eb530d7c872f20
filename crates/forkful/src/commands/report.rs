//! `forkful report`: the contents of a bug report, without secrets.

use std::fmt::Write as _;
use std::process::Command;

use clap::Args;
use forkful_api::types::{AppList, AppTable};
use forkful_core::spec::environment::looks_secret;
use forkful_os::wall_clock::now_ms;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::table::{self, TableShape};
use crate::output::{self, format};

#[derive(Debug, Args)]
#[command(after_help = "\
The output contains no secrets, so it can be attached to a bug report.

Examples:
  forkful report > report.txt")]
pub(crate) struct ReportArgs {}

/// Lines of the daemon's log to print.
const LOG_LINES: usize = 20;
/// The table's width if there is no terminal.
const COLUMNS: u16 = 120;

pub(super) async fn run(home: &Home) -> Result<Exit, Failure> {
    let mut text = format!("forkful {}\n", connection::VERSION);
    add(&mut text, "system", &first_line("/proc/version"));
    let cores = forkful_os::cores::usable_cores();
    let limits: Vec<String> = cores.limits.iter().map(ToString::to_string).collect();
    let because = if limits.is_empty() { String::new() } else { format!(" ({})", limits.join(", ")) };
    add(&mut text, "usable cores", &format!("{}{because}", cores.count));
    add(&mut text, "node", &answer("node", "--version"));
    add(&mut text, "home", &home.path().display().to_string());
    let mut is_portable = forkful_os::portable::is_on();
    let (list, rows) = match connection::running(home).await {
        Ok(Some(mut client)) => {
            let ping = client.ping().await?;
            is_portable = ping.portable;
            let keeper = ping.keeper.map_or("no keeper".to_owned(), |keeper| format!("keeper {keeper}"));
            add(&mut text, "daemon", &format!("version {}, pid {}, {keeper}", ping.version, ping.pid));
            (client.list().await?, client.table().await?)
        }
        Ok(None) => {
            add(&mut text, "daemon", "none is running");
            (AppList::default(), AppTable::default())
        }
        Err(failure) => {
            add(&mut text, "daemon", &format!("{:#}", failure.error));
            (AppList::default(), AppTable::default())
        }
    };
    if is_portable {
        add(&mut text, "portable mode", &forkful_core::portable::LACKS.join("; "));
    }
    apps(&mut text, &list, &rows);
    log(&mut text, home);
    output::print(&text)?;
    Ok(Exit::Done)
}

fn add(text: &mut String, name: &str, value: &str) {
    writeln!(text, "{name:<14}{}", format::visible(value)).expect("a String takes everything");
}

fn apps(text: &mut String, list: &AppList, rows: &AppTable) {
    if list.apps.is_empty() {
        return;
    }
    text.push('\n');
    let shape = TableShape { width: Some(COLUMNS), ..TableShape::stdout() };
    text.push_str(&table::workers(rows, now_ms(), &shape));
    for app in &list.apps {
        let mut definition = app.definition.clone();
        definition.redact_secrets();
        let args = definition.args.join(" ");
        let script = definition.script.as_deref().unwrap_or_default();
        let command = format!("{} {script} {args}", definition.program);
        writeln!(text, "{}: {}", format::visible(&definition.name), format::visible(command.trim_end()))
            .expect("a String takes everything");
    }
}

fn log(text: &mut String, home: &Home) {
    let lines = connection::said_since(home, 0).unwrap_or_default();
    if lines.is_empty() {
        return;
    }
    text.push_str("\nthe daemon's log:\n");
    for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
        let is_secret = line.split_whitespace().any(looks_secret);
        let shown = if is_secret { "[a line that holds a secret]".to_owned() } else { format::visible(line) };
        writeln!(text, "  {shown}").expect("a String takes everything");
    }
}

fn first_line(path: &str) -> String {
    fs_err::read_to_string(path).unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
}

fn answer(program: &str, argument: &str) -> String {
    match Command::new(program).arg(argument).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => format!("ended with {}", output.status),
        Err(error) => error.to_string(),
    }
}
