//! Signals by name and by number.

/// Signals of Linux on the processors that Node runs on, as signal(7) numbers them for x86 and ARM.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// The number of a signal, by its name without `SIG`.
pub fn number(name: &str) -> Option<i32> {
    SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name of a signal, without `SIG`; real-time signals have none.
pub fn name(number: i32) -> Option<&'static str> {
    SIGNALS.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        assert_eq!((number("TERM"), name(15)), (Some(15), Some("TERM")));
        assert_eq!((number("IOT"), name(6)), (Some(6), Some("ABRT")), "the usual one of two names");
        assert_eq!((number("SIGTERM"), name(40)), (None, None));
    }
}
