//! A fault of this program itself: a panic ends the daemon, at once and whole.
//!
//! Half a daemon is worse than none: where a thread or a task is gone, apps are not restarted and nobody is told. So a
//! panic, wherever it is, is told in the daemon's log with its place and message, and ends the process as a signal would;
//! to everybody else it is a daemon that was killed (see `left_behind`): the next command says so, the next daemon ends
//! what is left of its workers, and the saved state is whole, for it is only ever replaced.
//!
//! The message may quote a value that somebody's app or configuration has: what looks like a secret is left out.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::panic::PanicHookInfo;

use forkful_core::spec::environment::{REDACTED, has_secret_name, looks_secret};

/// Maximum length of a message in the log.
const MESSAGE_CHARACTERS_MAX: usize = 2000;

/// From now on a panic ends the process.
pub(crate) fn end_the_process() {
    std::panic::set_hook(Box::new(|info| {
        crate::own_log::last_words(&report(info));
        std::process::abort();
    }));
}

fn report(info: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let mut text = format!(
        "forkful: a fault of its own ends it: thread {} at {place}: {}\n",
        thread.name().unwrap_or("without a name"),
        without_secrets(message(info.payload())),
    );
    // Only if RUST_BACKTRACE requests it.
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        writeln!(text, "{trace}").expect("a String takes everything");
    }
    text
}

fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// A message on one line, without words that look like secrets, or follow the name of a secret.
fn without_secrets(message: &str) -> String {
    let mut told = String::new();
    let mut after_name = false;
    for word in message.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric());
        let (name, value) = core.split_once(['=', ':']).unwrap_or((core, ""));
        let hidden = std::mem::take(&mut after_name) || looks_secret(core) || looks_secret(value);
        let names_secret = has_secret_name(name.trim_matches(|c: char| !c.is_alphanumeric()));
        after_name = names_secret && value.is_empty() && word.ends_with([':', '=']);
        let shown = if hidden || names_secret && !value.is_empty() { REDACTED } else { word };
        told.extend((!told.is_empty()).then_some(' '));
        told.push_str(shown);
    }
    match told.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &told[..end]),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::testing::alone_with_children;

    /// Tells a process of this test to panic.
    const PANICS: &str = "FORKFUL_TEST_PANICS";

    const SIGABRT: i32 = 6;

    #[test]
    fn a_panic_in_any_thread_is_told_with_its_place_and_ends_the_process() {
        if std::env::var_os(PANICS).is_some() {
            end_the_process();
            crate::own_log::start(false);
            let thread = std::thread::Builder::new().name("the worker".to_owned());
            let panicked = thread.spawn(|| {
                panic!("the file is ours: {:?}", "TOKEN=abc of ghp_0123456789abcdef0123");
            });
            // Without the hook the process would outlive its thread.
            panicked.expect("threads can be started").join().expect_err("it panicked");
            std::process::exit(0);
        }
        let own = std::env::current_exe().expect("this test has a file");
        let name = "panic::tests::a_panic_in_any_thread_is_told_with_its_place_and_ends_the_process";
        let _alone = alone_with_children();
        let output = Command::new(own)
            .args(["--exact", name, "--nocapture"])
            .env(PANICS, "1")
            .env_remove("RUST_BACKTRACE")
            .env_remove("RUST_LIB_BACKTRACE")
            .output()
            .expect("this test can be run");
        assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("forkful: ")).collect();
        let [line] = lines[..] else { panic!("one line: {told}") };
        assert!(line.contains("thread the worker at ") && line.contains("panic.rs:"), "{line}");
        assert!(
            line.contains(": the file is ours: ") && !line.contains("abc") && !line.contains("ghp_"),
            "{line}"
        );
    }

    #[test]
    fn a_panic_whose_words_nobody_can_read_still_ends_the_process_by_the_same_signal() {
        let own = std::env::current_exe().expect("this test has a file");
        let name = "panic::tests::a_panic_in_any_thread_is_told_with_its_place_and_ends_the_process";
        let (reader, closed) = std::io::pipe().expect("pipes can be made");
        drop(reader);
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full").expect("it is always there");
        for stderr in [Stdio::from(closed), Stdio::from(full.into_file())] {
            let mut command = Command::new(&own);
            command
                .args(["--exact", name, "--nocapture"])
                .env(PANICS, "1")
                .stdout(Stdio::null())
                .stderr(stderr);
            let _alone = alone_with_children();
            let status = command.status().expect("this test can be run");
            assert_eq!(status.signal(), Some(SIGABRT));
        }
    }

    #[test]
    fn a_message_is_told_without_secrets_and_not_at_any_length() {
        let cases = [
            ("index 3\nis\tout of bounds", "index 3 is out of bounds"),
            ("{\"API_TOKEN\": \"abc\", \"PORT\": \"80\"}", "{\"API_TOKEN\": [redacted] \"PORT\": \"80\"}"),
            ("PASSWORD=abc A=b", "[redacted] A=b"),
            ("cannot reach postgres://u:p@db/x now", "cannot reach [redacted] now"),
            ("the token is old", "the token is old"),
        ];
        for (message, told) in cases {
            assert_eq!(without_secrets(message), told);
        }
        assert_eq!(without_secrets(&"x".repeat(5000)).chars().count(), MESSAGE_CHARACTERS_MAX + 1);
    }
}
