//! `forkful report`: what a bug report should hold, without secrets.

use std::fmt::Write as _;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Command;

use forkful_api::types::{AppList, AppTable};
use forkful_core::spec::environment::{looks_secret, shown_arguments};
use forkful_os::wall_clock::now_ms;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::table::{self, TableShape};
use crate::output::{self, format};

/// Lines of the daemon's log that are shown, and how much of its end is read for them.
const LOG_LINES: usize = 20;
const LOG_BYTES: u64 = 64 * 1024;
/// The table's width where there is no terminal.
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
    let list = match connection::running(home).await {
        Ok(Some(mut client)) => {
            let ping = client.ping().await?;
            add(&mut text, "daemon", &format!("version {}, pid {}", ping.version, ping.pid));
            client.list().await?
        }
        Ok(None) => {
            add(&mut text, "daemon", "none is running");
            AppList::default()
        }
        Err(failure) => {
            add(&mut text, "daemon", &format!("{:#}", failure.error));
            AppList::default()
        }
    };
    apps(&mut text, &list);
    log(&mut text, &home.daemon_log());
    output::print(&text)?;
    Ok(Exit::Done)
}

fn add(text: &mut String, name: &str, value: &str) {
    writeln!(text, "{name:<14}{}", format::visible(value)).expect("a String takes everything");
}

fn apps(text: &mut String, list: &AppList) {
    if list.apps.is_empty() {
        return;
    }
    text.push('\n');
    let shape = TableShape { width: Some(COLUMNS), ..TableShape::stdout() };
    text.push_str(&table::workers(&AppTable::from(list), now_ms(), &shape));
    for app in &list.apps {
        let definition = &app.definition;
        let args = shown_arguments(&definition.args).join(" ");
        let script = definition.script.as_deref().unwrap_or_default();
        let command = format!("{} {script} {args}", definition.program);
        writeln!(text, "{}: {}", format::visible(&definition.name), format::visible(command.trim_end()))
            .expect("a String takes everything");
    }
}

fn log(text: &mut String, path: &Path) {
    let mut end = Vec::new();
    let read = fs_err::File::open(path).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        file.take(LOG_BYTES).read_to_end(&mut end)
    });
    if read.is_err() || end.is_empty() {
        return;
    }
    text.push_str("\nthe daemon's log:\n");
    let end = String::from_utf8_lossy(&end);
    let lines: Vec<&str> = end.lines().collect();
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
