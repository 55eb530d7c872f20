//! `forkful logs`: the last lines of apps, and new lines as they arrive.

use std::io::{BufWriter, Write, stdout};

use clap::Args;
use forkful_api::client::{Client, ClientError, LogReader};
use forkful_api::types::{LogLine, LogStream, LogsQuery, join_targets};
use forkful_core::date_format::DateFormat;
use forkful_core::pages::Page;
use forkful_core::targets::pattern_of;

use super::targets::{client_for, expand};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::logs::{LogShape, LogStyle, append};
use crate::output::paint::Paint;
use crate::output::{self, written};

/// The default time format of `--timestamp`.
const TIMESTAMP_DEFAULT: &str = "YYYY-MM-DDTHH:mm:ss";

/// Lines of each file to print before new ones.
pub(crate) const LINES_DEFAULT: u32 = 15;

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Rotated and compressed files are read too. Slow readers miss lines; the count is shown.

Examples:
  forkful logs                        follow all apps
  forkful logs api --lines 100
  forkful logs '/^api-/' --highlight timeout
  forkful logs api --err --nostream   print the last lines of stderr and exit
  forkful logs --json | jq -r 'select(.type == \"err\") | .message'")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct LogsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default all.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Show this many lines of each file before new ones.
    #[arg(long, short = 'n', default_value_t = LINES_DEFAULT, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(forkful_api::types::LOG_TAIL_LINES_MAX)))]
    pub(crate) lines: u32,
    /// Only stderr.
    #[arg(long, conflicts_with = "out")]
    pub(crate) err: bool,
    /// Only stdout.
    #[arg(long)]
    pub(crate) out: bool,
    /// Print each line as a JSON object with PM2's keys.
    #[arg(long, conflicts_with_all = ["raw", "format"])]
    pub(crate) json: bool,
    /// Print each line as `timestamp=… app=… id=… type=… message=…`.
    #[arg(long, conflicts_with = "raw")]
    pub(crate) format: bool,
    /// Print the lines as the app wrote them, without a prefix. Bytes that are not UTF-8 are replaced.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Begin lines with the time, if known, in this format (tokens of Moment.js).
    #[arg(long, value_name = "FORM", num_args = 0..=1, default_missing_value = TIMESTAMP_DEFAULT,
          value_parser = date_format)]
    pub(crate) timestamp: Option<DateFormat>,
    /// Highlight this text.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
    pub(crate) highlight: Option<String>,
    /// Print the existing lines and exit.
    #[arg(long)]
    pub(crate) nostream: bool,
    /// Show new lines as they arrive (the default).
    #[arg(long, short = 'f', conflicts_with = "nostream")]
    pub(crate) follow: bool,
}

fn date_format(text: &str) -> Result<DateFormat, String> {
    DateFormat::new(text).map_err(|fault| fault.to_string())
}

/// The next line, or the end of the stream, also if the daemon died in the middle.
async fn next(lines: &mut LogReader) -> Result<Option<LogLine>, ClientError> {
    match lines.next().await {
        Err(ClientError::Lost { .. }) => Ok(None),
        other => other,
    }
}

pub(super) async fn run(home: &Home, args: &LogsArgs) -> Result<Exit, Failure> {
    let targets = expand(args.targets.clone(), &[])?;
    let mut client = client_for(home, &targets).await?;
    let stream = match (args.out, args.err) {
        (true, _) => Some(LogStream::Out),
        (_, true) => Some(LogStream::Err),
        _ => None,
    };
    let named = names(&mut client, &targets).await?;
    let mut query =
        LogsQuery { targets: join_targets(&named), lines: args.lines, follow: !args.nostream, stream };
    let style = match (args.json, args.format, args.raw) {
        (true, _, _) => LogStyle::Json,
        (_, true, _) => LogStyle::Format,
        (_, _, true) => LogStyle::Raw,
        _ => LogStyle::Prefixed,
    };
    let shape = LogShape {
        style,
        timestamp: args.timestamp.clone(),
        highlight: args.highlight.clone().filter(|text| !text.is_empty()),
        paint: Paint::stdout(),
    };
    loop {
        let pid = client.ping().await?.pid;
        let daemon = client.daemon_version().to_owned();
        let lines = client.logs(&query).await;
        let lines = lines.map_err(|error| connection::refused_by(&daemon, error, &named))?;
        let any = show(lines, &shape).await?;
        if args.nostream {
            if !any && args.lines > 0 {
                output::note("there are no lines to show");
            }
            return Ok(Exit::Done);
        }
        // Another daemon goes on with the apps after an update or a crash.
        let (next, ping) = Client::connect(&home.socket()).await.map_err(|_| ended())?;
        if ping.pid == pid {
            return Err(ended());
        }
        output::note(
            "another daemon goes on with the apps: lines that came in between are in the log files alone",
        );
        (client, query.lines) = (next, 0);
    }
}

fn ended() -> Failure {
    Failure::new(Exit::NoDaemon, "the daemon ended the stream of lines")
        .hint(
            "either it exited, or lines arrived faster than they were read; run `forkful logs` again to see the rest",
        )
        .see(Page::Daemon)
}

/// Prints lines until the daemon ends their stream. Gives whether there were any.
async fn show(mut lines: LogReader, shape: &LogShape) -> Result<bool, Failure> {
    let mut out = BufWriter::with_capacity(64 << 10, stdout().lock());
    let mut text = String::new();
    let mut any = false;
    while let Some(next) = next(&mut lines).await? {
        any = true;
        text.clear();
        append(&next, shape, &mut text);
        written(out.write_all(text.as_bytes()))?;
        // Lines that arrive together are written together; a single line is shown at once.
        if !lines.has_line() {
            written(out.flush())?;
        }
    }
    written(out.flush())?;
    Ok(any)
}

/// Prints the last lines of workers, and new lines as they arrive.
pub(super) async fn follow(home: &Home, targets: Vec<String>) -> Result<Exit, Failure> {
    run(home, &LogsArgs { targets, lines: LINES_DEFAULT, ..LogsArgs::default() }).await
}

/// The targets for a query: patterns are replaced by the names that they match.
async fn names(client: &mut Client, targets: &[String]) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for target in targets {
        if pattern_of(target).is_some() {
            names.extend(client.find(target).await?.apps.into_iter().map(|app| app.definition.name));
        } else {
            names.push(target.clone());
        }
    }
    Ok(names)
}
