//! Completion in real shells: the candidates for apps of a running daemon.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::sandbox::{Sandbox, done, stdout};
use crate::settled::eventually;

/// The stdout of a script run by a shell with `forkful` in its PATH. `None` if the shell is not installed.
fn shell(sandbox: &Sandbox, program: &str, args: &[&str], script: &str) -> Option<String> {
    let bin = sandbox.work().join("bin");
    if !bin.exists() {
        fs_err::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_forkful"), bin.join("forkful")).unwrap();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(program)
        .args(args)
        .arg(script)
        .current_dir(sandbox.work())
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("HOME", sandbox.work())
        .env("FORKFUL_HOME", sandbox.home())
        .output();
    match output {
        Ok(output) => Some(stdout(&output)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: {program} is not installed, and its completion is not tested");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// bash's candidates for a line, as they replace its last part.
fn bash(sandbox: &Sandbox, line: &str) -> Vec<String> {
    let script = format!(
        "source <(forkful completion bash); COMP_LINE='{}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=(forkful); \
         _forkful 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.replace('\'', r"'\''"),
    );
    let told = shell(sandbox, "bash", &["--norc", "-c"], &script).expect("bash is there");
    told.lines().map(str::to_owned).collect()
}

fn started() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "setInterval(() => {}, 1000)");
    done(&sandbox, &["start", "server.js", "--name", "api", "--no-wait"]);
    done(
        &sandbox,
        &["start", "server.js", "--name", "worker", "--namespace", "jobs", "--force", "--no-wait"],
    );
    sandbox
}

#[test]
fn bash_offers_apps_first_and_flags_only_after_a_dash() {
    let sandbox = started();
    // A daemon without a core for half a second is left out.
    let offered =
        eventually(|| bash(&sandbox, "forkful reload "), |offered| offered.contains(&"api".to_owned()));
    assert_eq!(offered[..6], ["api", "worker", "jobs", "0", "1", "all"], "{offered:?}");
    assert!(offered.contains(&"server.js".to_owned()), "a file may be a config: {offered:?}");
    assert!(!offered.iter().any(|word| word.starts_with('-')), "{offered:?}");
    assert_eq!(eventually(|| bash(&sandbox, "forkful stop w"), |offered| !offered.is_empty()), ["worker"]);
    assert!(bash(&sandbox, "forkful start ser").contains(&"server.js".to_owned()));
    let flags = bash(&sandbox, "forkful reload --max-");
    assert!(flags.contains(&"--max-memory-restart".to_owned()), "{flags:?}");
}

/// Apps whose names a shell has to quote.
fn started_with_odd_names() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "setInterval(() => {}, 1000)");
    fs_err::create_dir(sandbox.work().join("dist files")).unwrap();
    for name in ["my app", "eu:api", "it's $5"] {
        done(&sandbox, &["start", "server.js", "--name", name, "--force", "--no-wait"]);
    }
    sandbox
}

#[test]
fn bash_quotes_names_once_and_knows_where_its_words_begin() {
    let sandbox = started_with_odd_names();
    for (line, candidates) in [
        ("forkful restart my", &["my\\ app"][..]),
        ("forkful restart my\\ ", &["my\\ app"]),
        ("forkful restart \"my a", &["my app"]),
        ("forkful restart 'my a", &["my app"]),
        ("forkful restart eu:a", &["api"]),
        ("forkful restart \"eu:a", &["eu:api"]),
        ("forkful restart it", &["it\\'s\\ \\$5"]),
        ("forkful restart \"it", &["it's \\$5"]),
        ("forkful restart 'it", &["it'\\''s $5"]),
        ("forkful start app.js --balance=e", &["exact"]),
        ("forkful reload --only=eu:a", &["api"]),
        ("forkful start app.js --output=ser", &["server.js"]),
        ("forkful start app.js --output=dist", &["dist\\ files/"]),
    ] {
        let offered = eventually(|| bash(&sandbox, line), |offered| offered[..] == *candidates);
        assert_eq!(offered, candidates, "{line}");
    }
}

#[test]
fn bash_offers_commands_without_internal_ones() {
    let sandbox = Sandbox::new();
    let offered = bash(&sandbox, "forkful ");
    assert_eq!(offered[..3], ["start", "stop", "restart"]);
    for hidden in ["api", "guard", "daemon", "serve-files", "complete"] {
        assert!(!offered.contains(&hidden.to_owned()), "{hidden}");
    }
    assert!(bash(&sandbox, "forkful experiment fib").contains(&"fibonacci".to_owned()));
    assert!(!sandbox.home().exists(), "Tab starts no daemon and makes no home");
}

#[test]
fn fish_offers_apps_with_their_state() {
    let sandbox = started();
    let script = "forkful completion fish | source; complete -C 'forkful reload '";
    let ask = || shell(&sandbox, "fish", &["--no-config", "-c"], script);
    let Some(told) = eventually(ask, |told| told.as_ref().is_none_or(|told| told.contains("api"))) else {
        return;
    };
    let offered: Vec<&str> = told.lines().map(|line| line.split('\t').next().unwrap()).collect();
    for word in ["api", "worker", "jobs", "all"] {
        assert!(offered.contains(&word), "{told}");
    }
    assert!(told.contains("1 × fork"), "{told}");
    let commands = shell(
        &sandbox,
        "fish",
        &["--no-config", "-c"],
        "forkful completion fish | source; complete -C 'forkful rel'",
    );
    assert!(commands.unwrap().starts_with("reload"));
}

/// The words of a line up to the cursor, as typed, with the candidate for the last one.
const QUOTED: [(&[&str], &str); 12] = [
    (&["forkful", "restart", "my"], "my app"),
    (&["forkful", "restart", r"my\ "], "my app"),
    (&["forkful", "restart", "'my a"], "my app"),
    (&["forkful", "restart", "\"my a"], "my app"),
    (&["forkful", "restart", "'m"], "my app"),
    (&["forkful", "restart", "\"eu:"], "eu:api"),
    (&["forkful", "restart", r"it\'s\ "], "it's $5"),
    (&["forkful", "restart", "\"it's "], "it's $5"),
    (&["forkful", "restart", "\"it's \\$"], "it's $5"),
    (&["forkful", "restart", "'eu:api'", "'my"], "my app"),
    (&["forkful", "reload", "--only='my "], "--only=my app"),
    (&["~/bin/forkful", "restart", "'my"], "my app"),
];

#[test]
fn fish_completes_quoted_and_escaped_words() {
    let sandbox = started_with_odd_names();
    for (words, candidate) in QUOTED {
        let line = words.join(" ");
        let quoted = line.replace('\\', r"\\").replace('\'', r"\'");
        let script = format!("forkful completion fish | source; complete -C '{quoted}'");
        let ask = || shell(&sandbox, "fish", &["--no-config", "-c"], &script);
        let Some(told) = eventually(ask, |told| told.as_ref().is_none_or(|told| told.starts_with(candidate)))
        else {
            return;
        };
        let offered: Vec<&str> = told.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(offered, [candidate], "{line}");
    }
    let script = "forkful completion fish | source; complete -C 'forkful start app.js --output=\\'dist f'";
    let told = shell(&sandbox, "fish", &["--no-config", "-c"], script).expect("fish is there");
    assert_eq!(told.trim_end(), "--output=dist files/");
}

/// What zsh's function gives to the completion system for these words, each as it is typed. The functions of that system
/// are replaced, so that no terminal is needed.
fn zsh(sandbox: &Sandbox, words: &[&str]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let script = format!(
        "compdef() {{ : }}; _describe() {{ print -rl -- \"${{(@P)3}}\" }}; _files() {{ print FILES }}; \
         compset() {{ : }}; source <(forkful completion zsh); words=({}); CURRENT={}; _forkful",
        words.join(" "),
        words.len()
    );
    shell(sandbox, "zsh", &["-f", "-c"], &script)
}

#[test]
fn zsh_completes_quoted_and_escaped_words() {
    let sandbox = started_with_odd_names();
    for (words, candidate) in QUOTED {
        let is_offered = |told: &Option<String>| told.as_ref().is_none_or(|told| told.contains(":1 × fork"));
        let Some(told) = eventually(|| zsh(&sandbox, words), is_offered) else { return };
        let offered: Vec<&str> = told.lines().filter(|line| *line != "FILES").collect();
        let expected = format!("{}:1 × fork", candidate.replace(':', r"\:"));
        assert!(matches!(offered[..], [only] if only.starts_with(&expected)), "{words:?}: {told}");
    }
}

#[test]
fn zsh_takes_the_script() {
    let sandbox = started();
    let is_offered = |told: &Option<String>| told.as_ref().is_none_or(|told| told.starts_with("api"));
    let Some(told) = eventually(|| zsh(&sandbox, &["forkful", "reload", ""]), is_offered) else { return };
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines.first().is_some_and(|line| line.starts_with("api:1 × fork")), "{told}");
    assert_eq!(lines.last(), Some(&"FILES"), "{told}");
}
