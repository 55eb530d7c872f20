//! The one renderer of errors: `error: …`, `caused by: …`, a blank line, `hint: …`.

use super::format::visible;
use super::paint::Paint;
use super::talk;
use crate::exit::Failure;

/// Tells of a failure on stderr.
pub(crate) fn report(failure: &Failure) {
    let causes: Vec<String> = failure.error.chain().skip(1).map(ToString::to_string).collect();
    let error = failure.error.to_string();
    talk(&text(Paint::stderr(), &error, &causes, &[], failure.hint.as_deref()));
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
            add(format_args!("    {}", visible(line)));
        }
    }
    if let Some(hint) = hint {
        add(format_args!("\n{} {}", paint.cyan("hint:"), visible(hint)));
    }
    text
}
