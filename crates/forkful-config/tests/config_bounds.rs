//! Configurations that expand: their memory use is limited, and each error names its file.
//!
//! All other input is fuzzed: see `src/fuzzing.rs` and `dev/fuzz`.
#![expect(clippy::unwrap_used, reason = "a target's helpers fail the test")]

use std::path::Path;

use forkful_config::{ConfigError, JsEvaluator, ScriptFault, ScriptResult};

/// Maximum additional memory for reading all of these.
const MEMORY_KIB_MAX: u64 = 256 << 10;

/// A config that must not need `node`.
struct NoEvaluator;

impl JsEvaluator for NoEvaluator {
    fn evaluate(&self, path: &Path) -> Result<ScriptResult, ScriptFault> {
        panic!("{} must not be evaluated", path.display())
    }
}

/// An error always names its file.
fn names_its_file(fault: &ConfigError, path: &Path) {
    let told = fault.to_string();
    assert!(told.contains(&path.display().to_string()), "{told}");
}

/// The peak memory of this process, in KiB.
fn memory_peak_kib() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_configuration_that_unfolds_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let before = memory_peak_kib();
    let levels: String = (1..30)
        .map(|level| format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", level - 1); 9].join(", ")))
        .collect();
    let merges: String = (1..200)
        .map(|level| format!("m{level}: &m{level}\n  <<: *m{}\n  k{level}: *m{}\n", level - 1, level - 1))
        .collect();
    for (name, text) in [
        ("lists.yaml", format!("l0: &l0 x\n{levels}apps: *l29\n")),
        ("merges.yaml", format!("m0: &m0 {{ a: 1 }}\n{merges}apps: [*m199]\n")),
        ("itself.yaml", "apps: &a [*a]\n".to_owned()),
        ("long.yaml", format!("apps: &a {}\nx: [{}]\n", "y".repeat(100_000), "*a, ".repeat(100_000))),
        ("dotted.toml", format!("{} = 1\n", vec!["a"; 100_000].join("."))),
        ("tables.toml", format!("[{}]\n", vec!["a"; 100_000].join("."))),
        ("nested.json", format!("{{\"apps\":{}", "[{\"env\":".repeat(100_000))),
    ] {
        let path = folder.path().join(name);
        fs_err::write(&path, text).unwrap();
        let fault = forkful_config::load(&path, &NoEvaluator).expect_err(name);
        names_its_file(&fault, &path);
    }
    let grown = memory_peak_kib() - before;
    assert!(grown < MEMORY_KIB_MAX, "{grown} KiB more");
}
