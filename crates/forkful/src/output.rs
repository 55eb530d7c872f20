//! What users see: data on stdout, talk on stderr. Colour only in terminals and not with `NO_COLOR`;
//! no control characters in pipes.

pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod excerpt;
pub(crate) mod failure;
pub(crate) mod format;
pub(crate) mod inspect;
pub(crate) mod logs;
pub(crate) mod look;
pub(crate) mod outcome;
pub(crate) mod paint;
pub(crate) mod progress;
pub(crate) mod stalls;
pub(crate) mod table;

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::{Exit, Failure};

/// Writes to stdout. A reader that has gone (`forkful list | head -1`) is no fault: the program then
/// ends quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// What an action has done: not data that somebody asked for.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    if look::look().silent { Ok(()) } else { print(text) }
}

/// Writes a value as JSON, indented for terminals' readers, with a newline.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    text.push('\n');
    print(&text)
}

/// Turns what became of a write to stdout into what becomes of the command.
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

/// Writes to stderr; when that does not work there is nobody left to tell.
pub(crate) fn talk(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}
