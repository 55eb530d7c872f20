//! The one renderer of errors: `error: …`, `caused by: …`, a blank line, `hint: …`.

use super::format::visible;
use super::paint::Paint;
use super::talk;
use crate::exit::{Exit, Failure};

/// Tells of a failure on stderr.
pub(crate) fn report(failure: &Failure) {
    let causes: Vec<String> = failure.error.chain().skip(1).map(ToString::to_string).collect();
    let error = failure.error.to_string();
    talk(&text(Paint::stderr(), &error, &causes, &[], failure.hint.as_deref()));
}

/// A fault of the command line as our own kind of error. `--help` and `--version`, which clap counts
/// among the faults, are shown, and end the program.
pub(crate) fn of_command_line(error: &clap::Error) -> Failure {
    use clap::error::ErrorKind;
    match error.kind() {
        // As PM2 says it: the number alone.
        ErrorKind::DisplayVersion if std::env::args_os().nth(1).is_some_and(|word| word == "-v") => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            std::process::exit(0)
        }
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => {}
    }
    if let Some(failure) = of_gone(error) {
        return failure;
    }
    // clap's text: the error, tips, the usage and where to find more, with blank lines between.
    let rendered = error.render().to_string();
    let mut parts = rendered.split("\n\n").map(str::trim);
    let what = parts.next().unwrap_or_default();
    let tips: Vec<&str> = rendered.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
    let usage = parts.find_map(|part| part.strip_prefix("Usage: "));
    let hint = match (tips.is_empty(), usage) {
        (false, _) => tips.join("; "),
        (true, Some(usage)) => format!("the usage is `{usage}`; --help says more"),
        (true, None) => "--help says more".to_owned(),
    };
    Failure::new(Exit::WrongUse, what.strip_prefix("error: ").unwrap_or(what)).hint(hint)
}

/// A command or an option that PM2 has, and that is not here.
fn of_gone(error: &clap::Error) -> Option<Failure> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => ContextKind::InvalidSubcommand,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    let gone = crate::cli::gone::find(word)?;
    Some(Failure::new(Exit::WrongUse, format!("`{word}` {}", gone.why)).hint(gone.instead))
}

/// An error with its causes, the failed worker's last lines of stderr, and what to do.
pub(crate) fn text(
    paint: Paint,
    error: &str,
    causes: &[String],
    stderr_tail: &[String],
    hint: Option<&str>,
) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{} {}\n", paint.red("error:"), visible(error));
    let mut add = |line: std::fmt::Arguments| writeln!(text, "{line}").expect("a String takes everything");
    for cause in causes {
        add(format_args!("{} {}", paint.red("caused by:"), visible(cause)));
    }
    if !stderr_tail.is_empty() {
        add(format_args!("{}", paint.bold("last lines of stderr:")));
        for line in stderr_tail {
            add(format_args!("{}", format!("    {}", visible(line)).trim_end()));
        }
    }
    if let Some(hint) = hint {
        add(format_args!("\n{} {}", paint.cyan("hint:"), visible(hint)));
    }
    text
}
