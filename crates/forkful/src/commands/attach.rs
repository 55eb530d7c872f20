//! `forkful attach`: shows a worker's output, and sends lines to its stdin.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stderr, stdin, stdout};
use std::time::Duration;

use clap::Args;
use forkful_api::client::LogReader;
use forkful_api::conversation::StdinRequest;
use forkful_api::types::{AppList, AppView, LogLine, LogStream, LogsQuery, ModeKind, WorkerView};
use forkful_core::words::shell_word;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Shows the worker's output, and writes each typed line to its stdin. Ctrl-C, or Ctrl-D on an empty
line, detaches; the worker keeps running. At the end of piped input, the command shows the worker's
answer, and ends when the worker has been silent for a moment.

Examples:
  forkful attach 0
  forkful attach console
  echo status | forkful attach 0")]
pub(crate) struct AttachArgs {
    /// Id of a worker, or the name of an app that has one.
    #[arg(value_name = "APP")]
    pub(crate) target: String,
    /// Text to write after each line, instead of a line end.
    #[arg(allow_hyphen_values = true)]
    pub(crate) separator: Option<String>,
}

/// Typed lines that are not sent yet; further typing waits.
const TYPED_MAX: usize = 16;
/// After the end of input that is not typed: how long to wait for the first line, how long a silence ends the answer, and how long
/// the answer is shown at most.
const ANSWER_WAIT: Duration = Duration::from_secs(3);
const ANSWER_SILENCE: Duration = Duration::from_millis(500);
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(super) async fn run(home: &Home, args: AttachArgs) -> Result<Exit, Failure> {
    let no_such_app = || connection::no_such_app(home, &args.target);
    let mut client = connection::running(home).await?.ok_or_else(no_such_app)?;
    let pm_id = worker(&client.list().await?, &args.target)?;
    // A separate connection: the other one is busy with log lines.
    let query = LogsQuery { targets: pm_id.to_string(), lines: 0, follow: true, stream: None };
    let reader = connection::running(home).await?.ok_or_else(no_such_app)?;
    let mut lines = reader.logs(&query).await?;
    output::note(&format!("attached to worker {pm_id}; Ctrl-C detaches"));
    let separator = args.separator.unwrap_or_else(|| "\n".to_owned());
    let mut typed = typed_lines();
    let mut is_answer_due = false;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            line = lines.next() => match line? {
                Some(line) => show(&line)?,
                None => return Err(Failure::new(Exit::NoDaemon, "the daemon ended the stream of lines")),
            },
            line = typed.recv() => {
                let Some(line) = line else { break };
                is_answer_due = true;
                let text = line + &separator;
                // The daemon closes connections that are idle for a while, and users may pause longer.
                let mut client = connection::running(home).await?.ok_or_else(no_such_app)?;
                let reply = client.stdin(&StdinRequest { targets: vec![pm_id.to_string()], text }).await?;
                reply.workers.iter().filter_map(super::send::refused).for_each(|f| output::failure::report(&f));
            }
            _ = &mut interrupted => {
                output::note(&format!("detached from worker {pm_id}, which keeps running"));
                return Ok(Exit::Done);
            }
        }
    }
    if is_answer_due && !stdin().is_terminal() {
        tokio::select! {
            shown = timeout(ANSWER_MAX, show_answer(&mut lines)) => shown.unwrap_or(Ok(()))?,
            _ = &mut interrupted => {}
        }
    }
    Ok(Exit::Done)
}

/// Shows the worker's lines until it is silent.
async fn show_answer(lines: &mut LogReader) -> Result<(), Failure> {
    let mut patience = ANSWER_WAIT;
    while let Ok(line) = timeout(patience, lines.next()).await {
        let Some(line) = line? else { break };
        show(&line)?;
        patience = ANSWER_SILENCE;
    }
    Ok(())
}

/// The only worker of a target; it must accept input.
fn worker(list: &AppList, target: &str) -> Result<u32, Failure> {
    let id: Option<u32> = target.parse().ok();
    let named = |app: &&AppView| {
        app.definition.name == target || app.workers.iter().any(|worker| Some(worker.pm_id) == id)
    };
    let app = list.apps.iter().find(named).ok_or_else(|| Failure::no_such_app(target))?;
    let meant: Vec<&WorkerView> = match id {
        Some(id) if app.definition.name != target => {
            app.workers.iter().filter(|worker| worker.pm_id == id).collect()
        }
        _ => app.workers.iter().collect(),
    };
    if app.definition.mode == ModeKind::Cluster {
        let error = format!("`{target}` runs in cluster mode, where workers have no stdin");
        return Err(Failure::new(Exit::Failed, error)
            .hint("`exec_mode: \"fork\"` gives an app one; `forkful logs` shows the output of all"));
    }
    match meant.as_slice() {
        [one] if one.pid.is_some() => Ok(one.pm_id),
        [one] => {
            let error = format!("worker {} of `{}` is not running", one.pm_id, app.definition.name);
            Err(Failure::new(Exit::Failed, error)
                .hint(format!("`forkful start {}` starts it", shell_word(target))))
        }
        many => {
            let ids: Vec<String> = many.iter().map(|worker| worker.pm_id.to_string()).collect();
            let error = format!("`{target}` has {} workers", many.len());
            Err(Failure::new(Exit::WrongUse, error).hint(format!("name one by its id: {}", ids.join(", "))))
        }
    }
}

/// Typed lines, read on a separate thread that ends with the program.
fn typed_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(TYPED_MAX);
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// On the stream to which the worker wrote it.
fn show(line: &LogLine) -> Result<(), Failure> {
    let text = format!("{}\n", line.line);
    output::written(match line.stream {
        LogStream::Out => stdout().lock().write_all(text.as_bytes()),
        LogStream::Err => stderr().lock().write_all(text.as_bytes()),
    })
}
