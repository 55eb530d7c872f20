//! A fuzz target for everything that reads a user's texts: JSON with comments, YAML, TOML, package.json, `.env` files,
//! values of options, and what becomes of them when they are resolved. No text makes a panic, a hang or more memory
//! than a small multiple of what was read, and each fault names its file and, where the text has one, the line.
//!
//! An ordinary test: see `forkful_testkit`.
#![expect(clippy::unwrap_used, reason = "a target's helpers fail the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forkful_config::{AppOptions, ConfigError, Context, JsEvaluator, ScriptFault, ScriptResult};
use forkful_core::spec::environment::parse_env_file;
use forkful_testkit::{Chance, Spoil, fuzz};

/// The most memory of this process, whatever it reads. The longest configuration has a mebibyte.
const MEMORY_KIB_MAX: u64 = 512 << 10;

const JSON: &str = r#"{
  // PM2's users write comments.
  "apps": [
    { "name": "api", "script": "app.js", "instances": "max", "exec_mode": "cluster", "args": ["a", "b c"], "env": { "A": 1, "B": "x" },
      "env_production": { "A": true }, "max_memory_restart": "200M", "watch": ["src"], "ignore_watch": ["*.tmp"], "kill_timeout": "10s" },
    { "name": "job", "script": "job.py", "cron_restart": "*/5 * * * *", "autorestart": false, "stop_exit_codes": [0, 2], "uid": "www",
      "health": { "http": "/up", "interval": "1s", "stuck_limit": 3 }, "log_rotate": { "max_size": "5M" }, "depends_on": ["api"] },
  ],
  "deploy": { "production": { "user": "ann", "host": ["a", "b"], "ref": "origin/main", "repo": "git@x:y.git", "path": "/srv", "post-deploy": "npm i" } },
  "static": [{ "path": "public", "port": 8080, "spa": true, "basic_auth": { "username": "u", "password": "p" } }],
}"#;

const YAML: &str = "
# comment
defaults: &defaults
  max_restarts: 3
  env: &env { A: 1, B: yes, C: 1.10 }
apps:
  - <<: *defaults
    name: api
    script: app.js
    instances: -1
    args: 'a b'
    env_production:
      <<: *env
      D: |
        several
        lines
  - { name: job, script: job.sh, watch: [a, b], min_uptime: 10s }
";

const TOML: &str = r#"
# comment
[[apps]]
name = "api"
script = "app.js"
instances = 4
max_memory_restart = "1G"
env = { A = 1, B = 1.5, C = 1979-05-27T07:32:00Z }
[[apps]]
name = 'job'
script = """job.py"""
[apps.env_production]
X = 0xff
"#;

const PACKAGE: &str = r#"{ "name": "x", "version": "1.0.0", "scripts": { "start": "node ." },
  "pm2": [{ "script": "app.js", "name": "api" }], "forkful": { "apps": [{ "script": "npm start" }] } }"#;

const ENV: &str =
    "A=1\nexport B='two words'\n# comment\nC=\"a\\nb\"\nD=`x`\nEMPTY=\nF=a#b #c\nG=\"several\nlines\"\r\n";

/// A text and what its file is called.
const SEEDS: &[(&str, &str)] = &[
    ("forkful.config.json", JSON),
    ("ecosystem.yaml", YAML),
    ("forkful.config.toml", TOML),
    ("package.json", PACKAGE),
    (".env", ENV),
];

/// Pieces that matter to parsers, to be put anywhere.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[",
    b"]]",
    b"((",
    b":",
    b": ",
    b",",
    b"=",
    b"\"",
    b"'",
    b"`",
    b"\"\"\"",
    b"'''",
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\x",
    b"//",
    b"/*",
    b"*/",
    b"#",
    b"- ",
    b"&a ",
    b"*a",
    b"*env",
    b"<<: *defaults",
    b"!!binary ",
    b"!!set ",
    b"!x ",
    b"|\n",
    b">-\n",
    b"? ",
    b"---\n",
    b"...\n",
    b"%YAML 1.2\n",
    b"null",
    b"true",
    b".nan",
    b".inf",
    b"-1",
    b"0x",
    b"1e999",
    b"99999999999999999999",
    b"-0",
    b"1_000",
    b"\xff\xfe",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\xa6\x80",
    b"apps",
    b"script",
    b"env_",
    b"instances",
    b"\"apps\":",
    b"${A}",
    b"$",
    b"/(/",
    b"* * * * * *",
    b"200M",
    b"10s",
    b"-9999999999s",
    b"9999999999999999G",
];

const SPOIL: Spoil<'_> = Spoil { tokens: TOKENS, places: 9, span: 40, copies: 200, pile: 20_000 };

/// A file, spoilt here and there.
fn input(chance: &mut Chance) -> (&'static str, Vec<u8>) {
    let (name, text) = chance.one(SEEDS);
    let mut bytes = text.as_bytes().to_vec();
    SPOIL.spoil(&mut bytes, chance);
    (name, bytes)
}

/// A config that must not need `node`.
struct NoEvaluator;

impl JsEvaluator for NoEvaluator {
    fn evaluate(&self, path: &Path) -> Result<ScriptResult, ScriptFault> {
        panic!("{} must not be evaluated", path.display())
    }
}

fn context(folder: &Path) -> Context {
    Context {
        caller_cwd: folder.to_owned(),
        caller_env: BTreeMap::from([("PATH".to_owned(), folder.display().to_string())]),
        own_program: "/usr/bin/forkful".into(),
        logs_folder: folder.join("logs"),
        log_rotation: forkful_core::logs::LogRotation::default(),
        env_name: None,
        usable_cores: 4,
        cores_reason: None,
    }
}

/// The target: whatever a file holds, it is read, or refused with its name and place.
fn holds(folder: &Path, name: &str, bytes: &[u8], chance: &mut Chance) {
    let path = folder.join(name);
    fs_err::write(&path, bytes).unwrap();
    let options = if name == ".env" {
        if let Ok(variables) = parse_env_file(&String::from_utf8_lossy(bytes)) {
            assert!(variables.keys().all(|name| !name.is_empty() && !name.contains('=')), "{variables:?}");
        }
        let app = AppOptions {
            script: Some("app.js".to_owned()),
            env_file: Some(vec![PathBuf::from(".env")]),
            ..AppOptions::default()
        };
        vec![app]
    } else {
        match forkful_config::load(&path, &NoEvaluator) {
            Ok(file) => {
                assert!(!file.apps.is_empty());
                if let Err(fault) = file.deploy_targets() {
                    names_its_place(&fault, &path, false);
                }
                file.apps
            }
            Err(fault) => return names_its_place(&fault, &path, bytes.contains(&b'\n')),
        }
    };
    if let Err(fault) = forkful_config::resolve_all(&options, &context(folder)) {
        let told = fault.to_string();
        assert!(!told.is_empty() && told.len() < 4096 + bytes.len(), "{told}");
    }
    let mut options = AppOptions::default();
    let keys = forkful_config::known_keys();
    let key = keys[chance.below(keys.len())].name;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned();
    drop(options.set(key, &text));
}

/// Where a fault is: always which file, and which line when it is one of the text.
fn names_its_place(fault: &ConfigError, path: &Path, has_lines: bool) {
    let told = fault.to_string();
    let file = path.display().to_string();
    assert!(told.contains(&file), "{told}");
    if let (ConfigError::Syntax { place, .. }, true) = (fault, has_lines) {
        assert!(place.line.is_some(), "no line: {told}");
    }
}

/// The most memory that this process ever had, in KiB.
fn memory_peak_kib() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn any_file_is_read_or_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("app.js"), "").unwrap();
    let target = |(name, bytes): &(&str, Vec<u8>), chance: &mut Chance| {
        holds(folder.path(), name, bytes, chance);
        assert!(memory_peak_kib() < MEMORY_KIB_MAX, "{} KiB", memory_peak_kib());
    };
    fuzz(input, target, |(name, bytes)| format!("{name} of {} bytes", bytes.len()));
}

#[test]
fn what_unfolds_is_bounded() {
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
        names_its_place(&fault, &path, false);
    }
    let grown = memory_peak_kib() - before;
    assert!(grown < MEMORY_KIB_MAX / 2, "{grown} KiB more");
}
