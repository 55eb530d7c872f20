//! Signals by name and by number.

/// Linux signals on the processors that Node supports, with the numbers of signal(7) for x86 and ARM.
const SIGNALS: &[(&str, i32)] = &[
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGIOT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGSTKFLT", 16),
    ("SIGCHLD", 17),
    ("SIGCLD", 17),
    ("SIGCONT", 18),
    ("SIGSTOP", 19),
    ("SIGTSTP", 20),
    ("SIGTTIN", 21),
    ("SIGTTOU", 22),
    ("SIGURG", 23),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGVTALRM", 26),
    ("SIGPROF", 27),
    ("SIGWINCH", 28),
    ("SIGIO", 29),
    ("SIGPOLL", 29),
    ("SIGPWR", 30),
    ("SIGSYS", 31),
];

/// The highest signal number of Linux (the last real-time signal).
const NUMBER_MAX: i32 = 64;

/// The number of `SIGTERM`, `TERM`, `term` or `15`; `None` if the text is not a signal.
pub fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=NUMBER_MAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    SIGNALS.iter().find(|(name, _)| name.strip_prefix("SIG") == Some(bare)).map(|(_, number)| *number)
}

/// The name of a signal, such as `SIGTERM`; real-time signals have none.
pub fn name(number: i32) -> Option<&'static str> {
    SIGNALS.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

/// The name of a signal; `a real-time signal` or `an unknown signal` if it has none.
pub fn words(number: i32) -> &'static str {
    match name(number) {
        Some(name) => name,
        None if (32..=NUMBER_MAX).contains(&number) => "a real-time signal",
        None => "an unknown signal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_signal_give_its_number() {
        for text in ["SIGTERM", "TERM", "term", "sigterm", "15"] {
            assert_eq!(number(text), Some(15), "{text}");
        }
        assert_eq!(["SIGIOT", "SIGPOLL", "SIGCLD", "64"].map(number), [6, 29, 17, 64].map(Some));
        for text in ["", "SIG", "0", "65", "-9", "SIGFOO", "SIGSIGTERM"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn every_signal_has_the_usual_of_its_names() {
        for (_, number_of_one) in SIGNALS {
            assert_eq!(name(*number_of_one).and_then(number), Some(*number_of_one));
        }
        assert_eq!([6, 17, 29].map(name), ["SIGABRT", "SIGCHLD", "SIGIO"].map(Some));
        assert_eq!([15, 40, 0].map(words), ["SIGTERM", "a real-time signal", "an unknown signal"]);
    }
}
