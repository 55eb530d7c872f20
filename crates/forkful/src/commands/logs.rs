//! `forkful logs`: the last lines of apps, and new lines as they arrive.

use std::io::{BufWriter, Write, stdout};

use forkful_api::client::{Client, ClientError, LogReader};
use forkful_api::types::{LogLine, LogStream, LogsQuery, join_targets};
use forkful_core::pages::Page;
use forkful_core::targets::pattern_of;

use super::targets::{client_for, expand};
use crate::cli::{LINES_DEFAULT, LogsArgs};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::logs::{LogShape, LogStyle, append};
use crate::output::paint::Paint;
use crate::output::written;

/// The next line, or the end of the stream, also if the daemon died in the middle.
async fn next(lines: &mut LogReader) -> Result<Option<LogLine>, ClientError> {
    match lines.next().await {
        Err(ClientError::Lost { .. }) => Ok(None),
        other => other,
    }
}

pub(super) async fn run(home: &Home, args: &LogsArgs) -> Result<Exit, Failure> {
    let targets = expand(home, args.targets.clone(), &[]).await?;
    let mut client = client_for(home, &targets).await?;
    let stream = match (args.out, args.err) {
        (true, _) => Some(LogStream::Out),
        (_, true) => Some(LogStream::Err),
        _ => None,
    };
    let targets = join_targets(&names(&mut client, &targets).await?);
    let query = LogsQuery { targets, lines: args.lines, follow: !args.nostream, stream };
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
    let mut lines = client.logs(&query).await?;
    let mut out = BufWriter::with_capacity(64 << 10, stdout().lock());
    let mut text = String::new();
    while let Some(next) = next(&mut lines).await? {
        text.clear();
        append(&next, &shape, &mut text);
        written(out.write_all(text.as_bytes()))?;
        // Lines that arrive together are written together; a single line is shown at once.
        if !lines.has_line() {
            written(out.flush())?;
        }
    }
    written(out.flush())?;
    if args.nostream {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::NoDaemon, "the daemon ended the stream of lines")
        .hint(
            "either it exited, or lines arrived faster than they were read; run `forkful logs` again to see the rest",
        )
        .see(Page::Daemon))
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
