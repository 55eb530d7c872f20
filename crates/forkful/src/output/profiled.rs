//! What a CPU profile says, for people: whose time it was, and the functions in which it was spent.

use std::fmt::Write as _;

use forkful_api::types::ProfileView;

use super::format;
use super::paint::Paint;

/// Functions that are shown; `--json` has more.
const SHOWN: usize = 10;
/// Less than this is not worth a line.
const SHARE_MIN: f64 = 0.005;

/// The part of the doctor's report about a profile.
pub(crate) fn report(profile: &ProfileView, paint: Paint) -> String {
    let ProfileView { worker, seconds, idle, gc, program, .. } = profile;
    let title = paint.bold(&format!("Hottest functions of worker {worker}"));
    let about = paint.dim(&format!("({seconds:.0} s profiled, {:.0} % of it idle)", idle * 100.0));
    let mut text = format!("\n{title} {about}\n");
    // A String takes everything, here and below.
    let _ = match profile.functions.first() {
        Some(first) => writeln!(
            text,
            "{} takes most: {:.0} % of the busy time",
            format::visible(&first.function),
            first.share * 100.0
        ),
        None => writeln!(text, "No JavaScript ran."),
    };
    if !profile.functions.is_empty() {
        let _ = writeln!(text, "\n{}", paint.dim(&format!("{:>7}{:>7}  function", "share", "own")));
    }
    for function in profile.functions.iter().take(SHOWN).filter(|function| function.share >= SHARE_MIN) {
        let whose = if function.origin == "app" {
            String::new()
        } else {
            paint.dim(&format!("  {}", function.origin))
        };
        let (share, own) = (function.share * 100.0, function.own * 100.0);
        let _ = writeln!(text, "{share:>5.1} %{own:>5.1} %  {}{whose}", format::visible(&function.function));
    }
    let _ = writeln!(
        text,
        "\ngarbage collection {:.1} %, outside of JavaScript {:.1} %",
        gc * 100.0,
        program * 100.0
    );
    for (what, path) in [("flame graph", &profile.files.page), ("profile", &profile.files.profile)] {
        let _ = writeln!(text, "{what}: {}", format::visible(&path.display().to_string()));
    }
    text
}
