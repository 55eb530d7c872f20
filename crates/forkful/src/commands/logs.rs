//! `forkful logs`: the last lines of apps, and new ones as they come.

use std::io::{BufWriter, Write, stdout};

use forkful_api::client::{ClientError, LogReader};
use forkful_api::types::{LogLine, LogStream, LogsQuery};

use crate::cli::LogsArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::logs::{LogStyle, line};
use crate::output::paint::Paint;
use crate::output::written;

/// The next line; the end of the stream, too, when the daemon died in the middle of it.
async fn next(lines: &mut LogReader) -> Result<Option<LogLine>, ClientError> {
    match lines.next().await {
        Err(ClientError::Lost { .. }) => Ok(None),
        other => other,
    }
}

pub(super) async fn run(home: &Home, args: &LogsArgs) -> Result<Exit, Failure> {
    let Some(client) = connection::running(home).await? else {
        return Err(Failure::no_such_app(args.targets.first().map_or("all", String::as_str)));
    };
    let stream = match (args.out, args.err) {
        (true, _) => Some(LogStream::Out),
        (_, true) => Some(LogStream::Err),
        _ => None,
    };
    let query =
        LogsQuery { targets: args.targets.join(","), lines: args.lines, follow: !args.nostream, stream };
    let style = match (args.json, args.raw) {
        (true, _) => LogStyle::Json,
        (_, true) => LogStyle::Raw,
        _ => LogStyle::Prefixed,
    };
    let mut lines = client.logs(&query).await?;
    let paint = Paint::stdout();
    let mut out = BufWriter::new(stdout().lock());
    while let Some(next) = next(&mut lines).await? {
        written(out.write_all(line(&next, style, paint).as_bytes()))?;
        // What has arrived together is written together; a lone line is shown at once.
        if !lines.has_line() {
            written(out.flush())?;
        }
    }
    written(out.flush())?;
    if args.nostream {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::NoDaemon, "the daemon ended the stream of lines").hint(
        "either it ended, or lines came faster than they were read; `forkful logs` again shows the rest",
    ))
}
