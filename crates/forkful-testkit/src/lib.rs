//! Fuzzing in `cargo test`: [`replay`] runs the corpora of `dev/fuzz`, and [`fuzz`] mutates texts for code
//! inside the program that libFuzzer does not reach.
//!
//! Both use the same inputs in each run. A failure of [`fuzz`] prints its seed; `FORKFUL_FUZZ_SEED` starts
//! with another seed, and `FORKFUL_FUZZ_SECONDS` sets the duration. Not a library for programs.

pub mod allocations;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Inputs of [`fuzz`] unless a duration is set: one or two seconds.
const INPUTS: u64 = 3_000;
/// An input that takes longer counts as a hang.
const HANG: Duration = Duration::from_secs(60);
/// The seed for mutated copies of a corpus, so that each test run is the same.
const SEED: u64 = 0x5eed_5eed_5eed_5eed;
/// Mutated copies of each input of a corpus.
const SPOILT_COPIES: u32 = 32;
/// How often to check for a hang.
const HANG_LOOK: Duration = Duration::from_secs(1);

/// The timeout of [`wait_until`], enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds, polling frequently; `what` is for the message.
///
/// # Panics
/// If it does not hold within a minute.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes a program that can be executed at once.
///
/// A shell writes it: if this process had it open for writing, a child started by another test could briefly
/// hold the descriptor too, and the kernel does not execute a file that is open for writing (`ETXTBSY`).
///
/// # Panics
/// If the file cannot be written.
#[track_caller]
pub fn write_executable(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"cat > "$0" && chmod 755 "$0""#]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("there is a shell");
    let sent = shell.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    let written = sent.is_some_and(|sent| sent.is_ok()) && shell.wait().is_ok_and(|status| status.success());
    assert!(written, "{} cannot be written", path.display());
}

/// A small pseudo-random number generator (xorshift).
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    /// A random element.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Tokens that matter to JSON parsers.
pub const JSON_TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"true",
    b"-1",
    b"-0",
    b"0",
    b"1e999",
    b"99999999999999999999",
    b"{}",
    b"[]",
    b"\"\"",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"\0",
    b"\n",
];

/// How a text is mutated.
#[derive(Debug, Clone, Copy)]
pub struct Spoil<'a> {
    /// Tokens that matter to parsers, to be inserted anywhere.
    pub tokens: &'a [&'a [u8]],
    /// Maximum number of mutated places.
    pub places: usize,
    /// Maximum bytes removed, replaced or copied at a place.
    pub span: usize,
    /// Maximum copies of a piece.
    pub copies: usize,
    /// Maximum repetitions of a token in one place, for deep nesting and long sequences.
    pub pile: usize,
}

impl Spoil<'_> {
    /// Mutates a text; it is never empty afterwards.
    pub fn spoil(&self, bytes: &mut Vec<u8>, chance: &mut Chance) {
        for _ in 0..chance.below(self.places + 1) {
            let at = chance.below(bytes.len());
            let end = (at + chance.below(self.span)).min(bytes.len());
            match chance.below(8) {
                0 => bytes[at] ^= 1 << chance.below(8),
                1 => drop(bytes.drain(at..end)),
                2 | 3 => drop(bytes.splice(at..at, chance.one(self.tokens).iter().copied())),
                4 => drop(bytes.splice(at..end, chance.one(self.tokens).iter().copied())),
                5 => {
                    let copy = bytes[at..end].to_vec();
                    let to = chance.below(bytes.len());
                    bytes.splice(to..to, copy.repeat(1 + chance.below(self.copies)));
                }
                6 => {
                    let pile = chance.one(self.tokens).repeat(1 + chance.below(self.pile));
                    bytes.splice(at..at, pile);
                }
                _ => bytes.truncate(at),
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
    }
}

/// Feeds a target with inputs. If the target panics or hangs, prints the seed and `shown` of the input.
///
/// # Panics
/// If the target panics.
pub fn fuzz<I>(
    mut input: impl FnMut(&mut Chance) -> I,
    mut holds: impl FnMut(&I, &mut Chance),
    shown: impl Fn(&I) -> String,
) {
    let mut seed = setting("FORKFUL_FUZZ_SEED").unwrap_or(SEED) | 1;
    let until = setting("FORKFUL_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut inputs = 0;
    let current = Arc::new(AtomicU64::new(0));
    watch_for_hangs(&current);
    loop {
        current.store(seed, Ordering::Relaxed);
        let mut chance = Chance(seed);
        let bytes = input(&mut chance);
        let outcome = catch_unwind(AssertUnwindSafe(|| holds(&bytes, &mut chance)));
        assert!(outcome.is_ok(), "FORKFUL_FUZZ_SEED={seed}: {}", shown(&bytes));
        seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(2) | 1;
        inputs += 1;
        if until.map_or(inputs >= INPUTS, |until| Instant::now() >= until) {
            // The hang check ends here.
            return current.store(0, Ordering::Relaxed);
        }
    }
}

/// Runs a target of `dev/fuzz` over its corpus, `fuzz/corpus/<name>`, and over a fixed number of mutated
/// copies of each input. The inputs are the same in every run. A failure names the file and the copy.
///
/// # Panics
/// If the target panics, or if there is no corpus.
pub fn replay(name: &str, target: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no input in {}", folder.display());
    let spoil = Spoil { tokens: JSON_TOKENS, places: 4, span: 12, copies: 4, pile: 40 };
    for path in paths {
        let seed = fs_err::read(&path).unwrap_or_else(|error| panic!("{error}"));
        let mut chance = Chance(SEED);
        for copy in 0..=SPOILT_COPIES {
            let mut bytes = seed.clone();
            if copy > 0 && !bytes.is_empty() {
                spoil.spoil(&mut bytes, &mut chance);
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
            assert!(outcome.is_ok(), "{}, copy {copy}: b\"{}\"", path.display(), bytes.escape_ascii());
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Ends the process and prints the seed if an input takes too long, because a hanging test would print
/// nothing.
fn watch_for_hangs(current: &Arc<AtomicU64>) {
    let current = Arc::downgrade(current);
    std::thread::spawn(move || {
        let mut last = (0, Instant::now());
        while let Some(current) = current.upgrade() {
            let seed = current.load(Ordering::Relaxed);
            if seed != last.0 {
                last = (seed, Instant::now());
            } else if seed != 0 && last.1.elapsed() > HANG {
                eprintln!("FORKFUL_FUZZ_SEED={seed}: still reading after {} s", HANG.as_secs());
                std::process::abort();
            }
            drop(current);
            std::thread::sleep(HANG_LOOK);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_spoils_in_the_same_way_and_others_otherwise() {
        let spoil = Spoil { tokens: &[b"{", b"null"], places: 9, span: 12, copies: 4, pile: 3 };
        let spoilt = |seed| {
            let mut bytes = b"a text of some length, to be spoilt".to_vec();
            let mut chance = Chance(seed);
            (0..9).for_each(|_| spoil.spoil(&mut bytes, &mut chance));
            bytes
        };
        assert_eq!(spoilt(7), spoilt(7));
        let different: std::collections::BTreeSet<Vec<u8>> =
            (1..50).map(|seed| spoilt(seed * 2 + 1)).collect();
        assert!(different.len() > 40, "{}", different.len());
    }

    #[test]
    fn a_target_that_fails_is_told_with_its_seed() {
        let failed = catch_unwind(|| {
            fuzz(|chance| chance.below(4), |number, _| assert_ne!(*number, 3), ToString::to_string);
        });
        let payload = failed.expect_err("a quarter of the inputs fail");
        let message = payload.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        assert!(message.starts_with("FORKFUL_FUZZ_SEED=") && message.contains(": 3"), "{message}");
    }
}
