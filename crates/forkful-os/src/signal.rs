//! Names and numbers of signals, as users write them.

/// Every named signal of Linux, in the numbering that all of its common architectures share.
const NAMES: [(&str, i32); 31] = [
    ("SIGHUP", libc::SIGHUP),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGILL", libc::SIGILL),
    ("SIGTRAP", libc::SIGTRAP),
    ("SIGABRT", libc::SIGABRT),
    ("SIGBUS", libc::SIGBUS),
    ("SIGFPE", libc::SIGFPE),
    ("SIGKILL", libc::SIGKILL),
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGSEGV", libc::SIGSEGV),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGPIPE", libc::SIGPIPE),
    ("SIGALRM", libc::SIGALRM),
    ("SIGTERM", libc::SIGTERM),
    ("SIGSTKFLT", libc::SIGSTKFLT),
    ("SIGCHLD", libc::SIGCHLD),
    ("SIGCONT", libc::SIGCONT),
    ("SIGSTOP", libc::SIGSTOP),
    ("SIGTSTP", libc::SIGTSTP),
    ("SIGTTIN", libc::SIGTTIN),
    ("SIGTTOU", libc::SIGTTOU),
    ("SIGURG", libc::SIGURG),
    ("SIGXCPU", libc::SIGXCPU),
    ("SIGXFSZ", libc::SIGXFSZ),
    ("SIGVTALRM", libc::SIGVTALRM),
    ("SIGPROF", libc::SIGPROF),
    ("SIGWINCH", libc::SIGWINCH),
    ("SIGIO", libc::SIGIO),
    ("SIGPWR", libc::SIGPWR),
    ("SIGSYS", libc::SIGSYS),
];

/// Second names that users know.
const ALIASES: [(&str, i32); 3] =
    [("SIGIOT", libc::SIGIOT), ("SIGPOLL", libc::SIGPOLL), ("SIGCLD", libc::SIGCHLD)];

/// The highest signal number of Linux (the last real-time signal).
const SIGNAL_MAX: i32 = 64;

/// The number of `SIGTERM`, `TERM`, `term` or `15`; `None` for anything that is no signal.
pub fn signal_number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=SIGNAL_MAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().chain(&ALIASES).find(|(name, _)| name.strip_prefix("SIG") == Some(bare)).map(|(_, n)| *n)
}

/// The name of a signal; `a real-time signal` or `an unknown signal` where it has none.
pub fn signal_name(number: i32) -> &'static str {
    match NAMES.iter().find(|(_, n)| *n == number) {
        Some((name, _)) => name,
        None if (32..=SIGNAL_MAX).contains(&number) => "a real-time signal",
        None => "an unknown signal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_signal_give_its_number() {
        for text in ["SIGTERM", "TERM", "term", "sigterm", "15"] {
            assert_eq!(signal_number(text), Some(15), "{text}");
        }
        assert_eq!(signal_number("SIGIOT"), Some(libc::SIGABRT));
        assert_eq!(signal_number("64"), Some(64));
        for text in ["", "SIG", "0", "65", "-9", "SIGFOO", "SIGSIGTERM"] {
            assert_eq!(signal_number(text), None, "{text}");
        }
    }

    #[test]
    fn every_named_signal_survives_the_round_trip() {
        for (name, number) in NAMES {
            assert_eq!(signal_number(name), Some(number));
            assert_eq!(signal_name(number), name);
        }
        assert_eq!(signal_name(40), "a real-time signal");
        assert_eq!(signal_name(0), "an unknown signal");
    }
}
