//! Output for users: data to stdout, messages to stderr. Colours only in terminals and not with `NO_COLOR`;
//! no control characters in pipes.

pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod excerpt;
pub(crate) mod failure;
pub(crate) mod flame;
pub(crate) mod format;
pub(crate) mod inspect;
pub(crate) mod logs;
pub(crate) mod look;
pub(crate) mod outcome;
pub(crate) mod paint;
pub(crate) mod profiled;
pub(crate) mod progress;
pub(crate) mod stalls;
pub(crate) mod table;

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::{Exit, Failure};

/// Writes to stdout. If the reader is gone (`forkful list | head -1`), the program ends quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints the result of an action, which is not requested data.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    if look::look().silent { Ok(()) } else { print(text) }
}

/// Prints a value as indented JSON with a newline.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    text.push('\n');
    print(&text)
}

/// Converts the result of writing to stdout to the command's result.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Failure::caused(Exit::Failed, anyhow::Error::new(e).context("cannot write to stdout"))),
    }
}

/// `warning: …` on stderr.
pub(crate) fn warn(text: &str) {
    if look::look().silent {
        return;
    }
    let paint = paint::Paint::stderr();
    talk(&format!("{} {}\n", paint.yellow("warning:"), format::visible(text)));
}

/// `note: …` on stderr.
pub(crate) fn note(text: &str) {
    if look::look().silent {
        return;
    }
    let paint = paint::Paint::stderr();
    talk(&format!("{} {}\n", paint.cyan("note:"), format::visible(text)));
}

/// Writes to stderr; errors are ignored.
pub(crate) fn talk(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}
